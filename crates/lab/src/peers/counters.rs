//! What the kernel counted: requests of a disk, time and memory of processes.

use std::fs;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Requests of a disk, as /proc/diskstats counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCount {
    /// Reads that were carried out.
    pub reads: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Writes that were carried out.
    pub writes: u64,
    /// Bytes of these.
    pub write_bytes: u64,
    /// Reads that were joined to others on their way, and so are not in `reads`. A limit of the kernel's counts them.
    pub joined_reads: u64,
    /// The same of writes.
    pub joined_writes: u64,
    /// Milliseconds in which at least one was under way.
    pub busy_ms: u64,
}

/// What a process has had read and written by disks, in pages of 4 KiB, as its /proc/PID/io counts it.
pub fn of_process(pid: u32) -> DiskCount {
    counted(&fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default())
}

fn counted(io: &str) -> DiskCount {
    let bytes = |name: &str| {
        let found = io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        found.unwrap_or_default()
    };
    let (read_bytes, write_bytes) = (bytes("read_bytes:"), bytes("write_bytes:"));
    DiskCount { reads: read_bytes / 4096, read_bytes, writes: write_bytes / 4096, write_bytes, ..DiskCount::default() }
}

/// Time and memory of processes, as /proc tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessCount {
    /// Seconds of processor time, in the programs.
    pub user_s: f64,
    /// Seconds of processor time, in the kernel on their account.
    pub system_s: f64,
    /// Bytes of memory that they hold.
    pub resident_bytes: u64,
    /// The most that each held, added up.
    pub peak_bytes: u64,
    /// Of these, memory that processes share on purpose.
    pub shared_bytes: u64,
    /// Of these, files that are mapped: the program and its libraries.
    pub code_bytes: u64,
}

impl ProcessCount {
    /// What processes of one program took together. What they share counts once, and not once for each process that has
    /// it: its code, and of shared memory so many bytes, which is all that there is of it.
    pub fn together(counts: impl Iterator<Item = ProcessCount>, shared_bytes: u64) -> ProcessCount {
        let (mut sum, mut code_bytes) = (ProcessCount::default(), 0);
        for one in counts {
            sum = sum.plus(one);
            code_bytes = one.code_bytes.max(code_bytes);
        }
        let shared_bytes = sum.shared_bytes.min(shared_bytes);
        let twice = sum.shared_bytes - shared_bytes + sum.code_bytes - code_bytes;
        // What is shared is not given back, so that it was in the most that each held, too.
        let (resident_bytes, peak_bytes) =
            (sum.resident_bytes.saturating_sub(twice), sum.peak_bytes.saturating_sub(twice));
        ProcessCount { resident_bytes, peak_bytes, shared_bytes, code_bytes, ..sum }
    }

    fn plus(self, other: ProcessCount) -> ProcessCount {
        ProcessCount {
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            peak_bytes: self.peak_bytes + other.peak_bytes,
            shared_bytes: self.shared_bytes + other.shared_bytes,
            code_bytes: self.code_bytes + other.code_bytes,
        }
    }
}

/// A sector of /proc/diskstats, whatever the disk's own are.
const SECTOR: u64 = 512;
/// A tick of /proc/PID/stat, on every Linux that Rust runs on.
const TICKS_A_SECOND: f64 = 100.0;

/// What a disk of this name, as in loop0, has done so far; `None` if there is none.
pub fn disk(name: &str) -> Option<DiskCount> {
    parse_disk(&fs::read_to_string("/proc/diskstats").ok()?, name)
}

fn parse_disk(text: &str, name: &str) -> Option<DiskCount> {
    let mut lines = text.lines().map(|line| line.split_ascii_whitespace());
    let fields = lines.find_map(|mut fields| (fields.nth(2)? == name).then_some(fields))?;
    let numbers: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let [reads, joined_reads, sectors_read, _, writes, joined_writes, sectors_written, _, _, busy_ms, ..] =
        *numbers.as_slice()
    else {
        return None;
    };
    let (read_bytes, write_bytes) = (sectors_read * SECTOR, sectors_written * SECTOR);
    Some(DiskCount { reads, read_bytes, writes, write_bytes, joined_reads, joined_writes, busy_ms })
}

/// What a process has taken so far; `None` if it is gone.
pub fn process(pid: &str) -> Option<ProcessCount> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    parse_process(&read("stat")?, &read("status")?)
}

