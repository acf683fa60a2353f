//! What is found when the cache is opened.
//!
//! Of every file the end is read and the record's header: that takes a file system some 10,000 files a second from memory, and as many as
//! it seeks from a disk that turns. A file without an end was being written when the process or the power went: it is removed.
//! Of several versions of an object the one that was published last stays.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, ErrorKind};

use super::engine::TreeOptions;
use super::files::{Entry, Lies};
use super::format::{self, END_BYTES, End, MAGIC, Within};
use super::lists::{self, Beside, Listed, Lists};
use super::naming::Spot;
use super::urls::{self, Urls};
use crate::device::tree::{Call, Tree, explain};
use crate::layout::record::HEADER_BYTES;
use crate::terms::Digest;

/// How far from its end a file is searched for an older end, in bytes: as far as a new head may be long.
const SEARCHED_BYTES: u64 = (1 << 20) + 4096;

/// What there is.
pub(super) struct Found {
    /// The newest file of each object, by age.
    pub files: Vec<(u64, Entry)>,
    /// Where files lie that could not be read: they stay, and their numbers are not used.
    pub unread: Vec<Spot>,
    /// Files without a whole end, and those that could not be read.
    pub damaged: u64,
    /// Files that are none of the cache's.
    pub foreign: u64,
    /// The largest serial number.
    pub serial: u64,
    /// Where they lie, in a tree by URL.
    pub urls: Urls,
}

/// A file that is whole.
struct Whole {
    file: u64,
    digest: Digest,
    lies: Lies,
    end: End,
}

/// Look through the whole tree, and have lists of directories say what is there, where there are lists. Errors: the system's, where
/// directories cannot be read or lists cannot be written.
pub(super) fn look(tree: &dyn Tree, options: &TreeOptions, lists: Option<&Lists>) -> io::Result<Found> {
    let (mut all, mut gone, mut listed) = (Vec::new(), Vec::new(), BTreeSet::new());
    let urls = Urls::default();
    let mut found = Found { files: Vec::new(), unread: Vec::new(), damaged: 0, foreign: 0, serial: 0, urls };
    tree.list(&mut |path, size| {
        match lists.and_then(|_| lists::beside(path)) {
            Some(Beside::List) => {
                listed.insert(directory_of(path).to_owned());
                return;
            }
            // Whoever wrote is not there any more.
            Some(Beside::Lock) => return gone.push(path.to_owned()),
            None => {}
        }
        let spot = options.naming.spot_of(path);
        let Some(spot) = spot.filter(|spot| matches!(spot, Spot::File(_)) || options.mapped.is_some()) else {
            found.foreign += 1;
            return;
        };
        match whole(tree, options, path, spot, size) {
            Ok(Some(whole)) => all.push((spot, path.to_owned(), whole)),
            Ok(None) => {
                found.damaged += 1;
                gone.push(path.to_owned());
            }
            Err(error) => {
                tracing::warn!("{}", explain(&error, "read", path));
                found.damaged += 1;
                found.unread.push(spot);
            }
        }
    })?;
    // Of two versions the one that was published later counts, whichever was begun first.
    all.sort_unstable_by_key(|(_, _, whole)| whole.end.serial);
    found.serial = all.last().map_or(0, |(_, _, whole)| whole.end.serial);
    let newest: HashMap<Digest, u64> = all.iter().map(|(_, _, whole)| (whole.digest, whole.end.serial)).collect();
    // By URL a number may be used again elsewhere, and a cut of the power leave both files: the one that was published later has it.
    let last: HashMap<Spot, u64> = all.iter().map(|(spot, _, whole)| (*spot, whole.end.serial)).collect();
    let mut seen = HashSet::new();
    for (spot, path, Whole { file, digest, lies, end }) in all {
        let is_newest = newest.get(&digest) == Some(&end.serial) && last.get(&spot) == Some(&end.serial);
        let has_place = |urls: &mut Urls| lists.is_none() || enter(urls, &path);
        if is_newest && seen.insert(file) && has_place(&mut found.urls) {
            let size = lies.at + u64::from(lies.bytes) + END_BYTES as u64;
            found.files.push((file, Entry::found(digest, spot, size, end.parts_bytes, lies)));
        } else {
            gone.push(path);
        }
    }
    if !options.read_only {
        gone.iter().try_for_each(|path| tree.call(Call::Remove { path }))?;
        lists.into_iter().for_each(|lists| tell(tree, lists, &mut found, &listed));
    }
    if found.foreign > 0 {
        tracing::warn!("{} files in the cache's directory are none of the cache's: they are left alone", found.foreign);
    }
    Ok(found)
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Whether the number that a path says is nobody else's.
fn enter(urls: &mut Urls, path: &str) -> bool {
    urls::parsed(path).is_some_and(|(directory, name, number)| urls.found(number, directory, name, 0))
}

/// Have each list name the objects of its directory and nothing else: what a cut of the power or somebody else left may be otherwise.
/// One that cannot be read or written costs what lies in its directory, and not the cache.
fn tell(tree: &dyn Tree, lists: &Lists, found: &mut Found, listed: &BTreeSet<String>) {
    let mut there: BTreeMap<String, Vec<(String, u32)>> = BTreeMap::new();
    for (_, entry) in &found.files {
        let Spot::File(spot) = entry.spot else { continue };
        let path = found.urls.get(spot.file).map(|named| named.path(spot.file)).unwrap_or_default();
        let Some((directory, name)) = path.rsplit_once('/') else { continue };
        there.entry(directory.to_owned()).or_default().push((name.to_owned(), spot.file));
    }
    for directory in listed.iter().chain(there.keys().filter(|directory| !listed.contains(*directory))) {
        let says = lists.read(tree, directory).unwrap_or(Listed::Damaged);
        let mut lines = BTreeMap::new();
        for (name, number) in there.get(directory).into_iter().flatten() {
            let expires = if let Listed::Whole(says) = &says { says.get(name).copied() } else { None };
            found.urls.expires(*number, expires.unwrap_or(0));
            lines.insert(name.clone(), expires.unwrap_or(0));
        }
        if says != Listed::Whole(lines.clone()) {
            match lists.put(tree, directory, &lines) {
                // Somebody else's files may keep an empty one there.
                Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
                    tracing::warn!("{}", explain(&error, "list what is in", directory));
                }
                _ => {}
            }
        }
    }
}

