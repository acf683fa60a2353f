//! How far each resource was used, and which of them was full.

use super::runs::{LIMIT, LIMIT_BYTES};
use crate::peers::{DiskCount, Phase};

/// What is used so far is full: what is left comes and goes too quickly for anybody to use it.
const FULL: f64 = 0.9;

/// Shares of what there is, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Uses {
    pub reads: f64,
    pub writes: f64,
    pub bytes_read: f64,
    pub bytes_written: f64,
    /// Of all processors: whoever used them, and who else than the proxy and those who ask it.
    pub processors: f64,
    pub others: f64,
}

impl Uses {
    /// Of one phase.
    pub fn of(phase: &Phase) -> Uses {
        // The limit counts requests before the kernel joins those that lie beside each other.
        let DiskCount { reads, joined_reads, writes, joined_writes, .. } = phase.disk;
        let asked = |count: u64, joined: u64| (count + joined) as f64 / phase.seconds() / LIMIT as f64;
        let bytes = |bytes: u64| bytes as f64 / phase.seconds() / LIMIT_BYTES as f64;
        let own_s = phase.processes.user_s + phase.processes.system_s + phase.asking_s;
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        Uses {
            reads: asked(reads, joined_reads),
            writes: asked(writes, joined_writes),
            bytes_read: bytes(phase.disk.read_bytes),
            bytes_written: bytes(phase.disk.write_bytes),
            processors: phase.busy_s / phase.seconds() / processors,
            others: (phase.busy_s - own_s).max(0.0) / phase.seconds() / processors,
        }
    }

    /// All that was full; if nothing was, what came next to it.
    pub fn said(&self) -> String {
        let mut all = [
            ("reads of the disk", self.reads),
            ("writes of the disk", self.writes),
            ("bytes read", self.bytes_read),
            ("bytes written", self.bytes_written),
            (if self.others > self.processors / 2.0 { "processors, by others" } else { "processors" }, self.processors),
        ];
        all.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let full: Vec<_> = all.iter().filter(|(_, share)| *share >= FULL).map(|(name, _)| *name).collect();
        match (full.as_slice(), all.first()) {
            ([], Some((name, share))) => format!("nothing; {name} {:.0} %", share * 100.0),
            (full, _) => full.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::peers::Tally;

    #[test]
    fn what_is_full_is_named_and_else_what_comes_next() {
        let uses = Uses { reads: 0.97, writes: 0.2, processors: 0.99, ..Uses::default() };
        assert_eq!(uses.said(), "processors, reads of the disk");
        assert_eq!(Uses { reads: 0.5, ..uses }.said(), "processors");
        assert_eq!(Uses { reads: 0.5, others: 0.6, ..uses }.said(), "processors, by others");
        assert_eq!(Uses { processors: 0.3, reads: 0.5, ..uses }.said(), "nothing; reads of the disk 50 %");
    }

    #[test]
    fn shares_are_of_the_limits() {
        let disk = DiskCount {
            reads: LIMIT * 5,
            writes: LIMIT * 5,
            read_bytes: LIMIT_BYTES,
            write_bytes: LIMIT_BYTES * 2,
            joined_reads: 0,
            joined_writes: LIMIT * 5,
            busy_ms: 0,
        };
        let tally = Tally { span: Duration::from_secs(10), ..Tally::default() };
        let uses = Uses::of(&Phase { tally, disk, ..Phase::default() });
        assert_eq!((uses.reads, uses.writes, uses.bytes_read, uses.bytes_written), (0.5, 1.0, 0.1, 0.2));
        assert_eq!((uses.processors, uses.said().as_str()), (0.0, "writes of the disk"));
    }
}
