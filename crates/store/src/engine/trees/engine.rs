//! The engine.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tinaja_clock::Clock;

use super::body::Body;
use super::figures::{EVICTED_FILES, FOREIGN_FILES, LOST_FILES, REMOVED_FILES, REPLACED_SEGMENTS};
use super::files::{Covered, Files, Removal, Task, Whence};
use super::format::{self, END_BYTES, End, Within};
use super::limits::{MAX_OLD_HEADS_BYTES, waiting_bytes};
use super::lists::Lists;
use super::naming::{Home, Naming, Scheme, Spot, host_hash};
use super::recover;
use super::segments::Mapped;
use super::urls::Address;
use crate::device::tree::workers::{Job, Urgency, Workers};
use crate::device::tree::{Call, Counted, Tree, explain};
use crate::engine::registry::EngineRef;
use crate::engine::{
    BodyWriter, Buffered, Capabilities, Engine, FetchDone, Fetched, Found, Hold, Holds, Kind, Limits, Place, Placement,
    Places, Probe, Record, SyncDone, WholeBodies,
};
use crate::fuse::Fuse;
use crate::layout::Stamp;
use crate::layout::limits::WRITE_BEHIND;
use crate::layout::record::{self, HEADER_BYTES};
use crate::layout::table::Table;
use crate::terms::limits::{LEASE, WRITE_PATIENCE};
use crate::terms::{Digest, EngineFigures, ReadError, Stats, WhyNot, inside};

/// The largest record. A body of more than [`EXTENT_BYTES`] is not in one.
const MAX_RECORD_BYTES: usize = 1 << 20;
/// Bytes of each part of a long body but the last.
const EXTENT_BYTES: usize = 256 << 10;

/// How such an engine is opened.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Which of them it is.
    pub engine: EngineRef,
    /// How its files are named.
    pub naming: Naming,
    /// Bytes that its files may take, beside the mapped file.
    pub bytes: u64,
    /// The mapped file, if there is one: the tree has it then, see [`crate::device::mapped::WithMapped`].
    pub mapped: Option<Mapped>,
    /// The mean object size that it was made for.
    pub mean_object_bytes: u64,
    /// Seeds the checksums.
    pub stamp: Stamp,
    /// Time and threads.
    pub clock: Clock,
    /// How often what was written is synced without being asked.
    pub flush_every: Option<Duration>,
    /// Nothing is written; appends are refused.
    pub read_only: bool,
}

/// A file an object, in a tree of directories.
pub struct FileTree(Arc<Inner>);

pub(super) struct Inner {
    options: TreeOptions,
    tree: Arc<Counted>,
    workers: Workers,
    /// Of the directories, in a tree by URL.
    lists: Option<Lists>,
    files: Mutex<Files>,
    /// Notified when the engine is closed.
    stop: Condvar,
    /// Locks the directory while it is there.
    lock: Mutex<Option<File>>,
    most_waiting: usize,
    damaged_at_open: u64,
    foreign: u64,
    corrupt: AtomicU64,
    lost: AtomicU64,
    read_errors: AtomicU64,
}

impl FileTree {
    /// Open what is in a tree. Every file is opened and its end is read. Errors: the tree's, as text; that the system has no
    /// more threads.
    pub fn open(tree: Arc<dyn Tree>, options: TreeOptions) -> Result<FileTree, String> {
        FileTree::open_locked(tree, options, Fuse::new(), None, 0)
    }

    /// The same, with a directory that is locked, and so many files that are known to be lost.
    pub(super) fn open_locked(
        tree: Arc<dyn Tree>,
        options: TreeOptions,
        fuse: Arc<Fuse>,
        lock: Option<File>,
        lost: u64,
    ) -> Result<FileTree, String> {
        let tree = Arc::new(Counted::over(tree, options.clock.clone()));
        let lists = (options.naming.scheme == Scheme::Cern).then(|| Lists::new(options.stamp.seed));
        let found = recover::look(&*tree, &options, lists.as_ref())
            .map_err(|error| explain(&error, "look through", "the directory"))?;
        let mut files = Files::new(options.naming, options.bytes, options.mapped);
        files.recovered(found.files, &found.unread, found.urls, found.serial);
        (files.closed, files.frozen) = (options.read_only, options.read_only);
        let workers = Workers::start(&options.clock, tree.clone(), fuse)
            .map_err(|error| explain(&error, "start threads for", "the directory"))?;
        let inner = Arc::new(Inner {
            tree,
            workers,
            lists,
            files: Mutex::new(files),
            stop: Condvar::new(),
            lock: Mutex::new(lock),
            most_waiting: waiting_bytes(),
            damaged_at_open: found.damaged,
            foreign: found.foreign,
            corrupt: AtomicU64::new(0),
            lost: AtomicU64::new(lost),
            read_errors: AtomicU64::new(0),
            options,
        });
        if !inner.options.read_only {
            let (of_thread, clock) = (Arc::downgrade(&inner), inner.options.clock.clone());
            let started = inner.options.clock.spawn("tinaja-behind", move || behind(&clock, &of_thread));
            started.map_err(|error| explain(&error, "start threads for", "the directory"))?;
        }
        Ok(FileTree(inner))
    }
}

