//! What clients do, and whether what they get is right.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_proxy::Simulated;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::client::{Answer, Client, Reads, Request};
use crate::events::Events;
use crate::network::{End, Net};
use crate::objects::Version;
use crate::oracle::Oracle;
use crate::random::Random;
use crate::site::{Resource, TAGS};

/// Every request must have ended after so long, whatever fails.
const ENDS: Duration = Duration::from_secs(1800);

/// A connection is used again if its answer took no longer.
const REUSED: Duration = Duration::from_secs(30);

/// All that clients share.
pub struct World {
    pub events: Events,
    pub net: Arc<Net>,
    pub origin: Arc<crate::origin::Origin>,
    /// Who answers now.
    pub door: Mutex<Option<Arc<Simulated>>>,
    /// How often that was another one.
    pub epoch: AtomicU64,
    /// Whether network and origins may keep clients from an answer.
    pub excuses: bool,
    /// Whether the disk may fail to read or write.
    pub disk_fails: bool,
    pub faults: Mutex<Vec<String>>,
    pub requests: AtomicU64,
    pub failed: AtomicU64,
    /// The number of the next request that must not be carried out twice.
    pub once: AtomicU64,
    pub hits: AtomicU64,
    /// Whole answers over HTTP/2.
    pub over_http2: AtomicU64,
}

/// One request, and what it is about.
struct Asks {
    request: Request,
    resource: usize,
    variant: usize,
    /// A part of it is asked for.
    part: bool,
    /// What a PURGE takes back.
    purges: Purges,
    reads: Reads,
}

/// What a purge takes back. Softly, it stays and is stale.
#[derive(Clone, Copy, Debug, Default)]
struct Purges {
    by: By,
    soft: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum By {
    #[default]
    Url,
    Prefix,
    Tag(u64),
}

impl Purges {
    fn drawn(random: &mut Random) -> Purges {
        let by = match random.below(4) {
            0 | 1 => By::Url,
            2 => By::Tag(random.below(TAGS)),
            _ => By::Prefix,
        };
        Purges { by, soft: random.per_mille(300) }
    }

    fn fields(self) -> String {
        let soft = if self.soft { "Fastly-Soft-Purge: 1\r\n" } else { "" };
        match self.by {
            By::Url => soft.to_owned(),
            By::Prefix => format!("Tinaja-Purge: prefix\r\n{soft}"),
            By::Tag(tag) => format!("Surrogate-Key: t{tag}\r\n{soft}"),
        }
    }

    /// Whether this resource goes, where that one was named.
    fn takes(self, resource: &Resource, named: &Resource) -> bool {
        match self.by {
            By::Url => resource.path == named.path,
            By::Prefix => resource.path.starts_with(&named.path),
            By::Tag(tag) => resource.tags.contains(&tag),
        }
    }
}

impl World {
    fn oracle(&self) -> parking_lot::MutexGuard<'_, Oracle> {
        self.origin.oracle.lock()
    }

    /// Something was not as it must be.
    pub fn fault(&self, what: String) {
        self.events.note("fault", &[]);
        self.faults.lock().push(what);
    }

    /// One client's visit: some requests on one connection.
    pub async fn visit(self: Arc<Self>, resource: usize, mut random: Random) {
        if random.per_mille(300) {
            return self.visit_over_http2(resource, random).await;
        }
        let Some(mut client) = self.connect(&mut random) else { return };
        for _ in 0..random.within(1..4) {
            let other = random.below(self.oracle().resources.len() as u64) as usize;
            let resource = if random.per_mille(600) { resource } else { other };
            let asks = self.asks(resource, &mut random);
            let asked = Instant::now();
            match self.ask(&mut client, asks).await {
                Some(answer) if answer.is_whole && answer.field("connection") != Some("close") => {}
                _ => return,
            }
            if asked.elapsed() > REUSED {
                // Whoever reads for so long comes too late for the next request: all was sent long ago.
                return;
            }
        }
    }

    /// One client's visit over HTTP/2: its requests may be answered at once.
    async fn visit_over_http2(self: Arc<Self>, resource: usize, mut random: Random) {
        let Some(near) = self.line(&mut random) else { return };
        let Some(mut client) = Client::h2(near, self.epoch.load(SeqCst), random.fork()).await else { return };
        let mut streams = JoinSet::new();
        for _ in 0..random.within(1..9) {
            if client.has_vanished() {
                // Each further request would wait as long as the one before.
                break;
            }
            let other = random.below(self.oracle().resources.len() as u64) as usize;
            let asks = self.asks(if random.per_mille(600) { resource } else { other }, &mut random);
            let Some(mut stream) = client.another() else { return };
            let world = self.clone();
            streams.spawn(async move {
                if world.ask(&mut stream, asks).await.is_some_and(|answer| answer.is_whole) {
                    world.over_http2.fetch_add(1, SeqCst);
                }
            });
            if random.per_mille(500) {
                streams.join_next().await;
            }
        }
        while streams.join_next().await.is_some() {}
    }

