//! The log, ready to be replayed, and the disks that it is replayed on.

use std::path::Path;
use std::time::Duration;

use tinaja_store::memory::machine::memory_bytes;

use crate::error::LabError;
use crate::experiment::{DiskPart, Setup, plain_name};
use crate::load::{Kept, MAX_REQUESTS, Request, read_trace_of};
use crate::policies::Sequence;
use crate::rig::beside_body;

/// Requests that are replayed where nobody says how many, and if it is to be quick.
const REQUESTS: (usize, usize) = (1_000_000, 20_000);
/// A body is no larger: what a log says beyond is cut off.
const MOST_BODY_BYTES: u64 = 1 << 40;
/// Disks as percent of the footprint, where none are named.
const DISKS: [f64; 3] = [2.0, 10.0, 35.0];
/// More percent of the footprint show nothing.
const MOST_PERCENT: f64 = 1000.0;
/// A disk that is allowed however little the objects take.
const ALWAYS_BYTES: u64 = 1 << 30;
/// A modelled disk takes a part of its size in memory: what it remembers of each block of 4 KiB.
const DISK_IN_MEMORY: u64 = 40;
/// What a request and the objects take in memory, at most, over all that is kept of them.
const REQUEST_IN_MEMORY: u64 = 400;
/// Disks are cut for objects of this size, the default of a new cache, or for smaller ones if the log's are.
const MOST_MEAN_BYTES: u64 = 8192;
const LEAST_MEAN_BYTES: u64 = 256;
const BLOCK: u64 = 4096;

/// A log.
pub struct Load {
    /// Its file's name.
    pub name: String,
    pub requests: Vec<Request>,
    pub sequence: Sequence,
    /// Lines that could not be read, and the first ten of them.
    pub unreadable: (u64, Vec<u64>),
    /// Whether the log goes on.
    pub cut: bool,
    /// From the first request to the last.
    pub span: Duration,
    /// For which size of objects disks are cut.
    pub mean_object_bytes: u64,
}

/// A disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disk {
    pub bytes: u64,
    /// In percent of the footprint.
    pub percent: f64,
}

impl Load {
    /// Read it, or its beginning. Errors: it cannot be read.
    pub fn read(path: &Path, setup: &Setup) -> Result<Load, LabError> {
        let trace = read_trace_of(path, Kept::Answered, setup.count(REQUESTS.0, REQUESTS.1).min(MAX_REQUESTS))?;
        let mut requests = trace.requests;
        for request in &mut requests {
            request.bytes = request.bytes.min(MOST_BODY_BYTES);
            request.sent_bytes = request.sent_bytes.min(request.bytes);
        }
        spread(&mut requests);
        let sequence = Sequence::new(requests.iter().copied(), MOST_BODY_BYTES, beside_body(0));
        let mean = sequence.bytes / (sequence.objects as u64).max(1);
        Ok(Load {
            name: plain_name(path),
            span: requests.last().map(|request| request.time).unwrap_or_default(),
            requests,
            unreadable: (trace.unreadable, trace.unreadable_lines),
            cut: trace.cut,
            mean_object_bytes: mean.clamp(LEAST_MEAN_BYTES, MOST_MEAN_BYTES),
            sequence,
        })
    }

    /// The disks that were asked for. Errors: one is far larger than the log's objects, or than memory can stand for.
    pub fn disks(&self, setup: &Setup) -> Result<Vec<Disk>, LabError> {
        let asked = match &setup.replay.disks[..] {
            [] => DISKS.map(DiskPart::Percent).to_vec(),
            asked => asked.to_vec(),
        };
        asked.into_iter().map(|disk| self.disk(disk, setup.replay.memory_bytes, memory_bytes())).collect()
    }