/// What happens by the clock: leases end, those who wait for a disk that stalls are told, what was written is synced.
fn behind(clock: &Clock, inner: &Weak<Inner>) {
    let mut flushed = clock.now();
    while let Some(inner) = inner.upgrade() {
        let every = inner.options.flush_every;
        let is_due = every.is_some_and(|every| clock.since(flushed) >= every);
        let waiting = inner.change(|files, tasks| {
            files.end_leases(clock.now(), tasks);
            if is_due && files.is_unsynced() {
                files.sync(None, tasks);
            }
            if inner.is_stalled(files) { mem::take(&mut files.wakers) } else { Vec::new() }
        });
        waiting.into_iter().for_each(Waker::wake);
        if is_due {
            flushed = clock.now();
        }
        let mut files = inner.files.lock();
        if files.closed {
            return;
        }
        clock.wait_for(&inner.stop, &mut files, WRITE_BEHIND);
    }
}

impl Inner {
    /// Change what is known of the files, and have the calls made that follow from it.
    pub(super) fn change<T>(self: &Arc<Self>, act: impl FnOnce(&mut Files, &mut Vec<Task>) -> T) -> T {
        let mut tasks = Vec::new();
        let mut files = self.files.lock();
        let result = act(&mut files, &mut tasks);
        files.progress = if files.is_idle() { None } else { files.progress.or_else(|| Some(self.options.clock.now())) };
        drop(files);
        tasks.into_iter().for_each(|task| self.submit(task));
        result
    }

    fn submit(self: &Arc<Self>, task: Task) {
        let inner = self.clone();
        let job: Job = match task {
            Task::Write { job, file, place, spot, at, bytes } => Box::new(move |tree| {
                let path = inner.path_of(spot);
                let written = inner.write_file(tree, &path, file, at, &bytes);
                if let Err(error) = &written {
                    tracing::warn!("{}; the object is not stored", explain(error, "write", &path));
                }
                let is_full =
                    |error: io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                let ok = written.map_err(is_full);
                inner.ended(|files, tasks| files.written(job, file, place, ok, tasks));
            }),
            Task::Remove { job, older_of, spot } => Box::new(move |tree| {
                let (how, _) = inner.remove_file(tree, spot);
                inner.ended(|files, tasks| files.removed(job, older_of, spot, how, tasks));
            }),
            Task::Sync(covered) => Box::new(move |tree| inner.sync_now(tree, covered)),
        };
        self.workers.submit(Urgency::Write, job);
    }

    fn path_of(&self, spot: Spot) -> String {
        match spot {
            Spot::File(spot) if self.lists.is_some() => {
                self.files.lock().urls.get(spot.file).map(|named| named.path(spot.file)).unwrap_or_default()
            }
            _ => self.options.naming.path_of(spot),
        }
    }

    fn write_file(&self, tree: &dyn Tree, path: &str, file: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(lists) = &self.lists else { return tree.call(Call::Write { path, at, bytes }) };
        let is_first = self.files.lock().begins(file);
        lists.write(tree, path, at, bytes, is_first)?;
        // Writes to one file end in any order.
        let Some((directory, expires)) = self.files.lock().ends(file) else { return Ok(()) };
        lists.enter(tree, path, expires, || self.files.lock().names_in(&directory))
    }

    /// How it went, and what is to be said of it if the file may be there still.
    fn remove_file(&self, tree: &dyn Tree, spot: Spot) -> (Removal, Result<(), String>) {
        let path = &*self.path_of(spot);
        let removed = match (&self.lists, spot) {
            (Some(lists), Spot::File(spot)) => {
                let is_alone = self.files.lock().urls.is_alone(spot.file);
                lists.remove(tree, path, is_alone)
            }
            _ => tree.call(Call::Remove { path }),
        };
        let Err(error) = removed else { return (Removal::Gone, Ok(())) };
        let what = explain(&error, "remove", path);
        if is_another_thing(&error) {
            tracing::warn!("{what}: somebody else has put something in its place");
            return (Removal::Stranded, Ok(()));
        }
        tracing::warn!("{what}; it is tried again with the next sync");
        (Removal::Failed, Err(what))
    }

