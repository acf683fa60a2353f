//! Opening: the newest whole snapshot, and whatever has been written since.
//!
//! After a clean stop the snapshot says everything. After a crash each region says what it holds by its summary, or by its
//! records, and what has a number that the snapshot does not cover is entered once more, in the order of the numbers. What it
//! does cover counts only if it leads there: so nothing comes back that was replaced, removed or evicted before.
//!
//! Without a whole snapshot, in a disk of which nothing has left, all records count. In another one, nobody knows what
//! was replaced by records that are gone: it opens empty, and its first act is to say so in both snapshots. So that this needs a
//! damaged disk, whatever is opened without a snapshot has one taken at once, and nothing is cleaned without one.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::index::AnyIndex;
use super::ledger::Ledger;
use super::options::GenerationalOptions;
use super::snapshot::{Covered, header, read_header};
use super::table::Table;
use super::tally::{Known, Tally};
use crate::device::{Device, blocking};
use crate::engine::Place;
use crate::engine::segments::Index;
use crate::index::Sets;
use crate::layout::alone::Alone;
use crate::layout::frontier::Begin;
use crate::layout::scan::Scan;
use crate::layout::{Frontier, LogLayout, Segments, SnapshotHeader, Snapshots, SummaryEntry};
use crate::replace::Generations;
use crate::replace::generations::{Log as LogNumber, Shape};

/// What was found, ready for use.
pub struct Opened {
    pub index: AnyIndex,
    pub frontier: Arc<Frontier>,
    pub policy: Generations,
    pub tally: Tally,
    pub covered: Mutex<Covered>,
    /// Of the snapshot that counts; 0 without.
    pub epoch: u64,
    /// Parts of the disk that did not verify.
    pub damaged: u64,
    /// Nothing of what lies on the disk counts: that has to be written down before anything else.
    pub is_void: bool,
    /// Records were found, and no snapshot.
    pub lacks_snapshot: bool,
}

/// Numbers of records, and places, go on so far behind the last that are known where some may not be known.
const NUMBERS_LEFT_OUT: u64 = 1 << 32;
/// After a crash the next snapshot's number, from that of the one that was loaded: an odd step, so that it goes to the other
/// area; and not one, since that snapshot may be there in part.
const STEP: u64 = 3;

/// A whole snapshot.
struct Loaded {
    header: SnapshotHeader,
    slots: Slots,
    ledger: Ledger,
}

/// The slots of a snapshot, or none: where the index goes by them.
enum Slots {
    /// In memory.
    Memory(Sets),
    /// On the disk, in the snapshot of this number.
    Disk(Box<Table>, Option<u64>),
}

impl Slots {
    fn none(options: &GenerationalOptions) -> Slots {
        match options.table_plan() {
            None => Slots::Memory(Index::room_in_shards(options.slots, options.format.shard_bytes())),
            Some(plan) => Slots::Disk(Box::new(Table::new(&plan)), None),
        }
    }

    fn load(&self, page: u64, bytes: &[u8]) {
        match self {
            Slots::Memory(sets) => sets.load_shard(page, bytes),
            Slots::Disk(table, _) => table.load(page, bytes),
        }
    }
}

/// What the disk holds.
struct Found {
    index: AnyIndex,
    segments: Arc<Segments>,
    tally: Tally,
    ledger: Ledger,
    damaged: u64,
    is_void: bool,
}