    /// One disk, with so much memory for hot objects, on a machine with so much memory.
    fn disk(&self, asked: DiskPart, hot_bytes: u64, memory_bytes: u64) -> Result<Disk, LabError> {
        let all = self.sequence.bytes.max(1);
        let bytes = match asked {
            DiskPart::Bytes(bytes) => bytes,
            DiskPart::Percent(percent) => (all as f64 * percent / 100.0) as u64,
        };
        let disk = Disk { bytes: bytes / BLOCK * BLOCK, percent: bytes as f64 / all as f64 * 100.0 };
        let refused =
            |why: String| LabError::Failed { what: "replaying on a disk", why: format!("{}: {why}", disk.title()) };
        if disk.percent > MOST_PERCENT && bytes > ALWAYS_BYTES {
            let all = all as f64 / 1e6;
            return Err(refused(format!(
                "all objects of the log take {all:.1} MB: give --disk ten times as much at most"
            )));
        }
        let needed = (bytes / DISK_IN_MEMORY)
            .saturating_add(bytes / self.mean_object_bytes * 8)
            .saturating_add(self.requests.len() as u64 * REQUEST_IN_MEMORY)
            .saturating_add(hot_bytes);
        if needed > memory_bytes / 2 {
            let [needed, half] = [needed, memory_bytes / 2].map(|bytes| bytes as f64 / 1e9);
            return Err(refused(format!(
                "this may take {needed:.1} GB of memory, and half of this machine's is {half:.1} GB: give a smaller --disk or \
                 --memory, or fewer --requests"
            )));
        }
        Ok(disk)
    }
}

impl Disk {
    /// As tables and errors name it.
    pub fn title(&self) -> String {
        format!("{} MB, {} % of the log's objects", short(self.bytes as f64 / 1e6), short(self.percent))
    }
}

/// A number in two or three digits.
fn short(number: f64) -> String {
    let digits = if number >= 100.0 { 0 } else { 1 + usize::from(number < 1.0) };
    format!("{number:.digits$}")
}

/// Most logs have whole seconds: what came in one second is spread over it, for it did not come at once.
fn spread(requests: &mut [Request]) {
    if requests.iter().any(|request| request.time.subsec_nanos() != 0) {
        return;
    }
    for second in requests.chunk_by_mut(|a, b| a.time == b.time) {
        let count = second.len() as f64;
        for (number, request) in second.iter_mut().enumerate() {
            request.time += Duration::from_secs_f64(number as f64 / count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn load(lines: &str) -> Load {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        Load::read(file.path(), &Setup::default()).unwrap()
    }

    #[test]
    fn whole_seconds_are_spread_and_finer_times_are_kept() {
        let times =
            |lines: &str| load(lines).requests.iter().map(|request| request.time.as_millis()).collect::<Vec<_>>();
        assert_eq!(times("5,1,10,1\n5,2,10,1\n5,1,10,1\n5,3,10,1\n7,1,10,1\n"), [0, 250, 500, 750, 2000]);
        assert_eq!(times("5,1,10,1\n5,2,10,1\n5.5,1,10,1\n"), [0, 0, 500]);
    }

    #[test]
    fn disks_are_parts_of_the_footprint_and_bounded() {
        let load = load("1,1,999880,1\n2,2,999880,1\n3,1,999880,1\n");
        let all = load.sequence.bytes;
        assert_eq!((all, load.mean_object_bytes), (2 * (999_880 + beside_body(0)), 8192));
        let disk = |asked| load.disk(asked, 0, 8 << 30);
        assert_eq!(disk(DiskPart::Percent(50.0)).unwrap().bytes, all / 2 / 4096 * 4096);
        assert_eq!(disk(DiskPart::Bytes(9000)).unwrap().title(), "0.01 MB, 0.45 % of the log's objects");
        let refused = |asked| disk(asked).unwrap_err().to_string();
        assert!(
            disk(DiskPart::Bytes(1 << 30)).is_ok() && refused(DiskPart::Bytes(1 << 40)).contains("ten times as much")
        );
        let large = super::tests::load("1,1,1099511627776,1\n2,2,18446744073709551615,1\n");
        let refused = large.disk(DiskPart::Percent(35.0), 0, 8 << 30).unwrap_err().to_string();
        assert!(refused.contains("GB of memory") && refused.contains("smaller --disk"), "{refused}");
        // Memory for hot objects counts as well.
        let half = DiskPart::Percent(50.0);
        assert!(load.disk(half, 1 << 30, 8 << 30).is_ok());
        for hot_bytes in [5 << 30, u64::MAX] {
            let refused = load.disk(half, hot_bytes, 8 << 30).unwrap_err().to_string();
            assert!(refused.contains("--memory"), "{refused}");
        }
    }
}
