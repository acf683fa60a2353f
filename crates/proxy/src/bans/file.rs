//! Where bans are written down: a file in the cache's first directory, which grows at its end and is written anew once most of it is useless.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use rustix::fs::OFlags;

use super::marks::Ban;
use super::record::{Beginning, Damage, Left, bytes_of, read};
use super::table::Table;

/// The file's name in the cache's directory.
const NAME: &str = "tinaja.bans";
/// Where it is written anew.
const NEW: &str = "tinaja.bans.new";
/// Where a damaged one is put.
const DAMAGED: &str = "tinaja.bans.damaged";
/// No file that we write is longer: all bans that are held take some 12 MiB, and those that are written down only twice as much at most; one that would be
/// longer than half of this is written anew.
const MOST_FILE_BYTES: u64 = 64 << 20;
/// Numbers that a file sets aside at once for what is no ban: it is written so much less often.
const SET_ASIDE: u64 = 4096;
/// A file is written anew once it has so many records, and most of them are useless.
const MOST_USELESS: usize = 4096;

/// The file in a directory.
pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// Copies the bans of a cache whose first directory was `from` to where they are looked for from now on. Nothing where there are none.
///
/// Errors: what the system says; then there is no file, or the one from before.
pub fn carry(from: &Path, to: &Path) -> io::Result<()> {
    let (new, there) = (to.join(NEW), path(from));
    if !there.is_file() || there == path(to) {
        return Ok(());
    }
    fs::remove_file(&new).or_else(none_is_well)?;
    let mut copy = options().append(true).create_new(true).mode(0o600).open(&new)?;
    io::copy(&mut options().read(true).open(there)?.take(MOST_FILE_BYTES), &mut copy)?;
    let dir = File::open(to)?;
    if dir.metadata()?.uid() != copy.metadata()?.uid() {
        let owner = dir.metadata()?;
        let _ = fchown(&copy, Some(owner.uid()), Some(owner.gid()));
    }
    copy.sync_all()?;
    fs::rename(new, path(to))?;
    dir.sync_all()
}

/// What bans are written to.
pub(super) struct Book {
    dir: PathBuf,
    /// 0 while there is no file yet.
    id: u32,
    /// Where the next ban is written; none while there is no file, or the one that there is cannot be relied on.
    file: Option<File>,
    bytes: u64,
    records: usize,
    /// After a restart no number up to this one is given again.
    set_aside: u64,
    /// Those that are not in it any more.
    left: Left,
}