/// The processes of a process group, by number: the program that began it, and what that has started.
pub fn of_process_group(group: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_of_it = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        after_name.split_ascii_whitespace().nth(2).and_then(|own| own.parse().ok()) == Some(group)
    };
    pids.filter(is_of_it).collect()
}

/// Processor time of all threads of these processes so far, to the microsecond where `process` counts hundredths of a second. What
/// threads took that have ended is not in it.
pub fn of_threads(processes: &[u32]) -> Duration {
    let tasks = processes.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten();
    let time = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    tasks.filter_map(Result::ok).filter_map(time).sum()
}

/// Seconds in which the machine's processors did anything so far, those of all of them added up.
pub fn busy_s() -> f64 {
    parse_busy(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
}

fn parse_busy(stat: &str) -> Option<f64> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // What guests took is in the first two already.
    let ticks: Vec<u64> = all.split_ascii_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _waits_for_disks, interrupts, soft, stolen] = *ticks.as_slice() else {
        return None;
    };
    Some((user + nice + system + interrupts + soft + stolen) as f64 / TICKS_A_SECOND)
}

/// Page faults of this process for which the kernel had to read, so far.
pub fn major_faults() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    after_name.split_ascii_whitespace().nth(9).and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// What the kernel met when it took pages of files out of memory to make room: of the whole machine, as /proc/vmstat counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Pages that were clean, and gone at once.
    pub clean: u64,
    /// Pages whose turn it was, and that had to be written first.
    pub dirty: u64,
}

impl Reclaimed {
    /// So far.
    pub fn so_far() -> Reclaimed {
        Reclaimed::parsed(&fs::read_to_string("/proc/vmstat").unwrap_or_default())
    }

    fn parsed(vmstat: &str) -> Reclaimed {
        let count = |name| field(vmstat, name).unwrap_or_default();
        Reclaimed { clean: count("pgsteal_file"), dirty: count("nr_vmscan_immediate_reclaim") }
    }

    /// Of all pages whose turn it was, those that had to be written first; `None` if there was none.
    pub fn dirty_share(self) -> Option<f64> {
        let all = self.clean + self.dirty;
        (all > 0).then(|| self.dirty as f64 / all as f64)
    }
}

impl Sub for Reclaimed {
    type Output = Reclaimed;

    fn sub(self, before: Reclaimed) -> Reclaimed {
        Reclaimed { clean: self.clean.saturating_sub(before.clean), dirty: self.dirty.saturating_sub(before.dirty) }
    }
}

fn parse_process(stat: &str, status: &str) -> Option<ProcessCount> {
    // The second field is the program's name, in brackets, and may hold anything, brackets and spaces too.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_ascii_whitespace().skip(11).map(|ticks| ticks.parse::<u64>());
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    let bytes = |name| field(status, name).unwrap_or_default() << 10;
    Some(ProcessCount {
        user_s: user as f64 / TICKS_A_SECOND,
        system_s: system as f64 / TICKS_A_SECOND,
        resident_bytes: bytes("VmRSS:"),
        peak_bytes: bytes("VmHWM:"),
        shared_bytes: bytes("RssShmem:"),
        code_bytes: bytes("RssFile:"),
    })
}

/// The number behind a name, in a text with one name a line.
pub fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut words| (words.next()? == name).then(|| words.next()?.parse().ok()).flatten())
}

impl Sub for DiskCount {
    type Output = DiskCount;

    fn sub(self, before: DiskCount) -> DiskCount {
        DiskCount {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            joined_reads: self.joined_reads.saturating_sub(before.joined_reads),
            joined_writes: self.joined_writes.saturating_sub(before.joined_writes),
            busy_ms: self.busy_ms.saturating_sub(before.busy_ms),
        }
    }
}

impl Add for DiskCount {
    type Output = DiskCount;

