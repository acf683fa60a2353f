//! Rows of servers that run all the while: memory hits, misses, sizes, connections, a rate, many who ask for the same.

use std::time::{Duration, Instant};

use super::contest::{BODY_BYTES, CONNECTIONS, Contest, Entrant, fresh, scattered, settle, take};
use super::lines::{Columns, Line, Sample, table};
use crate::error::LabError;
use crate::peers::DiskCount;
use crate::peers::field::{Pace, Product, Room, Side, Wanted};
use crate::report::{Cell, Table};

/// Objects that fit any memory.
pub const FEW: u64 = 100;
/// Clients that ask for the same at once.
const CROWD: usize = 64;
/// The engine that appends all objects to one log and moves none.
const LOG: &str = "hashcache-log";
/// How long the origin takes meanwhile.
const FAR: Duration = Duration::from_millis(200);

/// What was measured.
pub struct Warm {
    pub tables: Vec<Table>,
    pub memory_hits: Line,
    pub misses: Line,
}

/// All rows, on servers that were started for them.
pub fn measure(contest: &Contest<'_>) -> Warm {
    let choose = |full: u64, quick: u64| contest.setup.choose(full, quick);
    let room = Room { disk_bytes: choose(512, 256) << 20, memory_bytes: 128 << 20 };
    let mut entrants = contest.all(room, room.disk_bytes * 2);
    let entrants = &mut entrants;

    let memory_hits = hits(contest, entrants, BODY_BYTES, CONNECTIONS, choose(20_000, 3000), Pace::Closed);
    let mut tables = vec![
        table("Memory hits of 8 KiB", None, &[(String::new(), &memory_hits)], Columns::Plain)
            .says(memory_hits.sentence("A memory hit")),
    ];
    settle(entrants);
    let before = disks(entrants);
    let count = choose(5000, 600);
    let miss = |side: &mut Side, _| missed(take(side, CONNECTIONS, fresh(count, BODY_BYTES), Pace::Closed)?);
    let misses = contest.rounds(entrants, |_| None, miss);
    tables.push(
        table("Misses of 8 KiB that are stored", None, &[(String::new(), &misses)], Columns::Plain)
            .says(misses.sentence_of_disks("A miss")),
    );
    settle(entrants);
    let counts = since(entrants, &before);
    // The same with an engine that appends everything to one log.
    let mut by_log = [contest.by_engine(LOG, room, room.disk_bytes * 2)];
    settle(&mut by_log);
    let before = disks(&mut by_log);
    let line = contest.rounds(&mut by_log, |_| None, miss);
    settle(&mut by_log);
    if let (Some(why), [entrant]) = (line.why(0), &mut by_log) {
        entrant.side = Err(why.to_owned());
    }
    let counts = [counts, since(&mut by_log, &before)].concat();
    let all: Vec<_> = entrants.iter().chain(&by_log).collect();
    let misses_of_each = count * contest.round_count() as u64;
    tables.push(written_table("What a miss of 8 KiB writes", &all, |_| None, &counts, misses_of_each));
    drop(by_log);

    let sizes = [(300, choose(10_000, 1500)), (64 << 10, choose(3000, 200)), (1 << 20, choose(300, 30))];
    let sizes = sizes
        .map(|(bytes, requests)| (size(bytes), hits(contest, entrants, bytes, CONNECTIONS, requests, Pace::Closed)));
    tables.push(several("Memory hits by size of the body", "body", &sizes));
    let crowds = [(1, choose(5000, 500)), (128, choose(10_000, 1500)), (1000, choose(10_000, 1500))];
    let crowds = crowds.map(|(connections, requests)| {
        (connections.to_string(), hits(contest, entrants, BODY_BYTES, connections, requests, Pace::Closed))
    });
    tables.push(several("Memory hits by connections", "connections", &crowds));
    // A second of each; in short a fifth of one.
    let rates = [2000, 8000].map(|rate| {
        let pace = Pace::Open(rate as f64);
        (rate.to_string(), hits(contest, entrants, BODY_BYTES, 64, rate / choose(1, 5), pace))
    });
    tables.push(several("Memory hits at a rate, answered in time or not", "asked/s", &rates));
    tables.push(collapsed(contest, entrants));
    Warm { tables, memory_hits, misses }
}

