//! Buffers of reads, used again: to allocate one and fill it with zeroes takes as long as to check what was read.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use super::AlignedBuf;
use super::aligned::ALIGN;
use crate::memory::limits::MAX_SPARE_BYTES;
use crate::terms::limits::MAX_REQUEST_BYTES;

/// Sizes that are kept: so long are nearly all records, and then one that is long enough for each request for several.
const SIZES: usize = 42;

/// Buffers of this many bytes or more have pages of their own: those of sets, of parts, and of several records. Of these there
/// are many for as long as a disk is slow, and the C library's heap gives back hardly any of what it grew by meanwhile.
const OWN_PAGES: usize = 64 << 10;

/// Blocks of the longest size but one, 512 KiB.
const LONG_BLOCKS: usize = 128;

/// Buffers that nobody uses. Memory: [`MAX_SPARE_BYTES`], or half of what is lent where that is more.
///
/// Where many readers hold on to what they have, as slow clients do, as many buffers come back each moment as are taken. Were these
/// given to the system and asked for anew, its table of the program's memory would change all the time, and each thread would wait for
/// that: with 2,000 stalled readers a second, hits from memory took ten times as long.
#[derive(Default)]
pub struct Pool {
    spare: Mutex<Spare>,
    /// Bytes of buffers that readers have.
    lent: AtomicUsize,
}

struct Spare {
    by_size: [Vec<AlignedBuf>; SIZES],
    bytes: usize,
}

impl Default for Spare {
    fn default() -> Self {
        Spare { by_size: [const { Vec::new() }; SIZES], bytes: 0 }
    }
}

/// A buffer that goes back to its pool when the last reader lets go of it.
struct Lent {
    buffer: AlignedBuf,
    pool: Arc<Pool>,
}

/// The number of the smallest size of at least `len` bytes, and its bytes: each multiple of [`ALIGN`] up to 16, then
/// eight to each doubling; and one for long requests, no two of which are quite as long. To allocate these anew fills the
/// heap with holes that none of them fits into. What is longer is not kept.
fn size_for(len: usize) -> (usize, usize) {
    let blocks = len.div_ceil(ALIGN).max(1);
    match blocks * ALIGN {
        bytes if bytes > MAX_REQUEST_BYTES => return (SIZES, bytes),
        _ if blocks > LONG_BLOCKS => return (SIZES - 1, MAX_REQUEST_BYTES),
        _ => {}
    }
    let doublings = blocks.ilog2().saturating_sub(3);
    let parts = blocks.div_ceil(1 << doublings);
    (8 * doublings as usize + parts, (parts << doublings) * ALIGN)
}

impl Pool {
    /// Memory that a buffer of so many bytes takes.
    pub fn taken_by(len: usize) -> usize {
        size_for(len).1
    }

    /// A buffer of `len` bytes with anything in it: to be overwritten whole before it is looked at.
    pub fn take(&self, len: usize) -> AlignedBuf {
        let (number, bytes) = size_for(len);
        let mut spare = self.spare.lock();
        let found = spare.by_size.get_mut(number).and_then(Vec::pop);
        spare.bytes -= found.as_ref().map_or(0, AlignedBuf::allocated);
        drop(spare);
        let make = if bytes >= OWN_PAGES { AlignedBuf::with_own_pages } else { AlignedBuf::zeroed };
        let mut buffer = found.unwrap_or_else(|| make(bytes));
        buffer.set_len(len);
        buffer
    }

    /// The buffer as bytes to be read; it comes back to the pool after the last reader.
    pub fn lend(self: &Arc<Self>, buffer: AlignedBuf) -> Bytes {
        self.lent.fetch_add(buffer.allocated(), Relaxed);
        Bytes::from_owner(Lent { buffer, pool: self.clone() })
    }

    fn put_back(&self, buffer: AlignedBuf) {
        let (number, bytes) = size_for(buffer.allocated());
        // Dropped without the lock: the system takes its time.
        let mut surplus = Vec::new();
        let mut spare = self.spare.lock();
        let lent = self.lent.fetch_sub(buffer.allocated(), Relaxed).saturating_sub(buffer.allocated());
        let most = MAX_SPARE_BYTES.max(lent / 2);
        match spare.by_size.get_mut(number) {
            Some(same) if bytes == buffer.allocated() => {
                same.push(buffer);
                spare.bytes += bytes;
            }
            _ => surplus.push(buffer),
        }
        while spare.bytes > most
            && let Some(most_of) = spare.by_size.iter_mut().max_by_key(|same| bytes_of(same))
            && let Some(one) = most_of.pop()
        {
            spare.bytes -= one.allocated();
            surplus.push(one);
        }
    }
}

