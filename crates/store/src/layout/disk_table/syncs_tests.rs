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

/// A bin could not be written while a sync was on its way for another. Who waited for that sync was told, and who wrote the bin was not.
#[test]
fn a_bin_that_fails_meanwhile_is_told_to_who_wrote_it() {
    for is_sync_well in [true, false] {
        let (disk, table, _frontier, _hand) = table();
        write(&table, 0);
        disk.do_next();
        let first = sync(&table);
        write(&table, 1);
        disk.fail_second();
        if is_sync_well {
            disk.do_next()
        } else {
            disk.fail_next()
        }
        assert!(first.try_recv().unwrap().is_err());
        assert!(sync(&table).try_recv().unwrap().is_err(), "who wrote the second");
        assert_eq!(sync(&table).try_recv().unwrap(), Ok(()), "once");
    }
}

/// A sync waits for one bin, and another that came later is on the disk before.
#[test]
fn a_bin_that_lands_before_an_older_one_is_told_of() {
    let (disk, table, _frontier, _hand) = table();
    write(&table, 0);
    let first = sync(&table);
    write(&table, 1);
    assert_eq!(disk.waits(), "ww");
    disk.do_second();
    disk.do_next();
    disk.fail_next();
    assert!(first.try_recv().unwrap().is_err());
    assert!(sync(&table).try_recv().unwrap().is_err(), "who wrote the second");
    assert_eq!(sync(&table).try_recv().unwrap(), Ok(()), "once");
}

/// The kernel tells of a page that it dropped once, and the sync that failed may have been about one that was still on its way.
#[test]
fn a_bin_on_its_way_while_a_sync_fails_is_not_trusted() {
    let (disk, table, _frontier, _hand) = table();
    write(&table, 0);
    disk.do_next();
    let first = sync(&table);
    write(&table, 1);
    disk.fail_next();
    assert!(first.try_recv().unwrap().is_err());
    disk.do_next();
    assert_eq!(table.lock().lost_among(0, 4), [0, 1]);
    assert!(sync(&table).try_recv().unwrap().is_err());
    assert_eq!(sync(&table).try_recv().unwrap(), Ok(()), "once");
}

#[test]
fn whoever_waits_behind_a_sync_that_fails_is_told_as_well() {
    let (disk, table, _frontier, _hand) = table();
    write(&table, 0);
    write(&table, 1);
    (0..2).for_each(|_| disk.do_next());
    let (first, second) = (sync(&table), sync(&table));
    disk.fail_next();
    disk.do_next();
    assert!(first.try_recv().unwrap().is_err());
    assert!(second.try_recv().unwrap().is_err());
}
