//! What an object takes of memory: by how much a server grows from many objects to more.

use super::contest::{CONNECTIONS, Contest, fresh};
use crate::error::LabError;
use crate::peers::field::{Pace, Product, Room, Side};
use crate::report::{Cell, Table};

/// Small, so that many go quickly into little.
const BYTES: u64 = 1 << 10;

/// One server: what it holds with so many objects, and with more.
struct Grown {
    fewer: u64,
    more: u64,
}

/// Each in its turn, on a stand of its own.
pub fn measure(contest: &Contest<'_>) -> Table {
    let choose = |full: u64, quick: u64| contest.setup.choose(full, quick);
    let (few, many) = (choose(15_000, 3000), choose(45_000, 6000));
    // Memory for hot objects is full with the fewer, so that it does not grow with the more.
    let room = Room { disk_bytes: choose(1024, 256) << 20, memory_bytes: choose(8, 2) << 20 };
    let columns = ["server", "bytes an object", "MB with the fewer", "MB with the more", "what kept it"];
    let mut table = Table::new(format!("Memory of {few} and of {many} objects of 1 KiB"), &columns);
    let mut ours = None;
    for (product, _) in &contest.found {
        let mut entrant = contest.one(*product, room, room.disk_bytes * 2, None);
        let grown = entrant.work(|side| grown(side, few, many));
        let mut row = vec![product.name().into()];
        match grown {
            Ok(Grown { fewer, more }) => {
                let slope = (more as f64 - fewer as f64) / (many - few) as f64;
                ours = ours.or((*product == Product::Tinaja).then_some(slope));
                let megabytes = |bytes: u64| Cell::number(bytes as f64 / 1e6, 1);
                row.extend([Cell::number(slope, 0), megabytes(fewer), megabytes(more)]);
                let in_memory = "the object itself is in memory";
                row.push(if product.keeps_on_disk() { Cell::Nothing } else { in_memory.into() });
            }
            Err(why) => row.extend([Cell::Nothing, Cell::Nothing, Cell::Nothing, why.into()]),
        }
        table.row(row);
    }
    let says = ours.map_or("Tinaja was not measured.".to_owned(), |slope| {
        format!(
            "Tinaja grows by {slope:.0} bytes an object. What is allocated in full at the start, as its index and Traffic Server's \
             directory are, is in the columns of MB as far as it was touched, and not in the slope."
        )
    });
    table.says(says)
}

fn grown(side: &Side, few: u64, many: u64) -> Result<Grown, LabError> {
    let mut connections = side.connections(CONNECTIONS)?;
    connections.run(fresh(few, BYTES), Pace::Closed)?;
    let fewer = side.resident_bytes();
    connections.run(fresh(many - few, BYTES), Pace::Closed)?;
    Ok(Grown { fewer, more: side.resident_bytes() })
}
