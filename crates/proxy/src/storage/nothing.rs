//! A store in which there is nothing, and into which nothing goes.

use std::future::ready;
use std::ops::Range;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use tinaja_store::{
    Body, BodySource, Clock, Commit, Cursor, FillId, HeadEdit, Hint, Hit, Key, Lookup, Pending, ReadError, Removed,
    ScanPage, Sink, Source, State, Stats, Store, StoreError, Updated, WhyNot, Writer,
};

/// Stands where a cache is to come. Requests pass by it; whoever writes to it all the same has it told that nothing was
/// stored, and whoever reads along gets [`ReadError::Behind`]: the bytes have to be had elsewhere.
pub(crate) struct Nothing(pub Clock);

/// The only write there is.
const FILL: FillId = FillId(0);

impl Store for Nothing {
    fn clock(&self) -> Clock {
        self.0.clone()
    }

    fn lookup_with(&self, _: &Key, _: &Hint, _: Instant) -> Lookup {
        Lookup::Absent
    }

    fn follow(&self, _: &Key, _: FillId) -> Option<Hit> {
        None
    }

    fn followers(&self, _: &Key, _: FillId) -> usize {
        0
    }

    fn goes_by_origin(&self) -> bool {
        false
    }

    fn put(&self, _: &Key, head: Bytes, hint: Hint) -> Writer {
        Writer::new(Box::new(Away { head, length: hint.expected_bytes }))
    }

    fn update_head(&self, _: &Key, _: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        Box::pin(ready(Ok(Updated::Absent)))
    }

    fn remove(&self, _: &Key) -> Pending<Result<Removed, StoreError>> {
        Box::pin(ready(Ok(Removed::Absent)))
    }

    fn scan(&self, _: Cursor, _: usize) -> Pending<Result<ScanPage, StoreError>> {
        Box::pin(ready(Ok(ScanPage::default())))
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }
}

/// A write that goes nowhere.
struct Away {
    head: Bytes,
    length: Option<u64>,
}

impl Sink for Away {
    fn poll_write(&mut self, _: &mut Context<'_>, data: &mut Bytes) -> Poll<()> {
        data.clear();
        Poll::Ready(())
    }

    fn id(&self) -> FillId {
        FILL
    }

    fn follow(&self) -> Hit {
        let body = Body::from_source(Box::new(Lost(self.length)));
        Hit { head: self.head.clone(), state: State::Filling, source: Source::Fill, body }
    }

    fn commit(self: Box<Self>) -> Pending<Commit> {
        Box::pin(ready(Commit::NotStored(WhyNot::Closed)))
    }

    fn commit_beginning(self: Box<Self>, _: Bytes) -> Pending<Commit> {
        self.commit()
    }
}

/// What reads along such a write.
struct Lost(Option<u64>);

impl BodySource for Lost {
    fn length(&self) -> Option<u64> {
        self.0
    }

    fn seek(&mut self, _: Range<u64>) -> Result<(), ReadError> {
        Ok(())
    }

    fn poll_next(&mut self, _: &mut Context<'_>, _: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        Poll::Ready(Err(ReadError::Behind))
    }
}

#[cfg(test)]
mod tests {
    use tinaja_store::block_on;

    use super::*;

    #[test]
    fn nothing_goes_in_and_nothing_comes_out() {
        let (store, key) = (Nothing(Clock::system()), Key::from_name(b"a"));
        let mut writer = store.put(&key, Bytes::from_static(b"head"), Hint::default());
        let mut hit = writer.follow();
        block_on(writer.write(Bytes::from_static(b"body")));
        assert_eq!(block_on(hit.body.next(10)), Err(ReadError::Behind));
        assert_eq!(block_on(writer.commit()), Commit::NotStored(WhyNot::Closed));
        assert!(matches!(store.lookup(&key, Instant::now()), Lookup::Absent));
        assert_eq!(block_on(store.scan(Cursor::default(), 9)).unwrap().entries.len(), 0);
    }
}
