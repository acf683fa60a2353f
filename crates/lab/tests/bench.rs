//! The bench that proxies run on, in whichever version of control groups the machine has.
//!
//! In the second version a limit of the disk is a group's, and what measured the disk's own speed ran outside of it, so that
//! the disk was "measured" without its limit. Nobody had run it there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tinaja_lab::peers::{Bench, BenchOptions, FileSystem, Peer, Server, Share, SquidStore};

/// What this process starts while it is in a group of one bench must not be another one's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A bench with 96 MiB of disk and 192 MiB of memory; `None`, said on standard error, where there can be none.
fn bench(scratch: &Path) -> Option<Bench> {
    let options = BenchOptions {
        scratch: scratch.to_owned(),
        disk_bytes: 96 << 20,
        memory_bytes: 192 << 20,
        files: FileSystem::Ext4,
    };
    match Bench::make(&options) {
        Ok(bench) => Some(bench),
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

/// A proxy that began its worker anew each time the kernel ended it was measured: two thousand requests a second, all of them
/// passed on to the origin.
#[test]
fn who_is_ended_for_want_of_memory_is_counted() {
    let _alone = ALONE.lock();
    let scratch = tempfile::tempdir().unwrap();
    let Some(bench) = bench(scratch.path()) else { return };
    assert_eq!(bench.ended_for_memory(), 0);
    // Twice the group's memory in one block, which `dd` fills before it writes.
    let mut dd = bench.command(Path::new("dd"));
    let status = dd.args(["if=/dev/zero", "of=/dev/null", "bs=384M", "count=1", "status=none"]).status().unwrap();
    if status.success() {
        eprintln!("SKIPPED: this machine swaps, and nothing was ended");
        return;
    }
    assert_eq!(bench.ended_for_memory(), 1);
}

/// Copy by `dd`, in the group.
fn copy(bench: &Bench, arguments: &[&str]) {
    let mut dd = bench.command(Path::new("dd"));
    assert!(dd.args(arguments).args(["status=none"]).status().unwrap().success());
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_a_group_takes_is_counted() {
    let _alone = ALONE.lock();
    let scratch = tempfile::tempdir().unwrap();
    let Some(bench) = bench(scratch.path()) else { return };
    assert_eq!((bench.processes().resident_bytes, bench.page_cache_bytes() >> 20), (0, 0));

    let _sleeps = Ended(bench.command(Path::new("sleep")).arg("600").spawn().unwrap());
    let begin = Instant::now();
    while bench.processes().resident_bytes == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "it is in no group");
        sleep(Duration::from_millis(10));
    }
    let taken = bench.processes();
    assert!(taken.peak_bytes >= taken.resident_bytes && taken.code_bytes <= taken.resident_bytes, "{taken:?}");

    let file = bench.mounted().join("file");
    copy(&bench, &["if=/dev/zero", &format!("of={}", file.display()), "bs=64K", "count=64"]);
    assert!(bench.page_cache_bytes() >= 4 << 20, "{} bytes of page cache", bench.page_cache_bytes());
}

/// How the limit of the loop device that lies below this directory reads, in either version.
fn limits(scratch: &Path) -> Vec<String> {
    let disks = fs::read_dir("/sys/block").unwrap().filter_map(Result::ok).map(|disk| disk.path());
    let below = |disk: &Path| {
        let file = fs::read_to_string(disk.join("loop/backing_file")).unwrap_or_default();
        Path::new(file.trim()).starts_with(scratch)
    };
    let disk = disks.into_iter().find(|disk| below(disk)).expect("a loop device");
    let numbers = fs::read_to_string(disk.join("dev")).unwrap().trim().to_owned();
    let groups = Path::new("/sys/fs/cgroup");
    let ours = fs::read_dir(groups).unwrap().filter_map(Result::ok).map(|group| group.path().join("io.max"));
    let root = groups.join("blkio");
    let first = ["read", "write"].map(|kind| root.join(format!("blkio.throttle.{kind}_iops_device")));
    let texts = ours.chain(first).filter_map(|file| fs::read_to_string(file).ok());
    let lines: Vec<_> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.into_iter().filter(|line| line.starts_with(&format!("{numbers} "))).collect()
}

#[test]
fn a_limit_is_the_disks_and_this_process_can_be_under_it() {
    let _alone = ALONE.lock();
    let scratch = tempfile::tempdir().unwrap();
    let Some(bench) = bench(scratch.path()) else { return };
    let group = || fs::read_to_string("/proc/self/cgroup").unwrap();
    let (file, outside) = (bench.mounted().join("file"), group());
    copy(&bench, &["if=/dev/zero", &format!("of={}", file.display()), "bs=4K", "count=64"]);
    assert_eq!(limits(scratch.path()), Vec::<String>::new());
    bench.limit(70).unwrap();
    let set = limits(scratch.path());
    assert!(!set.is_empty() && set.iter().all(|line| line.contains("70")), "{set:?}");

    let (before, name) = (bench.disk(), bench.aside().file_name().unwrap().to_str().unwrap());
    let inside = bench
        .within(|| {
            let mut read = Command::new("dd");
            read.arg(format!("if={}", file.display())).args(["of=/dev/null", "bs=4K"]);
            assert!(read.args(["count=20", "iflag=direct", "status=none"]).status().unwrap().success());
            group()
        })
        .unwrap();
    assert!(inside.contains(name) && group() == outside, "{inside}");
    let read = bench.disk() - before;
    assert!(read.reads >= 20 && read.read_bytes >= 20 * 4096, "{read:?}");
}

/// Making its store, Squid also makes shared memory for it, by a name that is the machine's, and leaves it there: each run took
/// that much memory for good until making the store ran apart from the machine, as serving did.
#[test]
fn shared_memory_of_squid_is_counted_and_gone_with_it() {
    let _alone = ALONE.lock();
    let scratch = tempfile::tempdir().unwrap();
    let Some(bench) = bench(scratch.path()) else { return };
    let peer = Peer::Squid(SquidStore::Rock);
    if peer.program().is_none() {
        eprintln!("SKIPPED: Squid is not installed");
        return;
    }
    let name = bench.aside().file_name().unwrap().to_str().unwrap().to_owned();
    let shared = || {
        let files = fs::read_dir("/dev/shm").into_iter().flatten().filter_map(Result::ok);
        files.filter(|file| file.file_name().to_str().is_some_and(|own| own.contains(&name))).count()
    };
    let mut server = Server::start(peer, &bench, &Share { disk_bytes: 64 << 20, hot_bytes: 8 << 20 }).unwrap();
    server.still_runs().unwrap();
    // 4095 slots of 16 KiB, 96 bytes, 4 and 8 for each, and a list of the free ones.
    let index = server.index_bytes().unwrap();
    assert!(index > 4095 * 108 && index < 4096 * 120, "{index} bytes of index");
    let taken = bench.processes();
    assert!(taken.shared_bytes > 0 && taken.shared_bytes < taken.resident_bytes, "{taken:?}");
    assert_eq!(shared(), 0, "it sees its shared memory alone");
    drop(server);
    drop(bench);
    assert_eq!(shared(), 0);
}
