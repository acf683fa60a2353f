//! Opening the log-structured cache. After a clean stop the index is as it was saved. After a crash, where the paper empties
//! the cache (section 3.2.1), we make the index anew from the segments' summaries, and from the records of segments that have
//! none: objects are expensive to fetch again, and an index is not.
//!
//! The paper maps the index from a file. Here it is read when the cache is opened and written when it is closed: to look at
//! a mapped page of a disk that fails ends the process, and a failing disk is to end nothing but its own cache. Before
//! anything is written to the log both headers are made to say that the cache is open; so an index that the log has
//! outlived is never believed.

use std::sync::Arc;

use super::options::SegmentedOptions;
use crate::device::{Device, blocking};
use crate::engine::Place;
use crate::engine::segments::{Index, SLOT_BITS};
use crate::index::Sets;
use crate::layout::opening::{OpenedLog, open_log};
use crate::layout::segments::MOST_PASSED;
use crate::layout::{Frontier, Segments, SnapshotHeader, Snapshots};

/// What was found: an index ready for use, and the frontier it goes on at.
pub struct Opened {
    pub index: Index,
    pub frontier: Arc<Frontier>,
    /// The number of the header that says that the cache is open.
    pub number: u64,
    /// Parts of the disk that did not verify.
    pub damaged: u64,
    /// Whether the index was as it had been saved.
    pub was_clean: bool,
}

fn snapshots<'a>(device: &'a dyn Device, options: &SegmentedOptions) -> Snapshots<'a> {
    Snapshots { device, layout: options.saved, stamp: options.stamp }
}

/// A header that says where the log ended, and whether the index beside it is to be believed.
fn header(number: u64, end: Place, is_clean: bool) -> SnapshotHeader {
    SnapshotHeader { number, up_to: Place(end.0 << 1 | u64::from(is_clean)), epoch: 0 }
}

/// Open what is on the device. Errors: the device's, as text.
pub fn open(device: &Arc<dyn Device>, options: &SegmentedOptions) -> Result<Opened, String> {
    let places = snapshots(&**device, options);
    let (headers, damaged) = places.headers();
    let newest = headers.first().copied();
    // Of one that is damaged it is known that it was at most the next; of both nothing is.
    let before = newest.map_or(damaged << 22, |header| header.number + damaged * 2);
    let clean = newest.filter(|header| header.up_to.0 & 1 == 1 && damaged == 0);
    let mut opened = match clean.and_then(|header| as_saved(device, options, header)) {
        Some(opened) => opened?,
        None => anew(device, options, damaged + u64::from(clean.is_some()))?,
    };
    opened.number = before + 2;
    if !options.read_only {
        let end = opened.frontier.next();
        for number in [before + 1, opened.number] {
            places.write_header(header(number, end, false)).map_err(|error| error.to_string())?;
        }
        blocking::sync(&**device).map_err(|error| error.to_string())?;
    }
    Ok(opened)
}

/// The index and the segments as they were saved; `None` if they are damaged.
fn as_saved(
    device: &Arc<dyn Device>,
    options: &SegmentedOptions,
    header: SnapshotHeader,
) -> Option<Result<Opened, String>> {
    let SegmentedOptions { layout, stamp, flush_every, .. } = *options;
    let (sets, mut homes) = (Index::room(options.slots), Vec::new());
    let shards = shards(options);
    let places = snapshots(&**device, options);
    let whole =
        places.read(
            header,
            |page, bytes| {
                if page < shards { sets.load_shard(page, bytes) } else { homes.extend_from_slice(bytes) }
            },
        );
    if !whole {
        tracing::warn!("the saved index is damaged: it is made anew from what the segments say of themselves");
        return None;
    }
    let homes = decode_homes(&homes, options);
    // Not the newest of those saved: one that was given up is not among them, and its places were given out.
    let last = layout.region_of(Place(header.up_to.0 >> 1));
    let is_free = |place: &Place| homes.iter().all(|home| layout.region_number(*home) != layout.region_number(*place));
    let behind = |step: u64| Place(last.0 + step * layout.region_bytes);
    // Where none is free that the log may go on in, the next one is evicted.
    let next = (1..=MOST_PASSED as u64 + 1).map(behind).find(is_free).unwrap_or(behind(1));
    let homes = homes.iter().copied().filter(|home| layout.region_number(*home) != layout.region_number(next));
    let segments = Segments::new(device.clock().clone(), layout, options.entries(), homes, Some(next));
    let segments = Arc::new(segments.in_turn());
    let frontier = Frontier::start(device.clone(), layout, stamp, next, flush_every, Some(segments.clone()));
    let index = Index::over(sets, segments, layout);
    index.drop_homeless(|_| false);
    let opened = |frontier| Opened { index, frontier, number: 0, damaged: 0, was_clean: true };
    Some(frontier.map(opened).map_err(|error| error.to_string()))
}

fn anew(device: &Arc<dyn Device>, options: &SegmentedOptions, damaged_before: u64) -> Result<Opened, String> {
    let SegmentedOptions { layout, stamp, read_only, flush_every, .. } = *options;
    let entries = Some(options.entries());
    let OpenedLog { frontier, found, damaged } =
        open_log(device, layout, stamp, read_only, flush_every, Place(0), entries)?;
    let segments = frontier.segments().cloned().ok_or("the log has no segments")?;
    let index = Index::over(Index::room(options.slots), segments, layout);
    // In the order in which they were written: later versions replace earlier ones, and removals remove them.
    for entry in &found.entries {
        index.enter(entry.kind, entry.id_low, entry.place);
    }
    Ok(Opened { index, frontier, number: 0, damaged: damaged + damaged_before, was_clean: false })
}

/// Save the index and where the segments begin, once nothing changes any more. A failure is logged: the next opening then
/// takes the cache to have been killed.
pub fn save(device: &dyn Device, options: &SegmentedOptions, number: u64, index: &Index, frontier: &Frontier) {
    if options.read_only || frontier.is_retired() {
        return;
    }
    let trusted = |place: &Place| !frontier.is_poisoned(*place);
    let homes = frontier.segments().map(|segments| segments.homes()).unwrap_or_default();
    let homes: Vec<u8> = homes.iter().filter(|place| trusted(place)).flat_map(|place| place.0.to_le_bytes()).collect();
    let (shards, each) = (shards(options), options.saved.page_content_bytes as usize);
    let page = |page: u64| match page.checked_sub(shards) {
        None => index.sets().copy_shard(page),
        Some(behind) => homes.chunks(each).nth(behind as usize).unwrap_or_default().to_vec(),
    };
    let end = header(number + 1, frontier.next(), true);
    if let Err(error) = snapshots(device, options).write(end, page, || blocking::sync(device)) {
        tracing::warn!("the index could not be saved, and will be made anew when the cache is opened: {error}");
    }
}

fn shards(options: &SegmentedOptions) -> u64 {
    Sets::shards_for(Index::sets_for(options.slots), SLOT_BITS).0
}

/// Places that segments of this log may begin at, each of another segment; the rest is padding.
fn decode_homes(bytes: &[u8], options: &SegmentedOptions) -> Vec<Place> {
    let places = bytes.as_chunks::<8>().0.iter().map(|bytes| Place(u64::from_le_bytes(*bytes)));
    places.take_while(|place| place.0 >= options.layout.log_bytes()).collect()
}
