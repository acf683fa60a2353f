//! All servers that were found, side by side, and what one round of requests takes of one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::lines::{Line, Sample};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::peers::field::{Cores, Making, Pace, Product, Room, Side, Tls, Wanted};
use crate::peers::{Origin, Tally, busy_s, of_threads, percentile};

/// Rounds in which servers take turns, and in short.
const ROUNDS: (usize, usize) = (3, 1);
/// Bytes of a body, if nothing else is said.
pub const BODY_BYTES: u64 = 8 << 10;
/// Connections, if nothing else is said.
pub const CONNECTIONS: usize = 16;

/// What all rows have in common.
pub struct Contest<'a> {
    pub setup: &'a Setup,
    pub cores: Cores,
    pub origin: Origin,
    /// The servers, and their programs.
    pub found: Vec<(Product, PathBuf)>,
}

/// One server in some rows: as long as it runs, else why it does not.
pub struct Entrant {
    pub product: Product,
    /// The engine Tinaja was told to use, if not its default.
    pub engine: Option<&'static str>,
    pub side: Result<Side, String>,
}

impl Contest<'_> {
    /// Rounds in which servers take turns.
    pub fn round_count(&self) -> usize {
        self.setup.choose(ROUNDS.0, ROUNDS.1)
    }

    /// Start all of them, each on a stand of its own, with a file system of so many bytes.
    pub fn all(&self, room: Room, disk_bytes: u64) -> Vec<Entrant> {
        self.found.iter().map(|(product, _)| self.one(*product, room, disk_bytes, None)).collect()
    }

    /// Start one of them.
    pub fn one(&self, product: Product, room: Room, disk_bytes: u64, tls: Option<&Tls>) -> Entrant {
        self.start(product, None, room, disk_bytes, tls)
    }

    /// Start ours with another engine than its default.
    pub fn by_engine(&self, engine: &'static str, room: Room, disk_bytes: u64) -> Entrant {
        self.start(Product::Tinaja, Some(engine), room, disk_bytes, None)
    }

    fn start(
        &self,
        product: Product,
        engine: Option<&'static str>,
        room: Room,
        disk_bytes: u64,
        tls: Option<&Tls>,
    ) -> Entrant {
        let making = Making {
            scratch: &self.setup.scratch,
            cores: &self.cores,
            origin: self.origin.address(),
            room,
            disk_bytes,
            replacement: engine,
            tls,
        };
        let program = self.found.iter().find(|(found, _)| *found == product).map(|(_, program)| program.as_path());
        let side = program
            .ok_or_else(|| LabError::failed("starting a server", "it is not installed"))
            .and_then(|program| Side::start(product, program, &making));
        let side = side.map_err(|error| {
            tracing::error!("{}: {error}", product.name());
            error.to_string()
        });
        Entrant { product, engine, side }
    }

    /// Some rounds of the same work, the servers in turn, but for those that `cannot` says why they cannot do it. Who fails has no more
    /// rounds in this line, and says why; who has ended is out for good.
    pub fn rounds(
        &self,
        entrants: &mut [Entrant],
        cannot: impl Fn(Product) -> Option<&'static str>,
        mut work: impl FnMut(&mut Side, usize) -> Result<Sample, LabError>,
    ) -> Line {
        let mut line = Line::of(entrants.iter().map(|entrant| entrant.product));
        for (at, entrant) in entrants.iter().enumerate() {
            if let Some(why) = cannot(entrant.product) {
                line.add(at, Err(why.to_owned()));
            }
        }
        for round in 0..self.round_count() {
            for (at, entrant) in entrants.iter_mut().enumerate() {
                if !line.is_out(at) {
                    line.add(at, entrant.work(|side| work(side, round)));
                }
            }
        }
        line
    }
}

impl Entrant {
    /// Its name in tables.
    pub fn name(&self) -> String {
        self.engine.map_or(self.product.name().into(), |engine| format!("{}, {engine}", self.product.name()))
    }

