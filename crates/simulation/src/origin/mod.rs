//! An origin that does what origins do, errors included.

mod h1;
mod h2;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use tinaja_clock::Clock;
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
    /// It speaks HTTP/2 and nothing else.
    pub http2: bool,
    pub well: AtomicBool,
    /// The numbers of those that were carried out and must not be again.
    pub carried_out: Mutex<BTreeSet<u64>>,
    /// What was carried out twice.
    pub twice: Mutex<Vec<String>>,
}

/// A request, as far as it matters.
struct Asked {
    method: String,
    resource: Option<usize>,
    variant: usize,
    /// Names in lower case.
    fields: Vec<(String, String)>,
}

impl Asked {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(there, _)| there == name).map(|(_, value)| value.as_str())
    }
}

/// What is said to a request, in whichever version of HTTP.
struct Answer {
    status: u16,
    /// Without those that say where it ends.
    fields: Vec<(&'static str, String)>,
    content: Content,
    /// What the network gives back once its head was read.
    tag: Option<u64>,
}

enum Content {
    /// None, and nothing says how much there would be.
    None,
    /// None, for it is the answer to a HEAD. It would have so many bytes, or come in chunks.
    Announced(Option<u64>),
    Text(&'static str),
    Body(Body),
}

/// Bytes of a version.
#[derive(Clone, Copy)]
struct Body {
    version: Version,
    from: u64,
    to: u64,
    /// Its length is not said.
    chunked: bool,
    /// After so many bytes it breaks off.
    cut: Option<u64>,
}

impl Body {
    /// How many bytes are sent.
    fn sends(&self) -> u64 {
        self.cut.unwrap_or(self.to - self.from)
    }
}

impl Origin {
    /// Answers what comes on one connection.
    pub async fn answer(self: Arc<Self>, end: End) {
        if self.http2 { self.over_http2(end).await } else { self.over_http1(end).await }
    }

    /// How it is now.
    fn manner(&self) -> Manner {
        if self.well.load(SeqCst) { Manner::default() } else { self.manner }
    }

    /// A request whose head has been read.
    fn asked(&self, method: String, path: &str, fields: Vec<(String, String)>) -> Asked {
        let (resource, variants) = {
            let oracle = self.oracle.lock();
            let resource = oracle.resources.iter().position(|resource| resource.path == path);
            (resource, resource.map_or(1, |resource| oracle.resources[resource].variants))
        };
        let mut asked = Asked { method, resource, variant: 0, fields };
        asked.variant = asked.field("x-kind").and_then(|kind| kind.parse().ok()).unwrap_or(0) % variants;
        asked
    }

    /// What it says to a request, after as long as that takes; `None` where it never does.
    async fn thinks(&self, asked: &Asked, random: &mut Random) -> Option<Answer> {
        let manner = self.manner();
        sleep(if random.per_mille(manner.slow) { random.millis(1000..70_000) } else { random.millis(0..40) }).await;
        if random.per_mille(manner.silent) {
            self.events.note("silent", &[]);
            return None;
        }
        let (error, cut) = (random.per_mille(manner.errors), random.per_mille(manner.cut));
        Some(self.says(asked, (error, cut), random))
    }