impl Book {
    /// Opens the book in a directory, if there is one. A damaged one is put aside, and everything that is stored is stale
    /// by the one that takes its place.
    ///
    /// Errors: what the system says.
    pub fn open(dir: &Path, now: u64) -> io::Result<(Table, Book)> {
        let none =
            Book { dir: dir.to_owned(), id: 0, file: None, bytes: 0, records: 0, set_aside: 0, left: Left::default() };
        let path = path(dir);
        let file = match options().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Table::new(0, 0, now), none)),
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is no file"));
        }
        let mut bytes = Vec::new();
        (&file).take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        match whole(&bytes) {
            Ok((beginning, bans, whole_bytes)) => {
                if whole_bytes < bytes.len() as u64 {
                    tracing::info!(path = %path.display(), "a purge that was cut off before it was answered is not in the file any more");
                    file.set_len(whole_bytes)?;
                    file.sync_all()?;
                }
                let mut table = Table::new(beginning.book, beginning.number, now);
                table.set_left(beginning.left);
                let records = bans.len();
                bans.into_iter().for_each(|ban| _ = table.apply(ban));
                // Written at its end by whoever has the lock of the cache.
                let file = options().append(true).open(&path)?;
                let Beginning { book: id, number: set_aside, left } = beginning;
                Ok((table, Book { id, file: Some(file), bytes: whole_bytes, records, set_aside, left, ..none }))
            }
            Err(damage) => {
                let aside = dir.join(DAMAGED);
                tracing::error!(
                    path = %path.display(), kept = %aside.display(),
                    "nobody can tell any more which objects were purged: {damage}; everything that is stored is validated before it is used"
                );
                let table = Table::distrusting(now);
                let mut book = Book { id: table.now().book(), ..none };
                // By another name until a new one takes its own. Without it there is less to look into.
                if let Err(error) =
                    fs::remove_file(&aside).or_else(none_is_well).and_then(|()| fs::hard_link(&path, &aside))
                {
                    tracing::warn!(%error, "the damaged file is not kept");
                }
                book.write_anew(table.number(), &table.all())?;
                Ok((table, book))
            }
        }
    }

    /// Makes one where there is none yet.
    ///
    /// Errors: what the system says; there is none then.
    pub fn begin(&mut self) -> io::Result<()> {
        if self.id != 0 {
            return Ok(());
        }
        self.id = random_id();
        self.write_anew(0, &[]).inspect_err(|_| self.id = 0)
    }

    /// The id that stamps have; 0 while there is none.
    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn path(&self) -> PathBuf {
        path(&self.dir)
    }

    /// Sees to it that no number up to this one is given again after a restart, though no ban has it.
    ///
    /// Errors: what the system says; then it may be.
    pub fn set_aside(&mut self, number: u64, table: &RwLock<Table>) -> io::Result<()> {
        if number <= self.set_aside && self.file.is_some() {
            return Ok(());
        }
        self.begin()?;
        let all = table.read().all();
        self.write_anew(number + SET_ASIDE, &all)
    }

    /// Writes bans down, behind those in `table`.
    ///
    /// Errors: what the system says; none of them is written then, unless the system fails at that too: then they may hold after a restart.
    pub fn add(&mut self, table: &RwLock<Table>, new: &[Ban]) -> io::Result<()> {
        let records: Vec<u8> = new.iter().flat_map(|ban| bytes_of(self.id, ban)).collect();
        let is_long = self.bytes + records.len() as u64 > MOST_FILE_BYTES / 2;
        let Some(file) = self.file.as_mut().filter(|_| !is_long) else {
            let (number, mut all) = {
                let table = table.read();
                (table.number(), table.all())
            };
            all.extend_from_slice(new);
            let before = self.id;
            if before == 0 {
                self.id = random_id();
            }
            return self.write_anew(number, &all).inspect_err(|_| self.id = before);
        };
        if let Err(error) = file.write_all(&records).and_then(|()| file.sync_data()) {
            // What was written of them goes, and what a flush has failed for is never relied on.
            let _ = file.set_len(self.bytes).and_then(|()| file.sync_all());
            self.file = None;
            return Err(error);
        }
        self.bytes += records.len() as u64;
        self.records += new.len();
        Ok(())
    }

    /// Writes the file anew if most of it is of no use.
    ///
    /// Errors: what the system says; the file is as it was then.
    pub fn shorten(&mut self, table: &RwLock<Table>) -> io::Result<()> {
        let (number, all) = {
            let table = table.read();
            if self.file.is_none() || self.records < 2 * table.written() + MOST_USELESS {
                return Ok(());
            }
            (table.number(), table.all())
        };
        self.write_anew(number, &all)
    }

    /// Writes the file anew with these, which are all but those that have left it.
    ///
    /// Errors: what the system says; the file is as it was then, or nothing more is written to it.
    pub fn leave_out(&mut self, left: Left, number: u64, bans: &[Ban]) -> io::Result<()> {
        let before = std::mem::replace(&mut self.left, left);
        self.write_anew(number, bans).inspect_err(|_| self.left = before)
    }

    /// The file is whole at any moment: the old one, or the new one in its place.
    fn write_anew(&mut self, number: u64, bans: &[Ban]) -> io::Result<()> {
        let number = number.max(self.set_aside);
        let new = self.dir.join(NEW);
        fs::remove_file(&new).or_else(none_is_well)?;
        let dir = File::open(&self.dir)?;
        let mut is_in_place = false;
        let written = (|| {
            let mut file = options().append(true).create_new(true).mode(0o600).open(&new)?;
            let mut bytes = Beginning { book: self.id, number, left: self.left }.bytes().to_vec();
            bytes.extend(bans.iter().flat_map(|ban| bytes_of(self.id, ban)));
            file.write_all(&bytes)?;
            // Whoever purges a stopped cache as root leaves the file to whom the cache is.
            let owner = dir.metadata()?;
            if owner.uid() != file.metadata()?.uid() {
                let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
            }
            file.sync_all()?;
            fs::rename(&new, self.path())?;
            is_in_place = true;
            dir.sync_all()?;
            Ok((file, bytes.len() as u64))
        })();
        let (file, bytes) = written.inspect_err(|_: &io::Error| {
            if is_in_place {
                // The one that is open has no name any more: the next purge is written with a new one.
                self.file = None;
            }
            // Left behind, the next one removes it.
            let _ = fs::remove_file(&new);
        })?;
        (self.file, self.bytes, self.records) = (Some(file), bytes, bans.len());
        self.set_aside = number;
        Ok(())
    }
}

/// That there is no such file is no error.
fn none_is_well(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// All in a file: its beginning, its bans, and how many bytes that is.
fn whole(bytes: &[u8]) -> Result<(Beginning, Vec<Ban>, u64), Damage> {
    let (beginning, beginning_bytes) = Beginning::of(bytes)?;
    if bytes.len() as u64 > MOST_FILE_BYTES {
        return Err(Damage::At(bytes.len()));
    }
    let (bans, length) = read(beginning.book, beginning_bytes, bytes.get(beginning_bytes..).unwrap_or_default())?;
    Ok((beginning, bans, (beginning_bytes + length) as u64))
}

/// No link is followed, and nothing is waited for that is no file.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

/// An id that no other book has had.
pub(super) fn random_id() -> u32 {
    // RandomState is seeded from the system's randomness, and differs with each use. 0 stands for none.
    let random = RandomState::new().hash_one(std::process::id());
    u32::try_from(random >> 40).unwrap_or(1).max(1)
}
