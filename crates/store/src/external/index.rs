//! Taking steps: from a key, and from what was read.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::parts::{Object, Part, PartsSought};
use super::read::{Read, Ticket};
use super::{ExternalError, Step};
use crate::cache::{Cache, Inner};
use crate::device::lending::{Handed, catch};
use crate::engine::{FetchDone, Fetched, Found, Kind, Places, Probe};
use crate::layout::table::Table;
use crate::store::Source;
use crate::terms::{Digest, Key, Pending, Placement};
use crate::wait::promise;

/// Reads handed out to programs that read the disk themselves, and not ended yet: each remembers a key's name of up to
/// 16 KiB and some hundred bytes more, so this bounds them to 64 MiB at worst, and keeps any number of disks busy.
pub const MAX_TICKETS: usize = 4096;

/// How many times we look for an object again because it was written or removed while the program read it. A program may keep
/// a ticket for hours, and what the ticket leads to may be gone by then. After so many times the object is taken as it was
/// found last, which is how it was at some moment since the last look.
const MOST_LOOKS: u32 = 8;

/// Tells where objects lie. Cheap to clone. Memory: what the reads that are handed out remember, see
/// [`crate::limits::MAX_TICKETS`].
#[derive(Clone)]
pub struct Index(Arc<Inner>);

impl Cache {
    /// Where objects lie, for a program that reads the disk itself: see [`crate::external`].
    pub fn external(&self) -> Index {
        Index(self.0.clone())
    }
}

/// The outcome of a step.
pub(super) type Next = Pending<Result<Step, ExternalError>>;

/// One of the places that [`MAX_TICKETS`] counts; given back when dropped.
pub(super) struct Share(Arc<Inner>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.handed_out.fetch_sub(1, Relaxed);
    }
}

/// What is looked for.
pub(super) struct Sought {
    key: Key,
    digest: Digest,
    seen: Places,
    looks: u32,
}

impl Sought {
    fn placement(&self) -> Placement<'_> {
        Placement::of(self.digest).named(self.key.name())
    }
}

/// What a read is for, and where its outcome goes.
pub(super) enum Purpose {
    Object(Sought, Pending<Option<Fetched>>),
    Parts(PartsSought, Pending<Option<Vec<Fetched>>>),
}

pub(super) fn at_once(step: Result<Step, ExternalError>) -> Next {
    Box::pin(std::future::ready(step))
}

impl Index {
    /// Look for an object: the one that was committed last, hot or on disk. Writes that are not finished are not looked
    /// at. It counts as a lookup, and as a use of the object. Errors: [`ExternalError::Closed`],
    /// [`ExternalError::TooMany`].
    pub fn locate(&self, key: &Key) -> Next {
        let share = match self.share() {
            Ok(share) => share,
            Err(error) => return at_once(Err(error)),
        };
        let digest = self.0.secret.digest(key);
        if let Some(object) = self.0.gathered(&digest, key) {
            self.0.counters.found(Source::Memory);
            return at_once(Ok(Step::Object(Object::whole(object.head.clone(), object.body.clone()))));
        }
        if let Some((head, body, place)) = self.0.hot.get(&digest, key) {
            self.0.counters.found(Source::Memory);
            self.0.engine.touch(&Placement::of(digest).named(key.name()), place);
            return at_once(Ok(Step::Object(Object::whole(head, body))));
        }
        self.look(Sought { key: key.clone(), digest, seen: Places::default(), looks: 0 }, share)
    }

    /// Look for an object, at first or once more.
    fn look(&self, sought: Sought, share: Share) -> Next {
        let seen = match self.0.engine.probe(&sought.placement()) {
            Probe::Absent => return at_once(Ok(self.missed())),
            Probe::At(places) => places,
            Probe::AskDisk => Places::default(),
        };
        let sought = Sought { seen, looks: sought.looks + 1, ..sought };
        let (done, answer) = promise();
        let told: FetchDone = Box::new(move |fetched| done.keep(fetched));
        let ((), handed) = catch(|| self.0.engine.fetch(&sought.placement(), seen, told));
        self.go_on(handed, Purpose::Object(sought, Box::pin(answer)), share)
    }

