//! How it was measured, and the reasons for the differences.

use super::runs::{AT_ONCE, HOT_BYTES, LIMIT, MEMORY_BYTES, disk_bytes, lengths};
use crate::experiment::Setup;

/// The notes, with those proxies that were left out and why.
pub fn notes(setup: &Setup, left_out: &[String]) -> Vec<String> {
    let mut notes = how(setup);
    notes.extend(reasons().map(str::to_owned));
    if !left_out.is_empty() {
        notes.push(format!("Left out: {}.", left_out.join("; ")));
    }
    notes
}

fn how(setup: &Setup) -> Vec<String> {
    let (warm_up, peak, timed) = lengths(setup);
    let megabytes = |bytes: u64| bytes >> 20;
    vec![
        format!(
            "The disk: a file as a loop device past the page cache, ext4 on it (noatime), and on that {} MiB for objects, the \
             same for all. The kernel lets it take {LIMIT} reads and {LIMIT} writes a second (blkio.throttle in the root control \
             group; io.max where there is the second version of control groups, which has not been tried).",
            megabytes(disk_bytes(setup))
        ),
        format!(
            "The memory: a control group of {} MiB for each proxy and all that it starts, page cache and the kernel's own \
             included; {} MiB of it for hot objects. Nothing is dropped from the page cache: the group keeps it small, and \
             what there was of it is in the table. Squid alone reads through it; Tinaja and Traffic Server go past it.",
            megabytes(MEMORY_BYTES),
            megabytes(HOT_BYTES)
        ),
        format!(
            "The run: filled without limits with each object of a working set of three tenths of the disk once; then limited, \
             {} s to warm up, {} s with {AT_ONCE} requests always under way, a pause, and {} s at four fifths of that rate, where \
             a request's time begins when it was due. 200 clients with addresses and connections of their own; \
             PolyMix-4's mix with 4 objects a page, seeded; an origin that answers at once where the paper's takes 2.5 s. Every \
             byte of every answer was compared. Access logs are off for all.",
            warm_up.as_secs(),
            peak.as_secs(),
            timed.as_secs()
        ),
        "The settings: two threads for Tinaja and Traffic Server, Squid has one process; bins of 8 KiB and 8 ways, the paper's; \
         Squid's aufs with 16 x 256 directories; Traffic Server's directory for objects of 8000 bytes, its default. No other \
         setting that decides speed was changed, and none was tried out until a figure agreed."
            .to_owned(),
    ]
}

/// Reasons for what differs from the paper, and between the proxies.
fn reasons() -> [&'static str; 9] {
    [
        "The limit is not an arm. It counts reads and writes each for itself, while a disk has one arm for both: the column with \
         a shared limit is 70 divided by all requests to the disk that a client's request costs, which is the one to compare \
         with the paper. It charges a request the same near or far, large or small: whoever writes 256 KiB in one request gains \
         as on a disk, whoever reads the bin's neighbour next gains nothing, unlike on a disk. It charges from 512 KiB on more than once.",
        "Times are those of waiting for the limit, not of seeks: below it a request is let through at once, so that medians \
         are short; what exceeds it waits. Compare the proxies with each other, not with the paper's milliseconds.",
        "Set above the paper's 45: 8 MiB of hot objects take a part of the hits, and writes do not hold up reads; with a \
         shared limit it is near. It reads a set of 64 KiB for each request, hit or miss, as the paper says.",
        "On a new file Set needs more than one request for a set: ext4 keeps what was written apart from what was only allocated, \
         and a read that crosses both becomes a request for each written part. Once all of the file has been written, as it \
         has in the other rows, a set is one request.",
        "SetMem and the logs answer most misses without the disk, so that their rates follow from the reads a hit alone: SetMem \
         one, and a second for bodies that do not fit their bin; Log one, the next rarely; with prefetching a page's in one.",
        "Squid above the paper's 60: it has 15 years more of care, its writes are put off by the kernel and are joined there, \
         and the page cache, small as it is, holds directories and the newest files. Its index fits here; the paper's point \
         is a disk that it cannot index. Traffic Server stands where the paper has a commercial cache; below its 250: that \
         one prefetches, and Traffic Server reads one object at a time, larger ones in several requests.",
        "Disk busy is the share of the limit that was used by reads or by writes, whichever is more. The device's own counter \
         says little here: who waits for the limit does not wait at the device.",
        "Where Tinaja is weaker: memory. Set has no index, yet it holds as much as the others and more than the paper's, that \
         barely registered: what is being read and written waits in memory, up to limits that are the same for small and \
         large machines. In a group of 128 MiB Set was ended by the kernel once 128 requests waited for the disk.",
        "Memory is the processes' (VmHWM for the peak), with the code that they map. The index is what inspect says for Tinaja, which \
         allocates it in full; for Squid its entries, keys and places in the order of use, for what it has stored so far; \
         for Traffic Server its directory of 10 bytes an entry, computed.",
    ]
}
