//! How it was measured. Why each claim differs stands beside it: see `claims`.

use super::limited::{Kept, LIMIT, LIMIT_BYTES};
use super::modelled::Size;
use crate::paper::damelo as paper;

/// All notes.
pub fn notes(size: &Size, small: &Size, kept: Option<&[Kept]>) -> Vec<String> {
    let mib = |bytes: u64| bytes >> 20;
    let (ours, theirs) = paper::THREADS;
    let modelled = format!(
        "The modelled disk: {} objects of a random size up to what fits a page of 16 KiB, {} groups, {ours} clients with one operation \
         each, {} MiB of pool, {} MiB of a disk of 9.1 GB with 10,000 turns a minute, 5 ms for the mean seek, and 210 Mbit/s. Time is \
         virtual: the disk moves on when all clients wait. What the processor does takes no time, so an operation that needs no disk \
         takes 0 ms.",
        size.objects,
        paper::GROUPS,
        mib(size.pool_bytes),
        mib(size.disk_bytes)
    );
    let mut notes = vec![
        modelled,
        "Latency and rate are different things here. 16 clients that always have a request waiting each wait for about 15 others, \
         4 for 3. `ms an operation` is all of a stage's time over its operations, creates until all is on the disk: what \
         many clients get of one disk."
            .to_owned(),
        "The zipfs create and delete as random does, so their reads are of what random has created, each from an empty pool. \
         All groups are loved while objects are created, since love says that creates are to come (section 3). Before the reads \
         of a zipf the groups of unpopular objects are hated."
            .to_owned(),
        "The paper says which share of the objects is popular, and for zipf 1:8 that 7/8 of the reads are for these. For 1:4 and 3:8 it \
         says `like zipf 1:8`: both readings are here."
            .to_owned(),
        "Hit rate of a page: requests for objects on a page while it is in memory, of the objects on it (section 5.1). The mean of \
         all pages read, each by its objects: reads over pages read times objects a page."
            .to_owned(),
        "What each thing is worth: the elevator some, on a disk with an arm, as long as many requests wait; that it turns round is worth \
         little for reads, and costs creates half their speed, since on the way down pages that lie one after the other are written last one \
         first, and each waits for half a turn. Groups from the centre outwards are worth nothing here: Dámelo has the first 1.5 GB of the disk, where no seek is \
         long, and the elevator has made them shorter. Hate is worth most, and on flash as much as on a disk, since it saves reads and not seeks: \
         the popular groups stay in memory. The others are worth nothing on flash. There the elevator with its one request at a time \
         costs most of the disk's speed: give the engine as many requests at once as the disk takes."
            .to_owned(),
    ];
    let Some(kept) = kept else {
        notes.push(
            "**Without root**: no trees of files. They take a disk of their own that the kernel limits. Run it as root to have \
             them beside Dámelo."
                .to_owned(),
        );
        return notes;
    };
    let is_by_ext4 = kept.iter().any(|one| one.name.contains("ext2") && one.is_by_ext4);
    let driver = if is_by_ext4 { "This kernel has ext4's driver do ext2." } else { "ext2's own driver did it." };
    notes.push(format!(
        "The limited disk: a loop device, {LIMIT} reads and as many writes a second, {} MB a second each, through the kernel's throttle. \
         {} objects; {} MiB of pool for Dámelo, over a file on ext4 past the page cache, and as much page cache for the trees, beside what the \
         kernel keeps of inodes and names, as Dámelo's tables are beside its pool; \
         Dámelo by {ours} threads, trees by {theirs}. Real time, on a machine that did other work too. Each stage begins cold: Dámelo's pool is \
         flushed, trees are mounted anew. {driver}",
        LIMIT_BYTES / 1_000_000,
        small.objects,
        mib(small.pool_bytes),
    ));
    notes.push(
        "The throttle counts requests and bytes and knows no seeks. So a page costs hardly more than a block, \
         which favours large pages, and files that lie one after the other cost as much as files that do not, which favours \
         nobody. The paper's machine had another kernel, 2.2, whose ext2 looked through directories block by block and read inodes one block \
         at a time. Today's reads inodes and directories ahead and keeps them in memory of its own, so that a read of a small file is \
         little more than one request."
            .to_owned(),
    );
    notes
}
