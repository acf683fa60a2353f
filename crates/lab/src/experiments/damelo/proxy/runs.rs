//! One proxy, with nothing stored, on the limited disk: asked as fast as it answers.

use std::time::Duration;

use super::System;
use super::load::{AT_ONCE, Recurring};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::paper::damelo as paper;
use crate::peers::{Bench, BenchOptions, Clients, Origin, Phase, Server, Share, flat_out};

/// Requests a second that the disk takes, reads and writes each: some as many as small random reads a disk such as the paper's
/// takes.
pub const LIMIT: u64 = 175;
/// Bytes a second, in each direction: the 210 Mbit/s of such a disk.
pub const LIMIT_BYTES: u64 = 26_250_000;
/// Bytes of memory for everything, the page cache included: Dámelo's pool, and as much for the rest.
pub const MEMORY_BYTES: u64 = 2 * paper::POOL_BYTES;
/// Bytes of memory for hot objects, each.
pub const HOT_BYTES: u64 = 8 << 20;
/// Longer than anybody waits for so many requests.
const FOREVER: Duration = Duration::from_secs(24 * 3600);

/// What was measured of one proxy.
pub struct Ran {
    pub system: System,
    pub version: String,
    /// One after the other, from an empty cache on.
    pub parts: Vec<Phase>,
    /// All of them.
    pub whole: Phase,
    /// See [`Server::index_bytes`].
    pub index_bytes: Option<u64>,
}

/// Bytes of disk for objects: more than is stored in all, so that nothing is evicted, even if a group has twice its share.
pub fn disk_bytes(setup: &Setup) -> u64 {
    setup.choose(6 << 30, 1 << 30)
}

/// How long each is asked if it was not said for how many requests, and in how many parts.
pub fn length(setup: &Setup) -> (Duration, u32) {
    setup.choose((Duration::from_secs(paper::PROXY_SECONDS), 10), (Duration::from_secs(4), 2))
}

/// Run it. Errors: it cannot be started, it ends or a process of its is ended, an answer is wrong, or many have none.
pub fn run(system: System, setup: &Setup, sites: &[Origin]) -> Result<Ran, LabError> {
    let System { peer, files, .. } = system;
    tracing::info!("{}", peer.name());
    let share = Share { disk_bytes: disk_bytes(setup), hot_bytes: HOT_BYTES };
    let bench = Bench::make(&BenchOptions {
        scratch: setup.scratch.clone(),
        // A file system takes its share, and files of whole blocks are longer than their objects.
        disk_bytes: share.disk_bytes / 4 * 5,
        memory_bytes: MEMORY_BYTES,
        files,
    })?;
    let mut server = Server::start(peer, &bench, &share)?;
    let origins = sites.iter().map(Origin::address).collect();
    let clients = Clients::of_sites(AT_ONCE as u64, server.address(), origins);
    bench.limit(LIMIT)?;
    bench.limit_bytes(LIMIT_BYTES)?;
    let parts = ask(setup, &bench, &clients);
    let index_bytes = server.index_bytes();
    bench.lift_limits()?;
    // Why it ended says more than that nobody answered.
    server.still_runs()?;
    let parts = parts?;
    if bench.ended_for_memory() > 0 {
        let why = format!("the kernel ended it for want of memory: it does not fit {} MiB", MEMORY_BYTES >> 20);
        return Err(LabError::failed("running a proxy", why));
    }
    let whole = Phase::together(&parts);
    tracing::info!("{:.0} a second, {:.1} % hits", whole.tally.rate(), whole.tally.hit_ratio() * 100.0);
    Ok(Ran { system, version: peer.version(), parts, whole, index_bytes })
}

fn ask(setup: &Setup, bench: &Bench, clients: &Clients) -> Result<Vec<Phase>, LabError> {
    let (length, parts) = length(setup);
    let (time, most) = match setup.requests {
        Some(requests) => (FOREVER, requests.div_ceil(parts as usize)),
        None => (length / parts, usize::MAX),
    };
    let mut load = Recurring::new(setup.seed);
    let part = |_| Phase::of(bench, || flat_out(clients, &mut load.by_ref().take(most), time, AT_ONCE));
    (0..parts).map(part).collect()
}
