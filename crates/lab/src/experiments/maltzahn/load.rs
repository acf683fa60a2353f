//! What is asked for, from the generator or from a log.

use std::collections::HashMap;
use std::path::Path;

use super::future::class_of;
use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::{Hosts, HostsOptions, Kept, MAX_REQUESTS, Request, Trace, read_trace_of};
use crate::report::{Cell, Table};

/// What a log's objects may have to lie in the mapped file.
pub const SMALL_BYTES: u64 = 8192;

/// How steep the popularity of pages is, unless something else is said: Zipf's exponent.
pub const USUAL_ALPHA: f64 = 0.75;

/// Requests of the generated load, where nothing says how many. A quarter more than the paper's two days have, so that there is more than 1 GB of
/// objects of 8 KiB and less; half of them warm a cache up.
pub const REQUESTS: usize = 1_250_000;

/// Of the data of a cache without end, so much fits into memory: 512 MB of 8 GB.
const MEMORY_SHARE: f64 = 512.0 / 8192.0;
/// And so much at least: the smallest journals of ext4 keep up to 16 MB of it busy (see [`crate::peers::Bench::leave_for_files`]).
const LEAST_MEMORY_BYTES: u64 = 32 << 20;

/// Requests, with what a layout must have room for.
pub struct Load {
    /// What tables call it.
    pub title: String,
    /// In their order.
    pub requests: Vec<Request>,
    /// Whether it says from which hosts objects come.
    pub knows_hosts: bool,
    /// Distinct objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of those of 8 KiB and less.
    pub small_bytes: u64,
    /// The bytes of the segments that these take.
    pub segment_bytes: u64,
    /// What is to be said of how it was read, of a log.
    pub note: Option<String>,
}

impl Load {
    /// What tells it from every other load, for rows that are kept.
    pub fn identity(&self, seed: u64) -> String {
        format!("{}, {} requests, {} bytes, seed {seed}", self.title, self.requests.len(), self.bytes)
    }

    /// The first so many requests of the generated load, with so many views at once.
    pub fn generated(setup: &Setup, at_once: usize, requests: usize) -> Load {
        let load = Load::with_popularity(setup, at_once, requests, USUAL_ALPHA);
        Load { title: format!("generated, {at_once} views at once"), ..load }
    }

    /// The same with pages whose popularity is as steep as that.
    pub fn with_popularity(setup: &Setup, at_once: usize, requests: usize, alpha: f64) -> Load {
        let (pages, hosts) = setup.choose((1_500_000, 20_000), (20_000, 2000));
        // With fewer requests so many fewer pages that about as many are for what was asked for before.
        let share = setup.requests.map_or(1.0, |requests| requests as f64 / REQUESTS as f64);
        let pages = (pages as f64 * share) as usize;
        let options = HostsOptions { pages, hosts, alpha, at_once, rate: 12.0 };
        let requests = Hosts::new(options, setup.seed).take(requests).collect();
        Load::of(format!("generated, alpha {alpha}"), requests, true)
    }

    /// The first so many requests of a log, without those that section 4 leaves out. Errors: it cannot be read.
    pub fn of_log(number: usize, path: &Path, most: usize) -> Result<Load, LabError> {
        let Trace { mut requests, unreadable, unreadable_lines, left_out, cut } =
            read_trace_of(path, Kept::Static, MAX_REQUESTS)?;
        requests.truncate(most);
        let host = requests.first().map(|request| request.host);
        let knows_hosts = requests.iter().any(|request| Some(request.host) != host);
        let mut note =
            format!("Log {number}: {left_out} requests are left out as in section 4, as far as it says status and URL");
        if unreadable > 0 {
            note += &format!("; {unreadable} lines cannot be read, first {unreadable_lines:?}");
        }
        if cut {
            note += "; it has more requests than are read";
        }
        Ok(Load { note: Some(note + "."), ..Load::of(format!("log {number}"), requests, knows_hosts) })
    }

    /// Its requests for objects of 8 KiB and less alone, as section 4 has them for finite caches.
    pub fn small(self) -> Load {
        let requests = self.requests.into_iter().filter(|request| request.bytes <= SMALL_BYTES).collect();
        Load { note: self.note, ..Load::of(self.title, requests, self.knows_hosts) }
    }

    fn of(title: String, requests: Vec<Request>, knows_hosts: bool) -> Load {
        let sizes: HashMap<_, _> = requests.iter().map(|request| (request.object, request.bytes)).collect();
        let bytes = sizes.values().sum();
        let small_bytes = sizes.values().filter(|bytes| **bytes <= SMALL_BYTES).sum();
        let segments = sizes.values().filter_map(|bytes| class_of(*bytes)).map(|class| 512 << class);
        let (objects, segment_bytes) = (sizes.len() as u64, segments.sum());
        Load { title, requests, knows_hosts, objects, bytes, small_bytes, segment_bytes, note: None }
    }

    /// The memory that files have beside it, with what the kernel keeps of them, where it is as scarce as in the paper.
    pub fn memory_bytes(&self) -> u64 {
        ((self.bytes as f64 * MEMORY_SHARE) as u64).max(LEAST_MEMORY_BYTES)
    }

    /// What is left out to warm the cache up: half, as the paper's first day.
    pub fn measured_from(&self) -> usize {
        self.requests.len() / 2
    }
}

/// How large the loads are whose caches have no end.
pub fn table(loads: &[Load]) -> Table {
    let columns = ["load", "requests", "objects", "GB of objects", "GB of 8 KiB and less", "MB of memory for files"];
    let mut table = Table::new("The loads", &columns);
    for load in loads {
        table.row([
            load.title.as_str().into(),
            Cell::Count(load.requests.len() as u64),
            Cell::Count(load.objects),
            Cell::number(load.bytes as f64 / 1e9, 2),
            Cell::number(load.small_bytes as f64 / 1e9, 2),
            Cell::number(load.memory_bytes() as f64 / 1e6, 0),
        ]);
    }
    table
}

/// A request for an object of so many bytes.
#[cfg(test)]
pub fn request(object: u64, bytes: u64) -> Request {
    Request {
        time: std::time::Duration::ZERO,
        object,
        bytes,
        sent_bytes: bytes,
        client: 0,
        referer: None,
        host: 0,
        stream: 0,
        cachable: true,
    }
}