    /// A connection to the proxy, if there is one.
    pub fn connect(&self, random: &mut Random) -> Option<Client> {
        let near = self.line(random)?;
        Some(Client::h1(near, self.epoch.load(SeqCst), random.fork()))
    }

    /// The client's end of it.
    fn line(&self, random: &mut Random) -> Option<End> {
        let proxy = self.door.lock().clone()?;
        let (near, far) = self.net.pair();
        let from = IpAddr::V4(Ipv4Addr::new(10, 0, 0, random.within(1..6) as u8));
        tokio::spawn(proxy.answer(Box::new(far), from));
        Some(near)
    }

    /// A GET of all of a resource.
    pub async fn get(&self, client: &mut Client, resource: usize) -> Option<Answer> {
        let path = self.oracle().resources[resource].path.clone();
        let request = Request { method: "GET", path, fields: "X-Kind: 0\r\n".into(), body: Bytes::new() };
        self.ask(
            client,
            Asks { request, resource, variant: 0, part: false, purges: Purges::default(), reads: Reads::Well },
        )
        .await
    }

    fn asks(&self, resource: usize, random: &mut Random) -> Asks {
        let oracle = self.oracle();
        let about = &oracle.resources[resource];
        let variant = random.below(about.variants as u64) as usize;
        let (path, now) = (about.path.clone(), oracle.present(resource, variant));
        let length = about.bytes(variant, now.number);
        let mut fields = format!("X-Kind: {variant}\r\n");
        let (mut method, mut part, mut body) = ("GET", false, Bytes::new());
        let purges = Purges::drawn(random);
        match random.below(100) {
            0..55 => {}
            55..70 => {
                let from = random.below(length.max(1));
                let to = from + random.below(length.max(1));
                let range = match random.below(3) {
                    0 => format!("{from}-"),
                    1 => format!("-{}", 1 + random.below(length.max(1))),
                    _ => format!("{from}-{to}"),
                };
                fields.push_str(&format!("Range: bytes={range}\r\n"));
                part = true;
            }
            70..78 => {
                let known = Version { number: now.number.saturating_sub(random.below(2)).max(1), ..now };
                fields.push_str(&format!("If-None-Match: {}\r\n", known.tag()));
            }
            78..84 => method = "HEAD",
            84..90 => {
                method = *random.one(&["POST", "PUT", "DELETE"]);
                body = Bytes::from(vec![b'x'; random.below(3) as usize * 7]);
                if method == "POST" {
                    // The others may be carried out again, where nobody knows whether they were (RFC 9110 9.2.2).
                    fields.push_str(&format!("X-Once: {}\r\n", self.once.fetch_add(1, SeqCst)));
                }
            }
            90..94 => {
                method = "PURGE";
                fields.push_str(&purges.fields());
            }
            94..97 => fields.push_str("Cache-Control: no-cache\r\n"),
            _ => fields.push_str("Cache-Control: max-age=3\r\n"),
        }
        let reads = match random.below(12) {
            0 => {
                let most = *random.one(&[2_000, 2_000, 6_000]);
                Reads::Slowly(random.millis(1..most))
            }
            1 => Reads::Until(random.below(length + 1) as usize),
            _ => Reads::Well,
        };
        let request = Request { method, path, fields, body };
        Asks { request, resource, variant, part, purges, reads }
    }

    async fn ask(&self, client: &mut Client, asks: Asks) -> Option<Answer> {
        let asked = Instant::now();
        self.requests.fetch_add(1, SeqCst);
        let answered = timeout(ENDS, client.ask(&asks.request, asks.reads)).await;
        let gone = self.epoch.load(SeqCst) != client.epoch || client.was_sent_away();
        let excused = self.excuses || gone || matches!(asks.reads, Reads::Until(_));
        let Ok(answer) = answered else {
            if client.has_vanished() {
                self.failed.fetch_add(1, SeqCst);
                return None;
            }
            self.fault(format!("{} {} has not ended after {ENDS:?}", asks.request.method, asks.request.path));
            return None;
        };
        let Some(answer) = answer else {
            self.events.note("no answer", &[asks.resource as u64]);
            self.failed.fetch_add(1, SeqCst);
            if !excused {
                self.fault(format!("{:?} got no answer, though nothing failed", asks.request));
            }
            return None;
        };
        let tag = answer.field("etag").and_then(Version::of_tag);
        let number = tag.map_or(0, |version| version.number);
        let numbers = [asks.resource as u64, answer.status.into(), number, answer.body.len() as u64];
        self.events.note(asks.request.method, &numbers);
        if answer.field("cache-status").is_some_and(|said| said.contains("; hit")) {
            self.hits.fetch_add(1, SeqCst);
        }
        if let Some(what) = self.wrong(&asks, &answer, tag, asked, excused) {
            let head = (answer.status, &answer.fields, answer.body.len());
            self.fault(format!("{:?} was answered by {head:?}: {what}", asks.request));
        }
        Some(answer)
    }

