//! How it was measured, and why.

pub fn notes() -> Vec<String> {
    [
        "All caches have the same bytes. An object is its body and 200 bytes of name and head, which any cache must keep; the published \
         policies have nothing else, neither index nor padding. Ours has all that its engine has: 64 bytes of header a record, \
         batches padded to 4 KiB, summaries, two areas for snapshots, a segment that is being filled for each log, two free ones. \
         What is decided is decided by the code that the engine runs.",
        "Written / stored counts everything: records that are written again, padding, summaries, snapshots. Tokens pay for the first \
         and the last: 9 % at the most. Padding comes on top: much of it with segments of 256 KiB, whose batches have 64 KiB, and \
         little with those of some MiB. So the figure falls as disks grow.",
        "Segments are a 64th of the disk, 256 KiB at the least. Below 16 MB a disk has fewer than 64 of them, and each log has one that \
         is half empty: at 2 MB this can cost 6 points. The second row of each table of parts has segments from 64 KiB on, \
         and shows what this is worth. On a disk of fewer than seven segments there is no engine, and such runs are left out of the row.",
        "Objects of more than a quarter of a segment are parts in logs of their own, by the objects' sizes and by whether they have \
         returned. They are not written again, and those of more than three fifths of the disk are not stored. Log 4 has one of 57 MB that every second request is for: on a \
         disk of 65 MB only a cache without segments can keep it. S3-FIFO does not store what is larger than its small queue, a tenth.",
        "Without learned worth the oldest segment of all leaves, and what was hit is kept as far as tokens allow. Without tokens \
         nothing is written again. Without classes there are two generations, without generations four classes.",
        "W-TinyLFU has a window of 1 % and its main part in two; unlike libCacheSim's it offers to the main part what is larger than \
         the window. LHD begins with the authors' first guess and learns each 262,144 requests: most of these loads are too short \
         for it to learn more than once or twice. Belady with sizes draws 64 objects and takes the one whose size times wait is \
         greatest: it is no bound, for it admits whatever is asked for again, \
         however large. `scripts/policies-check` compares all of them with libCacheSim.",
        "The table of engines has the engines themselves, over disks in memory, with nothing kept in memory and the default average \
         object size; each hit is read and compared. The one of this policy has places for four times as many objects as a disk of \
         that average holds; objects lost to full sets are of these places, and are those that are worth least in their two sets. Its ghosts \
         are what empty places remember: who has left, until the place is taken. A segment that leaves says so in one block at its end, in \
         the simulation too. Where it leaves young, and a newer version, a removal or a full set had displaced something, marks of \
         removal say so again, which the simulation has not. On a busy machine it finds half a point less, for what cleans is a thread.",
        "The generators of the mix, Sites and Days stood before anything was tuned. The numbers of the policy were chosen on them with \
         this seed, on Log 1 and on Log 3; Logs 2 and 4 were not tuned on. How many logs large objects have was chosen on Log 1 and the mix, \
         with Log 2 in sight: of 1 to 4 classes and 1 or 2 generations, 2 and 2 were best on Log 1 by itself.",
        "Where objects count, bytes suffer: large objects leave for small ones, and byte hits are below S3-FIFO's wherever bodies are cut \
         off. `value` says what counts.",
    ]
    .map(str::to_owned)
    .to_vec()
}