/// Open what is on the device. Errors: the device's, as text.
pub fn open(device: &Arc<dyn Device>, options: &GenerationalOptions) -> Result<Opened, String> {
    let (layout, stamp) = (options.layout, options.stamp);
    let snapshots = Snapshots { device: &**device, layout: options.saved, stamp };
    let (headers, damaged) = snapshots.headers();
    let loaded = headers.iter().find_map(|header| load(&snapshots, options, *header));
    let whole = loaded.as_ref().map(|loaded| loaded.header);
    let damaged = damaged + headers.iter().take_while(|header| Some(**header) != whole).count() as u64;
    let (up_to, was_closed) = whole.as_ref().map_or((0, false), read_header);
    let policy = Generations::new(layout.log_bytes(), layout.region_bytes, options.value);
    let is_clean = was_closed && damaged == 0;
    let found = match loaded {
        Some(loaded) if is_clean => as_saved(device, options, loaded, policy.shape()),
        loaded => after_a_crash(device, options, loaded, up_to, &policy)?,
    };
    if !options.read_only {
        let headers = Headers { found: &headers, whole };
        headers.leave_none_that_is_clean(&snapshots).map_err(|error| error.to_string())?;
        blocking::sync(&**device).map_err(|error| error.to_string())?;
    }
    policy.resume(found.ledger.now);
    policy.recall(&found.ledger.learned);
    let lacks_snapshot = whole.is_none() && found.ledger.segments.iter().any(|(known, _)| known.home > 0);
    let next = match whole {
        Some(header) => header.number + if is_clean { 1 } else { STEP },
        // Of those that are damaged no number is known.
        None if damaged > 0 => RandomState::new().build_hasher().finish() >> 32 << 8 | 1,
        None => 1,
    };
    let begin = Begin { at: found.ledger.newest, logs: policy.logs(), number: found.ledger.next_number };
    let frontier =
        Frontier::start(device.clone(), layout, stamp, begin, options.flush_every, Some(found.segments.clone()));
    Ok(Opened {
        index: found.index,
        frontier: frontier.map_err(|error| error.to_string())?,
        policy,
        tally: found.tally,
        covered: Covered::going_on(next, if found.is_void { 0 } else { up_to }),
        epoch: whole.map_or(0, |header| header.epoch),
        damaged: damaged + found.damaged,
        is_void: found.is_void,
        lacks_snapshot,
    })
}

/// The headers that were found, and the one whose snapshot is whole.
struct Headers<'a> {
    found: &'a [SnapshotHeader],
    whole: Option<SnapshotHeader>,
}

impl Headers<'_> {
    /// From now on no snapshot is all that there is. Those that could not be read, or are damaged, are made void: what they say
    /// may be old when they can be read again.
    fn leave_none_that_is_clean(&self, snapshots: &Snapshots<'_>) -> io::Result<()> {
        for area in 0..2 {
            let found = self.found.iter().find(|header| header.number % 2 == area);
            let is_older = found.zip(self.whole).is_some_and(|(found, whole)| found.number <= whole.number);
            match found.filter(|_| is_older).map(|found| (found.number, read_header(found), found.epoch)) {
                Some((number, (up_to, true), epoch)) => snapshots.write_header(header(number, up_to, false, epoch))?,
                Some((_, (_, false), _)) => {}
                None => snapshots.void(area)?,
            }
        }
        Ok(())
    }
}

/// The snapshot of a header, if all of it is as it was written.
fn load(snapshots: &Snapshots<'_>, options: &GenerationalOptions, header: SnapshotHeader) -> Option<Loaded> {
    let (slots, mut behind) = (Slots::none(options), Vec::new());
    let shards = options.shards();
    let whole =
        snapshots.read(
            header,
            |page, bytes| {
                if page < shards { slots.load(page, bytes) } else { behind.extend_from_slice(bytes) }
            },
        );
    let ledger = Ledger::decode(&behind, options.layout.regions).filter(|_| whole);
    if ledger.is_none() {
        tracing::warn!(
            "a snapshot of the index is damaged; an older one, or what the segments say of themselves, will do"
        );
    }
    let slots = match slots {
        Slots::Disk(table, _) => Slots::Disk(table, Some(header.number)),
        in_memory @ Slots::Memory(_) => in_memory,
    };
    Some(Loaded { header, slots, ledger: ledger? })
}

/// The index over segments of which this is known. Of what its slots lead to counts what lies in segments that are those of `before`.
fn over(
    device: &Arc<dyn Device>,
    options: &GenerationalOptions,
    slots: Slots,
    (before, ledger): (&Ledger, &Ledger),
    shape: Shape,
) -> (AnyIndex, Arc<Segments>, Tally) {
    let layout = options.layout;
    let homes = (0..ledger.segments.len()).filter_map(|number| ledger.home(number));
    let segments = Segments::new(device.clock().clone(), layout, options.entries(), homes, None);
    let tally = Tally::new(layout);
    for (number, (known, _)) in ledger.segments.iter().enumerate() {
        tally.put(number, *known);
        if let Some(home) = ledger.home(number) {
            segments.belongs(home, known.log.into());
        }
    }
    let segments = Arc::new(segments);
    let index = match slots {
        Slots::Memory(sets) => {
            let index =
                Index::over(sets, segments.clone(), layout).with_choices(options.format.choices()).knows_displaced();
            index.drop_homeless(|number| before.home(number) != ledger.home(number));
            AnyIndex::Memory(index)
        }
        Slots::Disk(table, number) => {
            let homes = (0..layout.regions as usize).map(|at| before.home(at).map_or(0, |home| home.0 + 1));
            // Those of a segment of which nothing has changed since the snapshot. Where large objects are, one knows little: beside their
            // parts there are few records.
            let objects = |at: usize| {
                let known = |ledger: &Ledger| ledger.segments.get(at).map(|(known, _)| *known).unwrap_or_default();
                let after = known(ledger);
                let is_known = known(before) == after && !shape.is_large(LogNumber(after.log));
                (after.home == 0 || is_known).then_some(after.objects)
            };
            AnyIndex::Disk(Arc::new(table.over(segments.clone(), number, homes.collect(), objects, &before.superseded)))
        }
    };
    (index, segments, tally)
}

