//! The load: how requests are put to a proxy, and what came of them.

use std::collections::HashSet;
use std::io::{Error, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::client::{Answer, Clients};
use crate::error::LabError;
use crate::load::{PolyMix, Request};

/// A thread whose requests fail so often gives up: the proxy is gone.
const MOST_FAILURES: u64 = 20;

/// What came of some requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Bytes of all bodies.
    pub bytes: u64,
    /// Bytes of those that came from the cache.
    pub hit_bytes: u64,
    /// How long each took that came from the cache.
    pub hit_times: Vec<Duration>,
    /// How long each took that came from the origin.
    pub miss_times: Vec<Duration>,
    /// Misses of what may be stored.
    pub cachable_misses: u64,
    /// Requests without a whole answer.
    pub failed: u64,
    /// How long it took in total.
    pub span: Duration,
}

impl Tally {
    /// Requests that were answered.
    pub fn requests(&self) -> u64 {
        (self.hit_times.len() + self.miss_times.len()) as u64
    }

    /// Requests that were answered, a second.
    pub fn rate(&self) -> f64 {
        self.requests() as f64 / self.span.as_secs_f64().max(1e-9)
    }

    /// The share of requests that came from the cache.
    pub fn hit_ratio(&self) -> f64 {
        self.hit_times.len() as f64 / self.requests().max(1) as f64
    }

    /// The share of bytes that came from the cache.
    pub fn byte_hit_ratio(&self) -> f64 {
        self.hit_bytes as f64 / self.bytes.max(1) as f64
    }

    /// The share of misses that may be stored.
    pub fn cachable_ratio(&self) -> f64 {
        self.cachable_misses as f64 / self.miss_times.len().max(1) as f64
    }

    /// Others as well; the time stays what it is.
    pub fn add(&mut self, other: Tally) {
        self.bytes += other.bytes;
        self.hit_bytes += other.hit_bytes;
        self.hit_times.extend(other.hit_times);
        self.miss_times.extend(other.miss_times);
        self.cachable_misses += other.cachable_misses;
        self.failed += other.failed;
    }
}

/// The time that so many of a hundred are below, in ms; `None` of nothing.
pub fn percentile<'a>(times: impl IntoIterator<Item = &'a Duration>, percent: f64) -> Option<f64> {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_unstable();
    let rank = (times.len() as f64 * percent / 100.0).ceil() as usize;
    times.get(rank.max(1) - 1).map(|time| time.as_secs_f64() * 1e3)
}

/// Ask once for each object that may be stored of so many requests, in their order, so that the cache has them.
pub fn fill(clients: &Clients, mix: &mut PolyMix, requests: usize, at_once: usize) -> Result<Tally, LabError> {
    let mut seen = HashSet::new();
    let objects = mix.by_ref().take(requests).filter(|request| request.cachable && seen.insert(request.object));
    let source = Mutex::new(objects);
    most(put(|request| clients.ask(request), at_once, || source.lock().next().map(|request| (request, Instant::now()))))
}

