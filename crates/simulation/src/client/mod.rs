//! A client of the proxy: what it asks, and what comes back, byte by byte.

mod h1;
mod h2;

use std::time::Duration;

use bytes::Bytes;

use crate::network::{End, Line};
use crate::random::Random;

pub use h1::H1;
pub use h2::H2;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    /// Lines, each with its end.
    pub fields: String,
    pub body: Bytes,
}

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    Well,
    /// With pauses of up to so long.
    Slowly(Duration),
    /// Leaves after so many bytes.
    Until(usize),
}

/// What has come of an answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// All of it has come.
    pub is_whole: bool,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(there, _)| there == name).map(|(_, value)| value.as_str())
    }
}

/// A connection to the proxy, or a stream of one.
pub struct Client {
    speaks: Speaks,
    line: Line,
    /// Which of the proxies it is to, one after the other.
    pub epoch: u64,
}

enum Speaks {
    H1(H1),
    H2(H2),
}

impl Client {
    /// Speaks HTTP/1.1 on a connection.
    pub fn h1(end: End, epoch: u64, random: Random) -> Client {
        let line = end.line();
        Client { speaks: Speaks::H1(H1::on(end, random)), line, epoch }
    }

    /// Speaks HTTP/2 on a connection, if it comes to that.
    pub async fn h2(end: End, epoch: u64, random: Random) -> Option<Client> {
        let line = end.line();
        Some(Client { speaks: Speaks::H2(H2::on(end, random).await?), line, epoch })
    }

    /// Another stream of the same connection: over HTTP/2 alone.
    pub fn another(&mut self) -> Option<Client> {
        match &mut self.speaks {
            Speaks::H1(_) => None,
            Speaks::H2(h2) => {
                Some(Client { speaks: Speaks::H2(h2.another()), line: self.line.clone(), epoch: self.epoch })
            }
        }
    }

    /// Whether its connection is dead without a word.
    pub fn has_vanished(&self) -> bool {
        self.line.has_vanished()
    }

    /// Whether the proxy has said that it takes no more requests on this connection, which is nobody's fault.
    pub fn was_sent_away(&self) -> bool {
        matches!(&self.speaks, Speaks::H2(h2) if h2.was_sent_away)
    }

    /// Asks, and reads what comes; `None` if that is no whole head. Over HTTP/1.1 an answer that is not whole leaves the connection useless.
    pub async fn ask(&mut self, request: &Request, reads: Reads) -> Option<Answer> {
        match &mut self.speaks {
            Speaks::H1(h1) => h1.ask(request, reads).await,
            Speaks::H2(h2) => h2.ask(request, reads).await,
        }
    }
}
