//! Rows of what is on the disks: after kills and orderly ends, cold hits, a slow disk.

use std::time::{Duration, Instant};

use super::contest::{BODY_BYTES, CONNECTIONS, Contest, Entrant, fresh, scattered, settle, take};
use super::full::filled;
use super::lines::{Columns, Line, Sample, table};
use crate::error::LabError;
use crate::peers::field::{Pace, Product, Room, Side, Wanted};
use crate::report::{Cell, Table};

/// Reads a second of a slow disk, and writes a second: the HashCache paper's.
const SLOW: u64 = 70;
const IN_MEMORY: &str = "it keeps objects in memory alone: after a restart there is nothing";

/// What was measured.
pub struct Kept {
    pub tables: Vec<Table>,
    pub cold: Line,
    pub full: Line,
}

/// What became of a server that was ended, twice.
struct Restarted {
    /// The share of what it had that was still a hit after it was killed, and once it had ended in order.
    after_kill: f64,
    after_end: Option<f64>,
    ended: Duration,
    begun: Duration,
}

/// What a server still had of so many objects.
struct Found {
    product: Product,
    requests: usize,
    hits: f64,
}

/// All rows, on servers that were started for them.
pub fn measure(contest: &Contest<'_>) -> Kept {
    let choose = |full: u64, quick: u64| contest.setup.choose(full, quick);
    let room = Room { disk_bytes: choose(192, 96) << 20, memory_bytes: 16 << 20 };
    // Who knows no limit must not meet the end of the file system first.
    let mut entrants = contest.all(room, room.disk_bytes * 5);
    let entrants = &mut entrants;
    let all: Vec<Wanted> = fresh(choose(9000, 1500), BODY_BYTES).collect();

    let mut restarted: Vec<_> =
        entrants.iter_mut().map(|entrant| entrant.work(|side| killed(contest, side, &all))).collect();
    settle(entrants);
    // Traffic Server's directory goes to its disk once a minute, and not at its end. In short nobody waits for that.
    if !contest.setup.quick && entrants.iter().any(|entrant| entrant.product == Product::TrafficServer) {
        std::thread::sleep(Duration::from_secs(60));
    }
    for (entrant, restarted) in entrants.iter_mut().zip(&mut restarted) {
        if let Ok(found) = restarted
            && entrant.product.keeps_on_disk()
            && let Err(why) = entrant.work(|side| {
                (found.ended, found.begun) = reopened(contest, side)?;
                Ok(())
            })
        {
            *restarted = Err(why);
        }
    }
    let mut kept = Vec::new();
    let parts = scattered(&all, all.len());
    let (many, one) = parts.split_at(all.len() / 3 * 2);
    let cold = cold_hits(contest, entrants, (many, CONNECTIONS), &mut kept);
    // Directories, and what was read ahead, are in memory by now.
    for entrant in entrants.iter_mut().filter(|entrant| entrant.product.keeps_on_disk()) {
        let _ = entrant.work(|side| reopened(contest, side));
    }
    let alone = cold_hits(contest, entrants, (one, 1), &mut kept);
    for (entrant, restarted) in entrants.iter().zip(&mut restarted) {
        let of_it = kept.iter().filter(|kept| kept.product == entrant.product);
        let (requests, hits) =
            of_it.fold((0, 0.0), |(requests, hits), kept| (requests + kept.requests, hits + kept.hits));
        if let Ok(found) = restarted
            && requests > 0
        {
            found.after_end = Some(hits / requests as f64);
        }
    }
    let says = [
        cold.sentence(&format!("Over {CONNECTIONS} connections, a hit that is read from a cold disk")),
        alone.sentence("Over one connection, such a hit"),
    ];
    let lines = [(CONNECTIONS.to_string(), &cold), ("1".to_owned(), &alone)];
    let mut tables = vec![
        table("Cold disk hits of 8 KiB", Some("connections"), &lines, Columns::Disk).says(says.join(" ")),
        restarts(entrants, &restarted),
    ];
    tables.push(slow(contest, entrants, &all));
    let (full, overrun, written) = filled(contest, entrants, room);
    let says = full.sentence_of_disks("A miss that pushes another object out");
    tables.push(
        table("Full cache: misses of 8 KiB", None, &[(String::new(), &full)], Columns::Plain)
            .says(format!("{says} Apache has no limit of its own.")),
    );
    tables.extend([written, overrun]);
    Kept { tables, cold, full }
}

/// Fill it, kill it at once, start it again, and ask for all of it, after which it has all again.
fn killed(contest: &Contest<'_>, side: &mut Side, all: &[Wanted]) -> Result<Restarted, LabError> {
    side.connections(CONNECTIONS)?.run(all.iter().copied(), Pace::Closed)?;
    side.end(false)?;
    side.begin(&contest.cores)?;
    let tally = side.connections(CONNECTIONS)?.run(scattered(all, all.len()), Pace::Closed)?;
    let (after_kill, none) = (tally.hit_ratio(), Duration::ZERO);
    Ok(Restarted { after_kill, after_end: None, ended: none, begun: none })
}

/// End it in order, have the kernel forget its files, and start it again; how long the end and the start took.
fn reopened(contest: &Contest<'_>, side: &mut Side) -> Result<(Duration, Duration), LabError> {
    let ended = side.end(true)?;
    side.stand().forget()?;
    Ok((ended, side.begin(&contest.cores)?))
}

