//! How much each client may ask for: requests a second, requests in progress, and fetches in flight.
//!
//! A client is an address, or a network of IPv6 with 64 bits; one with 48 bits, which is what a site is given (RFC 6177), may have
//! [`WIDER`] times as much, for it has 65,536 of the others.
//!
//! # Decisions
//!
//! - The table has one size, whoever comes: a flood of addresses takes no more memory than a few do. It is cut into sets by a hash with a
//!   random seed, so that nobody can choose whose set theirs is.
//! - A client that is not in it has its whole burst. So one that has nothing in progress may be forgotten, the one that has asked for least of
//!   late first; a client that is driven out this way gets more than its share, and never less.
//! - Where all of a set have something in progress, one more is let through, and counted: to refuse it would let whoever has many addresses
//!   shut out others.
//! - Of a burst only the time is kept at which it is whole again (the generic cell rate algorithm): nothing has to be refilled.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clients::{Network, WIDER, networks};
use crate::limits::Limits;

/// Clients in one set: all are looked at for each request, and they lie in five lines of a processor's cache.
const WAYS: usize = 8;
/// Sets: 65,536 clients, or half as many where all have IPv6.
const SETS: usize = 8192;

/// What a client has asked for too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// Requests a second.
    Rate,
    /// Requests in progress.
    Requests,
    /// Fetches in flight.
    Fetches,
}

impl Excess {
    pub const ALL: [Excess; 3] = [Excess::Rate, Excess::Requests, Excess::Fetches];

    /// As metrics have it, and behind `client_` the setting that says how much.
    pub fn name(self) -> &'static str {
        match self {
            Excess::Rate => "rate",
            Excess::Requests => "requests",
            Excess::Fetches => "fetches",
        }
    }
}

/// More than a client may have, and in how many seconds it may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub excess: Excess,
    pub retry_seconds: u32,
}

/// All clients' shares. Memory: 2.2 MB, and nothing where no client is limited.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// Between two requests of a client that has none to spare; zero for any rate.
    interval: Duration,
    burst: u32,
    requests: u32,
    fetches: u32,
    began: Instant,
    sets: Vec<Mutex<[Slot; WAYS]>>,
    hasher: RandomState,
    refused: [AtomicU64; Excess::ALL.len()],
    untold: AtomicU64,
}

/// One client, or the like.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// 0 for nobody.
    network: u128,
    /// When its burst is whole again, in nanoseconds since the beginning.
    whole_ns: u64,
    requests: u32,
    fetches: u32,
}

/// Something that a client has in progress, until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    of: Option<Arc<Quotas>>,
    is_fetch: bool,
    /// Slots that it is counted in; those of something in progress stay whose they are.
    slots: [Option<u32>; 2],
}

impl Quotas {
    pub fn new(limits: &Limits, now: Instant) -> Arc<Quotas> {
        let interval =
            1_000_000_000u64.checked_div(limits.client_rate.into()).map_or(Duration::ZERO, Duration::from_nanos);
        let is_on = !interval.is_zero() || limits.client_requests > 0 || limits.client_fetches > 0;
        let sets = if is_on { SETS } else { 0 };
        Arc::new(Quotas {
            interval,
            burst: limits.client_burst.max(1),
            requests: limits.client_requests,
            fetches: limits.client_fetches,
            began: now,
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            refused: Default::default(),
            untold: AtomicU64::new(0),
        })
    }

    /// One more request of a client's.
    pub fn request(self: &Arc<Self>, client: IpAddr, now: Instant) -> Result<Taken, Over> {
        if self.interval.is_zero() && self.requests == 0 {
            return Ok(Taken::nothing());
        }
        self.take(client, false, |slot, wider| {
            let most = self.requests.saturating_mul(wider);
            if most > 0 && slot.requests >= most {
                return Err(Over { excess: Excess::Requests, retry_seconds: 1 });
            }
            slot.spend(self.interval / wider, self.burst.saturating_mul(wider), self.since(now))?;
            slot.requests += u32::from(most > 0);
            Ok(most > 0)
        })
    }

    /// One more fetch for a client.
    pub fn fetch(self: &Arc<Self>, client: IpAddr) -> Result<Taken, Over> {
        if self.fetches == 0 {
            return Ok(Taken::nothing());
        }
        self.take(client, true, |slot, wider| {
            if slot.fetches >= self.fetches.saturating_mul(wider) {
                return Err(Over { excess: Excess::Fetches, retry_seconds: 1 });
            }
            slot.fetches += 1;
            Ok(true)
        })
    }

    /// One more fetch for a client, for what it has the beginning of: counted, and never refused.
    pub fn fetch_on(self: &Arc<Self>, client: IpAddr) -> Taken {
        let count = |slot: &mut Slot, _| {
            slot.fetches = slot.fetches.saturating_add(1);
            Ok(true)
        };
        match self.fetches {
            0 => Taken::nothing(),
            _ => self.take(client, true, count).unwrap_or_else(|_| Taken::nothing()),
        }
    }

