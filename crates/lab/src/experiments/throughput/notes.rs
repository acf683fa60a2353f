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
        "`t / requests` is t / (CHR x reads a hit + (1 - CHR) x (reads a miss + CBR x (reads and writes a store))). Reads a store \
         are all that were for no hit and no miss. `way %` is how far the arm goes for a request, on average, as a share of the \
         disk: 33 between random places. `ms a request` is what one took, and 1000 / t what it takes at random.",
        "Measured above `t / requests`: seeks are shorter than across the whole disk (`way %`). A table takes two thirds of its disk; a \
         log's newest three tenths hold the working set; a second read of one object is near the first; batches are written \
         where the last one ended.",
        "Table 7 follows from Table 4 for the policies with a table, at chr = 0.58, cbr = 0.6 and rel = 2: Basic and Set with \
         t = 70 (reads of 64 KiB) give 40, SetMem with t = 74 gives 66. It does not for the logs: there Table 4 gives 52 and, \
         with rel = 2, 104. Table 7's 132 and 264 are t / chr and twice that with t = 76 (reads \
         of 8 KiB: 131 and 262), one seek a hit and none for writes, as Table 3 has it.",
        "rel is how many times fewer reads of the log a policy's hits take with prefetching than without; for one with a Disk \
         Table the reads behind its first. Log and LogLRU pass Table 7, which has rel = 2: here a page is always asked for as \
         a whole, and its objects lie together. In logs of real sites it is less (hashcache-prefetch). Without prefetching \
         they are LogN.",
        "With a Disk Table prefetching brings little, since most objects fit their bins and each bin is a seek: Table 4's \
         formula has a read of the log for each object. Basic and Set even lose: an object that waits for its group is written \
         up to two seconds after its set was read, and the arm has gone elsewhere: `way %` and `ms a request` are more.",
        "LogLRU's positions go out by stripes of 512 KiB, each read, changed and written once some 200 of its positions \
         wait: their number depends on what was stored and found, not on how fast the run went.",
        "Batches: by its virtual clock a run is over in seconds of real time, so that batches are full (2 MiB). `At real pace` \
         corrects for the tenth of a second after which a batch is written anyway: ten a second, or one for each object that \
         has something for the log where these are fewer, each as long as a random read. It is the rate to be put beside the \
         paper's, and what the figures show; related objects go out together, so that it is the least that is to be \
         expected. Of engines with a Disk Table what does not fit the bins goes to the log.",
        "Basic, Set and SetMem measure above Table 7: a hit costs 1.35 reads here where the paper has 1 + 1/rel = 1.5, and the \
         write of a bin follows the read of its set, so that its seek is short.",
        "Two disks: objects are spread by their digests; one disk is a little busier than the other. Related objects are \
         spread as well, so that a page is a request to each disk: with prefetching Log and LogLRU read more often for a hit \
         (`reads a hit`, one and two), and gain less. The \
         paper's 160 for SetMem is more than twice its 75, since its access log lay on the first disk; here no log is \
         written. With 30 and 40 % of the sets in memory misses read sets at random; PolyMix's new objects are as likely to \
         miss in one set as in another, so SetMemLRU gains from memory in proportion, not by locality.",
        "Table 9: times are those of a queue in order of arrival at four fifths of the peak, with an origin of 2.5 s; the \
         paper's are at its peak. A page's 10 to 20 objects come within a second or two here and wait for each \
         other, and for a download's reads; the paper's 27 ms of SetMem are two seeks, hardly any wait at its peak. How its requests come, and whether its disks order their queues, it does not say, and it was not tried here. It fills 50 GB of 1 TB at random places, so its seeks are longer than ours, and its Log \
         prefetches. The copy of the paper at hand has for two disks SetMem's hits alone, 57.89 and 40.89 %; its text gives 600 requests a second for Log \
         and LogLRU. The rate is four fifths \
         of what the same load gave as fast as it could, with pages further apart; `busy` is what it came to: at these rates more pages are loaded at once, and less of \
         what was read ahead is kept still when it is asked for, so that with two disks and prefetching the rate is beyond what \
         is carried, and the hit times are those of a queue that grows. The paper has its \
         Disk Table on a disk of its own: we read that as LogLRU's offset file, which is what the rows `positions apart` have; \
         SetMem's Disk Table and log share a disk here.",
        "Table 8: Log on five disks of 10,000 turns, a part of them in memory as large as 1 GB is of 90 GB. The rate is four \
         fifths of the peak at real pace. Its page is spread over all five disks, a request to each that has some of it, so that \
         what prefetching brings on one disk is mostly lost; the paper has 440 requests a second and disk where its formula \
         expects 320, and does not say how objects are spread. All times are mostly the origin's 2.5 s for a miss. Tiger and \
         Squid are the paper's: they run here as programs on one disk only (hashcache-peers).",
        "The load: PolyMix-4's published mix, seeded; hits offered are 55 % of all requests, PolyMix-4's number, where the \
         paper says 60; bytes that hit are more than its 40 % because recurrence does not depend on the size here. In \
         the short runs of --quick a few percent more hit: the working set moves little.",
    ]
    .map(str::to_owned)
    .to_vec()
}