    fn sync_now(self: &Arc<Self>, tree: &dyn Tree, mut covered: Covered) {
        let mut removed = Ok(());
        for spot in mem::take(&mut covered.undeleted) {
            match self.remove_file(tree, spot) {
                (Removal::Gone, _) => covered.deleted.push(spot),
                (Removal::Stranded, _) => {}
                (Removal::Failed, why) => {
                    covered.undeleted.push(spot);
                    removed = removed.and(why);
                }
            }
        }
        let synced = tree.call(Call::Sync).map_err(|error| explain(&error, "sync", "the directory"));
        if let Err(error) = &synced {
            tracing::warn!("{error}; what was written since the last sync is given up");
        }
        let error = synced.as_ref().err().map(String::as_str);
        let waited = self.ended(|files, tasks| files.synced(covered, error, tasks));
        let result = synced.and(removed);
        waited.into_iter().for_each(|(done, lost)| done(result.clone().and(lost.map_or(Ok(()), Err))));
    }

    /// Something has ended: whoever waits for room looks again.
    fn ended<T>(self: &Arc<Self>, act: impl FnOnce(&mut Files, &mut Vec<Task>) -> T) -> T {
        let now = self.options.clock.now();
        let (result, waiting) = self.change(|files, tasks| {
            files.progress = Some(now);
            (act(files, tasks), mem::take(&mut files.wakers))
        });
        waiting.into_iter().for_each(Waker::wake);
        result
    }

    fn is_stalled(&self, files: &Files) -> bool {
        files.progress.is_some_and(|since| self.options.clock.since(since) >= WRITE_PATIENCE)
    }

    /// Whether so many bytes may be appended now; pending while the disk has enough to do.
    pub(super) fn poll_room(&self, cx: &Context<'_>, files: &mut Files, bytes: usize) -> Poll<Result<(), WhyNot>> {
        if let Some(why) = files.refusal() {
            return Poll::Ready(Err(why));
        }
        if files.waiting_bytes == 0 || files.waiting_bytes + bytes <= self.most_waiting {
            return Poll::Ready(Ok(()));
        }
        self.wait(cx, files)
    }

