//! Reading a record together with those related to it (HashCache, section 3.5); [`super::ahead`] keeps what was not asked
//! for.

use std::sync::Arc;

use bytes::Bytes;

use super::ahead::{Again, Looked};
use super::log::{Log, LogFault, RawRecord, ReadDone, Unparsed, Wanted};
use super::reach::Reach;
use super::record::HEADER_BYTES;
use crate::device::lending::is_wanted;
use crate::memory::Pool;
use crate::terms::{Digest, Place, Record};

impl Log {
    /// [`Log::read`], and all that the reach of the record says is related to it is read in the same request and kept for
    /// who asks next. Where nothing is known, or this log reads nothing ahead, it is the same as [`Log::read`].
    pub fn read_related(
        self: &Arc<Self>,
        place: Place,
        of: Option<Digest>,
        guess: usize,
        reach: Reach,
        done: ReadDone,
    ) {
        match &self.ahead {
            Some(ahead) if reach != Reach::default() && !self.is_in_memory(place) && self.frontier.is_live(place) => {
                let bytes = reach.bytes_from(place);
                let wanted = Wanted { place, of, may_grow: true, alone_bytes: guess.max(HEADER_BYTES), ahead: None };
                if let Some(done) = self.read_before(&wanted, bytes, done) {
                    // What is handed out to a program may never be read: nobody waits for that.
                    let number = if is_wanted() { ahead.begin_unseen() } else { ahead.begin(place, bytes) };
                    self.read_disk(Wanted { ahead: Some(number), ..wanted }, bytes, done);
                }
            }
            _ => self.read(place, of, guess, done),
        }
    }

    /// How many bytes a request for a record reads so that it reads those related to it too: 0 where none are read.
    pub fn related_bytes(&self, record: &Record<'_>) -> usize {
        let own = self.layout.bytes_of(record);
        match record.related_bytes {
            _ if self.ahead.is_none() => 0,
            all if all <= own => own,
            // A batch may end between them.
            all => all + self.layout.align as usize,
        }
    }

    /// Whether reading the record at a place waits for no disk.
    pub fn is_in_memory(&self, place: Place) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.has(place)) || self.frontier.is_in_memory(place)
    }

    /// Answer from what was read ahead, or once a request under way has read it. Gives `done` back where neither is so.
    pub(super) fn read_before(self: &Arc<Self>, wanted: &Wanted, bytes: usize, done: ReadDone) -> Option<ReadDone> {
        let Some(ahead) = &self.ahead else { return Some(done) };
        let mut done = Some(done);
        let again = || -> Again {
            let (log, wanted, done) = (self.clone(), *wanted, done.take());
            Box::new(move || {
                if let Some(done) = done.and_then(|done| log.read_kept(&wanted, None, done)) {
                    log.read_disk(wanted, wanted.alone_bytes.min(bytes), done);
                }
            })
        };
        match ahead.look(wanted.place, again) {
            Looked::Kept(bytes) => done.and_then(|done| self.read_kept(wanted, Some(bytes), done)),
            Looked::Waits => None,
            Looked::Nothing => done,
        }
    }

    /// Answer from these bytes, or those kept here by now. Gives `done` back where there are none, or none that verify: the
    /// disk itself is to tell then.
    fn read_kept(&self, wanted: &Wanted, bytes: Option<Bytes>, done: ReadDone) -> Option<ReadDone> {
        let kept = || match self.ahead.as_ref()?.look(wanted.place, || Box::new(|| ())) {
            Looked::Kept(bytes) => Some(bytes),
            Looked::Waits | Looked::Nothing => None,
        };
        let Some(bytes) = bytes.or_else(kept) else { return Some(done) };
        match self.parse(wanted, &bytes, 0, true) {
            Ok(record) => done(Ok(record.alone())),
            Err(Unparsed::Another) => done(Err(LogFault::Another)),
            Err(Unparsed::Longer(_) | Unparsed::Damaged) => return Some(done),
        }
        None
    }

    /// Keep what a request read behind the record that was asked for, which lies `skip` bytes into the buffer.
    pub(super) fn keep_ahead(&self, wanted: &Wanted, record: &RawRecord, buffer: &Bytes, skip: usize) {
        let (Some(ahead), Some(_)) = (&self.ahead, wanted.ahead) else { return };
        let first = record.header.record_bytes();
        if Reach::of(wanted.place, first).bytes_from(wanted.place) >= buffer.len() - skip {
            // Nothing is related to it: what else is in its last block is there by chance.
            return;
        }
        let mut records = vec![(wanted.place, buffer.slice(skip..skip + first))];
        for (place, at, header) in self.behind(buffer, wanted.place, skip, first) {
            let Some(end) = Some(at + header.record_bytes()).filter(|end| *end <= buffer.len()) else { break };
            records.push((place, buffer.slice(at..end)));
        }
        ahead.keep(records, Pool::taken_by(buffer.len()));
    }

    pub(super) fn ahead_ended(&self, number: Option<u64>) {
        if let (Some(ahead), Some(number)) = (&self.ahead, number) {
            ahead.end(number);
        }
    }
}
