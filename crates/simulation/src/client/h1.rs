//! HTTP/1.1, byte by byte.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::{Answer, Reads, Request};
use crate::network::End;
use crate::random::Random;

/// A connection.
pub struct H1 {
    end: End,
    waiting: Vec<u8>,
    random: Random,
}

impl H1 {
    pub fn on(end: End, random: Random) -> H1 {
        H1 { end, waiting: Vec::new(), random }
    }

    /// Asks, and reads what comes; `None` if that is no whole head. An answer that is not whole leaves the connection useless.
    pub async fn ask(&mut self, request: &Request, reads: Reads) -> Option<Answer> {
        let Request { method, path, fields, body } = request;
        let length = match (body.len(), *method) {
            (0, "GET" | "HEAD" | "PURGE") => String::new(),
            (length, _) => format!("Content-Length: {length}\r\n"),
        };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: site.example\r\n{fields}{length}\r\n");
        // In one piece, so that neither waits for the other.
        let all = [head.as_bytes(), body].concat();
        self.end.write_all(&all).await.ok()?;
        let head = loop {
            if let Some(at) = self.waiting.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.waiting.drain(..at + 4).collect();
                break String::from_utf8_lossy(&head).into_owned();
            }
            if !self.more(Reads::Well).await {
                return None;
            }
        };
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        let mut answer = Answer { status, fields, body: Vec::new(), is_whole: false };
        let none = *method == "HEAD" || matches!(status, 204 | 304);
        answer.is_whole = none || self.body(&mut answer, reads).await;
        Some(answer)
    }

    /// Whether all of it has come.
    async fn body(&mut self, answer: &mut Answer, reads: Reads) -> bool {
        if answer.field("transfer-encoding").is_some() {
            return self.chunks(answer, reads).await;
        }
        let Some(length) = answer.field("content-length").map(|length| length.parse().expect("a length")) else {
            // To the connection's end: nobody can tell whether it is whole.
            while self.more(reads).await {}
            answer.body.append(&mut self.waiting);
            return false;
        };
        self.take(&mut answer.body, length, reads).await
    }

    async fn chunks(&mut self, answer: &mut Answer, reads: Reads) -> bool {
        loop {
            let Some(line) = self.line(reads).await else { return false };
            let count = usize::from_str_radix(&line, 16).expect("the size of a chunk");
            if count == 0 {
                return self.line(reads).await.is_some_and(|line| line.is_empty());
            }
            if !self.take(&mut answer.body, count, reads).await || self.line(reads).await.is_none() {
                return false;
            }
        }
    }

    async fn line(&mut self, reads: Reads) -> Option<String> {
        loop {
            if let Some(at) = self.waiting.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.waiting.drain(..at + 2).collect();
                return Some(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if !self.more(reads).await {
                return None;
            }
        }
    }

    async fn take(&mut self, into: &mut Vec<u8>, mut count: usize, reads: Reads) -> bool {
        loop {
            let there = count.min(self.waiting.len());
            into.extend(self.waiting.drain(..there));
            count -= there;
            if count == 0 {
                return true;
            }
            if matches!(reads, Reads::Until(most) if into.len() >= most) || !self.more(reads).await {
                return false;
            }
        }
    }

    async fn more(&mut self, reads: Reads) -> bool {
        if let Reads::Slowly(pause) = reads {
            sleep(self.random.millis(0..pause.as_millis() as u64 + 1)).await;
        }
        let mut room = [0; 16 << 10];
        match self.end.read(&mut room).await {
            Ok(count @ 1..) => {
                self.waiting.extend_from_slice(&room[..count]);
                true
            }
            _ => false,
        }
    }
}