    /// The step behind a request: the read that it was, or its outcome.
    pub(super) fn go_on(&self, handed: Option<Handed>, purpose: Purpose, share: Share) -> Next {
        let index = self.clone();
        if let Some(handed) = handed {
            return at_once(Ok(Step::Read(Read::new(handed, Ticket { index, purpose, share }))));
        }
        Box::pin(async move {
            match purpose {
                Purpose::Object(sought, answer) => {
                    let fetched = answer.await;
                    index.judge(sought, fetched, share).await
                }
                Purpose::Parts(sought, answer) => Ok(sought.judge(answer.await)),
            }
        })
    }

    /// What the engine found is the object if its whole key is, and if nothing newer has come since it was looked for.
    fn judge(&self, sought: Sought, fetched: Option<Fetched>, share: Share) -> Next {
        let found = match fetched {
            Some(Fetched::Record(found)) if found.name == sought.key.name() => found,
            _ => return at_once(Ok(self.missed())),
        };
        let engine = &self.0.engine;
        if let Some(object) = self.0.gathered(&sought.digest, &sought.key) {
            // It came meanwhile.
            self.0.counters.found(Source::Memory);
            return at_once(Ok(Step::Object(Object::whole(object.head.clone(), object.body.clone()))));
        }
        if sought.looks < MOST_LOOKS && !engine.is_newest(&sought.placement(), found.place, sought.seen) {
            return self.look(sought, share);
        }
        let source = if found.from_memory { Source::Memory } else { Source::Disk };
        engine.touch(&sought.placement(), found.place);
        let Some(object) = self.object(&sought, found) else { return at_once(Ok(self.missed())) };
        self.0.counters.found(source);
        at_once(Ok(Step::Object(object)))
    }

    fn object(&self, sought: &Sought, found: Found) -> Option<Object> {
        if found.kind == Kind::Whole {
            return Some(Object::whole(found.head, found.body));
        }
        let table = Table::decode(&found.body)?;
        if table.extents.iter().any(|extent| !self.0.engine.is_live(extent.place)) {
            self.0.engine.forget(&sought.placement(), found.place);
            return None;
        }
        Some(Object::large(found.head, sought.digest, table))
    }

    fn missed(&self) -> Step {
        self.0.counters.missed();
        Step::Missing
    }

    /// The bytes of an object from `at` on: of a small one all of them; of a large one what came with its head, or the parts
    /// that lie in a row, up to 1 MiB, of which the first holds that byte. Several may be asked for at once. [`Step::Missing`] if they were
    /// overwritten since. Errors: [`ExternalError`].
    pub fn part(&self, object: &Object, at: u64) -> Next {
        if at >= object.length() {
            return at_once(Err(ExternalError::BeyondEnd { at, length: object.length() }));
        }
        let beginning = object.beginning();
        if at < beginning.len() as u64 {
            return at_once(Ok(Step::Part(Part::new(0, vec![beginning.clone()]))));
        }
        let share = match self.share() {
            Ok(share) => share,
            Err(error) => return at_once(Err(error)),
        };
        let engine = &self.0.engine;
        let Some((sought, parts)) = object.parts_from(at, &**engine) else { return at_once(Ok(Step::Missing)) };
        let (done, answer) = promise();
        let told = Box::new(move |fetched| done.keep(fetched));
        let ((), handed) = catch(|| engine.fetch_together(sought.digest(), &parts, told));
        self.go_on(handed, Purpose::Parts(sought, Box::pin(answer)), share)
    }

    fn share(&self) -> Result<Share, ExternalError> {
        self.check_open()?;
        let before = self.0.handed_out.fetch_add(1, Relaxed);
        let share = Share(self.0.clone());
        if before < MAX_TICKETS { Ok(share) } else { Err(ExternalError::TooMany(MAX_TICKETS)) }
    }

    pub(super) fn check_open(&self) -> Result<(), ExternalError> {
        if self.0.is_closed() { Err(ExternalError::Closed) } else { Ok(()) }
    }

    /// Reads of this store handed out, and neither verified nor dropped.
    pub fn handed_out(&self) -> usize {
        self.0.handed_out.load(Relaxed)
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} reads handed out)", self.handed_out())
    }
}
