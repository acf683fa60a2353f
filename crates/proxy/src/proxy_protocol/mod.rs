//! Who the client of a connection is, as a proxy before this one says at its beginning: the PROXY protocol.
//!
//! From the networks that a listener names, each connection must begin with a header, and from others none is ever read: the
//! specification forbids to guess, for whoever may send a header is believed. All that goes by the client's address goes by the one in
//! the header.
//!
//! No byte behind the header is read here, as the client's TLS or its first request follows at once.

mod header;

use std::io;
use std::net::IpAddr;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

pub(crate) use header::Malformed;
use header::{Header, MOST_BYTES, header};

/// What a connection began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// This client's address, or nobody's: then the proxy speaks for itself.
    Client(Option<IpAddr>),
    /// Nothing: it was closed again, as by whoever only asks whether somebody listens.
    Nothing,
}

/// Why it is not known who the client is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Untold {
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("it ended amid its header: {0}")]
    Cut(#[from] io::Error),
}

/// Reads the header of a connection that must have one, and nothing behind it.
pub(crate) async fn told(stream: &mut TcpStream) -> Result<Told, Untold> {
    let (mut bytes, mut read) = ([0; MOST_BYTES], 0);
    loop {
        // What is looked at only stays for whoever reads next.
        let there = stream.peek(bytes.get_mut(read..).unwrap_or_default()).await?;
        match header(bytes.get(..read + there).unwrap_or_default())? {
            _ if there == 0 && read == 0 => return Ok(Told::Nothing),
            _ if there == 0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            None => {
                stream.read_exact(bytes.get_mut(read..read + there).unwrap_or_default()).await?;
                read += there;
            }
            Some(Header { client, bytes: all }) => {
                let mut left = all - read;
                while left > 0 {
                    let count = left.min(bytes.len());
                    stream.read_exact(bytes.get_mut(..count).unwrap_or_default()).await?;
                    left -= count;
                }
                return Ok(Told::Client(client));
            }
        }
    }
}
