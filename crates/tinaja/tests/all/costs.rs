//! What one request costs the program, counted by valgrind and strace through `scripts/hit-cost`.
//!
//! Needs valgrind, strace and Debian's python3. The program of the tests is built with less optimisation than the one that ships, and the
//! longer a run takes the more its other threads do by the way, a tenth where the machine is busy. So instructions are bounds with a fifth to spare: they stop a cost that creeps in.
//! What ships is counted by hand (docs/bench/hit-cost.md). Allocations and wake-ups: `cargo test -p tinaja-proxy --test counts`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// Instructions at most of a hit in memory, a hit on the disk, and a miss that is stored. They were 45,700, 75,300 and 179,700
/// when this test was written, on a processor with AVX2; where its absence lets copies and searches take more, so does this.
const INSTRUCTIONS: [(&str, i64); 3] = [("memory hit", 55_000), ("disk hit", 90_000), ("miss", 215_000)];

/// What `scripts/hit-cost` says of each kind of request.
fn counted(variables: &[(&str, &str)]) -> HashMap<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/hit-cost");
    let run = Command::new(script).arg(env!("CARGO_BIN_EXE_tinaja")).envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    let kinds = said.lines().skip(1).filter_map(|line| line.split_once(": "));
    kinds.map(|(kind, said)| (kind.trim().to_owned(), said.to_owned())).collect()
}

#[test]
fn instructions_stay_within_bounds() {
    let counted = counted(&[("HITS", "200")]);
    println!("{counted:?}");
    for (kind, most) in INSTRUCTIONS {
        let count: i64 = counted[kind].strip_suffix(" instructions").unwrap().parse().unwrap();
        // Far fewer than any request takes would say that it was not counted.
        assert!((10_000..=most).contains(&count), "{kind}: {count} instructions, at most {most} expected");
    }
}

#[test]
fn system_calls_are_few() {
    let counted = counted(&[("HITS", "500"), ("CALLS", "1")]);
    println!("{counted:?}");
    let calls = |kind: &str, call: &str| -> f64 {
        let each = counted[kind].split(", ").filter_map(|said| said.split_once(' '));
        each.filter(|(name, _)| *name == call).map(|(_, count)| count.parse::<f64>().unwrap()).sum()
    };
    // A hit is read once and written once; a miss both with its client and its origin. Connections are looked at now and then besides.
    for (kind, reads, writes) in [("memory hit", "1.0", "1.0"), ("disk hit", "1.0", "1.0"), ("miss", "2.0", "2.0")] {
        let read = format!("{:.1}", calls(kind, "recvfrom"));
        let written = format!("{:.1}", calls(kind, "writev") + calls(kind, "sendto"));
        assert_eq!((&*read, &*written), (reads, writes), "{kind}: reads and writes of sockets");
    }
    // It waits for the next request, and a miss for its origin as well; a timer or a flush comes between now and then.
    assert!(calls("memory hit", "epoll_wait") <= 1.25, "{counted:?}");
    assert!(calls("miss", "epoll_wait") <= 2.5, "{counted:?}");
    // A hit in memory asks nothing else of the system.
    for other in ["read", "write", "pread64", "io_uring_enter", "mmap", "munmap"] {
        assert_eq!(calls("memory hit", other), 0.0, "{other} by a hit in memory");
    }
}