fn as_saved(device: &Arc<dyn Device>, options: &GenerationalOptions, loaded: Loaded, shape: Shape) -> Found {
    let Loaded { slots, ledger, .. } = loaded;
    let (index, segments, tally) = over(device, options, slots, (&ledger, &ledger), shape);
    Found { index, segments, tally, ledger, damaged: 0, is_void: false }
}

/// Read what every region says of itself, and enter what the snapshot does not cover.
fn after_a_crash(
    device: &Arc<dyn Device>,
    options: &GenerationalOptions,
    loaded: Option<Loaded>,
    up_to: u64,
    policy: &Generations,
) -> Result<Found, String> {
    let (layout, stamp) = (options.layout, options.stamp);
    let scan = Scan { device: &**device, layout, stamp, damaged: RefCell::default() };
    let had_snapshot = loaded.is_some();
    let (slots, before) = match loaded {
        Some(Loaded { slots, ledger, .. }) => (slots, ledger),
        None => (Slots::none(options), Ledger::default()),
    };
    let is_known = |number: usize, region: Place| {
        let closed =
            before.segments.get(number).is_some_and(|(known, is_current)| !is_current && known.last_number < up_to);
        closed && before.home(number) == Some(region)
    };
    let (mut regions, mut unreadable) = (Vec::new(), Vec::new());
    for number in 0..layout.regions as usize {
        let alone = scan.alone(number, |region| is_known(number, region));
        unreadable.extend(alone.is_err().then_some(number));
        regions.push(alone.ok().flatten());
    }
    // The place before the first of lap 1.
    let least = Place(layout.log_bytes() - layout.region_bytes);
    let newest = regions.iter().flatten().map(|alone| alone.region).fold(before.newest.max(least), Place::max);
    let entries = || regions.iter().flatten().flat_map(|alone| &alone.entries);
    let next_number = entries().map(|entry| entry.number + 1).fold(before.next_number.max(up_to), u64::max);
    let went_round = layout.lap(newest) > 1;
    let has_left = regions.iter().flatten().any(|alone| alone.is_void);
    // In the first lap the logs begin one segment after the other. Beyond the newest lie those that were begun and hold nothing
    // yet, one of each log at the most, and others that cannot be read; and then none.
    let found = (newest.0 - least.0) / layout.region_bytes;
    let begun_at_most = found as usize + policy.logs() + unreadable.len();
    let is_unreadable = unreadable.iter().any(|number| went_round || *number < begun_at_most);
    if is_unreadable || (!had_snapshot && (went_round || has_left)) {
        let newest = Place(newest.0 + layout.log_bytes());
        let next_number = next_number + NUMBERS_LEFT_OUT;
        let segments = vec![Default::default(); layout.regions as usize];
        let ledger =
            Ledger { next_number, newest, now: before.now, segments, learned: before.learned, ..Ledger::default() };
        let (index, segments, tally) = over(device, options, Slots::none(options), (&ledger, &ledger), policy.shape());
        let damaged = scan.damaged.borrow().len() as u64 + u64::from(is_unreadable);
        return Ok(Found { index, segments, tally, ledger, damaged, is_void: true });
    }
    forget_bodiless(&scan, &mut regions);
    for region in &mut regions {
        region.take_if(|alone| alone.is_void);
    }
    if !options.read_only {
        // A process that was killed may have left records unsynced that are found from now on, and that summaries are to
        // vouch for.
        blocking::sync(&**device).map_err(|error| error.to_string())?;
        regions.iter().flatten().filter_map(|alone| alone.walked.as_ref()).for_each(|walked| scan.seal_one(walked));
    }
    let known = |(number, alone): (usize, &Option<Alone>)| {
        let Some(alone) = alone else { return Default::default() };
        let known =
            before.segments.get(number).map(|(known, _)| *known).filter(|known| known.home == alone.region.0 + 1);
        match known {
            Some(known) if is_known(number, alone.region) => (known, false),
            known => (found_anew(alone, known, policy, before.now), false),
        }
    };
    let segments = regions.iter().enumerate().map(known).collect();
    let (newest, next_number) = match had_snapshot || regions.iter().any(Option::is_some) {
        true => behind_what_was_on_its_way(newest, next_number, layout, policy),
        false => (newest, next_number),
    };
    let ledger =
        Ledger { next_number, newest, now: before.now, segments, learned: before.learned.clone(), ..Ledger::default() };
    let (index, segments, tally) = over(device, options, slots, (&before, &ledger), policy.shape());
    let mut entries: Vec<SummaryEntry> = regions.into_iter().flatten().flat_map(|alone| alone.entries).collect();
    entries.retain(|entry| entry.number >= up_to);
    entries.sort_unstable_by_key(|entry| entry.number);
    for entry in entries {
        index.enter(entry.kind, entry.id_low, entry.place, by_hits_and_place);
    }
    let damaged = scan.damaged.borrow().len() as u64;
    Ok(Found { index, segments, tally, ledger, damaged, is_void: false })
}

