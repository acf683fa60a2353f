//! The origin over HTTP/1.1, byte by byte.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::{Answer, Asked, Body, Content, Origin, pieces};
use crate::network::End;
use crate::random::Random;

/// What becomes of a connection.
#[derive(PartialEq)]
enum Next {
    Goes,
    Ends,
}

impl Origin {
    pub(super) async fn over_http1(self: Arc<Self>, mut end: End) {
        let (mut random, mut read) = (self.random.lock().fork(), Vec::new());
        loop {
            let Some(asked) = self.next(&mut end, &mut read).await else { return };
            let Some(answer) = self.thinks(&asked, &mut random).await else {
                return sleep(Duration::from_secs(600)).await;
            };
            let went = send(answer, &mut end, &mut random).await;
            let closes = asked.field("connection").is_some_and(|said| said.contains("close"));
            // Now and then it closes a connection without a word, as servers do that have kept it for long enough.
            if closes || !matches!(went, Ok(Next::Goes)) || random.per_mille(40) {
                return;
            }
        }
    }

    async fn next(&self, end: &mut End, read: &mut Vec<u8>) -> Option<Asked> {
        let head = loop {
            if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = read.drain(..at + 4).collect();
                break String::from_utf8(head).expect("a head in ASCII");
            }
            if end.read_buf(read).await.ok()? == 0 {
                return None;
            }
        };
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?);
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        let asked = self.asked(method, path, fields);
        if asked.field("transfer-encoding").is_none() {
            let length = asked.field("content-length").map_or(0, |length| length.parse().expect("a length"));
            pass_over(end, read, length).await?;
            return Some(asked);
        }
        loop {
            let size = loop {
                if let Some(at) = read.windows(2).position(|two| two == b"\r\n") {
                    let line: Vec<u8> = read.drain(..at + 2).collect();
                    let size = std::str::from_utf8(&line[..at]).expect("a size in ASCII");
                    break usize::from_str_radix(size, 16).expect("the size of a chunk");
                }
                if end.read_buf(read).await.ok()? == 0 {
                    return None;
                }
            };
            // With the end of its line; the last one has no trailers.
            pass_over(end, read, size + 2).await?;
            if size == 0 {
                return Some(asked);
            }
        }
    }
}

async fn send(answer: Answer, end: &mut End, random: &mut Random) -> std::io::Result<Next> {
    let Answer { status, fields, content, tag } = answer;
    let framed = match &content {
        Content::None => String::new(),
        Content::Text(text) => format!("Content-Length: {}\r\n", text.len()),
        Content::Announced(Some(length)) => format!("Content-Length: {length}\r\n"),
        Content::Body(body) if !body.chunked => format!("Content-Length: {}\r\n", body.to - body.from),
        Content::Announced(None) | Content::Body(_) => "Transfer-Encoding: chunked\r\n".to_owned(),
    };
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {status} Reason\r\n{fields}{framed}\r\n");
    if let Some(tag) = tag {
        end.tag(tag);
    }
    match content {
        Content::Text(text) => end.write_all([head.as_bytes(), text.as_bytes()].concat().as_slice()).await?,
        _ => end.write_all(head.as_bytes()).await?,
    }
    let Content::Body(body) = content else { return Ok(Next::Goes) };
    send_body(body, end, random).await?;
    if body.cut.is_some() {
        return Ok(Next::Ends);
    }
    if body.chunked {
        end.write_all(b"0\r\n\r\n").await?;
    }
    Ok(Next::Goes)
}

async fn send_body(body: Body, end: &mut End, random: &mut Random) -> std::io::Result<()> {
    let (dawdles, pieces) = pieces(body, random);
    let mut at = body.from;
    for count in pieces {
        if body.chunked {
            end.write_all(format!("{count:x}\r\n").as_bytes()).await?;
        }
        end.write_all(&body.version.body(at, count)).await?;
        if body.chunked {
            end.write_all(b"\r\n").await?;
        }
        at += count;
        if dawdles {
            sleep(random.millis(1..2000)).await;
        }
    }
    Ok(())
}

/// Reads so many bytes, which say nothing; `None` if there are fewer.
async fn pass_over(end: &mut End, read: &mut Vec<u8>, mut length: usize) -> Option<()> {
    while length > 0 {
        if read.is_empty() && end.read_buf(read).await.ok()? == 0 {
            return None;
        }
        let count = length.min(read.len());
        read.drain(..count);
        length -= count;
    }
    Some(())
}
