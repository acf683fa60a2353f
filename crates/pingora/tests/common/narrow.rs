//! A store that cannot keep anything: it passes fills on through a window and makes the writer wait for the slowest
//! reader, as a store does whose disk has failed or whose limits an object passes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use tinaja_store::*;

pub const WINDOW_BYTES: u64 = 64 * 1024;

/// See the module. Followers start at the first byte and must be there before the window has moved.
#[derive(Default)]
pub struct Narrow {
    fills: std::sync::Mutex<HashMap<(Key, FillId), Arc<Fill>>>,
    next: AtomicU64,
    empty: Reference,
}

struct Fill {
    id: FillId,
    head: Bytes,
    shared: std::sync::Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The bytes from `base` on.
    window: BytesMut,
    base: u64,
    /// How far each has read, and its waker: one each, as a reader polled from two tasks must expect.
    readers: HashMap<u64, (u64, Option<Waker>)>,
    next_reader: u64,
    end: Option<bool>,
    writer: Option<Waker>,
}

impl Fill {
    fn follow(fill: &Arc<Fill>) -> Hit {
        let mut shared = fill.shared.lock().unwrap();
        assert_eq!(shared.base, 0, "too late to follow");
        shared.next_reader += 1;
        let id = shared.next_reader;
        shared.readers.insert(id, (0, None));
        let body = Body::from_source(Box::new(Reader { fill: fill.clone(), id }));
        Hit { head: fill.head.clone(), state: State::Filling, source: Source::Fill, body }
    }

    fn change(&self, change: impl FnOnce(&mut Shared)) {
        let mut shared = self.shared.lock().unwrap();
        change(&mut shared);
        let written = shared.base + shared.window.len() as u64;
        let base = shared.readers.values().map(|(read, _)| *read).min().unwrap_or(written);
        let read = (base - shared.base) as usize;
        shared.window.advance(read);
        shared.base = base;
        let Shared { writer, readers, .. } = &mut *shared;
        let readers = readers.values_mut().filter_map(|(_, waker)| waker.take());
        readers.chain(writer.take()).for_each(Waker::wake);
    }
}

struct Reader {
    fill: Arc<Fill>,
    id: u64,
}

impl BodySource for Reader {
    fn length(&self) -> Option<u64> {
        None
    }

    fn seek(&mut self, _: Range<u64>) -> Result<(), ReadError> {
        Err(ReadError::Range)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        let mut shared = self.fill.shared.lock().unwrap();
        if shared.end == Some(false) {
            return Poll::Ready(Err(ReadError::Aborted));
        }
        let skip = (shared.readers[&self.id].0 - shared.base) as usize;
        let piece = Bytes::copy_from_slice(&shared.window[skip..shared.window.len().min(skip + max)]);
        if piece.is_empty() {
            if shared.end.is_some() {
                return Poll::Ready(Ok(None));
            }
            shared.readers.get_mut(&self.id).unwrap().1 = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(shared);
        self.fill.change(|shared| shared.readers.get_mut(&self.id).unwrap().0 += piece.len() as u64);
        Poll::Ready(Ok(Some(piece)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.fill.change(|shared| {
            shared.readers.remove(&self.id);
        });
    }
}

struct Writing(Arc<Fill>);

impl Sink for Writing {
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<()> {
        let mut shared = self.0.shared.lock().unwrap();
        if shared.window.len() as u64 >= WINDOW_BYTES {
            shared.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(shared);
        self.0.change(|shared| shared.window.extend_from_slice(data));
        data.clear();
        Poll::Ready(())
    }

    fn id(&self) -> FillId {
        self.0.id
    }

    fn follow(&self) -> Hit {
        Fill::follow(&self.0)
    }

    fn commit(self: Box<Self>) -> Pending<Commit> {
        self.0.change(|shared| shared.end = Some(true));
        Box::pin(std::future::ready(Commit::NotStored(WhyNot::Device)))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.change(|shared| shared.end = shared.end.or(Some(false)));
    }
}

impl Store for Narrow {
    fn lookup_with(&self, key: &Key, _: &Hint, _: Instant) -> Lookup {
        let fills = self.fills.lock().unwrap();
        let open = |fill: &&Arc<Fill>| fill.shared.lock().unwrap().end.is_none();
        let found = fills.iter().filter(|((of, _), _)| of == key).map(|(_, fill)| fill).find(open);
        found.map_or(Lookup::Absent, |fill| Lookup::Here(Fill::follow(fill)))
    }

    fn follow(&self, key: &Key, id: FillId) -> Option<Hit> {
        self.fills.lock().unwrap().get(&(key.clone(), id)).map(Fill::follow)
    }

    fn followers(&self, key: &Key, id: FillId) -> usize {
        let fills = self.fills.lock().unwrap();
        fills.get(&(key.clone(), id)).map_or(0, |fill| fill.shared.lock().unwrap().readers.len())
    }

    fn put(&self, key: &Key, head: Bytes, _: Hint) -> Writer {
        let id = FillId(self.next.fetch_add(1, Ordering::Relaxed));
        let fill = Arc::new(Fill { id, head, shared: Default::default() });
        self.fills.lock().unwrap().insert((key.clone(), id), fill.clone());
        Writer::new(Box::new(Writing(fill)))
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        self.empty.update_head(key, edit)
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        self.empty.remove(key)
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        self.empty.scan(from, most)
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        self.empty.flush()
    }

    fn stats(&self) -> Stats {
        self.empty.stats()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        self.empty.close()
    }
}
