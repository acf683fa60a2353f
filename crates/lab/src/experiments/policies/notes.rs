//! How it was measured, and why.

pub fn notes() -> Vec<String> {
    [
        "All caches have the same bytes. An object is its body and 200 bytes of name and head, which any cache must keep; the published \
         policies have nothing else, neither index nor padding. Ours has all that its engine has: 64 bytes of header a record, \
         batches padded to 4 KiB, summaries, two areas for snapshots, a segment that is being filled for each log, two free ones. \
         What is decided is decided by the code that the engine runs.",
        "Written / stored counts everything: records that are written again, padding, summaries, snapshots. Tokens pay for the first \
         and the last: 9 % at the most. Padding comes on top, and is 1 % with segments of 4 MiB and 6 % with segments of 256 KiB, \
         whose batches have 64 KiB.",
        "Segments are a 64th of the disk, 256 KiB at the least. Below 16 MB a disk has fewer than 64 of them, and each log has one that \
         is half empty: this costs 2 to 7 points at 5 MB. The second row of each table of parts has segments from 64 KiB on, and \
         loses nothing there. On a disk of fewer than seven segments there is no engine.",
        "Objects of more than a quarter of a segment are parts in a log of their own, which nothing leaves but in the order of writing, \
         and of more than half of the disk are not stored. S3-FIFO does not store what is larger than its small queue, a tenth.",
        "Without learned worth the oldest segment of all leaves, and what was hit is kept as far as tokens allow. Without tokens \
         nothing is written again. Without classes there are two generations, without generations four classes.",
        "W-TinyLFU has a window of 1 % and its main part in two; unlike libCacheSim's it offers to the main part what is larger than \
         the window. LHD begins with the authors' first guess and learns each 262,144 requests: most of these loads are too short \
         for it to learn more than once or twice. Belady with sizes draws 64 objects and takes the one whose size times wait is \
         greatest. `scripts/policies-check` compares all of them with libCacheSim.",
        "The table of engines has the engines themselves, over disks in memory, with nothing kept in memory and the default average          object size; each hit is read and compared. The one of this policy has places for four times as many objects as disks          of that average hold; what it loses to full sets it loses of these. An object takes as many bytes there as elsewhere, and a header.",
        "The mix, Sites and Days stood before anything was tuned, and the numbers of the policy were chosen on them with this seed. \
         Other seeds give the same to half a point.",
    ]
    .map(str::to_owned)
    .to_vec()
}
