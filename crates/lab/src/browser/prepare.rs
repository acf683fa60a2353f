//! A trace as the paper replays it (sections 4.1 and 4.2): what a bounded cache had evicted counts as opened, pauses have a
//! bound, and all of it is at most as large as the largest cache.

use std::collections::HashMap;

use super::{Call, Event, Extent, KEPT, Known, TraceKey};

/// Pauses between two calls are replayed up to this long, in microseconds: 5 s (section 4.1).
pub const MOST_PAUSE_US: u64 = 5_000_000;
/// Traces are trimmed to so many bytes of entries (section 4.2).
pub const TRIM_BYTES: u64 = 2 << 30;
/// A `CreateEntry` comes immediately if it comes within this: the paper's sample has it after 0.2 to 0.6 ms, and gives no bound.
const IMMEDIATELY_US: u64 = 1_000_000;

/// A trace that a cache without end could have given, and what it amounts to.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Times begin at 0; each lies behind the one before by the pause that is kept.
    pub events: Vec<Event>,
    /// Entries looked for.
    pub lookups: u64,
    /// Those that a cache without end has: all but the first time of each.
    pub hits: u64,
    /// Failed opens with an immediate create that count as opened.
    pub turned: u64,
    /// Entries that were there before the trace began: they count as created.
    pub from_before: u64,
    /// Calls left out: of handles that were not open, of streams that a backend does not have, and what failed.
    pub left_out: u64,
    /// What a cache without end holds at the end, in bytes and in entries.
    pub bytes: u64,
    /// See [`Prepared::bytes`].
    pub entries: u64,
    /// Whether the trace was cut where it had [`TRIM_BYTES`] or what was given for it.
    pub trimmed: bool,
}

impl Prepared {
    /// The share of lookups that a cache without end answers.
    pub fn hit_rate(&self) -> f64 {
        if self.lookups == 0 { 0.0 } else { self.hits as f64 / self.lookups as f64 }
    }
}

/// How the calls of a handle are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    AsTheyAre,
    /// It was created since it had been evicted; without end it would have been read.
    WritesAreReads,
    /// It was there before the trace began; from nothing it would have been written.
    ReadsAreWrites,
}

struct Open {
    key: TraceKey,
    taken: Taken,
    /// The same handle may be given out to several.
    times: u32,
}

/// Prepare a trace. Pauses are kept up to `most_pause_us`, none with 0, and none between sessions; it ends where what is cached would
/// pass `trim_bytes`. Memory: the events a second time.
pub fn prepare(events: &[Event], most_pause_us: u64, trim_bytes: u64) -> Prepared {
    let created = created_soon(events);
    let mut work = Work { known: Known::default(), open: HashMap::new(), prepared: Prepared::default() };
    let (mut before, mut now) = (events.first().map_or(0, |event| event.time_us), 0);
    for (number, event) in events.iter().enumerate() {
        if !event.starts_session {
            now += event.time_us.saturating_sub(before).min(most_pause_us);
        }
        before = event.time_us;
        let soon = created.get(number).copied().unwrap_or(false);
        let (first, second) = work.turn(&event.call, soon);
        if work.known.bytes() > trim_bytes {
            work.prepared.trimmed = true;
            break;
        }
        for (nth, call) in [first, second].into_iter().flatten().enumerate() {
            let starts_session = event.starts_session && nth == 0;
            work.prepared.events.push(Event { time_us: now, starts_session, call });
        }
    }
    work.prepared.bytes = work.known.bytes();
    work.prepared.entries = work.known.len() as u64;
    work.prepared
}

/// For each event, whether it is an open that failed with a create of the same key next and soon, or that create.
fn created_soon(events: &[Event]) -> Vec<bool> {
    let mut soon = vec![false; events.len()];
    let mut failed: HashMap<TraceKey, (usize, u64)> = HashMap::new();
    for (number, event) in events.iter().enumerate() {
        match event.call {
            Call::Open { key, entry: None } => {
                failed.insert(key, (number, event.time_us));
            }
            Call::Open { key, entry: Some(_) } => {
                failed.remove(&key);
            }
            Call::Create { key, entry } => {
                let asked = failed.remove(&key).filter(|(_, time)| event.time_us - time <= IMMEDIATELY_US);
                if let Some((asked, _)) = asked.filter(|_| entry.is_some()) {
                    [asked, number].into_iter().for_each(|at| {
                        if let Some(soon) = soon.get_mut(at) {
                            *soon = true;
                        }
                    });
                }
            }
            _ => {}
        }
    }
    soon
}

