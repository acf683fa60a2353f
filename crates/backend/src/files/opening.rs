//! What is in the directory when the store is opened: files that an entry speaks of stay, all others of this store go.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

use tinaja_store::engine::{Engine, Fetched, Kind, Placement, Places, Probe};
use tinaja_store::layout::table::Table;
use tinaja_store::wait::promise;
use tinaja_store::{Digest, block_on};

use super::Files;
use super::format::{END_BYTES, claims, file_bytes};
use crate::format::EntryHead;
use crate::limits::MAX_STREAM_FILES;

/// A file that may be an entry's.
struct Seen {
    written: SystemTime,
    number: u64,
    bytes: u64,
}

/// Look at every file of this store. Errors: the directory cannot be listed.
pub(super) fn look_around(files: &Files, engine: &dyn Engine) -> io::Result<()> {
    let mut seen = Vec::new();
    for entry in fs::read_dir(&files.directory)? {
        let path = entry?.path();
        match number_of(files, &path) {
            Some((number, true)) => seen.extend(seen_at(&path, number)),
            Some((_, false)) => remove(&path),
            None => {}
        }
    }
    seen.sort_by_key(|seen| (seen.written, seen.number));
    let too_many = seen.len().saturating_sub(MAX_STREAM_FILES);
    for (n, Seen { number, bytes, .. }) in seen.into_iter().enumerate() {
        let path = files.lasting(number);
        if n < too_many || !is_spoken_of(files, engine, number, &path) {
            remove(&path);
            continue;
        }
        let mut room = files.room.lock();
        room.taken = room.taken.saturating_add(bytes);
        room.add(number, bytes);
    }
    // What was there before lasts already, or did not survive.
    files.room.lock().unsynced.clear();
    // The oldest leave if there may be less than there was.
    drop(files.reserve(0));
    Ok(())
}

/// The number in a name of this store's, and whether it is a lasting name.
fn number_of(files: &Files, path: &Path) -> Option<(u64, bool)> {
    let name = path.file_name()?.to_str()?;
    let (name, ending) = name.split_once('.')?;
    let (tag, number) = name.split_once('-')?;
    let is_ours = tag == format!("{:08x}", files.tag) && number.len() == 16;
    let number = u64::from_str_radix(number, 16).ok().filter(|_| is_ours)?;
    let lasting = match ending {
        "stream" => true,
        "part" => false,
        _ => return None,
    };
    Some((number, lasting))
}

fn seen_at(path: &Path, number: u64) -> Option<Seen> {
    let metadata = fs::metadata(path).ok()?;
    let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some(Seen { written, number, bytes: metadata.len() })
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!("{} is not removed: {error}", path.display());
    }
}

/// Whether the newest record of the entry that the file says it belongs to speaks of it. What the engine cannot read now it
/// may read later: such a file stays.
fn is_spoken_of(files: &Files, engine: &dyn Engine, number: u64, path: &Path) -> bool {
    let Some((id, sum)) = verified(files, number, path) else { return false };
    // A file does not say its entry's key.
    let at = Placement::of(id);
    let places = match engine.probe(&at) {
        Probe::Absent => return false,
        Probe::At(places) => places,
        Probe::AskDisk => Places::default(),
    };
    let (done, answer) = promise();
    engine.fetch(&at, places, Box::new(move |fetched| done.keep(fetched)));
    let found = match block_on(answer) {
        Some(Fetched::Record(found)) => found,
        Some(Fetched::Missing) => return false,
        Some(Fetched::Failed(_)) | None => return true,
    };
    let body_bytes = match found.kind {
        Kind::Large => Table::decode(&found.body).map_or(0, |table| table.body_bytes()),
        _ => found.body.len() as u64,
    };
    let head = EntryHead::decode(&found.head, body_bytes);
    head.is_some_and(|head| {
        head.streams.iter().filter_map(|stream| stream.file).any(|file| (file.number, file.sum) == (number, sum))
    })
}

/// Whose the file is, and its last sum, if its end is whole.
fn verified(files: &Files, number: u64, path: &Path) -> Option<(Digest, u64)> {
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut end = vec![0; END_BYTES as usize];
    file.read_exact_at(&mut end, length.checked_sub(END_BYTES)?).ok()?;
    let (_, id, bytes) = claims(&end)?;
    let (_, sum) = files.seal(number, id).verify_end(&end).filter(|_| length == file_bytes(bytes))?;
    Some((id, sum))
}
