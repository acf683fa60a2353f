//! What a seed decides before anything begins.

use std::time::Duration;

use tinaja_proxy::Balance;
use tinaja_store::{EngineRef, engines};

use crate::canary::Canary;
use crate::random::Random;
use crate::{disk, machine, network, origin};

/// Engines whose threads can take turns: those that wait for each other by the clock alone.
const ENGINES: [EngineRef; 4] =
    [engines::HASHCACHE_LOG, engines::HASHCACHE_LOG, engines::SEGMENTED, engines::GENERATIONAL];

/// One simulation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What decides everything else, here and later.
    pub seed: u64,
    /// A bug to be found, if one is planted.
    pub canary: Option<Canary>,
    pub(crate) engine: EngineRef,
    pub(crate) disk_bytes: usize,
    pub(crate) hot_bytes: u64,
    pub(crate) flush_every: Option<Duration>,
    /// How many times clients come, and how many milliseconds are between two of these in the mean.
    pub(crate) visits: usize,
    pub(crate) pause_ms: u64,
    /// How many milliseconds are between two changes at the origin in the mean.
    pub(crate) change_ms: u64,
    pub(crate) disk: disk::Manner,
    pub(crate) net: network::Manner,
    pub(crate) origin: origin::Manner,
    /// The origin speaks HTTP/2.
    pub(crate) http2: bool,
    /// How many addresses it has, and how they are chosen from.
    pub(crate) origins: u8,
    pub(crate) balance: Balance,
    pub(crate) clock: machine::Manner,
    /// At which visits the proxy ends, and whether by a cut of the power.
    pub(crate) ends: Vec<(usize, bool)>,
}

impl Plan {
    /// What this seed decides.
    pub fn of(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let visits = random.within(15..55) as usize;
        let pause_ms = *random.one(&[300, 3_000, 20_000, 60_000]);
        let ends = random.below(4);
        let mut ends: Vec<_> =
            (0..ends).map(|_| (random.below(visits as u64) as usize, random.per_mille(700))).collect();
        ends.sort_unstable();
        ends.dedup_by_key(|(at, _)| *at);
        // Each of the worlds fails in two of three simulations, so that some have only one that does.
        let mut fails = || random.per_mille(600);
        let (disk, net, origin) = (fails(), fails(), fails());
        let mut up_to = |fails: bool, most: u64| if fails { random.below(most + 1) } else { 0 };
        let disk = disk::Manner {
            errors: [up_to(disk, 30), up_to(disk, 20), up_to(disk, 30)],
            flips: up_to(disk, 30),
            stalls: up_to(disk, 30),
            forgets: false,
        };
        let net = network::Manner { refused: up_to(net, 60), unanswered: up_to(net, 20), broken: up_to(net, 80) };
        let origin = origin::Manner {
            errors: up_to(origin, 80),
            cut: up_to(origin, 100),
            silent: up_to(origin, 20),
            slow: up_to(origin, 80),
        };
        let engine = *random.one(&ENGINES);
        let mut plan = Plan {
            seed,
            canary: None,
            engine,
            disk_bytes: random.within(4..10) as usize * (1 << 20),
            hot_bytes: *random.one(&[0, 256 << 10, 4 << 20]),
            flush_every: *random.one(&[None, Some(Duration::from_secs(5))]),
            visits,
            pause_ms,
            change_ms: *random.one(&[2_000, 20_000, 200_000]),
            disk,
            net,
            origin,
            http2: random.per_mille(350),
            origins: random.within(1..4) as u8,
            balance: *random.one(&[Balance::First, Balance::RoundRobin, Balance::Hash]),
            clock: machine::Manner::default(),
            ends,
        };
        if random.per_mille(400) {
            plan.clock = machine::Manner { set: random.below(200), set_while_off: random.below(700) };
        }
        plan
    }

    /// The same with a planted bug, in a world that else does not fail: then nothing excuses what comes of it.
    pub fn with_canary(seed: u64, canary: Canary) -> Plan {
        let mut plan = Plan { canary: Some(canary), ..Plan::of(seed) };
        plan.disk = disk::Manner { forgets: canary == Canary::ForgottenSync, ..Default::default() };
        (plan.net, plan.origin) = Default::default();
        let set = if canary == Canary::UnnotedStep { 500 } else { 0 };
        plan.clock = machine::Manner { set, set_while_off: 0 };
        plan
    }

    /// The same without its planted bug, in a world that does not fail either.
    pub fn without_canary(seed: u64, canary: Canary) -> Plan {
        Plan { canary: None, disk: disk::Manner::default(), ..Plan::with_canary(seed, canary) }
    }

    /// Whether clients may go without an answer.
    pub(crate) fn excuses(&self) -> bool {
        let network::Manner { refused, unanswered, broken } = self.net;
        let origin::Manner { errors, cut, silent, slow } = self.origin;
        refused + unanswered + broken + errors + cut + silent + slow > 0
    }
}