/// The place and the number to go on from. What was being written when the process died is not known: in each log a segment may have
/// been begun of which only later batches have landed, and more may land now. If their places and numbers were used again, such a
/// batch could go on behind a new one, and what it says would be taken for newer.
fn behind_what_was_on_its_way(newest: Place, number: u64, layout: LogLayout, policy: &Generations) -> (Place, u64) {
    let begun = policy.logs() as u64 * layout.region_bytes;
    (Place(newest.0 + begun + layout.log_bytes()), number + NUMBERS_LEFT_OUT)
}

/// What a region that the snapshot does not know, or knew while it was being written, says of itself. Whose it is follows from
/// the size of its objects. One object too many is counted where there are any: there may be records that nothing led to, of which a part was
/// lost, or that have landed since. So it never seems that all there is counts, and nothing in it is read along.
pub(super) fn found_anew(alone: &Alone, before: Option<Known>, policy: &Generations, now: u64) -> Known {
    let objects = alone.entries.iter().filter(|entry| entry.kind.is_indexed()).count() as u32;
    let log = match u64::from(objects) {
        0 => policy.log_of_large(None, false),
        objects => policy.log_of_new(alone.used / objects, false),
    };
    Known {
        home: alone.region.0 + 1,
        log: before.map_or(log.0, |known| known.log),
        born: before.map_or(now, |known| known.born),
        objects: objects + u32::from(objects > 0),
        bytes: alone.used,
        last_number: alone.entries.iter().map(|entry| entry.number).max().unwrap_or(0),
    }
}

/// From a full set leaves the oldest record that nobody asked for, or the oldest.
fn by_hits_and_place(hits: u8, place: Place) -> u64 {
    u64::from(hits > 0) << 63 | place.0 >> 1
}

/// A large object's table may be there while parts of its body are not: then the object was not acknowledged, and it must not
/// hide what it was to replace. Parts that have left are another thing: their region says so, or was begun anew since. That object was
/// there, and what it replaced must not come back.
fn forget_bodiless(scan: &Scan<'_>, regions: &mut [Option<Alone>]) {
    let walked = regions.iter().flatten().filter_map(|alone| alone.walked.as_ref());
    let there: HashSet<Place> = walked.flat_map(|walked| walked.records.iter().copied()).collect();
    let sealed: HashSet<Place> =
        regions.iter().flatten().filter(|alone| alone.walked.is_none()).map(|alone| alone.region).collect();
    let begun: Vec<_> = regions.iter().map(|alone| alone.as_ref().map(|alone| alone.region)).collect();
    let lost = |place: Place| {
        let region = scan.layout.region_of(place);
        let now = begun.get(scan.layout.region_number(region)).copied().flatten();
        let has_left = now.is_some_and(|now| now > region);
        !has_left && !sealed.contains(&region) && !there.contains(&place)
    };
    for alone in regions.iter_mut().flatten() {
        if let Some(walked) = &mut alone.walked {
            walked.forget_bodiless(lost);
            alone.entries.clone_from(&walked.entries);
        }
    }
}