    /// Pending until something ends; an error if nothing has for too long.
    pub(super) fn wait<T>(&self, cx: &Context<'_>, files: &mut Files) -> Poll<Result<T, WhyNot>> {
        if self.is_stalled(files) {
            return Poll::Ready(Err(WhyNot::Slow));
        }
        if files.is_idle() {
            // Every number there is belongs to a body that is on its way: nothing will end by itself.
            return Poll::Ready(Err(WhyNot::Busy));
        }
        if !files.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            files.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// What the directory of an object goes by.
    pub(super) fn whence(&self, at: &Placement<'_>) -> Whence {
        let home = match self.options.naming.scheme {
            Scheme::SquidL | Scheme::SquidLK => host_hash(at.name, at.site, self.options.stamp.seed).map(Home::Host),
            Scheme::Cern if at.url.is_empty() => Address::of_name(at.name).map(Home::Url),
            Scheme::Cern => Some(Home::Url(Address::of_url(at.url))),
            Scheme::Squid | Scheme::Squid2 => None,
        };
        let expires = at.fresh_until.and_then(|until| until.duration_since(SystemTime::UNIX_EPOCH).ok());
        Whence { home, expires: expires.map_or(0, |since| since.as_secs()) }
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.options.stamp
    }

    /// A record for a place, with the end of its file behind it.
    pub(super) fn encode_last(
        &self,
        files: &mut Files,
        record: &Record<'_>,
        place: Place,
        sum: u64,
        parts_bytes: u64,
    ) -> Option<Bytes> {
        let mut bytes = format::encode(self.stamp(), record, place, sum)?;
        let record_bytes = u32::try_from(bytes.len()).ok()?;
        let end = End { record_bytes, parts_bytes, place, serial: files.next_serial() };
        bytes.extend_from_slice(&format::end(self.stamp(), end));
        Some(bytes.into())
    }

    fn append(
        self: &Arc<Self>,
        cx: &Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        let bytes = record::record_bytes(record).filter(|bytes| *bytes <= MAX_RECORD_BYTES);
        let Some(bytes) = bytes.filter(|_| record.kind.is_indexed()) else {
            return Poll::Ready(Err(WhyNot::TooLarge));
        };
        let (sum, whence) = (self.stamp().payload_sum(record), self.whence(at));
        self.change(|files, tasks| {
            std::task::ready!(self.poll_room(cx, files, bytes + END_BYTES))?;
            let (file, version, parts_bytes) = match record.kind {
                Kind::Large => {
                    let Some(old) = self.body_of(files, record, tasks) else {
                        return Poll::Ready(Err(WhyNot::Evicted));
                    };
                    files.expires(old.0, whence.expires);
                    old
                }
                _ => match files.begin(at.digest, &whence, Some(bytes + END_BYTES), tasks) {
                    Some(file) => (file, 0, 0),
                    None => return self.wait(cx, files),
                },
            };
            let place = format::place(file, Within::Record(version));
            let encoded = place.and_then(|place| self.encode_last(files, record, place, sum, parts_bytes));
            let published = place.zip(encoded).and_then(|(place, encoded)| {
                files.publish(file, place, encoded, tasks)?;
                Some(place)
            });
            Poll::Ready(published.ok_or(WhyNot::Evicted))
        })
    }

    /// The file that has the body which a new head is for, the number of that head, and the bytes of the parts.
    fn body_of(&self, files: &mut Files, record: &Record<'_>, tasks: &mut Vec<Task>) -> Option<(u64, u64, u64)> {
        let table = Table::decode(&Bytes::copy_from_slice(record.body))?;
        let (file, _) = format::within(inside(table.extents.first()?.place));
        let entry = files.get(file).filter(|entry| entry.digest == record.id && entry.is_newest())?;
        let old_heads = entry.size.saturating_sub(entry.parts_bytes);
        if old_heads > entry.parts_bytes / 4 + MAX_OLD_HEADS_BYTES {
            files.drop_file(file, tasks);
            return None;
        }
        Some((file, entry.record?.version + 1, entry.parts_bytes))
    }

    /// Read so many bytes of a file, and tell what was found there.
    fn read(self: &Arc<Self>, place: Place, of: Option<Digest>, at: u64, bytes: usize, done: FetchDone) {
        let Some(spot) = self.files.lock().get(format::within(place).0).map(|entry| entry.spot) else {
            return done(Fetched::Missing);
        };
        let inner = self.clone();
        let job = move |tree: &dyn Tree| {
            let (path, mut into) = (inner.path_of(spot), vec![0; bytes]);
            let read = inner.read_file(tree, &path, place, at, &mut into);
            done(inner.judge(place, of.as_ref(), &path, read, into.into()));
        };
        self.workers.submit(Urgency::Read, Box::new(job));
    }

    /// In a tree by URL the list of the directory is asked first, as for a file that is not there. It names an object that is being written
    /// when the last of its writes ends, which need not be that of its record.
    fn read_file(&self, tree: &dyn Tree, path: &str, place: Place, at: u64, into: &mut [u8]) -> io::Result<()> {
        if let (Some(lists), (file, Within::Record(_))) = (&self.lists, format::within(place))
            && self.files.lock().is_written(file)
            && !lists.names(tree, path)?
        {
            return Err(ErrorKind::NotFound.into());
        }
        tree.call(Call::Read { path, at, into })
    }

    /// What was read. A file that is not what was written there is forgotten, unless it has been replaced meanwhile.
    fn judge(
        self: &Arc<Self>,
        place: Place,
        of: Option<&Digest>,
        path: &str,
        read: io::Result<()>,
        bytes: Bytes,
    ) -> Fetched {
        let fault = match read {
            Ok(()) => match self.found(place, of, &bytes, false) {
                Some(found) => return Fetched::Record(found),
                None => None,
            },
            Err(error) => Some(error),
        };
        if let Some(error) = fault.as_ref().filter(|error| !is_meddled_with(error)) {
            if !is_current(&self.files.lock(), place) {
                return Fetched::Missing;
            }
            self.read_errors.fetch_add(1, Relaxed);
            tracing::warn!("{}", explain(error, "read", path));
            return Fetched::Failed(ReadError::Device);
        }
        // Several may find this at once. The one that forgets it counts it; for the others it has gone already.
        let is_forgotten = self.change(|files, tasks| {
            let is_current = is_current(files, place);
            if is_current {
                files.drop_file(format::within(place).0, tasks);
            }
            is_current
        });
        match fault {
            _ if !is_forgotten => Fetched::Missing,
            Some(error) => {
                self.lost.fetch_add(1, Relaxed);
                tracing::warn!("{}: somebody else has removed or changed it", explain(&error, "read", path));
                Fetched::Missing
            }
            None => {
                self.corrupt.fetch_add(1, Relaxed);
                tracing::warn!("{path} is not what was written there");
                Fetched::Failed(ReadError::Corrupt)
            }
        }
    }

    fn found(&self, place: Place, of: Option<&Digest>, bytes: &Bytes, from_memory: bool) -> Option<Found> {
        let header = format::verified(self.stamp(), bytes, place, of)?;
        let head_at = HEADER_BYTES + header.name_bytes;
        let body_at = head_at + header.head_bytes;
        Some(Found {
            place,
            kind: header.kind,
            id: header.id,
            name: bytes.slice(HEADER_BYTES..head_at),
            head: bytes.slice(head_at..body_at),
            body: bytes.slice(body_at..),
            from_memory,
        })
    }

    /// Fetch the record at a place, of this object where one is named.
    fn fetch_record(self: &Arc<Self>, place: Place, of: Option<Digest>, done: FetchDone) {
        let (file, within) = format::within(place);
        let files = self.files.lock();
        let lies = files.get(file).and_then(|entry| entry.record);
        let Some(lies) = lies.filter(|lies| within == Within::Record(lies.version)) else {
            drop(files);
            return done(Fetched::Missing);
        };
        let waiting = files.waiting(place);
        drop(files);
        if let Some(bytes) = waiting {
            let record = bytes.slice(..bytes.len().saturating_sub(END_BYTES));
            return done(self.found(place, of.as_ref(), &record, true).map_or(Fetched::Missing, Fetched::Record));
        }
        self.read(place, of, lies.at, lies.bytes as usize, done);
    }
}

/// Whether this is still what is stored, and not removed or replaced.
fn is_current(files: &Files, place: Place) -> bool {
    let (file, within) = format::within(place);
    let Some(entry) = files.get(file).filter(|entry| !entry.is_gone()) else { return false };
    match within {
        Within::Part(_) => true,
        Within::Record(version) => entry.record.is_some_and(|record| record.version == version),
    }
}

/// Whether an error says that there is something else in a file's place: a directory, or a link on the way to it.
fn is_another_thing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let strange = [Errno::LOOP, Errno::XDEV, Errno::NOTDIR, Errno::ISDIR].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| strange.contains(&code))
}