/// What a file's last whole end says; `None` if it has none. Errors: it cannot be read.
fn whole(tree: &dyn Tree, options: &TreeOptions, path: &str, spot: Spot, size: u64) -> io::Result<Option<Whole>> {
    let read = |at: u64, bytes: u64| {
        let mut into = vec![0; bytes as usize];
        match tree.call(Call::Read { path, at, into: &mut into }) {
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(into),
        }
    };
    let of_end = |at: u64, bytes: &[u8]| {
        let Some(end) = format::read_end(options.stamp, bytes) else { return Ok(None) };
        let starts = at.checked_sub(end.record_bytes.into()).filter(|starts| *starts >= end.parts_bytes);
        let (Some(starts), (file, Within::Record(version))) = (starts, format::within(end.place)) else {
            return Ok(None);
        };
        // A head that replaces another may have been torn in the middle, and so may a segment. Else a first one is looked at when it
        // is asked for.
        let looks_through = version > 0 || matches!(spot, Spot::Segment(_));
        let looked_at = if looks_through { u64::from(end.record_bytes) } else { HEADER_BYTES as u64 };
        let record = read(starts, looked_at.min(at - starts))?;
        let header = options.stamp.header(&record, end.place).filter(|header| {
            let is_whole = !looks_through || format::verified(options.stamp, &record, end.place, None).is_some();
            is_whole && header.kind.is_indexed() && header.record_bytes() == end.record_bytes as usize
        });
        let lies = Lies { version, at: starts, bytes: end.record_bytes };
        Ok::<_, io::Error>(header.map(|header| Whole { file, digest: header.id, lies, end }))
    };
    let Some(last) = size.checked_sub(END_BYTES as u64) else { return Ok(None) };
    if let Some(whole) = of_end(last, &read(last, END_BYTES as u64)?)? {
        return Ok(Some(whole));
    }
    // What was being written behind an older end is not there.
    let from = size.saturating_sub(SEARCHED_BYTES);
    let searched = read(from, size - from)?;
    let ends = searched.windows(END_BYTES).enumerate().rev().filter(|(_, window)| window.starts_with(MAGIC));
    for (at, window) in ends {
        if let Some(whole) = of_end(from + at as u64, window)? {
            return Ok(Some(whole));
        }
    }
    Ok(None)
}