    /// Have it do something. Errors: why it could not; if it has ended, it is out for good.
    pub fn work<T>(&mut self, work: impl FnOnce(&mut Side) -> Result<T, LabError>) -> Result<T, String> {
        let side = match &mut self.side {
            Ok(side) => side,
            Err(why) => return Err(why.clone()),
        };
        let done = work(side).map_err(|error| error.to_string());
        if let Err(ended) = side.still_runs() {
            tracing::error!("{ended}");
            self.side = Err(ended.to_string());
            return Err(ended.to_string());
        }
        if let Err(why) = &done {
            tracing::warn!("{}: {why}", self.product.name());
        }
        done
    }
}

/// So many objects that were never asked for.
pub fn fresh(count: u64, bytes: u64) -> impl Iterator<Item = Wanted> + Clone {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let first = NEXT.fetch_add(count, Relaxed);
    (first..first + count).map(move |object| Wanted { object, bytes })
}

/// Each of these in an order in which none is beside its neighbours; as many requests as asked for, again from the beginning if these are more.
pub fn scattered(all: &[Wanted], requests: usize) -> Vec<Wanted> {
    // A prime that is no divisor of a count visits each once.
    let stride = if all.len().is_multiple_of(7919) { 7907 } else { 7919 };
    let at = |number: usize| all.get(number * stride % all.len().max(1)).copied();
    (0..requests).filter_map(at).collect()
}

/// Put requests to a server, over connections that it has just answered over, and see what that took. Errors: as those of asking.
pub fn take(
    side: &Side,
    connections: usize,
    wanted: impl IntoIterator<Item = Wanted>,
    pace: Pace,
) -> Result<Sample, LabError> {
    let mut connections = side.connections(connections)?;
    take_by(side, || connections.run(wanted, pace))
}

/// The same of requests that are put in another way. Errors: as `put`.
pub fn take_by(side: &Side, put: impl FnOnce() -> Result<Tally, LabError>) -> Result<Sample, LabError> {
    let own = [std::process::id()];
    let (busy, asking, cpu, disk) = (busy_s(), of_threads(&own), side.cpu(), side.disk());
    let tally = put()?;
    let (cpu, asking) = (side.cpu().saturating_sub(cpu), of_threads(&own).saturating_sub(asking));
    let disk = side.disk() - disk;
    let seconds = tally.span.as_secs_f64().max(1e-9);
    let others = (busy_s() - busy - cpu.as_secs_f64() - asking.as_secs_f64()).max(0.0) / seconds;
    let requests = tally.requests().max(1) as f64;
    let all = || tally.hit_times.iter().chain(&tally.miss_times);
    Ok(Sample {
        cpu_us: cpu.as_secs_f64() * 1e6 / requests,
        rate: requests / seconds,
        p50_ms: percentile(all(), 50.0).unwrap_or_default(),
        p99_ms: percentile(all(), 99.0).unwrap_or_default(),
        hits: tally.hit_ratio(),
        failed: tally.failed,
        reads: disk.reads as f64 / requests,
        read_kib: disk.read_bytes as f64 / 1024.0 / requests,
        others,
    })
}

/// Wait until all of them have written what they had to: what was just stored is on its way to the disk.
pub fn settle(entrants: &mut [Entrant]) {
    let sync = |entrants: &mut [Entrant]| {
        for entrant in entrants {
            let _ = entrant.work(|side| side.stand().sync());
        }
    };
    // Longer than Tinaja's interval of flushes, and than the kernel's for what is dirty.
    sync(entrants);
    std::thread::sleep(Duration::from_secs(7));
    sync(entrants);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_visited_once_a_turn() {
        for count in [1, 2, 100, 7919] {
            let all: Vec<_> = fresh(count, 5).collect();
            let mut visited: Vec<_> = scattered(&all, all.len()).iter().map(|wanted| wanted.object).collect();
            visited.sort_unstable();
            visited.dedup();
            assert_eq!(visited.len() as u64, count);
        }
        assert!(scattered(&[], 5).is_empty());
        let (one, other): (Vec<_>, Vec<_>) = (fresh(5, 1).collect(), fresh(5, 1).collect());
        assert!(one.iter().all(|wanted| !other.contains(wanted)));
    }
}
