//! What is replayed: a generated browser, and logs.

use std::path::Path;

use super::mebibytes;
use crate::browser::{
    BrowserOptions, Event, MOST_PAUSE_US, MakeOptions, Prepared, TRIM_BYTES, browse, is_backend_trace, prepare,
    read_backend_trace, trace_of,
};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::read_trace;
use crate::paper::segmented::INFINITE_PERCENT;
use crate::report::{Cell, Table};

/// A trace, as it was and as it is replayed.
pub struct Load {
    pub title: String,
    events: Vec<Event>,
    /// With the paper's pauses.
    pub prepared: Prepared,
}

impl Load {
    fn new(title: String, events: Vec<Event>) -> Load {
        let prepared = prepare(&events, MOST_PAUSE_US, TRIM_BYTES);
        Load { title, events, prepared }
    }

    /// Somebody who browses, until so many bytes were seen.
    pub fn generated(seed: u64, bytes: u64) -> Load {
        let requests = browse(&BrowserOptions::new(seed, bytes));
        Load::new("A generated browser".into(), trace_of(&requests, &MakeOptions::new(seed)))
    }

    /// A trace of a backend, or one made from a log of requests; only its beginning if this is to be quick. Errors: it cannot be read.
    pub fn read(setup: &Setup, number: usize, path: &Path) -> Result<Load, LabError> {
        let refused = |error: std::io::Error| LabError::Trace { path: path.to_path_buf(), why: error.to_string() };
        if is_backend_trace(path).map_err(refused)? {
            let mut events = read_backend_trace(path)?.events;
            events.truncate(setup.choose(usize::MAX, 100_000));
            return Ok(Load::new(format!("Trace {number}"), events));
        }
        let mut requests = read_trace(path)?.requests;
        requests.truncate(setup.choose(usize::MAX, 20_000));
        Ok(Load::new(format!("Log {number}"), trace_of(&requests, &MakeOptions::new(setup.seed))))
    }

    /// The same without pauses.
    pub fn without_pauses(&self) -> Prepared {
        prepare(&self.events, 0, TRIM_BYTES)
    }

    /// What the replays are of.
    pub fn table<'a>(loads: impl IntoIterator<Item = &'a Load>) -> Table {
        let columns = ["trace", "calls", "lookups", "found without end %", "paper %", "entries", "MiB", "KiB an entry"];
        let mut table = Table::new("What is replayed", &columns);
        for Load { title, prepared, .. } in loads {
            let entry = prepared.bytes as f64 / prepared.entries.max(1) as f64 / 1024.0;
            let (least, most) = INFINITE_PERCENT;
            let paper =
                if title.starts_with("Log") { Cell::Nothing } else { format!("{least:.0}-{most:.0}").as_str().into() };
            table.row([
                title.as_str().into(),
                Cell::Count(prepared.events.len() as u64),
                Cell::Count(prepared.lookups),
                Cell::percent(prepared.hit_rate()),
                paper,
                Cell::Count(prepared.entries),
                Cell::number(mebibytes(prepared.bytes), 0),
                Cell::number(entry, 1),
            ]);
        }
        table
    }
}