/// What buffers of one size take.
fn bytes_of(same: &[AlignedBuf]) -> usize {
    same.len() * same.first().map_or(0, AlignedBuf::allocated)
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.put_back(mem::replace(&mut self.buffer, AlignedBuf::zeroed(0)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn sizes_are_no_more_than_an_eighth_too_large_but_the_last() {
        for len in 1..(2_usize << 20) / 512 {
            let (number, bytes) = size_for(len * 512);
            assert!(bytes >= len * 512 && bytes.is_multiple_of(ALIGN));
            let is_long = (LONG_BLOCKS * ALIGN + 1..=MAX_REQUEST_BYTES).contains(&(len * 512));
            assert!(bytes < len * 512 * 9 / 8 + ALIGN || is_long, "{bytes} for {}", len * 512);
            assert_eq!(number == SIZES - 1, is_long);
            assert_eq!(number < SIZES, len * 512 <= MAX_REQUEST_BYTES, "what is longer is not kept");
            assert_eq!(size_for(bytes), (number, bytes), "goes back to where it is looked for");
        }
    }

    #[test]
    fn what_was_lent_is_used_again_and_spares_are_bounded() {
        let pool = Arc::new(Pool::default());
        let first = pool.take(10_000);
        let start = first.as_ptr();
        assert_eq!(first.len(), 10_000);
        let bytes = pool.lend(first);
        let piece = bytes.slice(5..6);
        drop(bytes);
        assert_ne!(pool.take(10_000).as_ptr(), start, "still read from");
        drop(piece);
        let again = pool.take(9_000);
        assert_eq!((again.as_ptr(), again.len()), (start, 9_000));
        let many: Vec<_> = (0..100).map(|_| pool.lend(pool.take(100_000))).collect();
        drop(many);
        let spare = |pool: &Pool| {
            let spare = pool.spare.lock();
            let held: usize = spare.by_size.iter().flatten().map(AlignedBuf::allocated).sum();
            assert_eq!(held, spare.bytes);
            held
        };
        let held = spare(&pool);
        assert!(held <= MAX_SPARE_BYTES && held > MAX_SPARE_BYTES / 2);
        // What is longer than any size that is kept.
        drop(pool.lend(pool.take(5 << 20)));
        assert_eq!(spare(&pool), held);
    }

    /// The longest went first, which are those that the system takes longest to make: once there were many short ones, no long one was kept.
    #[test]
    fn many_short_ones_displace_each_other_and_no_long_one() {
        let pool = Arc::new(Pool::default());
        let short: Vec<_> = (0..1000).map(|_| pool.lend(pool.take(12 << 10))).collect();
        drop(short);
        drop(pool.lend(pool.take(64 << 10)));
        let spare = pool.spare.lock();
        assert!(spare.bytes <= MAX_SPARE_BYTES);
        // Not by its place: the system may map the next one where this one was.
        assert_eq!(spare.by_size.get(size_for(64 << 10).0).map(Vec::len), Some(1));
    }

    #[test]
    fn while_readers_hold_much_as_much_comes_back_as_is_taken_and_nothing_goes_to_the_system() {
        let pool = Arc::new(Pool::default());
        let mut readers: VecDeque<_> = (0..512).map(|_| pool.lend(pool.take(128 << 10))).collect();
        let all = |pool: &Pool| pool.spare.lock().bytes + pool.lent.load(Relaxed);
        assert_eq!(all(&pool), 64 << 20);
        // A hundred leave, and a hundred come: 12.5 MiB, more than is kept for nobody.
        for _ in 0..10 {
            readers.drain(..100);
            assert_eq!(all(&pool), 64 << 20, "kept for the next ones");
            readers.extend((0..100).map(|_| pool.lend(pool.take(128 << 10))));
            assert_eq!((all(&pool), pool.spare.lock().bytes), (64 << 20, 0));
        }
        while readers.pop_front().is_some() {
            let (spare, lent) = (pool.spare.lock().bytes, pool.lent.load(Relaxed));
            assert!(spare <= MAX_SPARE_BYTES.max(lent / 2), "{spare} spare, {lent} lent");
        }
        assert_eq!((all(&pool), pool.lent.load(Relaxed)), (MAX_SPARE_BYTES, 0), "what is kept for nobody");
    }
}
