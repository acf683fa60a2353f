//! What is printed and written down.

use std::fmt::Write;

use tinaja_store::Stats;

use crate::phase::Measured;
use crate::{Scale, machine};

/// One operation, size and number of tasks; every round of both.
pub struct Line {
    pub what: &'static str,
    pub size: usize,
    pub tasks: usize,
    pub ours: Vec<Measured>,
    pub theirs: Vec<Measured>,
}

/// What the indexes take.
pub struct Index {
    pub size: usize,
    pub tinaja: Stats,
    pub foyer_heap_bytes: i64,
    pub foyer_objects: u64,
}

/// Everything measured.
pub struct Report {
    scale: Scale,
    lines: Vec<Line>,
    indexes: Vec<Index>,
}

fn median(rounds: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How far the rounds lie apart: the largest over the smallest rate.
fn spread(rounds: &[Measured]) -> f64 {
    let rates = || rounds.iter().map(|round| round.rate);
    rates().fold(0.0, f64::max) / rates().fold(f64::MAX, f64::min)
}

/// The table of speeds.
pub fn of_lines(lines: &[Line]) -> String {
    let mut text = String::from(
        "| operation | bytes | tasks | tinaja /s | foyer /s | ratio | tinaja CPU µs | foyer CPU µs | ratio | spread |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for Line { what, size, tasks, ours, theirs } in lines {
        let (our_rate, their_rate) = (median(ours, |it| it.rate), median(theirs, |it| it.rate));
        let (our_cpu, their_cpu) = (median(ours, |it| it.cpu_us), median(theirs, |it| it.cpu_us));
        let _ = writeln!(
            text,
            "| {what} | {size} | {tasks} | {our_rate:.0} | {their_rate:.0} | {:.2} | {our_cpu:.1} | {their_cpu:.1} | {:.2} | {:.2}, {:.2} |",
            our_rate / their_rate,
            our_cpu / their_cpu,
            spread(ours),
            spread(theirs),
        );
    }
    text
}

impl Report {
    pub fn new(scale: Scale) -> Self {
        Report { scale, lines: Vec::new(), indexes: Vec::new() }
    }

    pub fn line(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub fn index(&mut self, index: Index) {
        self.indexes.push(index);
    }

    /// The tables.
    pub fn text(&self) -> String {
        let mut text = of_lines(&self.lines);
        text.push_str(
            "\n| bytes | written per byte put: tinaja | foyer | found by gets: tinaja | foyer |\n|---|---|---|---|---|\n",
        );
        for Index { size, .. } in &self.indexes {
            let of = |what: &str, side: fn(&Line) -> &Vec<Measured>, value: fn(&Measured) -> f64| {
                let lines = self.lines.iter().filter(|line| line.what == what && line.size == *size);
                let rounds: Vec<Measured> = lines.flat_map(side).copied().collect();
                median(&rounds, value)
            };
            let _ = writeln!(
                text,
                "| {size} | {:.3} | {:.3} | {:.2} % | {:.2} % |",
                of("put", |line| &line.ours, |it| it.write_amplification),
                of("put", |line| &line.theirs, |it| it.write_amplification),
                of("get", |line| &line.ours, |it| it.share) * 100.0,
                of("get", |line| &line.theirs, |it| it.share) * 100.0,
            );
        }
        text.push_str(
            "\n| bytes | index bits an object: tinaja | of objects | foyer | of objects | ratio |\n|---|---|---|---|---|---|\n",
        );
        for Index { size, tinaja, foyer_heap_bytes, foyer_objects } in &self.indexes {
            let theirs = *foyer_heap_bytes as f64 * 8.0 / *foyer_objects as f64;
            let ours = tinaja.bits_per_live_object();
            let of = tinaja.live_objects;
            let ratio = ours / theirs;
            let _ = writeln!(text, "| {size} | {ours:.1} | {of} | {theirs:.1} | {foyer_objects} | {ratio:.3} |");
        }
        text
    }

    /// The page for docs/bench.
    pub fn markdown(&self) -> String {
        let Scale { disk_bytes, phase, rounds, .. } = self.scale;
        format!(
            "# Tinaja's store beside foyer 0.22\n\n\
             {date}, by `cargo bench -p tinaja-store`, on: {machine}.\n\
             Load average when it ended: {load}. If that is more than the benchmark's own threads, other programs were running: then\n\
             compare processor time per operation, not rates.\n\n\
             Both caches keep the same objects on {mebibytes} MiB of one file system, bypass the page cache, and keep no object in\n\
             memory. They run in one process on one runtime, in turns, {rounds} rounds of {seconds} s each. A number is the median of the\n\
             rounds, and *spread* is the fastest round over the slowest, for each cache. CPU is the user and system time of the whole\n\
             process. A ratio is Tinaja's over foyer's: for operations a second more is better, for CPU less.\n\n\
             - *put*: new objects on a full cache, until all are written. Tinaja's end with a flush to the medium; foyer has\n  \
               none. foyer silently drops puts when 16 MiB wait, so it was never given more than 12 MiB ahead.\n\
             - *get*: stored objects at random, read completely, through `HybridCache::get`. *absent*: the same for objects\n  \
               that are not stored. *bare*: only foyer's storage (`Store::load`), without its hybrid cache.\n\
             - Both use their default I/O engine: Tinaja io_uring if the kernel has it, foyer pread and pwrite on\n  \
               threads. (`--foyer-uring` gives it io_uring, whose thread spins.) foyer: block engine; its memory cache accepts nothing.\n\
             - Bytes written are `write_bytes` of `/proc/self/io`, divided by the bytes of names and bodies.\n\
             - Index bits: for Tinaja its whole index with locks and padding, divided by the objects it has after as many puts\n  \
               as fit on the disk. For foyer the growth of the heap while its disk was filled, counted by the allocator, divided by\n  \
               the objects it has then. Its hash maps double as they grow, so other numbers of objects give up to twice or\n  \
               half of that.\n\n\
             {tables}",
            date = machine::today(),
            machine = machine::description(),
            load = machine::load(),
            mebibytes = disk_bytes >> 20,
            seconds = phase.as_secs_f64(),
            tables = self.text(),
        )
    }
}