/// A table of some lines, with a sentence for each.
fn several(title: &str, told_by: &str, lines: &[(String, Line)]) -> Table {
    let says: Vec<_> = lines.iter().map(|(told, line)| line.sentence(&format!("At {told}, a hit"))).collect();
    let lines: Vec<_> = lines.iter().map(|(told, line)| (told.clone(), line)).collect();
    table(title, Some(told_by), &lines, Columns::Plain).says(says.join(" "))
}

fn size(bytes: u64) -> String {
    match bytes {
        ..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Memory hits of objects of this size. All but one in a hundred must be hits.
fn hits(
    contest: &Contest<'_>,
    entrants: &mut [Entrant],
    bytes: u64,
    connections: usize,
    requests: u64,
    pace: Pace,
) -> Line {
    let few: Vec<Wanted> = fresh(FEW.min(requests), bytes).collect();
    contest.rounds(
        entrants,
        |_| None,
        |side, round| {
            if round == 0 {
                // What is asked for twice is in memory: some admit nothing the first time.
                for _ in 0..3 {
                    side.connections(1)?.run(few.iter().copied(), Pace::Closed)?;
                }
            }
            let sample = take(side, connections, scattered(&few, requests as usize), pace)?;
            if sample.hits < 0.99 {
                return Err(LabError::failed(
                    "asking for what it has",
                    format!("{:.1} % were hits", sample.hits * 100.0),
                ));
            }
            Ok(sample)
        },
    )
}

/// Errors: some were hits.
pub fn missed(sample: Sample) -> Result<Sample, LabError> {
    if sample.hits > 0.0 {
        return Err(LabError::failed("asking for what nobody has", format!("{:.1} % were hits", sample.hits * 100.0)));
    }
    Ok(sample)
}

/// What each disk has done so far.
pub fn disks(entrants: &mut [Entrant]) -> Vec<Option<DiskCount>> {
    entrants.iter_mut().map(|entrant| entrant.work(|side| Ok(side.disk())).ok()).collect()
}

/// What each disk has done since `before`.
pub fn since(entrants: &mut [Entrant], before: &[Option<DiskCount>]) -> Vec<Option<DiskCount>> {
    disks(entrants).into_iter().zip(before).map(|(now, before)| Some(now? - (*before)?)).collect()
}

/// A table of what was written for so many misses, but for those that `cannot` says why it is not theirs.
pub fn written_table(
    title: &str,
    entrants: &[&Entrant],
    cannot: impl Fn(Product) -> Option<&'static str>,
    counts: &[Option<DiskCount>],
    misses: u64,
) -> Table {
    let columns = [
        "server",
        "bytes, ours / its",
        "requests, ours / its",
        "bytes written a body byte",
        "write requests a miss",
        "KiB a write",
        "what kept it",
    ];
    let mut table = Table::new(title, &columns);
    let body = (misses * BODY_BYTES) as f64;
    let ours = counts.first().copied().flatten();
    for (entrant, count) in entrants.iter().zip(counts) {
        let mut row = vec![entrant.name().into()];
        let in_memory = (!entrant.product.keeps_on_disk()).then_some("it keeps objects in memory alone");
        let failed = || entrant.side.as_ref().err().map_or("it was not measured", String::as_str);
        let why = in_memory.or_else(|| cannot(entrant.product)).or_else(|| count.is_none().then(failed));
        match (why, count) {
            (Some(why), _) => {
                row.extend(std::iter::repeat_n(Cell::Nothing, 5));
                row.push(why.into());
            }
            (None, None) => {}
            (None, Some(count)) => {
                let ratio = |of: fn(&DiskCount) -> u64| {
                    let ours = ours.filter(|_| entrant.product != Product::Tinaja)?;
                    Some(of(&ours) as f64 / of(count) as f64)
                };
                row.extend([
                    ratio(|count| count.write_bytes).map_or(Cell::Nothing, |ratio| Cell::number(ratio, 2)),
                    ratio(|count| count.writes).map_or(Cell::Nothing, |ratio| Cell::number(ratio, 2)),
                    Cell::number(count.write_bytes as f64 / body, 3),
                    Cell::number(count.writes as f64 / misses as f64, 3),
                    Cell::number(count.write_bytes as f64 / 1024.0 / count.writes as f64, 1),
                ]);
            }
        }
        table.row(row);
    }
    let mut says = ours.map_or(String::new(), |ours| {
        format!(
            "Tinaja writes {:.3} bytes for each byte of a body, heads, keys and all that it keeps beside them included, in {:.3} \
             requests a miss.",
            ours.write_bytes as f64 / body,
            ours.writes as f64 / misses as f64
        )
    });
    for (entrant, count) in entrants.iter().zip(counts) {
        if let (Some(engine), Some(count)) = (entrant.engine, count) {
            says.push_str(&format!(" With {engine} it writes {:.3}.", count.write_bytes as f64 / body));
        }
    }
    table.says(says)
}

/// Many who ask at once for what nobody has.
fn collapsed(contest: &Contest<'_>, entrants: &mut [Entrant]) -> Table {
    let columns = ["server", "requests at the origin for 64 clients", "ms until all have it", "what kept it"];
    let mut table = Table::new("64 clients ask at once for the same new object", &columns);
    contest.origin.delay(FAR);
    let mut ours = None;
    for entrant in entrants {
        let product = entrant.product;
        let found = entrant.work(|side| at_once(contest, side));
        let mut row = vec![product.name().into()];
        match found {
            Ok((asked, took)) => {
                ours = ours.or((product == Product::Tinaja).then_some(asked));
                row.extend([Cell::number(asked, 1), Cell::number(took.as_secs_f64() * 1e3, 0), Cell::Nothing]);
            }
            Err(why) => row.extend([Cell::Nothing, Cell::Nothing, why.into()]),
        }
        table.row(row);
    }
    contest.origin.delay(Duration::ZERO);
    let ours = ours.map_or("no figure".to_owned(), |ours| format!("{ours:.1} requests"));
    table.says(format!("The origin takes {} ms to answer. It gets {ours} from Tinaja.", FAR.as_millis()))
}

/// Requests at the origin for each object, and the median time until all clients have it.
fn at_once(contest: &Contest<'_>, side: &Side) -> Result<(f64, Duration), LabError> {
    let objects = contest.setup.choose(5, 3);
    let mut connections = side.connections(CROWD)?;
    let before = contest.origin.given().0;
    let mut times = Vec::new();
    for wanted in fresh(objects, BODY_BYTES) {
        let began = Instant::now();
        connections.run(std::iter::repeat_n(wanted, CROWD), Pace::Closed)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let asked = (contest.origin.given().0 - before) as f64 / objects as f64;
    Ok((asked, times.get(times.len() / 2).copied().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_in_their_units() {
        assert_eq!([300, 1024, 65_536, 1 << 20].map(size), ["300 B", "1 KiB", "64 KiB", "1 MiB"]);
    }

    #[test]
    fn what_was_written_is_beside_ours() {
        let entrant = |(product, engine)| Entrant { product, engine, side: Err("it is a test".to_owned()) };
        let all = [Product::Tinaja, Product::Nginx, Product::Varnish, Product::Squid].map(|product| (product, None));
        let [ours, nginx, varnish, squid] = all.map(entrant);
        let by_log = entrant((Product::Tinaja, Some(LOG)));
        let entrants = [ours, nginx, varnish, squid, by_log];
        let count = |writes, write_bytes| Some(DiskCount { writes, write_bytes, ..DiskCount::default() });
        let counts = [count(10, 2 * 81_920), count(40, 4 * 81_920), count(0, 0), None, count(10, 81_920)];
        let table = written_table("t", &entrants.each_ref(), |_| None, &counts, 10);
        assert_eq!(table.column("bytes, ours / its")[1], &Cell::Number(0.5, 2));
        assert_eq!(table.column("bytes written a body byte")[..2], [&Cell::Number(2.0, 3), &Cell::Number(4.0, 3)]);
        assert_eq!(table.column("server")[4], &Cell::from("Tinaja, hashcache-log"));
        assert_eq!(table.column("bytes, ours / its")[4], &Cell::Nothing);
        assert_eq!(table.column("bytes written a body byte")[4], &Cell::Number(1.0, 3));
        assert_eq!(
            table.column("what kept it")[2..4],
            [&Cell::from("it keeps objects in memory alone"), &Cell::from("it is a test")]
        );
    }
}
