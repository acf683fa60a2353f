//! One request and its answer, as the bytes of it come.

use std::io::Error;
use std::time::Instant;

use super::connections::Wanted;
use crate::peers::body;
use crate::peers::client::{self, Head, wrong};
use crate::peers::origin::{LIKE, TURN, path};

/// The host that all objects are of.
pub const HOST: &str = "bench.example";
const MAX_HEAD_BYTES: usize = 64 << 10;
const END: &[u8] = b"\r\n\r\n";

/// See the module.
pub struct Exchange {
    wanted: Wanted,
    turn: u64,
    since: Instant,
    /// Of the head, what has come until it is whole.
    begun: Vec<u8>,
    head: Option<Head>,
    /// Bytes of the body that have come.
    at: usize,
}

/// How much has come.
pub enum Came {
    /// Not all of it yet.
    Part,
    /// All of it.
    Whole {
        /// The connection ends with it.
        closes: bool,
    },
}

impl Exchange {
    /// One that is to begin, due at this time.
    pub fn of(wanted: Wanted, since: Instant) -> Exchange {
        Exchange { wanted, turn: client::next_turn(), since, begun: Vec::new(), head: None, at: 0 }
    }

    /// What is asked for.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// When it was due.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// What is sent.
    pub fn request(&self) -> String {
        let Wanted { object, bytes } = self.wanted;
        format!(
            "GET {} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: tinaja-lab\r\nAccept: */*\r\n{LIKE}: 0/{bytes}/1\r\n{TURN}: {}\r\n\r\n",
            path(object),
            self.turn
        )
    }

    /// Whether nothing has come yet.
    pub fn is_unanswered(&self) -> bool {
        self.head.is_none() && self.begun.is_empty()
    }

    /// Whether the answer is one to an earlier request.
    pub fn is_hit(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.turn != self.turn)
    }

    /// Take what has come next. Errors: it is not the object, or more than it.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Came, Error> {
        let Wanted { object, bytes: length } = self.wanted;
        let mut of_head = 0;
        if self.head.is_none() {
            let before = self.begun.len();
            self.begun.extend_from_slice(bytes);
            let Some(end) = self.begun.windows(END.len()).position(|window| window == END) else {
                let is_long = self.begun.len() > MAX_HEAD_BYTES;
                return if is_long { Err(wrong("a head without an end".to_owned())) } else { Ok(Came::Part) };
            };
            let end = end + END.len();
            let head = client::read_head(&mut self.begun.get(..end).unwrap_or_default())?;
            if head.length != length || head.object != object {
                return Err(wrong(format!(
                    "{object:016x} was answered with {} bytes of {:016x}",
                    head.length, head.object
                )));
            }
            self.head = Some(head);
            of_head = end - before;
        }
        let body = bytes.get(of_head..).unwrap_or_default();
        if !body::is_right(object, self.at, body) {
            return Err(wrong(format!("{object:016x} has other bytes behind byte {}", self.at)));
        }
        self.at += body.len();
        if self.at as u64 > length {
            return Err(wrong(format!("{object:016x} has {} bytes instead of {length}", self.at)));
        }
        let closes = self.head.as_ref().is_some_and(|head| head.closes);
        Ok(if self.at as u64 == length { Came::Whole { closes } } else { Came::Part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(object: u64, length: usize) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nX-Turn: 0\r\nX-Object: {object:x}\r\n\r\n");
        head.into_bytes().into_iter().chain(body::pieces(object, 0).flatten().copied().take(length)).collect()
    }

    #[test]
    fn an_answer_is_taken_however_it_is_cut() {
        let wanted = Wanted { object: 7, bytes: 3000 };
        let answer = answer(7, 3000);
        for cut in [1, 2, 57, 1000, answer.len()] {
            let mut exchange = Exchange::of(wanted, Instant::now());
            let came: Vec<_> = answer.chunks(cut).map(|piece| exchange.take(piece).unwrap()).collect();
            assert!(matches!(came.last(), Some(Came::Whole { closes: false })));
            assert!(came.iter().rev().skip(1).all(|came| matches!(came, Came::Part)) && exchange.is_hit());
        }
    }

    #[test]
    fn other_objects_other_bytes_and_more_of_them_are_wrong() {
        let wanted = Wanted { object: 7, bytes: 3000 };
        let mut changed = answer(7, 3000);
        *changed.last_mut().unwrap() ^= 1;
        let longer = [answer(7, 3000), body::pieces(7, 3000).flatten().copied().take(1).collect()].concat();
        for bytes in [answer(8, 3000), answer(7, 2999), changed, longer, vec![b'x'; MAX_HEAD_BYTES + 1]] {
            assert!(Exchange::of(wanted, Instant::now()).take(&bytes).is_err());
        }
        let refusal = b"HTTP/1.1 503 No\r\n\r\n";
        let error = Exchange::of(wanted, Instant::now()).take(refusal).err().unwrap();
        assert!(error.to_string().contains("503") && error.kind() != std::io::ErrorKind::InvalidData);
    }
}