/// Each object once, a part of them in each round, over so many connections: nothing of them is in memory. Who has fewer than nine of ten of them is not
/// compared; which share each had in each round is kept.
fn cold_hits(
    contest: &Contest<'_>,
    entrants: &mut [Entrant],
    (all, connections): (&[Wanted], usize),
    kept: &mut Vec<Found>,
) -> Line {
    let in_each = all.len() / contest.round_count();
    contest.rounds(entrants, in_memory, |side, round| {
        let part = all.iter().copied().skip(round * in_each).take(in_each);
        let sample = take(side, connections, part, Pace::Closed)?;
        kept.push(Found { product: side.product(), requests: in_each, hits: sample.hits * in_each as f64 });
        mostly_hits(sample)
    })
}

/// Errors: it is misses that would be measured.
fn mostly_hits(sample: Sample) -> Result<Sample, LabError> {
    if sample.hits < 0.9 {
        let why = format!("{:.1} % of them were still hits", sample.hits * 100.0);
        return Err(LabError::failed("asking for what it had before it was ended and started again", why));
    }
    Ok(sample)
}

fn in_memory(product: Product) -> Option<&'static str> {
    (!product.keeps_on_disk()).then_some(IN_MEMORY)
}

fn restarts(entrants: &[Entrant], restarted: &[Result<Restarted, String>]) -> Table {
    let columns = [
        "server",
        "hits after SIGKILL %",
        "hits after SIGTERM %",
        "ms to end",
        "ms until it answers again",
        "what kept it",
    ];
    let mut table = Table::new("What is still a hit after a restart", &columns);
    let mut ours = None;
    for (entrant, restarted) in entrants.iter().zip(restarted) {
        let product = entrant.product;
        let ms = |time: Duration| Cell::number(time.as_secs_f64() * 1e3, 0);
        let mut row = vec![product.name().into()];
        match restarted {
            _ if !product.keeps_on_disk() => {
                row.extend([Cell::percent(0.0), Cell::percent(0.0), Cell::Nothing, Cell::Nothing, IN_MEMORY.into()]);
            }
            Ok(Restarted { after_kill, after_end, ended, begun }) => {
                ours = ours.or((product == Product::Tinaja).then_some((*after_kill, *after_end)));
                let after_end = after_end.map_or(Cell::Nothing, Cell::percent);
                row.extend([Cell::percent(*after_kill), after_end, ms(*ended), ms(*begun)]);
            }
            Err(why) => {
                row.extend(std::iter::repeat_n(Cell::Nothing, 4));
                row.push(why.as_str().into());
            }
        }
        table.row(row);
    }
    let says = match ours {
        Some((killed, Some(ended))) => format!(
            "Killed right after the last answer Tinaja has {:.1} % of what it was given, and {:.1} % after an end in order.",
            killed * 100.0,
            ended * 100.0
        ),
        _ => "Tinaja was not measured.".to_owned(),
    };
    table.says(says)
}

/// Hits of a disk that takes so few requests, cold.
fn slow(contest: &Contest<'_>, entrants: &mut [Entrant], all: &[Wanted]) -> Table {
    let columns = ["server", "rate, ours / its", "hits/s", "reads a hit", "p50 ms", "p99 ms", "hits %", "what kept it"];
    let mut table = Table::new(format!("Cold hits on a disk of {SLOW} requests a second"), &columns);
    let time = Duration::from_secs(contest.setup.choose(10, 2));
    let mut samples: Vec<(Product, Result<Sample, String>)> = Vec::new();
    for entrant in entrants.iter_mut() {
        let product = entrant.product;
        if let Some(why) = in_memory(product) {
            samples.push((product, Err(why.to_owned())));
            continue;
        }
        let sample = entrant.work(|side| {
            let no_disk = "only root has disks that can be slowed down";
            side.stand().bench().ok_or_else(|| LabError::failed("slowing down a disk", no_disk))?;
            reopened(contest, side)?;
            let limit = |side: &Side, to: Option<u64>| match (side.stand().bench(), to) {
                (Some(bench), Some(requests)) => bench.limit(requests),
                (Some(bench), None) => bench.lift_limits(),
                (None, _) => Ok(()),
            };
            limit(side, Some(SLOW))?;
            let end = Instant::now() + time;
            let wanted = scattered(all, all.len()).into_iter().take_while(|_| Instant::now() < end);
            let sample = take(side, CONNECTIONS, wanted, Pace::Closed);
            limit(side, None)?;
            mostly_hits(sample?)
        });
        samples.push((product, sample));
    }
    let rate = |of: &Result<Sample, String>| of.as_ref().ok().map(|sample| sample.rate);
    let ours = samples.first().and_then(|(_, sample)| rate(sample));
    let mut best: Option<(Product, f64)> = None;
    for (product, sample) in &samples {
        let mut row = vec![product.name().into()];
        match sample {
            Ok(sample) => {
                let other = (*product != Product::Tinaja).then_some(sample.rate);
                if let Some(rate) = other.filter(|rate| best.is_none_or(|(_, best)| *rate > best)) {
                    best = Some((*product, rate));
                }
                row.extend([
                    ours.zip(other).map_or(Cell::Nothing, |(ours, its)| Cell::number(ours / its, 2)),
                    Cell::number(sample.rate, 0),
                    Cell::number(sample.reads, 2),
                    Cell::number(sample.p50_ms, 1),
                    Cell::number(sample.p99_ms, 1),
                    Cell::percent(sample.hits),
                ]);
            }
            Err(why) => {
                row.extend(std::iter::repeat_n(Cell::Nothing, 6));
                row.push(why.as_str().into());
            }
        }
        table.row(row);
    }
    table.says(match (ours, best) {
        (Some(ours), Some((product, its))) => {
            format!("Tinaja gives {ours:.0} hits a second, and {} {its:.0}, the most of the others.", product.name())
        }
        (Some(ours), None) => format!("Tinaja gives {ours:.0} hits a second; no other server was measured."),
        _ => "Tinaja was not measured.".to_owned(),
    })
}
