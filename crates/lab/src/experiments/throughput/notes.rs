//! How the rates were measured, and why they differ from the paper's.

/// For all tables; numbers are those of the full run.
pub fn notes() -> Vec<String> {
    [
        "Measured: the engine itself answers the requests, one after the other; each of its requests to the disk takes the \
         model's time, and the rate is what keeps the disk always busy. No hot objects are kept but for Table 9, as in Table 4. \
         Fills take no time of the link.",
        "t: random reads a second over the whole disk, at the mean size of this policy's reads. It is a model's, shaped by \
         Table 6: what a disk does is not measured here.",
        "Table 4 with what was measured in it. It charges a read of the log for each object beside that of its block (1 + \
         1/rel, or 2 for a log). Here an object that fits its block, or the first read of a log, costs one: 1.2 to 1.4 reads a \
         hit instead of 2. `t / requests` is the formula with the reads and writes that were counted, and stands where Table \
         4 would with these charges.",
        "Measured above `t / requests`: seeks are shorter than across the whole disk. A table takes two thirds of its disk; a \
         log's newest three tenths hold the working set; a second read of one object is near the first; batches are written \
         where the last one ended.",
        "Table 7 follows from Table 4 for the policies with a table, at chr = 0.58, cbr = 0.6 and rel = 2: Basic and Set with \
         t = 70 (reads of 64 KiB) give 40, SetMem with t = 74 gives 66. It does not for the logs: there Table 4 gives 52 and, \
         with rel = 2, 104. Table 7's 132 and 264 are t / chr and twice that, one seek a hit and none for writes, as Table 3 has it.",
        "rel is how many times fewer reads of the log a policy's hits take with prefetching than without; for one with a Disk \
         Table the reads behind its first. Log and LogLRU pass Table 7, which has rel = 2: here a page is always asked for as \
         a whole, and its objects lie together. In logs of real sites it is less (hashcache-prefetch). Without prefetching \
         they are LogN.",
        "With a Disk Table prefetching brings little, since most objects fit their bins and each bin is a seek: Table 4's \
         formula has a read of the log for each object. Basic and Set even lose: an object that waits for its group is written \
         up to two seconds after its set was read, and the arm has gone elsewhere.",
        "LogLRU's file of positions is written ten times a second by the wall's clock, so that its writes depend on how fast \
         the run went.",
        "Batches: by its virtual clock a run is over in seconds of real time, so that batches are full (2 MiB). The column \
         `10 batches a second` corrects for the tenth of a second after which a batch is written anyway: so many writes more, \
         each as long as a random read.",
        "Basic, Set and SetMem measure above Table 7: a hit costs 1.35 reads here where the paper has 1 + 1/rel = 1.5, and the \
         write of a bin follows the read of its set, so that its seek is short.",
        "Two disks: objects are spread by their digests; one disk is a little busier than the other. Related objects are \
         spread as well, so that a page is a request to each disk: Log gains 1.6 with prefetching, and 2.0 without. The \
         paper's 160 for SetMem is more than twice its 75, since its access log lay on the first disk; here no log is \
         written. With 30 and 40 % of the sets in memory misses read sets at random; PolyMix's new objects are as likely to \
         miss in one set as in another, so SetMemLRU gains from memory in proportion, not by locality.",
        "Table 9: times are those of a queue in order of arrival at four fifths of the peak, with an origin of 2.5 s; the \
         paper's are at its peak. They are long because a page's 10 to 20 objects come within a second or two and wait for each \
         other, and a download's reads for all: the paper's disks order their queues. It fills 50 GB of 1 TB at random places, so its seeks are longer than ours, and its Log \
         prefetches. The copy of the paper at hand has no numbers for two disks; its text gives 600 requests a second for Log \
         and LogLRU. The rate is four fifths \
         of what the same load gave as fast as it could, with pages further apart; `busy` is what it came to: at these rates more pages are loaded at once, and less of \
         what was read ahead is kept still when it is asked for, so that with two disks and prefetching the rate is beyond what \
         is carried, and the hit times are those of a queue that grows. Disk Table and log \
         share a disk here, where the paper has one for each.",
        "The load: PolyMix-4's published mix, seeded; hits offered are 55 % of all requests, PolyMix-4's number, where the \
         paper says 60; bytes that hit are more than its 40 % because recurrence does not depend on the size here. In \
         the short runs of --quick a few percent more hit: the working set moves little.",
    ]
    .map(str::to_owned)
    .to_vec()
}
