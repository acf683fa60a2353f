//! Memory that the kernel may take back (HashCache, section 4.3): when another needs memory, Tinaja's shrinks, hits become
//! hits on disk, and nothing else happens.
//!
//! Each run is a process of its own in a memory cgroup of its own, version 1 or 2, which takes root: without it, or without
//! such a cgroup, the test says so and shows nothing. The pressure is memory that the same process takes: more than the
//! cgroup has beside the hot objects. Whoever keeps these for good is killed by the kernel then, which is shown too. That
//! holds without swap. `TINAJA_SWAP=MIB` adds a swap file for the time of the test (*by hand*): pages may then leave for the
//! swap, and what is not in memory is still a miss there and not a wait.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Source, Store, block_on};

const MIB: usize = 1 << 20;
/// Of the cgroup.
const LIMIT: usize = 128 * MIB;
const HOT: usize = 64 * MIB;
const PRESSURE: usize = 96 * MIB;
const OBJECTS: u64 = 6000;
const SIZE: usize = 8000;
const CHILD: &str = "TINAJA_PRESSURE_CHILD";

/// A memory cgroup, removed in the end.
struct Cgroup(PathBuf);

impl Cgroup {
    fn of(limit: usize) -> Option<Cgroup> {
        let name = format!("tinaja-test-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let makes = |at: PathBuf, file: &str| {
            fs::create_dir(&at).ok()?;
            let group = Cgroup(at);
            fs::write(group.0.join(file), limit.to_string()).ok()?;
            Some(group)
        };
        makes(root.join("memory").join(&name), "memory.limit_in_bytes").or_else(|| {
            let delegated = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
            if delegated.contains("memory") { makes(root.join(&name), "memory.max") } else { None }
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel lets go of it when the last process has.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// This test again, in a cgroup, with hot objects in memory that yields or does not. `None` where there are no cgroups.
fn child(yields: bool) -> Option<Output> {
    let group = Cgroup::of(LIMIT)?;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "pressure::under_pressure_memory_shrinks_and_nothing_else_happens",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, if yields { "yields" } else { "keeps" })
        .env("TINAJA_CGROUP", &group.0)
        .env("TINAJA_DIR", dir.path())
        .output()
        .unwrap();
    Some(output)
}

#[test]
fn under_pressure_memory_shrinks_and_nothing_else_happens() {
    if let Ok(kind) = std::env::var(CHILD) {
        return press(kind == "yields");
    }
    let swap = std::env::var("TINAJA_SWAP").ok().map(|mebibytes| Swap::of(mebibytes.parse().unwrap()));
    let Some(output) = child(true) else {
        println!("nothing is shown: this takes root and a memory cgroup");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("with memory that yields, {}:\n{said}", if swap.is_some() { "and swap" } else { "without swap" });
    assert!(output.status.success(), "{:?}: {said}", output.status);
    assert!(said.contains("all objects were found"));
    if swap.is_none() {
        let output = child(false).unwrap();
        println!("with memory that is kept: {:?}", output.status);
        assert!(!output.status.success(), "the pressure is none");
    }
}

fn key(n: u64) -> Key {
    Key::from_name(&n.to_le_bytes())
}

/// Resident memory of this process.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// How many of all objects are hits in memory; all of them must be found.
fn hits_in_memory(store: &Cache) -> u64 {
    let mut in_memory = 0;
    for n in 0..OBJECTS {
        let mut hit = block_on(store.find(&key(n))).unwrap_or_else(|| panic!("object {n} is gone"));
        let source = hit.source;
        let body = block_on(hit.body.collect(usize::MAX)).unwrap();
        assert!(hit.head[..] == *b"head" && body == bytes_of(n, SIZE), "wrong bytes for object {n}");
        in_memory += u64::from(source == Source::Memory);
    }
    in_memory
}

/// In the child: fill the hot objects, take memory, and look at every object, again and again.
fn press(yields: bool) {
    fs::write(
        Path::new(&std::env::var_os("TINAJA_CGROUP").unwrap()).join("cgroup.procs"),
        std::process::id().to_string(),
    )
    .unwrap();
    let dir = std::env::var_os("TINAJA_DIR").unwrap();
    // Large enough that no set of the index is full.
    let options = CacheOptions::new(dir).disk_bytes(512 << 20).memory_bytes(HOT as u64).memory_yields(yields);
    let store = Cache::open(options).unwrap();
    for n in 0..OBJECTS {
        let mut writer = store.put(&key(n), Bytes::from_static(b"head"), Hint::default());
        block_on(writer.write(bytes_of(n, SIZE)));
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    }
    block_on(store.flush()).unwrap();
    let before = hits_in_memory(&store);
    println!("{before} of {OBJECTS} in memory, {} MiB resident", resident() / MIB);
    assert!(before > OBJECTS * 9 / 10);
    let mut pressure = Vec::new();
    for step in 0..PRESSURE / MIB / 8 {
        pressure.push(vec![step as u8 + 1; 8 * MIB]);
        black_box(&pressure);
    }
    let (rest, stats) = (resident() - PRESSURE, store.stats());
    let under = hits_in_memory(&store);
    let taken = store.stats().hot_taken - stats.hot_taken;
    println!("under pressure: {under} in memory, {taken} taken, {} MiB resident beside it", rest / MIB);
    assert!(under < before - OBJECTS / 10 && taken > OBJECTS / 10);
    // What is asked for comes into memory again, and leaves it again.
    for _ in 0..3 {
        hits_in_memory(&store);
    }
    assert!(pressure.iter().enumerate().all(|(step, bytes)| bytes.iter().all(|byte| *byte == step as u8 + 1)));
    drop(pressure);
    hits_in_memory(&store);
    let after = hits_in_memory(&store);
    println!("and when it is over: {after}");
    assert!(after > OBJECTS * 9 / 10);
    let stats = store.stats();
    assert_eq!((stats.corrupt, stats.read_errors, stats.write_errors, stats.timeouts), (0, 0, 0, 0));
    println!("all objects were found");
}

/// A swap file for the time of the test.
struct Swap(PathBuf);

impl Swap {
    fn of(mebibytes: u64) -> Swap {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("swap-{}", std::process::id()));
        let swap = Swap(path.clone());
        let run = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).arg(&path).output().unwrap();
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run("fallocate", &["-l", &format!("{mebibytes}MiB")]);
        run("chmod", &["600"]);
        run("mkswap", &[]);
        run("swapon", &[]);
        swap
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
        let _ = fs::remove_file(&self.0);
    }
}