struct Work {
    known: Known,
    open: HashMap<u64, Open>,
    prepared: Prepared,
}

type Calls = (Option<Call>, Option<Call>);

impl Work {
    fn opens(&mut self, entry: u64, key: TraceKey, taken: Taken) {
        let open = self.open.entry(entry).or_insert(Open { key, taken, times: 0 });
        open.times = open.times.saturating_add(1);
    }

    fn left_out(&mut self) -> Calls {
        self.prepared.left_out += 1;
        (None, None)
    }

    /// What is replayed instead of a call; `soon`: see [`created_soon`].
    fn turn(&mut self, call: &Call, soon: bool) -> Calls {
        match *call {
            Call::Open { key, entry } => self.turn_open(key, entry, soon),
            Call::Create { key, entry: Some(entry) } => self.turn_create(key, entry, soon),
            Call::Create { entry: None, .. } => self.left_out(),
            Call::Doom { entry } => match self.open.get(&entry) {
                Some(open) => {
                    self.known.remove(&open.key);
                    (Some(*call), None)
                }
                None => self.left_out(),
            },
            Call::Close { entry } => {
                let Some(open) = self.open.get_mut(&entry) else { return self.left_out() };
                open.times -= 1;
                if open.times == 0 {
                    self.open.remove(&entry);
                }
                (Some(*call), None)
            }
            Call::Read { entry, part, result } => self.turn_moved(entry, part, result, None),
            Call::Write { entry, part, truncate, result } => self.turn_moved(entry, part, result, Some(truncate)),
        }
    }

    fn turn_open(&mut self, key: TraceKey, entry: Option<u64>, soon: bool) -> Calls {
        self.prepared.lookups += 1;
        let known = self.known.sizes(&key).is_some();
        self.prepared.hits += u64::from(known);
        match entry {
            Some(entry) if known => {
                self.opens(entry, key, Taken::AsTheyAre);
                (Some(Call::Open { key, entry: Some(entry) }), None)
            }
            Some(entry) => {
                self.prepared.from_before += 1;
                self.known.insert(key);
                self.opens(entry, key, Taken::ReadsAreWrites);
                (Some(Call::Open { key, entry: None }), Some(Call::Create { key, entry: Some(entry) }))
            }
            // The create that follows becomes the open.
            None if known && soon => (None, None),
            None => (Some(Call::Open { key, entry: None }), None),
        }
    }

    fn turn_create(&mut self, key: TraceKey, entry: u64, soon: bool) -> Calls {
        if self.known.sizes(&key).is_none() {
            self.known.insert(key);
            self.opens(entry, key, Taken::AsTheyAre);
            return (Some(Call::Create { key, entry: Some(entry) }), None);
        }
        // Made without having been looked for: it is written over.
        self.prepared.turned += u64::from(soon);
        self.opens(entry, key, if soon { Taken::WritesAreReads } else { Taken::AsTheyAre });
        (Some(Call::Open { key, entry: Some(entry) }), None)
    }

