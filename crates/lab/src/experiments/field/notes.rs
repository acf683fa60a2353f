//! How it was measured, and what the figures do not say.

use super::contest::{CONNECTIONS, Contest};
use crate::peers::needs_root;

/// How this program was built: scripts/release says it.
const BUILT_BY: Option<&str> = option_env!("TINAJA_BUILT_BY");

/// The notes; all processors together did something for so many seconds meanwhile.
pub fn notes(contest: &Contest<'_>, busy_s: f64) -> Vec<String> {
    let rounds = match contest.round_count() {
        1 => "in one round".to_owned(),
        rounds => format!("in {rounds} rounds"),
    };
    let cores = match contest.cores.served() {
        Some(core) => format!("All servers are on core {core}, the load and the origin on the others."),
        None => "There is one core for servers, load and origin: times and rates say little.".to_owned(),
    };
    let disks = if needs_root().is_ok() {
        "Each server has a loop device of its own past the page cache with ext4 on it, where /proc/diskstats counts for it alone, and a \
         control group. Where no loop device can be made, directories take their place as without root."
    } else {
        "Without root the servers share a file system: what is read and written is what the kernel counts of their processes (in pages \
         of 4 KiB; of what is written to files when it enters the page cache). Run as root, each has a disk of its own."
    };
    vec![
        format!(
            "{cores} Each server has one worker; all run at the same time and are asked in turn {rounds}, so that only one has \
             work at a time. CPU is user and system time of all threads of the server, from the scheduler's counters; figures are medians of \
             the rounds, *spread* is the largest round's CPU over the smallest. Ratios are Tinaja's over that server's: below 1 Tinaja takes less."
        ),
        format!(
            "The load: one thread, {CONNECTIONS} kept connections if nothing else is said, HTTP/1.1 in the clear. Each connection has had an answer before \
             a round begins. Every byte of every body is compared. A hit is known by what the origin was told by the request that fetched it, \
             not by what a server says. At a rate a request's time begins when it was due. Times include the load's own, which is the same for all."
        ),
        match BUILT_BY {
            Some("profile") => {
                "Tinaja is the binary of its package, built by a profile of what runs (scripts/release). Built by `cargo build --release` alone a miss \
                 takes half as much again (docs/bench/hit-cost.md). The others are Debian's."
            }
            _ => "Tinaja is built by `cargo build --release` alone: the binary of its package, built by a profile (scripts/release), takes less.",
        }
        .to_owned(),
        disks.to_owned(),
        "The settings are files in crates/lab/peers, with a reason for each line that is not a server's default. Access logs are off, but for \
         the log in memory that Varnish always writes. Nobody's settings were changed to match a figure."
            .to_owned(),
        "What the kernel does later with pages that nginx, Squid and Apache have written into the page cache is on nobody's account in the columns \
         of CPU. Tinaja and Traffic Server write past the page cache, and do that themselves."
            .to_owned(),
        "Memory hits of nginx and Apache come from files in the page cache. Varnish and HAProxy have as many bytes of memory for objects as the \
         others have disk. Cold hits: the server was ended in order, the file system mounted anew, and the server started: neither objects nor \
         inodes were in memory, each object is asked for once. Without root the pages are dropped by file, and inodes stay."
            .to_owned(),
        "Restarts: killed right after the last answer, with all of its processes; the kernel lives on, so what was in the page cache stays. Ended in \
         order seven seconds after the last store, and a minute later where the run is a full one: Traffic Server writes its directory once a minute, and \
         what is not in it is lost, also at an end in order."
            .to_owned(),
        format!(
            "*Others' cores* is how many processors anything else kept busy during the rounds: the kernel's count of all, in hundredths of a \
             second, without the server and this program. In the whole run all processors together were busy for {busy_s:.0} s."
        ),
        "By TLS all speak TLS 1.3 with TLS_AES_128_GCM_SHA256, X25519 and an ECDSA P-256 key. Squid is Debian's, with GnuTLS. \
         docs/bench/http2.md has H2O as well, docs/bench/intercepted.md handshakes and interception."
            .to_owned(),
    ]
}
