//! Who is told of bins that a failed sync took.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tinaja_clock::ManualClock;

use crate::layout::disk_table::{DiskTable, TableLayout};
use crate::layout::frontier::Begin;
use crate::layout::held::Held;
use crate::layout::{Frontier, LogLayout, Stamp};
use crate::memory::AlignedBuf;
use crate::terms::Place;

/// A table of four bins before a log in which nothing is. By a clock that stands still nothing goes out by itself.
fn table() -> (Arc<Held>, Arc<DiskTable>, Arc<Frontier>, ManualClock) {
    let hand = ManualClock::new();
    let disk = Held::of(&hand.clock(), 8 << 20);
    let table = TableLayout { base: 4096, sets: 4, ways: 1, block_bytes: 4096 };
    let layout = LogLayout::new(table.base + table.bytes(), 4 << 20, 4096).unwrap();
    let begin = Begin { at: Place(layout.log_bytes()), logs: 1, number: 1 };
    let stamp = Stamp { seed: 7 };
    let frontier = Frontier::start(disk.clone(), layout, stamp, begin, None, None).unwrap();
    let table = DiskTable::new(disk.clone(), table, stamp, frontier.clone(), Arc::default(), 1);
    (disk, table, frontier, hand)
}

fn write(table: &Arc<DiskTable>, bin: u64) {
    let op = table.write(&mut table.lock(), bin, AlignedBuf::zeroed(4096)).0;
    table.submit(op);
}

fn sync(table: &Arc<DiskTable>) -> Receiver<Result<(), String>> {
    let (tell, told) = channel();
    table.sync(Box::new(move |result| tell.send(result).unwrap()));
    told
}

/// A sync was on its way when another bin was written, and failed: both bins are lost. Only who waited for that sync was told; the next one
/// went well, and whoever asked for that took the other bin for stored.
#[test]
fn bins_written_while_a_sync_was_on_its_way_are_told_of_as_well() {
    let (disk, table, _frontier, _hand) = table();
    write(&table, 0);
    disk.do_next();
    let first = sync(&table);
    write(&table, 1);
    assert_eq!(disk.waits(), "sw");
    disk.do_second();
    disk.fail_next();
    assert!(first.try_recv().unwrap().is_err());
    assert!(sync(&table).try_recv().unwrap().is_err(), "who wrote the second");
    assert_eq!(sync(&table).try_recv().unwrap(), Ok(()), "once");
}

/// The log had nothing new, and so told nobody.
#[test]
fn bins_that_a_sync_of_the_stores_own_took_are_told_of() {
    let (disk, table, frontier, _hand) = table();
    write(&table, 0);
    disk.do_next();
    frontier.settle(true, Box::new(|result| assert!(result.is_err())));
    disk.fail_next();
    assert!(sync(&table).try_recv().unwrap().is_err());
    assert_eq!(sync(&table).try_recv().unwrap(), Ok(()), "once");
}
