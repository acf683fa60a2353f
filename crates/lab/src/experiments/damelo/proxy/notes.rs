//! How it was measured, and why it differs.

use super::load::{AT_ONCE, MOST_HITS, SITES};
use super::runs::{HOT_BYTES, LIMIT, LIMIT_BYTES, MEMORY_BYTES, disk_bytes, length};
use crate::experiment::Setup;
use crate::paper::damelo as paper;

/// All notes.
pub fn notes(setup: &Setup, left_out: &[String]) -> Vec<String> {
    let mib = |bytes: u64| bytes >> 20;
    let asked = match setup.requests {
        Some(requests) => format!("for {requests} requests each"),
        None => format!("for {} s each", length(setup).0.as_secs()),
    };
    let mut notes = vec![format!(
        "The load (section 5.4): {:.0} % of the requests are for anything that was asked for before, all of it as likely; {:.0} % of the \
         objects may be stored, so that at most {:.0} % of the requests are hits. Sizes are exponential with a mean of 13 KiB; the thesis says \
         `over a 13kb maximum`, which such sizes do not have, and Web Polygraph's `exp(13KB)` has it as the mean. Each proxy begins with nothing \
         stored, as in the thesis, and is asked {asked}, {AT_ONCE} requests at once, the next one as soon as an answer is complete. The \
         thesis does not say how many robots its client had. Every byte of every answer is compared.",
        paper::REVISITED * 100.0,
        paper::CACHEABLE * 100.0,
        MOST_HITS * 100.0,
    )];
    notes.push(format!(
        "Random groups: objects come from {SITES} sites at random, each an address of its own on loopback, and `damelo` groups by site \
         (`--group-by-site`, the default), which takes the site's number modulo its {} groups. So what lies on a page has nothing in common, as \
         in the thesis. Frames of 64 KiB of one size and a pool of {} MiB, as there; no group is loved or hated by name, the engine does that by \
         hysteresis.",
        paper::GROUPS,
        mib(paper::POOL_BYTES),
    ));
    notes.push(format!(
        "The disk: a loop device, {LIMIT} reads and as many writes a second, and {} MB a second in each direction, through the kernel's throttle, \
         with {} MiB for objects: nothing is evicted. That is what one of the thesis's disks of 10,000 turns does. Each proxy and its page cache \
         have {} MiB together, of which Dámelo's pool takes half; for the tree and for Squid all that the program itself leaves is page cache. \
         Each has {} MiB for hot objects in that. The thesis's machine had 1 GB, and its data of five minutes fit into \
         the page cache; here about a quarter of it does.",
        LIMIT_BYTES / 1_000_000,
        mib(disk_bytes(setup)),
        mib(MEMORY_BYTES),
        mib(HOT_BYTES),
    ));
    notes
        .push("The tree is `squid2`: the thesis's mt-ext2 `used a directory structure like Squid's`, and this engine has it, 16 x 256 directories \
             filled one after the other, a file an object, read and written through the page cache. It lies on ext2 with blocks of 4 KiB, as \
             in the thesis, and so does Squid's `aufs`; this kernel may have ext4's driver do ext2. Dámelo's file lies on ext4 and is asked past \
             the page cache, which the file system hardly notices."
            .to_owned());
    notes.extend(REASONS.map(str::to_owned));
    if !left_out.is_empty() {
        notes.push(format!("Left out: {}.", left_out.join("; ")));
    }
    notes
}

/// Reasons for what differs, and what was seen in the run that the page shows.
const REASONS: [&str; 6] = [
    "The limit is not an arm: it counts reads and writes for themselves, charges nothing for distance, and counts a write before \
     the kernel joins it to its neighbours (`writes joined a request`), which an arm gets as one. So the tree and Squid had their \
     writes full at 170 a second while the disk carried out 12 to 82. The column with a shared limit goes by what the disk carried \
     out.",
    "What was full for `damelo` is the disk, though neither reads nor writes were at their limit, and `saturated` does not say so: \
     its elevator gives the disk one request at a time, reads and writes in one queue, and both together were 181 to 185 a second \
     in each part, where the limit of either is 175. The tree and Squid used both limits at once. `--elevator false` gives the \
     disk all requests at once; that was not run.",
    "Over Squid Dámelo gains 18 % (13 in the thesis), over the tree 6 % (70 there). The thesis's mt-ext2 was slower than Squid; \
     here the tree has the same proxy as Dámelo and is above Squid. And today's kernel keeps inodes and directories of a tree in \
     memory and joins its writes: a hit costs 0.51 reads in the tree, 0.62 in Squid, 0.52 in Dámelo, where kernel 2.2 read \
     directories block by block. Why Squid reads more than the tree was not looked into; it had less page cache.",
    "In the second half Dámelo is behind the tree: 373 requests a second to 432. With random groups a page of 64 KiB is read for \
     one object of 13, and its pool has 2048 pages. It also wrote 8.3 KB a request, where 4.7 KB of new objects are stored: why \
     was not measured. Beside Squid it is ahead in both halves.",
    "In the run on record nothing else ran on the machine: each proxy took 7 to 11 % of one processor, and clients and origins 3 %. \
     A run beside other work, which took up to 96 % of both processors, gave nearly the same rates: 515, 429 and 494 requests a \
     second. So the disk decides.",
    "The longest waits, 41 and 46 s, are the tree's and Squid's, it seems when memory is full of what the disk has not got and \
     everybody waits for the kernel. Where Dámelo's 10 s come from was not looked into.",
];