    fn add(self, other: DiskCount) -> DiskCount {
        DiskCount {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
            joined_reads: self.joined_reads + other.joined_reads,
            joined_writes: self.joined_writes + other.joined_writes,
            busy_ms: self.busy_ms + other.busy_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKSTATS: &str =
        "   7       0 loop0 190586 5 19355038 41959 30911 8079 13663905 63840 0 43760 120361 44 0 48497 421 6811 14139
   7       1 loop1 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 1 2 3 4 5 6 7 8 9 10 11
   8       0 sda 1 2 3
";

    #[test]
    fn a_process_has_what_it_read_and_wrote() {
        let io = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 8192\nwrite_bytes: 12288\ncancelled_write_bytes: 4096\n";
        let counted = counted(io);
        assert_eq!((counted.reads, counted.writes, counted.write_bytes), (2, 3, 12_288));
        assert_eq!(super::counted("nonsense"), DiskCount::default());
    }

    #[test]
    fn a_disks_line_is_found_by_its_whole_name() {
        let loop0 = DiskCount {
            reads: 190_586,
            read_bytes: 19_355_038 * 512,
            writes: 30_911,
            write_bytes: 13_663_905 * 512,
            joined_reads: 5,
            joined_writes: 8079,
            busy_ms: 43_760,
        };
        assert_eq!(parse_disk(DISKSTATS, "loop0"), Some(loop0));
        assert_eq!(parse_disk(DISKSTATS, "loop1"), Some(DiskCount::default()), "an older kernel's shorter line");
        assert_eq!(parse_disk(DISKSTATS, "loop"), None);
        assert_eq!(parse_disk(DISKSTATS, "sda"), None, "cut off");
        let vda = parse_disk(DISKSTATS, "vda").unwrap();
        assert_eq!((loop0 - vda).reads, 190_585);
        assert_eq!((vda - loop0), DiskCount::default(), "counters that began anew are no time travel");
    }

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "42 (a) b) (c) S 1 42 42 0 -1 4194560 1 2 3 4 1234 567 0 0 20 0 9 0 100 200 300";
        let status = "Name:\ta) b\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\nRssFile:\t 128 kB\nRssShmem:\t 256 kB\n";
        let count = parse_process(stat, status).unwrap();
        assert_eq!((count.user_s, count.system_s), (12.34, 5.67));
        assert_eq!((count.resident_bytes, count.peak_bytes), (1 << 20, 2 << 20));
        let two = ProcessCount::together([count, count].into_iter(), 300 << 10);
        assert_eq!((two.user_s, two.system_s), (24.68, 11.34));
        assert_eq!((two.shared_bytes, two.code_bytes), (300 << 10, 128 << 10), "once");
        let twice = (512 - 300 + 128) << 10;
        assert_eq!((two.resident_bytes, two.peak_bytes), ((2 << 20) - twice, (4 << 20) - twice));
        // One process alone shares with nobody, and there is no more of shared memory than it has.
        assert_eq!(ProcessCount::together([count].into_iter(), 1 << 30), count);
        assert!(parse_process("42 (a) S 1", status).is_none());
        assert!(process("0").is_none());
        assert!(process(&std::process::id().to_string()).is_some_and(|own| own.peak_bytes > 1 << 20));
    }

    #[test]
    fn a_process_is_found_by_its_group_and_its_threads_have_taken_time() {
        let own = std::process::id();
        let group = rustix::process::getpgrp().as_raw_nonzero().get() as u32;
        assert!(of_process_group(group).contains(&own) && of_process_group(u32::MAX).is_empty());
        let before = of_threads(&[own]);
        // Threads of other tests end meanwhile, and take their time with them.
        while of_threads(&[own]).saturating_sub(before) < Duration::from_millis(2) {
            std::hint::black_box(before);
        }
        assert_eq!(of_threads(&[u32::MAX]), Duration::ZERO);
    }

    #[test]
    fn processors_are_busy_when_they_are_not_idle_and_do_not_wait() {
        let stat = "cpu  100 20 300 99999 888 4 50 26 70 7\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5\n";
        assert_eq!(parse_busy(stat), Some(5.0));
        assert_eq!((parse_busy("cpu  1 2 3\n"), parse_busy("cpu0 1 2 3 4 5 6 7 8\n")), (None, None));
        assert!(busy_s() > 0.0);
    }

    #[test]
    fn pages_that_had_to_be_written_first_are_told_from_others() {
        let vmstat =
            "nr_vmscan_write 1\nnr_vmscan_immediate_reclaim 25\npgsteal_direct 9\npgsteal_anon 8\npgsteal_file 75\n";
        let reclaimed = Reclaimed::parsed(vmstat);
        assert_eq!((reclaimed, reclaimed.dirty_share()), (Reclaimed { clean: 75, dirty: 25 }, Some(0.25)));
        assert_eq!((reclaimed - reclaimed).dirty_share(), None);
        assert_eq!(Reclaimed::parsed("nonsense"), Reclaimed::default());
    }

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let text = "cached 1\ncache 4096\ntotal_cache 9\nempty\n";
        assert_eq!((field(text, "cache"), field(text, "cach"), field(text, "empty")), (Some(4096), None, None));
    }
}
