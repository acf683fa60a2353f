//! What the kernel counted while requests were put to a proxy, and what came of them.

use std::time::{Duration, Instant};

use super::bench::Bench;
use super::counters::{self, DiskCount, ProcessCount};
use super::load::Tally;
use crate::error::LabError;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The requests.
    pub tally: Tally,
    /// What the disk did meanwhile.
    pub disk: DiskCount,
    /// What the proxy's processes took: time meanwhile, memory at the end.
    pub processes: ProcessCount,
    /// Seconds of processor time that this process took meanwhile, which asks, and answers as the origin.
    pub asking_s: f64,
    /// Seconds in which the machine's processors did anything meanwhile, those of all processors added up.
    pub busy_s: f64,
    /// Bytes of files in memory at the end.
    pub page_cache_bytes: u64,
}

impl Phase {
    /// Put requests, and see what that took. Errors: as `put`.
    pub fn of(bench: &Bench, put: impl FnOnce() -> Result<Tally, LabError>) -> Result<Phase, LabError> {
        let own = std::process::id().to_string();
        let asking = || counters::process(&own).unwrap_or_default();
        let (disk, before, asked, busy) = (bench.disk(), bench.processes(), asking(), counters::busy_s());
        let began = Instant::now();
        let mut tally = put()?;
        tally.span = began.elapsed();
        let (after, asking) = (bench.processes(), asking());
        let (user_s, system_s) = (after.user_s - before.user_s, after.system_s - before.system_s);
        Ok(Phase {
            tally,
            disk: bench.disk() - disk,
            processes: ProcessCount { user_s, system_s, ..after },
            asking_s: asking.user_s - asked.user_s + asking.system_s - asked.system_s,
            busy_s: counters::busy_s() - busy,
            page_cache_bytes: bench.page_cache_bytes(),
        })
    }

    /// Phases that followed each other, as one.
    pub fn together<'a>(phases: impl IntoIterator<Item = &'a Phase>) -> Phase {
        let (mut all, mut span) = (Phase::default(), Duration::ZERO);
        for phase in phases {
            span += phase.tally.span;
            all.tally.add(phase.tally.clone());
            all.disk = all.disk + phase.disk;
            let (user_s, system_s) = (all.processes.user_s, all.processes.system_s);
            all.processes = phase.processes;
            all.processes.user_s += user_s;
            all.processes.system_s += system_s;
            all.asking_s += phase.asking_s;
            all.busy_s += phase.busy_s;
            all.page_cache_bytes = phase.page_cache_bytes;
        }
        all.tally.span = span;
        all
    }

    /// How long it took, in seconds; never 0.
    pub fn seconds(&self) -> f64 {
        self.tally.span.as_secs_f64().max(1e-9)
    }

    /// Reads and writes of the disk for each request.
    pub fn disk_requests(&self) -> (f64, f64) {
        let requests = self.tally.requests().max(1) as f64;
        (self.disk.reads as f64 / requests, self.disk.writes as f64 / requests)
    }

    /// Reads and writes of the disk a second.
    pub fn disk_rates(&self) -> (f64, f64) {
        (self.disk.reads as f64 / self.seconds(), self.disk.writes as f64 / self.seconds())
    }

    /// How busy the disk was, of what a limit of so many reads and so many writes a second lets it do: by its reads or by its
    /// writes, whichever is more.
    pub fn disk_busy(&self, limit: u64) -> f64 {
        let (reads, writes) = self.disk_rates();
        reads.max(writes) / limit as f64
    }

    /// Requests a second if reads and writes shared the limit, as they share a disk's arm.
    pub fn rate_of_one_arm(&self, limit: u64) -> f64 {
        let (reads, writes) = self.disk_requests();
        limit as f64 / (reads + writes).max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_and_memory_is_the_last_ones() {
        let one = |requests: usize, seconds: u64| Phase {
            tally: Tally {
                hit_times: vec![Duration::from_millis(5); requests],
                span: Duration::from_secs(seconds),
                ..Tally::default()
            },
            disk: DiskCount { reads: 100 * seconds, writes: 50 * seconds, ..DiskCount::default() },
            processes: ProcessCount { user_s: 0.5, peak_bytes: 10 * seconds, ..ProcessCount::default() },
            asking_s: 0.25,
            busy_s: 2.0,
            page_cache_bytes: requests as u64,
        };
        let all = Phase::together(&[one(300, 2), one(100, 3)]);
        assert_eq!((all.tally.requests(), all.tally.rate(), all.seconds()), (400, 80.0, 5.0));
        assert_eq!((all.disk_rates(), all.disk_requests()), ((100.0, 50.0), (1.25, 0.625)));
        assert_eq!((all.processes.user_s, all.processes.peak_bytes, all.page_cache_bytes), (1.0, 30, 100));
        assert_eq!((all.asking_s, all.busy_s), (0.5, 4.0));
        assert_eq!((all.disk_busy(200), all.rate_of_one_arm(150)), (0.5, 80.0));
    }
}