/// Whether an error says that somebody else has changed the directory, and not that the disk fails.
fn is_meddled_with(error: &io::Error) -> bool {
    is_another_thing(error)
        || matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::PermissionDenied)
}

impl Engine for FileTree {
    fn name(&self) -> &'static str {
        self.0.options.engine.name
    }

    fn limits(&self) -> Limits {
        // A place and a length for each part: see `cache`.
        let table = (MAX_RECORD_BYTES / 2 / 12) as u64;
        Limits {
            max_record_bytes: MAX_RECORD_BYTES,
            extent_bytes: EXTENT_BYTES,
            inline_bytes: EXTENT_BYTES,
            max_object_bytes: (table.min(format::MAX_PARTS) * EXTENT_BYTES as u64).min(self.0.options.bytes / 4),
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { bodies: Some(self), holds: Some(self), buffered: Some(self), ..Capabilities::default() }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        match self.0.files.lock().newest(&at.digest) {
            Some(place) => Probe::At(Places::newest_first(&mut [place])),
            None => Probe::Absent,
        }
    }

    fn fetch(&self, at: &Placement<'_>, mut places: Places, done: FetchDone) {
        match places.pop() {
            Some(place) => self.0.fetch_record(place, Some(at.digest), done),
            None => done(Fetched::Missing),
        }
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        let (_, Within::Part(part)) = format::within(place) else { return self.0.fetch_record(place, Some(*id), done) };
        let waiting = self.0.files.lock().waiting(place);
        if let Some(bytes) = waiting {
            return done(self.0.found(place, Some(id), &bytes, true).map_or(Fetched::Missing, Fetched::Record));
        }
        self.0.read(place, Some(*id), part * (HEADER_BYTES + EXTENT_BYTES) as u64, HEADER_BYTES + body_bytes, done);
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        self.0.fetch_record(place, None, done);
    }

    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        self.0.append(cx, at, record)
    }

    fn poll_remove(&self, _cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        self.0.change(|files, tasks| {
            if files.closed {
                return Poll::Ready(Err(WhyNot::Closed));
            }
            files.remove(&at.digest, tasks);
            Poll::Ready(Ok(None))
        })
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        self.0.change(|files, tasks| {
            if files.newest(&at.digest) == Some(place) {
                files.drop_file(format::within(place).0, tasks);
            }
        });
    }

    fn touch(&self, _at: &Placement<'_>, place: Place) {
        self.0.files.lock().touch(format::within(place).0);
    }

    fn is_live(&self, place: Place) -> bool {
        is_current(&self.0.files.lock(), place)
    }

    fn keeps_body_at(&self, _place: Place) -> bool {
        // A short body lies in the file of its head: both are written anew.
        false
    }

    fn goes_by_origin(&self) -> bool {
        match self.0.options.naming.scheme {
            Scheme::SquidL | Scheme::SquidLK | Scheme::Cern => true,
            Scheme::Squid | Scheme::Squid2 => false,
        }
    }

    fn sync(&self, _of: Option<&Digest>, done: SyncDone) {
        self.0.change(|files, tasks| files.sync(Some(done), tasks));
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        self.0.files.lock().walk(cursor, most)
    }

    fn stats(&self) -> Stats {
        let (inner, files) = (&self.0, self.0.files.lock());
        let of_engine = EngineFigures::default()
            .with(&EVICTED_FILES, files.evicted)
            .with(&REMOVED_FILES, inner.tree.removed())
            .with(&LOST_FILES, inner.lost.load(Relaxed))
            .with(&FOREIGN_FILES, inner.foreign);
        Stats {
            engine: inner.options.engine.name,
            slots: inner.options.naming.most_files(),
            mean_object_bytes: inner.options.mean_object_bytes,
            live_objects: files.objects(),
            capacity_bytes: files.capacity + inner.options.mapped.map_or(0, |mapped| mapped.bytes),
            index_bytes: files.index_bytes(),
            corrupt: inner.corrupt.load(Relaxed),
            damaged_at_open: inner.damaged_at_open,
            read_errors: inner.read_errors.load(Relaxed),
            write_errors: files.write_errors,
            sync_errors: files.sync_errors,
            disks_retired: u64::from(files.is_retired()),
            of_engine: match inner.options.mapped {
                Some(_) => of_engine.with(&REPLACED_SEGMENTS, files.replaced),
                None => of_engine,
            },
            ..Stats::of_device(inner.tree.counters())
        }
    }

    fn refuse_appends(&self) {
        let waiting = self.0.change(|files, _| {
            files.closed = true;
            mem::take(&mut files.wakers)
        });
        self.0.stop.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    fn close(&self, done: SyncDone) {
        self.refuse_appends();
        let inner = self.0.clone();
        // First all that was stored lasts. From then on nothing is removed, whatever ends later: the directory may be another
        // process's by then. What was begun before that ends, and then the lock is let go of.
        let lasts = move |result: Result<(), String>| {
            let of_lock = inner.clone();
            let ended = move |drained: Result<(), String>| {
                drop(of_lock.lock.lock().take());
                done(result.and(drained));
            };
            inner.change(|files, tasks| {
                files.frozen = true;
                files.look_at_put_off(tasks);
                files.sync(Some(Box::new(ended)), tasks);
            });
        };
        self.0.change(|files, tasks| files.sync(Some(Box::new(lasts)), tasks));
    }
}

impl WholeBodies for FileTree {
    fn begin(&self, at: &Placement<'_>) -> Box<dyn BodyWriter> {
        Box::new(Body::new(self.0.clone(), at.digest, self.0.whence(at)))
    }
}

impl Holds for FileTree {
    fn hold(&self, places: &[Place]) -> Hold {
        let until = self.0.options.clock.now() + LEASE;
        let mut held: Vec<_> = places.iter().map(|place| format::within(*place).0).collect();
        held.sort_unstable();
        held.dedup();
        self.0.change(|files, _| held.retain(|file| files.hold(*file, until)));
        if held.is_empty() {
            return Hold::default();
        }
        let inner = self.0.clone();
        Hold::ending(move || inner.change(|files, tasks| held.iter().for_each(|file| files.release(*file, tasks))))
    }
}

impl Buffered for FileTree {
    fn is_in_memory(&self, place: Place) -> bool {
        self.0.files.lock().waiting(place).is_some()
    }

    fn write_out(&self) {
        // What was appended is on its way at once.
    }
}