    /// What is wrong with an answer.
    fn wrong(
        &self,
        asks: &Asks,
        answer: &Answer,
        tag: Option<Version>,
        asked: Instant,
        excused: bool,
    ) -> Option<String> {
        if !answer.is_whole {
            self.failed.fetch_add(1, SeqCst);
        }
        match (asks.request.method, answer.status) {
            _ if answer.field("x-error").is_some() => return None,
            ("POST" | "PUT" | "DELETE", 200) => {
                let number = answer.field("x-version").and_then(|number| number.parse().ok());
                self.oracle().changed(asks.resource, number.expect("a version"));
                return None;
            }
            ("PURGE", 200 | 404) => {
                if answer.status == 404 && !matches!(asks.purges.by, By::Url) {
                    return Some("whatever has that name is purged".into());
                }
                let mut oracle = self.oracle();
                let named = oracle.resources[asks.resource].clone();
                let all = oracle.resources.iter().enumerate();
                let gone: Vec<_> = all.filter(|(_, one)| asks.purges.takes(one, &named)).map(|(at, _)| at).collect();
                gone.into_iter().for_each(|resource| oracle.purged(resource, asked, asks.purges.soft));
                return None;
            }
            ("PURGE", 500) if self.disk_fails => return None,
            (_, 500..600) => {
                self.failed.fetch_add(1, SeqCst);
                return (!excused).then(|| "it failed, though nothing else did".into());
            }
            ("GET", 416) if asks.part => {}
            ("GET", 206) if asks.part => {}
            ("GET", 304) if asks.request.fields.contains("If-None-Match") => {}
            ("GET" | "HEAD", 200) => {}
            _ => return Some("that is no answer to this".into()),
        }
        let Some(version) = tag else { return Some("it does not say its version".into()) };
        if (version.resource, version.variant) != (asks.resource, asks.variant) {
            return Some(format!("that is {version:?}, another one"));
        }
        let mut oracle = self.oracle();
        self.net.take_lost().into_iter().for_each(|tag| oracle.was_lost(tag));
        let about = &oracle.resources[asks.resource];
        // What cannot be read from the disk comes from the origin, unless that has another version by now.
        let is_there = !self.disk_fails || oracle.present(asks.resource, asks.variant) == version;
        if !answer.is_whole && !excused && is_there {
            return Some("it broke off, though the origin has the rest of it".into());
        }
        // Whoever cannot reach the origin may use what is stale, where that is not forbidden.
        let may_be_stale = self.excuses && !about.meanwhile.is_zero();
        let length = about.bytes(asks.variant, version.number);
        let said = answer.field("content-length").and_then(|length| length.parse::<u64>().ok());
        let (from, to) = match answer.status {
            206 => part_of(answer.field("content-range").unwrap_or_default(), length)?,
            200 => (0, length),
            _ => (0, 0),
        };
        if from == u64::MAX {
            return Some("its Content-Range is wrong".into());
        }
        let has_body = asks.request.method == "GET" && matches!(answer.status, 200 | 206);
        if matches!(answer.status, 200 | 206) && said.is_some_and(|said| said != to - from) {
            return Some(format!("its Content-Length is not {}", to - from));
        }
        if has_body && answer.is_whole && answer.body.len() as u64 != to - from {
            return Some(format!("its body is not of {} bytes", to - from));
        }
        if has_body && let Some(at) = version.first_wrong(from, &answer.body) {
            return Some(format!("byte {at} of its body is wrong"));
        }
        oracle.fault(version, asked, may_be_stale)
    }
}

/// The part that Content-Range names of so many bytes, its end excluded; from [`u64::MAX`] where it is none.
fn part_of(field: &str, length: u64) -> Option<(u64, u64)> {
    let parsed = (|| {
        let (part, whole) = field.strip_prefix("bytes ")?.split_once('/')?;
        let (from, to) = part.split_once('-')?;
        let (from, to) = (from.parse::<u64>().ok()?, to.parse::<u64>().ok()? + 1);
        (whole.parse() == Ok(length) && from < to && to <= length).then_some((from, to))
    })();
    Some(parsed.unwrap_or((u64::MAX, u64::MAX)))
}