    /// How often clients were refused, by what they had too much of.
    pub fn refused(&self) -> Vec<(&'static str, u64)> {
        let counts = self.refused.iter().map(|count| count.load(Ordering::Relaxed));
        Excess::ALL.iter().map(|excess| excess.name()).zip(counts).collect()
    }

    /// Requests and fetches that were let through since there was no room to count them.
    pub fn uncounted(&self) -> u64 {
        self.untold.load(Ordering::Relaxed)
    }

    fn since(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Has `one` take something of the client's share and of its wider network's, and tell whether that is in progress then.
    fn take(
        self: &Arc<Self>,
        client: IpAddr,
        is_fetch: bool,
        one: impl Fn(&mut Slot, u32) -> Result<bool, Over>,
    ) -> Result<Taken, Over> {
        let mut taken = Taken { of: None, is_fetch, slots: [None; 2] };
        let (own, wide) = networks(client);
        for ((network, wider), place) in [(Some(own), 1), (wide, WIDER)].into_iter().zip(&mut taken.slots) {
            let Some(network) = network else { continue };
            match self.with_slot(network, |slot| one(slot, wider)) {
                Ok((slot, is_held)) => *place = slot.filter(|_| is_held),
                Err(over) => {
                    // What is in progress is given back. The token of a client whose site has none left is spent: it has asked.
                    taken.of = Some(self.clone());
                    let refused = self.refused.get(over.excess as usize);
                    refused.inspect(|count| _ = count.fetch_add(1, Ordering::Relaxed));
                    return Err(over);
                }
            }
        }
        taken.of = taken.slots.iter().any(Option::is_some).then(|| self.clone());
        Ok(taken)
    }

    /// The slot of a network, which may be another's that is forgotten for it. `None` where there is no room for it.
    fn with_slot(
        &self,
        network: Network,
        act: impl FnOnce(&mut Slot) -> Result<bool, Over>,
    ) -> Result<(Option<u32>, bool), Over> {
        let hash = self.hasher.hash_one(network.0);
        let number = usize::try_from(hash % SETS as u64).unwrap_or_default();
        let Some(set) = self.sets.get(number) else { return Ok((None, false)) };
        let mut set = set.lock();
        let own = set.iter().position(|slot| slot.network == network.0);
        let way = own.or_else(|| {
            let idle = set.iter().enumerate().filter(|(_, slot)| slot.requests == 0 && slot.fetches == 0);
            let (way, _) =
                idle.min_by_key(|(_, slot)| if slot.network == 0 { 0 } else { slot.whole_ns.saturating_add(1) })?;
            Some(way)
        });
        let Some(slot) = way.and_then(|way| set.get_mut(way)) else {
            self.untold.fetch_add(1, Ordering::Relaxed);
            return Ok((None, false));
        };
        if own.is_none() {
            *slot = Slot { network: network.0, ..Slot::default() };
        }
        let is_held = act(slot)?;
        let at = way.and_then(|way| u32::try_from(number * WAYS + way).ok());
        Ok((at, is_held))
    }

    fn give_back(&self, at: u32, is_fetch: bool) {
        let at = at as usize;
        let Some(mut set) = self.sets.get(at / WAYS).map(|set| set.lock()) else { return };
        if let Some(slot) = set.get_mut(at % WAYS) {
            let count = if is_fetch { &mut slot.fetches } else { &mut slot.requests };
            *count = count.saturating_sub(1);
        }
    }
}

impl Slot {
    /// Spends one of a burst that comes back at one each `interval`.
    fn spend(&mut self, interval: Duration, burst: u32, now_ns: u64) -> Result<(), Over> {
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        if interval == 0 {
            return Ok(());
        }
        let whole = self.whole_ns.max(now_ns);
        let spent = whole - now_ns;
        let most = interval.saturating_mul(u64::from(burst - 1));
        if spent > most {
            let seconds = (spent - most).div_ceil(1_000_000_000);
            return Err(Over { excess: Excess::Rate, retry_seconds: u32::try_from(seconds).unwrap_or(u32::MAX) });
        }
        self.whole_ns = whole.saturating_add(interval);
        Ok(())
    }
}

impl Taken {
    /// Nothing that is counted.
    pub fn nothing() -> Taken {
        Taken { of: None, is_fetch: false, slots: [None; 2] }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(quotas) = self.of.take() {
            self.slots.iter().flatten().for_each(|at| quotas.give_back(*at, self.is_fetch));
        }
    }
}

#[cfg(test)]
#[path = "quotas_tests.rs"]
mod tests;
