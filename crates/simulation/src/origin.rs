//! An origin that does what origins do, errors included.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use crate::events::Events;
use crate::network::End;
use crate::objects::Version;
use crate::oracle::Oracle;
use crate::random::Random;

/// How an origin is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Answers in a thousand that are an error of its own.
    pub errors: u64,
    /// Answers in a thousand that end before their end.
    pub cut: u64,
    /// Requests in a thousand that are never answered.
    pub silent: u64,
    /// Answers in a thousand that take long.
    pub slow: u64,
}

/// One origin, which all connections lead to.
pub struct Origin {
    pub oracle: Mutex<Oracle>,
    pub events: Events,
    pub clock: Clock,
    pub random: Mutex<Random>,
    pub manner: Manner,
    pub well: AtomicBool,
}

/// A request, as far as it matters.
struct Asked {
    method: String,
    resource: Option<usize>,
    variant: usize,
    fields: Vec<(String, String)>,
    closes: bool,
}

impl Asked {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(there, _)| there == name).map(|(_, value)| value.as_str())
    }
}

/// What becomes of an answer.
#[derive(PartialEq)]
enum Next {
    Goes,
    Ends,
}

impl Origin {
    /// Answers what comes on one connection.
    pub async fn answer(self: Arc<Self>, mut end: End) {
        let (mut random, mut read) = (self.random.lock().fork(), Vec::new());
        loop {
            let Some(asked) = self.next(&mut end, &mut read).await else { return };
            let well = self.well.load(SeqCst);
            let manner = if well { Manner::default() } else { self.manner };
            sleep(if random.per_mille(manner.slow) { random.millis(1000..70_000) } else { random.millis(0..40) }).await;
            if random.per_mille(manner.silent) {
                self.events.note("silent", &[]);
                sleep(Duration::from_secs(600)).await;
                return;
            }
            let error = random.per_mille(manner.errors);
            let cut = random.per_mille(manner.cut);
            let went = match self.one(&asked, &mut end, (error, cut), &mut random).await {
                Ok(next) => next,
                Err(_) => return,
            };
            if asked.closes || went == Next::Ends {
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
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields: Vec<_> = fields.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        let (resource, variants) = {
            let oracle = self.oracle.lock();
            let resource = oracle.resources.iter().position(|resource| resource.path == target);
            (resource, resource.map_or(1, |resource| oracle.resources[resource].variants))
        };
        let mut asked = Asked { method, resource, variant: 0, fields, closes: false };
        asked.variant = asked.field("x-kind").and_then(|kind| kind.parse().ok()).unwrap_or(0) % variants;
        asked.closes = asked.field("connection").is_some_and(|said| said.contains("close"));
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

    async fn one(
        &self,
        asked: &Asked,
        end: &mut End,
        (error, cut): (bool, bool),
        random: &mut Random,
    ) -> std::io::Result<Next> {
        let Some(resource) = asked.resource else {
            end.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nCache-Control: no-store\r\n\r\n").await?;
            return Ok(Next::Goes);
        };
        if error {
            self.events.note("origin's error", &[resource as u64]);
            let status = *random.one(&["500 Internal Server Error", "503 Service Unavailable", "502 Bad Gateway"]);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nX-Error: origin\r\n\r\nno");
            end.write_all(head.as_bytes()).await?;
            return Ok(Next::Goes);
        }
        if !matches!(&asked.method[..], "GET" | "HEAD") {
            let number = self.oracle.lock().change(resource);
            self.events.note("changed", &[resource as u64, number]);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Version: {number}\r\n\r\n");
            end.write_all(head.as_bytes()).await?;
            return Ok(Next::Goes);
        }
        let (version, about, tag) = {
            let mut oracle = self.oracle.lock();
            let version = oracle.present(resource, asked.variant);
            (version, oracle.resources[resource].clone(), oracle.say(version))
        };
        let length = about.bytes(asked.variant, version.number);
        let mut head = format!(
            "ETag: {}\r\nDate: {}\r\nCache-Control: {}\r\n",
            version.tag(),
            httpdate::fmt_http_date(self.clock.wall()),
            about.cache_control()
        );
        if about.variants > 1 {
            head.push_str("Vary: X-Kind\r\n");
        }
        end.tag(tag);
        let same = |tags: &str| tags.split(',').any(|there| there.trim() == version.tag());
        if asked.field("if-none-match").is_some_and(same) {
            self.events.note("not modified", &[resource as u64, version.number]);
            end.write_all(format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n").as_bytes()).await?;
            return Ok(Next::Goes);
        }
        if asked.field("if-match").is_some_and(|tags| !same(tags)) {
            end.write_all(format!("HTTP/1.1 412 Precondition Failed\r\n{head}Content-Length: 0\r\n\r\n").as_bytes())
                .await?;
            return Ok(Next::Goes);
        }
        let part = asked.field("range").filter(|_| about.ranges && asked.method == "GET");
        let part = part.filter(|_| asked.field("if-range").is_none_or(same)).and_then(|part| part_of(part, length));
        let (from, to) = part.unwrap_or((0, length));
        self.events.note("sends", &[resource as u64, version.number, from, to]);
        let first = match part {
            Some(_) => format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{length}\r\n", to - 1),
            None => "HTTP/1.1 200 OK\r\n".to_owned(),
        };
        let framed = if about.chunked && part.is_none() {
            "Transfer-Encoding: chunked\r\n".to_owned()
        } else {
            format!("Content-Length: {}\r\n", to - from)
        };
        let accept = if about.ranges { "Accept-Ranges: bytes\r\n" } else { "" };
        end.write_all(format!("{first}{head}{framed}{accept}\r\n").as_bytes()).await?;
        if asked.method == "HEAD" {
            return Ok(Next::Goes);
        }
        let sends = if cut { random.below(to - from + 1) } else { to - from };
        self.body(version, (from, from + sends), about.chunked && part.is_none(), end, random).await?;
        if cut {
            self.events.note("cut", &[sends]);
            return Ok(Next::Ends);
        }
        if about.chunked && part.is_none() {
            end.write_all(b"0\r\n\r\n").await?;
        }
        Ok(Next::Goes)
    }

    async fn body(
        &self,
        version: Version,
        (mut from, to): (u64, u64),
        chunked: bool,
        end: &mut End,
        random: &mut Random,
    ) -> std::io::Result<()> {
        let dawdles = random.per_mille(200);
        while from < to {
            let count = random.within(1..64_000).min(to - from);
            let piece: Bytes = version.body(from, count);
            if chunked {
                end.write_all(format!("{count:x}\r\n").as_bytes()).await?;
            }
            end.write_all(&piece).await?;
            if chunked {
                end.write_all(b"\r\n").await?;
            }
            from += count;
            if dawdles {
                sleep(random.millis(1..2000)).await;
            }
        }
        Ok(())
    }
}

/// The part that a Range field asks for, its end excluded.
fn part_of(field: &str, length: u64) -> Option<(u64, u64)> {
    let (from, to) = field.strip_prefix("bytes=")?.split_once('-')?;
    let (from, to) = match (from.parse::<u64>().ok(), to.parse::<u64>().ok()) {
        (Some(from), Some(to)) => (from, to.saturating_add(1).min(length)),
        (Some(from), None) => (from, length),
        (None, Some(last)) => (length.saturating_sub(last), length),
        (None, None) => return None,
    };
    (from < to).then_some((from, to))
}

/// Changes resources now and then, for ever.
pub async fn change_now_and_then(origin: Arc<Origin>, mean_ms: u64) {
    let mut random = origin.random.lock().fork();
    loop {
        sleep(random.around(mean_ms)).await;
        let mut oracle = origin.oracle.lock();
        let resource = random.below(oracle.resources.len() as u64) as usize;
        let number = oracle.change(resource);
        drop(oracle);
        origin.events.note("changes", &[resource as u64, number]);
    }
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
