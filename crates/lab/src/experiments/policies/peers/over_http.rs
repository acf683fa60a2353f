//! One server, asked for all of a load over HTTP.

use std::net::SocketAddrV4;
use std::path::Path;

use super::found::Found;
use crate::error::LabError;
use crate::peers::field::{Cores, Making, Pace, Product, Room, Side, Wanted};
use crate::policies::Sequence;

/// Few enough that a load stays in its order, and more than one, so that nobody waits for the load.
const CONNECTIONS: usize = 4;
/// Of each server, for popular objects. Tinaja's index is in it.
const MEMORY_BYTES: u64 = 1 << 20;
/// Of the file system, beside four times the objects': directories, and what is too much.
const BESIDE_BYTES: u64 = 512 << 20;
/// What a server has taken is looked at after each so many requests.
const LOOKED_AFTER: usize = 2000;

/// A server, and what is to leave when it is full.
pub struct Rival {
    /// As tables name it.
    pub name: &'static str,
    pub product: Product,
    /// See [`Making::replacement`].
    replacement: Option<&'static str>,
}

/// What all have in common.
pub struct Ground<'a> {
    pub scratch: &'a Path,
    pub cores: Cores,
    pub origin: SocketAddrV4,
}

impl Rival {
    pub const fn of(name: &'static str, product: Product, replacement: Option<&'static str>) -> Rival {
        Rival { name, product, replacement }
    }

    /// Start it empty, with so many bytes for objects, and ask for all. Errors: it does not start, or answers wrongly or not at all.
    pub fn ask(
        &self,
        ground: &Ground<'_>,
        program: &Path,
        load: &Sequence,
        disk_bytes: u64,
    ) -> Result<Found, LabError> {
        let making = Making {
            scratch: ground.scratch,
            cores: &ground.cores,
            origin: ground.origin,
            room: Room { disk_bytes, memory_bytes: MEMORY_BYTES },
            disk_bytes: disk_bytes * 4 + BESIDE_BYTES,
            replacement: self.replacement,
            tls: None,
        };
        let mut side = Side::start(self.product, program, &making)?;
        // Squid has made 4,096 directories before the first object comes, 16 MiB.
        let before = side.used_bytes().filter(|_| self.product == Product::Squid).unwrap_or_default();
        let mut connections = side.connections(CONNECTIONS)?;
        let (mut requests, mut hits, mut bytes, mut hit_bytes) = (0, 0, 0, 0);
        let (mut failed, mut most_bytes) = (0, None);
        for part in load.asked.chunks(LOOKED_AFTER) {
            let wanted = part.iter().map(|asked| Wanted {
                object: asked.object.into(),
                bytes: asked.bytes.saturating_sub(Sequence::BESIDE_BODY),
            });
            let tally = connections.run(wanted, Pace::Closed)?;
            side.still_runs()?;
            (requests, hits) = (requests + tally.requests(), hits + tally.hit_times.len() as u64);
            (bytes, hit_bytes) = (bytes + tally.bytes, hit_bytes + tally.hit_bytes);
            failed += tally.failed;
            most_bytes = most_bytes.max(side.used_bytes().filter(|_| self.product.keeps_on_disk()));
        }
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let taken = most_bytes.map(|most| share(most.saturating_sub(before), disk_bytes));
        Ok(Found { objects: share(hits, requests), bytes: share(hit_bytes, bytes), taken, failed })
    }
}
