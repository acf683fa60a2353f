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
             group; io.max of the proxy's group where there is the second version of control groups alone: tried in short runs on \
             Debian's kernel 6.1 in an emulated machine, where that held the reads to 70 a second as well, and 192 MiB of memory).",
            megabytes(disk_bytes(setup))
        ),
        format!(
            "The memory: a control group of {} MiB for each proxy and all that it starts, page cache and the kernel's \
             own included; {} MiB of it for hot objects. Nothing is dropped from the page cache: the group keeps it \
             small, and its size is in the table. Only Squid reads through it; Tinaja and Traffic Server bypass it. \
             Shared memory has its own column and counts once for all processes.",
            megabytes(MEMORY_BYTES),
            megabytes(HOT_BYTES)
        ),
        format!(
            "The run: filled without limits with each object of a working set of three tenths of the disk once; then \
             limited, {} s to warm up, {} s with {AT_ONCE} requests always under way, a pause, and {} s at four fifths \
             of that rate, where a request's time begins when it was due. 200 clients with addresses and connections \
             of their own; PolyMix-4's mix, seeded, with 4 objects a page as its authors have it, and with 10 to 20 as \
             the paper says of it; an origin that answers at once, where the paper's takes 2.5 s. Every byte of every \
             answer was compared. Access logs are off for all.",
            warm_up.as_secs(),
            peak.as_secs(),
            timed.as_secs()
        ),
        "The settings: two threads for Tinaja and Traffic Server; bins of 8 KiB and 8 ways, the paper's; Squid with \
         aufs is one process, with 16 x 256 directories; Traffic Server's directory for objects of 8000 bytes, its \
         default. No other setting that affects speed was changed, and no setting was tuned to match a figure."
            .to_owned(),
        "Squid's rock store runs as Debian starts it: a master, a worker that serves, a process that asks the disk, \
         and one that coordinates, in a mount namespace with its own /dev/shm and /run (aufs, too), so that it does \
         not interfere with another Squid and leaves nothing behind. Slots of 16 KiB, its default: four objects of \
         five fit one, larger ones take several, so that max-size is as large as for aufs and no second store is \
         needed. Hot objects are not shared between workers, since there is one: shared, 8 MiB would hold 256. No \
         max-swap-rate and no swap-timeout: the disk accesses that they save become misses. Its file was written once \
         completely before, like the others', and Squid had scanned it before the load began."
            .to_owned(),
    ]
}

/// Reasons for what differs from the paper, and between the proxies.
fn reasons() -> [&'static str; 13] {
    [
        "The limit is not an arm. It counts reads and writes separately, while a disk has one arm for both: the column \
         with a shared limit is 70 divided by all requests to the disk that a client's request costs, and is the one \
         to compare with the paper. It charges the same for near and far requests, and charges one of 512 KiB more \
         than once: writing 256 KiB in one request is an advantage as on a disk, but reading neighbouring data next is \
         not.",
        "Table 6: with nothing but the limit between the program and the disk, a read of any size takes much the same; each \
         size's own figure is the limit's unevenness over 60 s. Table 4 takes t from it, at the next size not below the mean read.",
        "Table 4 is below what was measured as in hashcache-throughput: it charges a hit a read of the log beside that of its \
         block, here most objects fit their block, and with a log the first read. rel is reads a request without prefetching by those \
         with it (1 where the run without was left out, as in short runs); with 10 to 20 a page, too, the one without is that with \
         4, since without prefetching an object costs the same reads however many others its page has.",
        "Set and SetMem are above Figure 3 because writes do not delay reads here; with a shared limit Set is near the \
         paper's figure and SetMem below. Log passes t / chr because few hits need a second read, and with prefetching \
         one read brings several objects of a page.",
        "On a new file a set takes more than one request: ext4 keeps what was written apart from what was only \
         allocated, and a read that crosses both becomes a request for each written part. Once all of the file has \
         been written, as in the other rows, where it was written through before, a set is one request. A new Tinaja \
         cache with a Disk Table has this disadvantage until it is full.",
        "Squid's hits need more than one read each, for directories and inodes beside the file, though the page cache \
         holds some of both; its writes are put off and joined by the kernel. Its index fits in memory here; the \
         paper's point is the disk that is too large for its index. Traffic Server takes the place of the paper's \
         commercial cache. That one prefetches; Traffic Server reads one object at a time, with one read.",
        "With 10 to 20 objects a page, prefetching reads more of a page with one read. Without prefetching every \
         object is read separately, and rates differ only by the hit ratio and the sizes. The paper's figures are \
         shown with both loads: its text gives 10 to 20 objects, and the workload that it names has 4.",
        "Squid's rock store has fewer hits than all others: a key has one place in its map of slots, and a later key \
         replaces it, or is refused while it is in use. Of n objects in m slots m (1 - e^(-n/m)) are left, four fifths \
         here though the disk is three tenths full (counted once through its manager: 6017 of 7544 objects in 16,383 \
         slots, 6045 by the formula). A hit is a read or two through the page cache, without directories and inodes; \
         but a single process accesses the disk, one request at a time. Its index takes 108 bytes a slot, used or not.",
        "Squid's rock store with 2 GiB of disk hardly fits 192 MiB: once it ended at 190, and in three runs of four \
         the kernel ended its worker, as it was filled or asked right after, with 130 MB of its own and 35 MB of \
         shared memory, beside three other processes. The worker restarts, but scans its slots at the limited disk's \
         pace, and meanwhile passes nearly everything on to the origin: 1989 and 130 requests a second with 0.4 and 11 \
         % hits, which is not the rate of a cache. Runs in which this happened are left out, with the number of times. \
         With 256 MiB of disk, as in short runs, it fits.",
        "Times come from waiting for the limit, not from seeks: below it a request passes at once, so medians are \
         short, and requests beyond it wait for their turn. A page's objects come together, so that even at four \
         fifths there are queues, for all. Percentiles of such a short run differ by a factor of two and more from run \
         to run, and cannot be compared with the paper's milliseconds. Rates differ less: in four runs on a machine \
         that others used, Squid had 60, 78, 75 and 77 requests a second with 4 objects a page, and 60 and 48 with 10 \
         to 20 in two; the others were within 7 %, but for Set on a new file (24 to 33).",
        "Disk busy is the share of the limit that was used by reads or by writes, whichever is more. The device's own \
         counter says little here: requests that wait for the limit do not wait at the device.",
        "Where Tinaja is weaker: the processor, of which Traffic Server takes less a request than all but Log with prefetching, \
         and memory beside the paper, whose processes barely registered: Set has no index, and what it takes is for what is being read and written while the disk is \
         slow. All took less than Squid here, and but for prefetching less than Traffic Server.",
        "Memory is the processes' (VmHWM over the whole run for the peak), with the code that they map; memory shared \
         by several processes of a proxy counts once. The index is what inspect says for Tinaja, which allocates it in \
         full; for Squid with aufs its entries, keys and places in the order of use, for what it has stored so far; \
         with rock its map of slots in shared memory, in full, which is part of the column of shared memory as far as \
         it was touched; for Traffic Server its directory of 10 bytes an entry, computed.",
    ]
}
