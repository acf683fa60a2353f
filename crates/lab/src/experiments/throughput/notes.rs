//! How the rates were measured, and why they differ from the paper's.

/// For all tables; numbers are those of the full run.
pub fn notes() -> Vec<String> {
    [
        "Measured: the engine itself answers the requests, one after the other; each of its disk requests takes the \
         time of the model, and the rate is the one that keeps the disk always busy. No hot objects are kept in \
         memory, as in Table 4, except for Table 9. Fetching from the origin takes no time.",
        "t: random reads a second over the whole disk, at the mean size of this policy's reads. It comes from a model \
         based on Table 6; no disk is measured here.",
        "`Table 4` is its formula with the measured values. It charges a read of the log for each object beside that \
         of its block (1 + 1/rel, or 2 for a log). Here an object that fits its block, or the first read of a log, \
         costs one: 1.2 to 1.4 reads a hit instead of 2. `t / requests` is the formula with the counted reads and \
         writes, which is what Table 4 would give with these costs.",
        "`t / requests` is t / (CHR x reads a hit + (1 - CHR) x (reads a miss + CBR x (reads and writes a store))). \
         Reads a store are all reads that belong to no hit and no miss. `way %` is how far the arm moves per request, \
         on average, as a share of the disk: 33 between random places. `ms a request` is the time that a request took; \
         at random places it would be 1000 / t.",
        "Measured above `t / requests`: seeks are shorter than across the whole disk (`way %`). A table takes two thirds of its disk; a \
         log's newest three tenths hold the working set; a second read of one object is near the first; batches are written \
         where the last one ended.",
        "Table 7 follows from Table 4 for the policies with a table, at chr = 0.58, cbr = 0.6 and rel = 2: Basic and Set with \
         t = 70 (reads of 64 KiB) give 40, SetMem with t = 74 gives 66. It does not for the logs: there Table 4 gives 52 and, \
         with rel = 2, 104. Table 7's 132 and 264 are t / chr and twice that with t = 76 (reads \
         of 8 KiB: 131 and 262), one seek a hit and none for writes, as Table 3 has it.",
        "rel is how many times fewer reads of the log a policy's hits take with prefetching than without; for a policy \
         with a Disk Table, the reads after its first. Log and LogLRU pass Table 7, which has rel = 2: here a page is \
         always asked for as a whole, and its objects lie together. In logs of real sites it is less \
         (hashcache-prefetch). Without prefetching they equal LogN.",
        "With a Disk Table prefetching brings little, since most objects fit their bins and each bin is a seek: Table \
         4's formula has a read of the log for each object. Basic and Set even lose: an object that waits for its \
         group is written up to two seconds after its set was read, when the arm is elsewhere: `way %` and `ms a \
         request` are more.",
        "LogLRU writes positions in stripes of 512 KiB. Each is read, changed and written when some 200 of its \
         positions wait, so the number of stripes depends on what was stored and found, not on the speed of the run.",
        "Batches: with its virtual clock a run takes only seconds of real time, so batches are full (2 MiB). `At real \
         pace` corrects for the tenth of a second after which a batch is written anyway: ten a second, or one for each \
         object that has something for the log where these are fewer, each as long as a random read. Compare this rate \
         with the paper's; the figures show it too. It is a lower bound, since related objects are written together. \
         With a Disk Table, only what does not fit into the bins goes to the log.",
        "Basic, Set and SetMem measure above Table 7: a hit costs 1.35 reads here where the paper has 1 + 1/rel = 1.5, and the \
         write of a bin follows the read of its set, so that its seek is short.",
        "Two disks: objects are spread by their digests; one disk is a little busier than the other. Related objects \
         are spread too, so a page needs a request to each disk: with prefetching Log and LogLRU read more often for a \
         hit (`reads a hit`, one and two), and gain less. The paper's 160 for SetMem is more than twice its 75, since \
         its access log lay on the first disk; here no log is written. With 30 and 40 % of the sets in memory misses \
         read sets at random; PolyMix's new objects are as likely to miss in one set as in another, so SetMemLRU's \
         gain is proportional to its memory, and locality does not help.",
        "Table 9: times are those of a queue in order of arrival at four fifths of the peak, with an origin of 2.5 s; \
         the paper's are at its peak. A page's 10 to 20 objects come within a second or two here and wait for each \
         other, and for a download's reads; the paper's 27 ms for SetMem are two seeks with hardly any waiting, at its \
         peak. The paper does not say how its requests arrive, or whether its disks order their queues; neither was \
         varied here. It fills 50 GB of 1 TB at random places, so its seeks are longer than ours, and its Log \
         prefetches. The copy of the paper at hand has for two disks SetMem's hits alone, 57.89 and 40.89 %; its text \
         gives 600 requests a second for Log and LogLRU. The rate is four fifths of what the same load gave as fast as \
         it could, with pages further apart; `busy` is what it came to: at these rates more pages are loaded at once, \
         and less of what was read ahead is kept still when it is asked for, so that with two disks and prefetching \
         the rate is beyond what is carried, and the hit times are those of a queue that grows. The paper has its Disk \
         Table on a separate disk. We take that to mean LogLRU's offset file, as in the rows `positions apart`; \
         SetMem's Disk Table and log share a disk here.",
        "Table 8: Log on five disks of 10,000 turns, a part of them in memory as large as 1 GB is of 90 GB. The rate \
         is four fifths of the peak at real pace. A page is spread over all five disks and needs a request to each \
         that has some of it, so most of the gain of prefetching on one disk is lost; the paper has 440 requests a \
         second and disk where its formula expects 320, and does not say how objects are spread. All times consist \
         mostly of the origin's 2.5 s for a miss. The figures for Tiger and Squid are the paper's; hashcache-peers \
         runs such programs, on one disk.",
        "The load: PolyMix-4's published mix, seeded; hits offered are 55 % of all requests, PolyMix-4's number, where the \
         paper says 60; bytes that hit are more than its 40 % because recurrence does not depend on the size here. In \
         the short runs of --quick a few percent more hit: the working set moves little.",
    ]
    .map(str::to_owned)
    .to_vec()
}