    /// `ReadData`, or `WriteData` with its truncate.
    fn turn_moved(&mut self, entry: u64, part: Extent, result: i64, truncate: Option<bool>) -> Calls {
        let Some(open) = self.open.get(&entry).filter(|_| result >= 0 && (part.stream as usize) < KEPT) else {
            return self.left_out();
        };
        let (key, taken, moved) = (open.key, open.taken, result.unsigned_abs());
        let moved_part = Extent { len: moved, ..part };
        let had = self.known.sizes(&key).and_then(|sizes| sizes.get(part.stream as usize).copied()).unwrap_or_default();
        let call = match (truncate, taken) {
            (None, Taken::ReadsAreWrites) if part.offset + moved > had => {
                Call::Write { entry, part: moved_part, truncate: false, result }
            }
            (Some(_), Taken::WritesAreReads) if part.offset + moved <= had => {
                Call::Read { entry, part: moved_part, result }
            }
            (None, _) => Call::Read { entry, part, result },
            (Some(truncate), _) => Call::Write { entry, part: moved_part, truncate, result },
        };
        if let Call::Write { part, truncate, .. } = call {
            self.known.write(&key, part, truncate);
        }
        (Some(call), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::parse_line;

    /// An entry made, evicted by whoever wrote the trace, and made again; one that was there before; a handle from nowhere.
    const TRACE: &str = "10 OpenEntry AA:77 -2:0
20 CreateEntry AA:77 0:0x1
30 WriteData 0x1:0:0:500:1 500:0
7000030 WriteData 0x1:1:0:9000:0 9000:0
7000040 Close 0x1 0
7000050 OpenEntry AA:77 -2:0
7000055 OpenEntry BB:50 0:0x2
7000060 CreateEntry AA:77 0:0x1
7000070 ReadData 0x2:1:0:4096 300:0
7000080 WriteData 0x1:0:0:500:1 500:0
7000090 WriteData 0x1:1:0:9000:0 9000:0
7000100 Close 0x9 0
7000110 Close 0x1 0
7000120 WriteData 0x2:5:0:1:0 1:0
7000130 ReadData 0x2:0:0:9 -2:0
7000140 Doom 0x2 0
7000150 Close 0x2 0";

    fn events() -> Vec<Event> {
        TRACE.lines().map(|line| parse_line(line).unwrap()).collect()
    }

    #[test]
    fn what_had_been_evicted_is_opened_and_read() {
        let prepared = prepare(&events(), MOST_PAUSE_US, TRIM_BYTES);
        let lines: Vec<_> = prepared.events.iter().map(ToString::to_string).collect();
        let (a, b) = (format!("{:0>40}:77", "AA"), format!("{:0>40}:50", "BB"));
        assert_eq!(
            lines,
            [
                &format!("0 OpenEntry {a} -2:0"),
                &format!("10 CreateEntry {a} 0:0x1"),
                "20 WriteData 0x1:0:0:500:1 500:0",
                "5000020 WriteData 0x1:1:0:9000:0 9000:0",
                "5000030 Close 0x1 0",
                &format!("5000045 OpenEntry {b} -2:0"),
                &format!("5000045 CreateEntry {b} 0:0x2"),
                &format!("5000050 OpenEntry {a} 0:0x1"),
                "5000060 WriteData 0x2:1:0:300:0 300:0",
                "5000070 ReadData 0x1:0:0:500 500:0",
                "5000080 ReadData 0x1:1:0:9000 9000:0",
                "5000100 Close 0x1 0",
                "5000130 Doom 0x2 0",
                "5000140 Close 0x2 0",
            ]
        );
        let Prepared { lookups, hits, turned, from_before, left_out, bytes, entries, trimmed, .. } = prepared;
        assert_eq!((lookups, hits, turned, from_before, left_out), (3, 1, 1, 1, 3));
        assert_eq!((bytes, entries, trimmed), (9500, 1, false));
    }

    #[test]
    fn pauses_and_bytes_have_their_bounds() {
        let without = prepare(&events(), 0, TRIM_BYTES);
        assert!(without.events.iter().all(|event| event.time_us == 0) && without.events.len() == 14);
        let mut two = events();
        two[3].starts_session = true;
        assert_eq!(prepare(&two, MOST_PAUSE_US, TRIM_BYTES).events[3].time_us, 20, "none between sessions");
        let trimmed = prepare(&events(), 0, 9000);
        assert_eq!((trimmed.trimmed, trimmed.events.len()), (true, 3));
    }

    #[test]
    fn a_create_long_after_is_not_the_opens() {
        let late = "1 CreateEntry A:1 0:0x1\n2 WriteData 0x1:0:0:5:1 5:0\n3 Close 0x1 0\n4 OpenEntry A:1 -2:0\n\
            9000000 CreateEntry A:1 0:0x2\n9000001 WriteData 0x2:0:0:5:1 5:0\n";
        let events: Vec<_> = late.lines().map(|line| parse_line(line).unwrap()).collect();
        let prepared = prepare(&events, 0, TRIM_BYTES);
        assert_eq!((prepared.turned, prepared.hits, prepared.events.len()), (0, 1, 6));
        assert!(matches!(prepared.events[5].call, Call::Write { truncate: true, .. }));
    }
}