    fn says(&self, asked: &Asked, (error, cut): (bool, bool), random: &mut Random) -> Answer {
        let Some(resource) = asked.resource else {
            let fields = vec![("Cache-Control", "no-store".to_owned())];
            return Answer { status: 404, fields, content: Content::Text(""), tag: None };
        };
        if error {
            self.events.note("origin's error", &[resource as u64]);
            let fields = vec![("X-Error", "origin".to_owned())];
            let content = if asked.method == "HEAD" { Content::Announced(Some(2)) } else { Content::Text("no") };
            return Answer { status: *random.one(&[500, 503, 502]), fields, content, tag: None };
        }
        if !matches!(&asked.method[..], "GET" | "HEAD") {
            let once = asked.field("x-once").and_then(|number| number.parse().ok());
            if once.is_some_and(|number| !self.carried_out.lock().insert(number)) {
                self.events.note("twice", &[resource as u64]);
                self.twice.lock().push(format!("{} of resource {resource} was carried out twice", asked.method));
            }
            let number = self.oracle.lock().change(resource);
            self.events.note("changed", &[resource as u64, number]);
            let fields = vec![("X-Version", number.to_string())];
            return Answer { status: 200, fields, content: Content::Text(""), tag: None };
        }
        let (version, about, tag) = {
            let mut oracle = self.oracle.lock();
            let version = oracle.present(resource, asked.variant);
            (version, oracle.resources[resource].clone(), oracle.say(version))
        };
        let tag = Some(tag);
        let length = about.bytes(asked.variant, version.number);
        let date = httpdate::fmt_http_date(self.clock.wall());
        let mut fields = vec![("ETag", version.tag()), ("Date", date), ("Cache-Control", about.cache_control())];
        if about.variants > 1 {
            fields.push(("Vary", "X-Kind".into()));
        }
        if let Some(tags) = about.tags() {
            fields.push(("Surrogate-Key", tags));
        }
        let same = |tags: &str| tags.split(',').any(|there| there.trim() == version.tag());
        if asked.field("if-none-match").is_some_and(same) {
            self.events.note("not modified", &[resource as u64, version.number]);
            return Answer { status: 304, fields, content: Content::None, tag };
        }
        if asked.field("if-match").is_some_and(|tags| !same(tags)) {
            return Answer { status: 412, fields, content: Content::Text(""), tag };
        }
        let part = asked.field("range").filter(|_| about.ranges && asked.method == "GET");
        let part = part.filter(|_| asked.field("if-range").is_none_or(same)).and_then(|part| part_of(part, length));
        let (from, to) = part.unwrap_or((0, length));
        self.events.note("sends", &[resource as u64, version.number, from, to]);
        if part.is_some() {
            fields.push(("Content-Range", format!("bytes {from}-{}/{length}", to - 1)));
        }
        if about.ranges {
            fields.push(("Accept-Ranges", "bytes".into()));
        }
        let (status, chunked) = if part.is_some() { (206, false) } else { (200, about.chunked) };
        if asked.method == "HEAD" {
            let content = Content::Announced((!chunked).then_some(length));
            return Answer { status, fields, content, tag };
        }
        let cut = cut.then(|| random.below(to - from + 1));
        if let Some(sends) = cut {
            self.events.note("cut", &[sends]);
        }
        Answer { status, fields, content: Content::Body(Body { version, from, to, chunked, cut }), tag }
    }
}

/// How a body is sent: in pieces of so many bytes, and whether with pauses.
fn pieces(body: Body, random: &mut Random) -> (bool, Vec<u64>) {
    let (dawdles, mut left, mut pieces) = (random.per_mille(200), body.sends(), Vec::new());
    while left > 0 {
        let count = random.within(1..64_000).min(left);
        pieces.push(count);
        left -= count;
    }
    (dawdles, pieces)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Resource;

    /// Or it would never be found.
    #[test]
    fn what_is_carried_out_twice_is_noted() {
        let mut random = Random::new(1);
        let resources = Resource::all(&mut random);
        let path = resources[0].path.clone();
        let origin = Origin {
            oracle: Mutex::new(Oracle::new(resources)),
            events: Events::new(false),
            clock: Clock::system(),
            random: Mutex::new(random.fork()),
            manner: Manner::default(),
            http2: false,
            well: AtomicBool::new(true),
            carried_out: Mutex::default(),
            twice: Mutex::default(),
        };
        let mut ask = |once: &str| {
            let asked = origin.asked("POST".into(), &path, vec![("x-once".into(), once.into())]);
            origin.says(&asked, (false, false), &mut random).status
        };
        assert_eq!([ask("7"), ask("8")], [200, 200]);
        assert!(origin.twice.lock().is_empty());
        ask("7");
        assert_eq!(origin.twice.lock().len(), 1);
    }
}
