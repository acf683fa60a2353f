//! An engine of this test's: a directory of files, one object each. It has no superblock; it says itself whose the directory
//! is. Long bodies are streamed into their file. For brevity it writes on the caller's thread.
//!
//! A file is `ID.DIGEST`: the parts of a long body, each of [`EXTENT`] bytes but the last, then name, head and the record's
//! body, then a footer with lengths and a checksum of all of it. A place is a file's number and the number of a part, from 1;
//! 0 is the record. An older version's file goes when the newer one lasts; when the directory is full the oldest go.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_store::device::{Access, OpenDiskError};
use tinaja_store::engine::registry::{Ask, EngineRecord, Ground, Identity, InDirectory, LockedDirectory, OpeningFiles};
use tinaja_store::engine::{
    BodyWriter, Capabilities, Engine, FetchDone, Fetched, Found, Kind, Limits, Place, Placement, Places, Probe, Record,
    SyncDone, WholeBodies, no_cut_to_tell, none_wrong,
};
use tinaja_store::{Digest, ReadError, Secret, Settings, Stats, WhyNot};

/// The record: all that the rest of Tinaja knows of it.
pub static TREE: EngineRecord = EngineRecord {
    name: "test-tree",
    about: "a file an object",
    settings: &[],
    counts_objects: true,
    wrong: none_wrong,
    figures: &[],
    inspect: no_cut_to_tell,
    ground: Ground::Directory(InDirectory { is_there, create, lock }),
};

const EXTENT: usize = 256 << 10;
const FOOTER: usize = 40;
/// Files that are kept open for their readers once they are gone.
const DEPARTED: usize = 64;
const MAGIC: &[u8; 8] = b"testtree";

fn is_there(dir: &Path) -> bool {
    dir.join("tree").exists()
}