/// Ask for each of these in turn, so many a second whether they are answered in time or not, or as fast as they are answered.
/// Times are from when each was due. Requests without an answer are counted. Errors: an answer had wrong bytes.
pub fn listed(
    ask: impl Fn(&Request) -> Result<Answer, Error> + Sync,
    requests: &[Request],
    rate: Option<f64>,
    at_once: usize,
) -> Result<Tally, LabError> {
    let (source, begin) = (Mutex::new(requests.iter().enumerate()), Instant::now());
    let (tally, failure) = put(ask, at_once, || {
        let (number, request) = source.lock().next()?;
        let Some(rate) = rate else { return Some((*request, Instant::now())) };
        let due = begin + Duration::from_secs_f64(number as f64 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        Some((*request, due))
    });
    match failure {
        Some(Failure { why, is_wrong: true }) => Err(LabError::failed("asking a proxy", why)),
        _ => Ok(tally),
    }
}

/// Ask for so long, or until there are no more requests, with so many always under way: as fast as the proxy can.
pub fn flat_out(
    clients: &Clients,
    requests: &mut (impl Iterator<Item = Request> + Send),
    time: Duration,
    at_once: usize,
) -> Result<Tally, LabError> {
    let source = Mutex::new(requests);
    let end = Instant::now() + time;
    most(put(
        |request| clients.ask(request),
        at_once,
        || {
            let now = Instant::now();
            (now < end).then(|| source.lock().next().map(|request| (request, now))).flatten()
        },
    ))
}

/// Ask for so long, each at the time that the load gives it, whether the proxy keeps up or not. Times are from there on, so
/// that waiting counts.
pub fn timed(
    clients: &Clients,
    mix: &mut PolyMix,
    rate: f64,
    time: Duration,
    at_once: usize,
) -> Result<Tally, LabError> {
    mix.set_rate(rate);
    let Some(first) = mix.next() else { return Ok(Tally::default()) };
    let source = Mutex::new(mix);
    let begin = Instant::now();
    most(put(
        |request| clients.ask(request),
        at_once,
        || {
            let request = source.lock().next()?;
            let due = request.time.saturating_sub(first.time);
            if due >= time {
                return None;
            }
            thread::sleep((begin + due).saturating_duration_since(Instant::now()));
            Some((request, begin + due))
        },
    ))
}

/// What went wrong first; wrong bytes before all else.
struct Failure {
    why: String,
    is_wrong: bool,
}

/// Errors: an answer had wrong bytes, or more than one in a hundred had none.
fn most((tally, failure): (Tally, Option<Failure>)) -> Result<Tally, LabError> {
    match failure {
        Some(Failure { why, is_wrong }) if is_wrong || tally.failed * 100 > tally.requests() => {
            Err(LabError::failed("asking a proxy", why))
        }
        Some(Failure { why, .. }) => {
            tracing::warn!("{} requests had no answer, the first: {why}", tally.failed);
            Ok(tally)
        }
        None => Ok(tally),
    }
}

/// Put requests to a proxy from so many threads until there are none, and what went wrong.
fn put(
    ask: impl Fn(&Request) -> Result<Answer, Error> + Sync,
    at_once: usize,
    next: impl Fn() -> Option<(Request, Instant)> + Sync,
) -> (Tally, Option<Failure>) {
    let begin = Instant::now();
    let (sum, first_failure) = (Mutex::new(Tally::default()), Mutex::new(None::<Failure>));
    let work = || {
        let mut tally = Tally::default();
        while let Some((request, due)) = next() {
            match ask(&request) {
                Ok(answer) => {
                    tally.bytes += request.bytes;
                    tally.hit_bytes += if answer.is_hit { request.bytes } else { 0 };
                    tally.cachable_misses += u64::from(!answer.is_hit && request.cachable);
                    let times = if answer.is_hit { &mut tally.hit_times } else { &mut tally.miss_times };
                    times.push(due.elapsed());
                }
                Err(error) => {
                    tally.failed += 1;
                    let is_wrong = error.kind() == ErrorKind::InvalidData;
                    let mut first = first_failure.lock();
                    if first.is_none() || is_wrong {
                        *first = Some(Failure { why: error.to_string(), is_wrong });
                    }
                    if is_wrong || tally.failed > MOST_FAILURES {
                        break;
                    }
                }
            }
        }
        sum.lock().add(tally);
    };
    thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(work);
        }
    });
    (Tally { span: begin.elapsed(), ..sum.into_inner() }, first_failure.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Embedded, PolyMixOptions};
    use crate::peers::Origin;

    fn mix() -> PolyMix {
        PolyMix::new(PolyMixOptions::new(Embedded::Zipf13, 100.0, 500), 1)
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        let at = |percent| percentile(&times, percent);
        assert_eq!([at(50.0), at(95.0), at(100.0), at(0.0)], [Some(100.0), Some(190.0), Some(200.0), Some(1.0)]);
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn a_fill_asks_once_for_each_object_that_may_be_stored() {
        let origin = Origin::begin().unwrap();
        let clients = Clients::new(20, origin.address(), origin.address());
        let objects: HashSet<_> =
            mix().take(2000).filter(|request| request.cachable).map(|request| request.object).collect();
        let tally = fill(&clients, &mut mix(), 2000, 4).unwrap();
        assert_eq!((tally.requests(), tally.failed, tally.hit_times.len()), (objects.len() as u64, 0, 0));
        assert_eq!(tally.cachable_misses, objects.len() as u64);
    }

    #[test]
    fn a_list_is_asked_for_from_its_beginning_to_its_end() {
        let origin = Origin::begin().unwrap();
        let clients = Clients::new(20, origin.address(), origin.address());
        let requests: Vec<_> = mix().take(50).collect();
        for rate in [None, Some(1000.0)] {
            let before = origin.given();
            let tally = listed(|request| clients.ask(request), &requests, rate, 4).unwrap();
            let bytes: u64 = requests.iter().map(|request| request.bytes).sum();
            assert_eq!((tally.requests(), tally.bytes, tally.failed), (50, bytes, 0));
            assert_eq!(origin.given(), (before.0 + 50, before.1 + bytes));
        }
    }

    #[test]
    fn at_a_rate_every_request_of_the_time_is_put() {
        let origin = Origin::begin().unwrap();
        let clients = Clients::new(20, origin.address(), origin.address());
        let (time, mut load, mut same) = (Duration::from_millis(500), mix(), mix());
        let tally = timed(&clients, &mut load, 200.0, time, 8).unwrap();
        same.set_rate(200.0);
        let first = same.next().unwrap().time;
        let due = same.take_while(|request| request.time - first < time).count();
        assert_eq!(tally.requests(), due as u64);
    }

    #[test]
    fn a_proxy_that_is_not_there_is_an_error() {
        let origin = Origin::begin().unwrap();
        let nobody = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1);
        let error = fill(&Clients::new(1, nobody, origin.address()), &mut mix(), 500, 2).unwrap_err();
        assert!(error.to_string().starts_with("asking a proxy: "), "{error}");
    }
}
