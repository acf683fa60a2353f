//! Rows of full caches: what a miss costs that pushes another object out, what it writes, and what is taken of the disk beyond its limit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::contest::{BODY_BYTES, CONNECTIONS, Contest, Entrant, fresh, settle, take};
use super::lines::Line;
use super::warm::{disks, missed, since, written_table};
use crate::error::LabError;
use crate::peers::field::{Pace, Product, Room, Side, Wanted};
use crate::report::{Cell, Table};

const NO_LIMIT: &str = "it has no limit: another program, htcacheclean, removes files every few minutes";

/// Fill each to twice its limit, and go on: what that costs, what it overran its limit by, what was written.
pub fn filled(contest: &Contest<'_>, entrants: &mut [Entrant], room: Room) -> (Line, Table, Table) {
    let columns = ["server", "limit MiB", "most MiB", "most / limit", "at the end / limit", "what kept it"];
    let mut table = Table::new("What is taken of the disk beyond its limit", &columns);
    let bytes = contest.setup.choose(BODY_BYTES, 64 << 10);
    let mut ours = None;
    let mut over = Vec::new();
    for entrant in entrants.iter_mut() {
        let product = entrant.product;
        let most = entrant.work(|side| filled_one(side, fresh(room.disk_bytes * 2 / bytes, bytes)));
        over.push(most);
        ours = ours.or(over.last().and_then(|most| most.clone().ok().flatten()).filter(|_| product == Product::Tinaja));
    }
    settle(entrants);
    for (entrant, most) in entrants.iter_mut().zip(over) {
        let product = entrant.product;
        let mib = |bytes: u64| Cell::number(bytes as f64 / f64::from(1 << 20), 0);
        let of_limit = |bytes: u64| Cell::number(bytes as f64 / room.disk_bytes as f64, 2);
        let at_the_end = entrant.work(|side| Ok(side.used_bytes())).ok().flatten();
        let mut row = vec![product.name().into(), mib(room.disk_bytes)];
        match most {
            _ if !product.keeps_on_disk() => {
                row.extend([Cell::Nothing, Cell::Nothing, Cell::Nothing, "it keeps objects in memory alone".into()]);
            }
            Ok(Some(most)) => {
                row.extend([mib(most), of_limit(most), at_the_end.map_or(Cell::Nothing, of_limit)]);
                row.push(if product == Product::Apache { NO_LIMIT.into() } else { Cell::Nothing });
            }
            Ok(None) => {
                row.extend([
                    Cell::Nothing,
                    Cell::Nothing,
                    Cell::Nothing,
                    "without root its disk is everybody's".into(),
                ]);
            }
            Err(why) => row.extend([Cell::Nothing, Cell::Nothing, Cell::Nothing, why.into()]),
        }
        table.row(row);
    }
    let says = ours.map_or("Without root the disk is everybody's.".to_owned(), |most| {
        format!(
            "Filled to twice its limit, Tinaja takes {:.2} of it at the most.",
            most as f64 / room.disk_bytes as f64
        )
    });
    let (before, count) = (disks(entrants), contest.setup.choose(3000, 400));
    let no_limit = |product| (product == Product::Apache).then_some(NO_LIMIT);
    let miss = |side: &mut Side, _| missed(take(side, CONNECTIONS, fresh(count, BODY_BYTES), Pace::Closed)?);
    let line = contest.rounds(entrants, no_limit, miss);
    settle(entrants);
    let counts = since(entrants, &before);
    let written = written_table(
        "What a miss of 8 KiB writes when the cache is full",
        &entrants.iter().collect::<Vec<_>>(),
        no_limit,
        &counts,
        count * contest.round_count() as u64,
    );
    (line, table.says(says), written)
}

/// Put all of these into it; the most bytes of its disk that it took meanwhile, if the disk is its own.
fn filled_one(side: &Side, wanted: impl Iterator<Item = Wanted>) -> Result<Option<u64>, LabError> {
    let (most, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let look = || most.fetch_max(side.used_bytes().unwrap_or_default(), Relaxed);
    let mut connections = side.connections(CONNECTIONS)?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                look();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let ran = connections.run(wanted, Pace::Closed);
        is_done.store(true, Relaxed);
        ran
    })?;
    look();
    Ok(side.stand().is_own().then(|| most.load(Relaxed)))
}