fn system(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> OpenDiskError {
    let path = path.to_path_buf();
    move |error| OpenDiskError::System { what, path, error }
}

/// What the file `tree` says: bytes, mean, disk, of disks, secret.
fn create(dir: &Path, ask: &Ask<'_>, identity: &Identity) -> Result<(), OpenDiskError> {
    let secret: String = identity.secret.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let (disk, of) = identity.disk;
    let says = format!("{} {} {disk} {of} {secret}", ask.bytes, ask.mean_object_bytes);
    let made = (|| {
        fs::create_dir_all(dir.join("objects"))?;
        let mut file = File::create(dir.join("tree.new"))?;
        file.write_all(says.as_bytes())?;
        file.sync_all()?;
        fs::rename(dir.join("tree.new"), dir.join("tree"))?;
        File::open(dir)?.sync_all()
    })();
    made.map_err(system("create", dir))
}

struct Locked {
    dir: PathBuf,
    lock: File,
    bytes: u64,
    mean_object_bytes: u64,
    identity: Identity,
}

fn lock(dir: &Path, _access: Access) -> Result<Box<dyn LockedDirectory>, OpenDiskError> {
    let path = dir.join("tree");
    let lock = File::options().read(true).write(true).open(&path).map_err(system("open", &path))?;
    lock.try_lock().map_err(|_| OpenDiskError::InUse(path.clone()))?;
    let says = fs::read_to_string(&path).map_err(system("read", &path))?;
    let words: Vec<_> = says.split(' ').collect();
    let number = |n: usize| words[n].parse::<u64>().unwrap();
    let secret: Vec<_> = (0..32).map(|n| u8::from_str_radix(&words[4][2 * n..2 * n + 2], 16).unwrap()).collect();
    let secret = Secret::from_bytes(secret.try_into().unwrap());
    let identity = Identity { secret, disk: (number(2) as u16, number(3) as u16) };
    Ok(Box::new(Locked { dir: dir.into(), lock, bytes: number(0), mean_object_bytes: number(1), identity }))
}

impl LockedDirectory for Locked {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn mean_object_bytes(&self) -> u64 {
        self.mean_object_bytes
    }

    fn made_with(&self) -> Settings {
        Settings::new()
    }

    fn open(self: Box<Self>, _: OpeningFiles) -> Result<Arc<dyn Engine>, String> {
        let inner = Inner { dir: self.dir.join("objects"), bytes: self.bytes, state: Mutex::default() };
        inner.recover().map_err(|error| error.to_string())?;
        inner.state.lock().lock = Some(self.lock);
        Ok(Arc::new(Tree(Arc::new(inner))))
    }
}

/// The engine. Memory: a few words a file.
pub struct Tree(Arc<Inner>);

struct Inner {
    dir: PathBuf,
    bytes: u64,
    state: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// By number, the oldest first; those still being written too.
    all: BTreeMap<u64, Info>,
    newest: HashMap<Digest, u64>,
    next: u64,
    bytes: u64,
    /// Not synced yet.
    new: Vec<u64>,
    /// To go once what is newer lasts.
    superseded: Vec<u64>,
    /// Gone from the directory, the newest last, and open for those who are still reading: removal ends no reader.
    departed: VecDeque<(u64, Info, Arc<File>)>,
    closed: bool,
    lock: Option<File>,
}

#[derive(Clone)]
struct Info {
    digest: Digest,
    path: PathBuf,
    bytes: u64,
    /// What it is; `None` while it is written.
    record: Option<Shape>,
}

/// Lengths in a file.
#[derive(Clone, Copy)]
struct Shape {
    kind: Kind,
    parts: u64,
    name: usize,
    head: usize,
    body: usize,
}

fn place(file: u64, part: u64) -> Place {
    Place(file << 24 | part)
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn footer(bytes: &[u8]) -> Option<Shape> {
    let (all, footer) = bytes.split_at_checked(bytes.len().checked_sub(FOOTER)?)?;
    let number = |n: usize| u64::from_le_bytes(footer[n..n + 8].try_into().unwrap());
    let kind = Kind::from_byte(footer[8])?;
    let small = |n: usize| u32::from_le_bytes(footer[n..n + 4].try_into().unwrap()) as usize;
    let shape = Shape { kind, parts: number(24), name: small(12), head: small(16), body: small(20) };
    let fits = shape.parts as usize + shape.name + shape.head + shape.body == all.len();
    (footer.starts_with(MAGIC) && fits && number(32) == sum(&bytes[..bytes.len() - 8])).then_some(shape)
}

impl Inner {
    /// Enter the files that are whole, the newest of each object; all others go.
    fn recover(&self) -> std::io::Result<()> {
        let mut state = self.state.lock();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let parsed = name.split_once('.').and_then(|(file, digest)| {
                let digest = u128::from_str_radix(digest, 16).ok()?;
                Some((u64::from_str_radix(file, 16).ok()?, Digest(digest.to_le_bytes())))
            });
            let bytes = fs::read(&path)?;
            let (Some((file, digest)), Some(shape)) = (parsed, footer(&bytes)) else {
                fs::remove_file(&path)?;
                continue;
            };
            let info = Info { digest, path, bytes: bytes.len() as u64, record: Some(shape) };
            state.bytes += info.bytes;
            state.next = state.next.max(file);
            state.all.insert(file, info);
            let newest = state.newest.entry(digest).or_insert(file);
            *newest = file.max(*newest);
        }
        let old: Vec<_> =
            state.all.iter().filter(|(file, info)| state.newest[&info.digest] != **file).map(|(f, _)| *f).collect();
        old.into_iter().for_each(|file| state.drop_file(file));
        Ok(())
    }

    fn begin(&self, digest: Digest) -> (u64, PathBuf) {
        let mut state = self.state.lock();
        state.next += 1;
        let file = state.next;
        let path = self.dir.join(format!("{file:x}.{:x}", u128::from_le_bytes(digest.0)));
        state.all.insert(file, Info { digest, path: path.clone(), bytes: 0, record: None });
        (file, path)
    }

    /// End a file whose parts take `parts` bytes, and enter it.
    fn end(&self, file: u64, parts: &[u8], record: &Record<'_>, body: &[u8]) -> Result<Place, WhyNot> {
        let path = self.state.lock().all.get(&file).map(|info| info.path.clone()).ok_or(WhyNot::Evicted)?;
        let mut bytes = [parts, record.name, record.head, body, MAGIC, &[record.kind as u8, 0, 0, 0]].concat();
        for length in [record.name.len(), record.head.len(), body.len()] {
            bytes.extend_from_slice(&(length as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&(parts.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&sum(&bytes).to_le_bytes());
        fs::write(&path, &bytes).map_err(|_| WhyNot::Device)?;
        let shape = footer(&bytes).ok_or(WhyNot::Device)?;
        let mut state = self.state.lock();
        if state.closed {
            state.drop_file(file);
            return Err(WhyNot::Closed);
        }
        state.bytes += bytes.len() as u64;
        state.all.insert(file, Info { digest: record.id, path, bytes: bytes.len() as u64, record: Some(shape) });
        state.new.push(file);
        if let Some(older) = state.newest.insert(record.id, file) {
            state.superseded.push(older);
        }
        while state.bytes > self.bytes {
            let oldest = state.all.iter().find(|(_, info)| info.record.is_some()).map(|(file, _)| *file);
            let Some(oldest) = oldest else { break };
            state.drop_file(oldest);
        }
        Ok(place(file, 0))
    }

    /// A file, in the directory or gone from it.
    fn open(&self, file: u64) -> Option<(Info, Arc<File>)> {
        let state = self.state.lock();
        if let Some(info) = state.all.get(&file) {
            return Some((info.clone(), Arc::new(File::open(&info.path).ok()?)));
        }
        let departed = state.departed.iter().find(|(other, ..)| *other == file);
        departed.map(|(_, info, open)| (info.clone(), open.clone()))
    }

    /// Bytes of a file, if it is still that of an object.
    fn read(
        &self,
        of: Option<&Digest>,
        file: u64,
        at: impl Fn(&Shape) -> u64,
        len: impl Fn(&Shape) -> usize,
    ) -> Option<(Info, Bytes)> {
        let (info, open) = self.open(file)?;
        if of.is_some_and(|of| *of != info.digest) {
            return None;
        }
        let shape = info.record.unwrap_or(Shape { kind: Kind::Extent, parts: 0, name: 0, head: 0, body: 0 });
        let mut bytes = vec![0; len(&shape)];
        open.read_exact_at(&mut bytes, at(&shape)).ok()?;
        Some((info, bytes.into()))
    }

    fn record(&self, of: Option<&Digest>, at: Place) -> Fetched {
        let file = at.0 >> 24;
        let Some((info, bytes)) = self.read(of, file, |s| s.parts, |s| s.name + s.head + s.body) else {
            return Fetched::Missing;
        };
        let Some(shape) = info.record else { return Fetched::Missing };
        let (name, head) = (bytes.slice(..shape.name), bytes.slice(shape.name..shape.name + shape.head));
        let body = bytes.slice(shape.name + shape.head..);
        Fetched::Record(Found { place: at, kind: shape.kind, id: info.digest, name, head, body, from_memory: false })
    }
}

impl Files {
    fn drop_file(&mut self, file: u64) {
        let Some(info) = self.all.remove(&file) else { return };
        self.bytes -= if info.record.is_some() { info.bytes } else { 0 };
        if self.newest.get(&info.digest) == Some(&file) {
            self.newest.remove(&info.digest);
        }
        let open = File::open(&info.path);
        let _ = fs::remove_file(&info.path);
        if let (Ok(open), Some(_)) = (open, info.record) {
            self.departed.push_back((file, info, Arc::new(open)));
            self.departed.drain(..self.departed.len().saturating_sub(DEPARTED));
        }
    }
}

/// The table of a long body, its places now in another file.
fn moved(table: &[u8], to: u64) -> Vec<u8> {
    let (numbers, places) = table.split_at(12);
    let places = places.as_chunks::<8>().0.iter().map(|place| u64::from_le_bytes(*place));
    let places = places.flat_map(|place| (to << 24 | place & 0xFF_FFFF).to_le_bytes());
    numbers.iter().copied().chain(places).collect()
}

impl Engine for Tree {
    fn name(&self) -> &'static str {
        TREE.name
    }

    fn limits(&self) -> Limits {
        let max_object_bytes = self.0.bytes / 4;
        Limits { max_record_bytes: 1 << 20, extent_bytes: EXTENT, inline_bytes: EXTENT, max_object_bytes }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { bodies: Some(self), ..Capabilities::default() }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        match self.0.state.lock().newest.get(&at.digest) {
            Some(file) => Probe::At(Places::newest_first(&mut [place(*file, 0)])),
            None => Probe::Absent,
        }
    }

    fn fetch(&self, at: &Placement<'_>, mut places: Places, done: FetchDone) {
        done(places.pop().map_or(Fetched::Missing, |place| self.0.record(Some(&at.digest), place)));
    }

    fn fetch_at(&self, id: &Digest, at: Place, body_bytes: usize, done: FetchDone) {
        let Some(part) = (at.0 & 0xFF_FFFF).checked_sub(1) else { return done(Fetched::Missing) };
        let read = self.0.read(Some(id), at.0 >> 24, |_| part * EXTENT as u64, |_| body_bytes);
        done(match read {
            Some((_, body)) => {
                let (name, head) = (Bytes::new(), Bytes::new());
                Fetched::Record(Found { place: at, kind: Kind::Extent, id: *id, name, head, body, from_memory: false })
            }
            None => Fetched::Failed(ReadError::Gone),
        });
    }

    fn fetch_any(&self, at: Place, done: FetchDone) {
        done(self.0.record(None, at));
    }

    fn poll_append(
        &self,
        _cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        if self.0.state.lock().closed {
            return Poll::Ready(Err(WhyNot::Closed));
        }
        let (file, _) = self.0.begin(at.digest);
        // A new head of a long body: all of it is written once more.
        let ended = match record.kind {
            Kind::Large => {
                // The top byte is the number of the disk, where there are several: of no account to an engine.
                let old = (u64::from_le_bytes(record.body[12..20].try_into().unwrap()) << 8) >> 32;
                match self.0.read(Some(&at.digest), old, |_| 0, |shape| shape.parts as usize) {
                    Some((_, parts)) => self.0.end(file, &parts, record, &moved(record.body, file)),
                    None => Err(WhyNot::Evicted),
                }
            }
            _ => self.0.end(file, &[], record, record.body),
        };
        if ended.is_err() {
            self.0.state.lock().drop_file(file);
        }
        Poll::Ready(ended)
    }

    fn poll_remove(&self, _cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        let mut state = self.0.state.lock();
        if state.closed {
            return Poll::Ready(Err(WhyNot::Closed));
        }
        let whole = |(_, info): &(&u64, &Info)| info.digest == at.digest && info.record.is_some();
        let files: Vec<_> = state.all.iter().filter(whole).map(|(file, _)| *file).collect();
        files.into_iter().for_each(|file| state.drop_file(file));
        Poll::Ready(Ok(None))
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        let mut state = self.0.state.lock();
        if state.newest.get(&at.digest) == Some(&(place.0 >> 24)) {
            state.drop_file(place.0 >> 24);
        }
    }

    fn touch(&self, _at: &Placement<'_>, _place: Place) {}

    fn is_live(&self, place: Place) -> bool {
        self.0.state.lock().all.contains_key(&(place.0 >> 24))
    }

    fn keeps_body_at(&self, _place: Place) -> bool {
        false
    }

    fn sync(&self, _of: Option<&Digest>, done: SyncDone) {
        let mut state = self.0.state.lock();
        let paths: Vec<_> = std::mem::take(&mut state.new)
            .iter()
            .filter_map(|file| state.all.get(file))
            .map(|info| info.path.clone())
            .collect();
        let superseded = std::mem::take(&mut state.superseded);
        let synced = (|| {
            paths.iter().try_for_each(|path| File::open(path)?.sync_all())?;
            File::open(&self.0.dir)?.sync_all()?;
            superseded.into_iter().for_each(|file| state.drop_file(file));
            Ok::<(), std::io::Error>(())
        })();
        drop(state);
        done(synced.map_err(|error| error.to_string()));
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let state = self.0.state.lock();
        let mut files: Vec<_> = state.newest.values().copied().filter(|file| *file >= cursor).collect();
        files.sort_unstable();
        let next = files.get(most.max(1)).copied();
        (files.into_iter().take(most.max(1)).map(|file| place(file, 0)).collect(), next)
    }

    fn stats(&self) -> Stats {
        let state = self.0.state.lock();
        let live_objects = state.newest.len() as u64;
        Stats { engine: TREE.name, live_objects, capacity_bytes: self.0.bytes, ..Stats::default() }
    }

    fn refuse_appends(&self) {
        self.0.state.lock().closed = true;
    }

    fn close(&self, done: SyncDone) {
        self.refuse_appends();
        self.sync(None, done);
        self.0.state.lock().lock = None;
    }
}

impl WholeBodies for Tree {
    fn begin(&self, at: &Placement<'_>) -> Box<dyn BodyWriter> {
        let (file, path) = self.0.begin(at.digest);
        Box::new(TreeBody { inner: self.0.clone(), file, path, parts: 0, ended: false })
    }
}

/// A body on its way into its file.
struct TreeBody {
    inner: Arc<Inner>,
    file: u64,
    path: PathBuf,
    parts: u64,
    ended: bool,
}

impl BodyWriter for TreeBody {
    fn poll_part(&mut self, _cx: &mut Context<'_>, part: &[u8]) -> Poll<Result<Place, WhyNot>> {
        let written = (|| {
            let file = File::options().create(true).append(true).open(&self.path)?;
            (&file).write_all(part)
        })();
        self.parts += 1;
        Poll::Ready(written.map(|()| place(self.file, self.parts)).map_err(|_| WhyNot::Device))
    }

    fn poll_end(&mut self, _cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let parts = fs::read(&self.path).map_err(|_| WhyNot::Device)?;
        let ended = self.inner.end(self.file, &parts, record, record.body);
        self.ended = ended.is_ok();
        Poll::Ready(ended)
    }
}

impl Drop for TreeBody {
    fn drop(&mut self) {
        if !self.ended {
            self.inner.state.lock().drop_file(self.file);
        }
    }
}
