//! Encoded forms of stored answers: sending one to a client that wants it, and making it.
//!
//! # Decisions
//!
//! - What is stored is what the origin sent. Forms are made of it, each when somebody first wants it, and lie beside it. So whoever takes no coding, wants a
//!   part, or comes while a form is being made, gets what there always was, and nothing has to be decompressed.
//! - A form is made apart from the request that wants it, by threads for what takes long, and by few of them at once: a page
//!   that is slow to shrink makes nobody wait. While as many wait for that as may, no more are taken on.
//! - That an answer shrinks too little is stored as well, as a form without bytes. And what was just made, or could not be, is not made
//!   again for a while: a store that keeps nothing would have it done for every hit.
//! - A part of an answer is always a part of it as it is. So parts of two codings are never put together.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::RANGE;
use parking_lot::Mutex;
use tinaja_http::encoding::{Coding, Codings, may_mix, sent_as};
use tinaja_store::{Commit, Hint, Hit, Key, ReadError, State};
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use super::request::Request;
use crate::coder::Coder;
use crate::held::READ_PIECE_BYTES;
use crate::metrics::Encoded;
use crate::remembered::Remembered;
use crate::shared::Shared;
use crate::storage::Storage;
use crate::stored::{Facts, Form, Forms, Found, Kind, Name, StoredHead, find_form, form_place};

/// The shortest answer that is encoded. A shorter one fits into one packet with its head, whatever is done to it.
const LEAST_BYTES: u64 = 512;
/// The longest one. All that is made of it is held in memory until it is stored.
const MOST_BYTES: u64 = 8 << 20;
/// An answer is sent encoded if it shrinks at least to so much of its length, in percent.
const MOST_PERCENT: u64 = 95;
/// Answers longer than this are encoded one at a time.
const LONG_BYTES: u64 = 1 << 20;
/// Threads that encode, at most, and for how many of the proxy's own there is one.
const MOST_TURNS: usize = 4;
const WORKERS_A_TURN: usize = 2;
/// Forms that are to be made, at most. Each holds a name and some 300 bytes.
const MOST_WAITING: usize = 256;
/// How long one may take, with the wait for the disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// What was tried is not tried again for so long.
const REST: Duration = Duration::from_secs(60);

/// A form that somebody wants.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    name: Name,
    /// Where the answer stands.
    place: Key,
    facts: Facts,
    forms: Forms,
    coding: Coding,
}

/// A form of which the first bytes have been read.
#[derive(Debug)]
pub(crate) struct BegunForm {
    pub coding: Coding,
    /// Nothing for a HEAD.
    pub first: Bytes,
}

/// What sends encoded forms, and makes them.
pub(super) struct Encoder {
    shared: Arc<Shared>,
    store: Storage,
    turns: Semaphore,
    long_turn: Semaphore,
    making: Mutex<HashSet<Key>>,
    /// Of which answer a form was tried last, by its place.
    tried: Remembered<Key, [u8; 16]>,
}

/// How long an answer may be for its form to be made now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Short,
    /// As long as any: no other long one is being made.
    Any,
}

/// Why a form was not made.
#[derive(Debug, thiserror::Error)]
enum NotMade {
    #[error("it is long, and waits for other long ones")]
    Long,
    #[error("what it is to be made of is gone")]
    Gone,
    #[error("it could not be read: {0}")]
    Read(#[from] tinaja_store::ReadError),
    #[error("it could not be encoded: {0}")]
    Coder(#[from] io::Error),
    #[error("it was not stored: {0}")]
    Store(tinaja_store::WhyNot),
    #[error("it took too long")]
    Late,
}

impl Encoder {
    pub fn new(shared: Arc<Shared>, store: Storage, workers: usize) -> Encoder {
        let turns = Semaphore::new((workers / WORKERS_A_TURN).clamp(1, MOST_TURNS));
        let (making, tried) = (Mutex::default(), Remembered::default());
        Encoder { shared, store, turns, long_turn: Semaphore::new(1), making, tried }
    }

    /// Where forms lie: beside others' objects there are none.
    fn disk(&self) -> Option<Storage> {
        match &self.shared.neighbours {
            None => Some(self.store.clone()),
            Some(neighbours) => (neighbours.disk)(),
        }
    }

    /// What was found as this client is to get it: in a coding that it wants, if there is such a form. If not, one is made for the next. A form that
    /// cannot be read counts as none, since the text is there beside it: so its first bytes are read here.
    pub async fn form_of(
        self: &Arc<Self>,
        request: &Request,
        mut found: Box<Found>,
    ) -> (Box<Found>, Option<BegunForm>) {
        let (Some(forms), true) = (Forms::of(&found.head), is_for_client(request)) else { return (found, None) };
        let is_whole = found.hit.state == State::Whole && found.length().is_some_and(may_be_so_long);
        let codings = if is_whole { codings_for(request, &forms) } else { Codings::NONE };
        let name = &request.ticket.name;
        let disk = if codings.is_empty() { None } else { self.disk() };
        for (number, coding) in codings.iter().enumerate() {
            let Some(disk) = &disk else { break };
            match find_form(disk, name, (&found.head, &forms), coding).await {
                Form::Stored(mut hit) => match self.first_of(request, &mut hit).await {
                    Ok(first) => {
                        let wire = sent_as(found.head.wire(), Some(coding)).into();
                        (found.head, found.hit) = (found.head.sent(Kind::Form, wire), hit);
                        return (found, Some(BegunForm { coding, first }));
                    }
                    Err(error) => tracing::debug!(id = %request.ticket.id, "a stored form counts as none: {error}"),
                },
                Form::NotSmaller => break,
                Form::Absent => {}
            }
            if number == 0 {
                let (name, place, facts) = (name.clone(), found.place.clone(), found.head.facts);
                self.begin(Wanted { name, place, facts, forms, coding });
            }
        }
        let wire = sent_as(found.head.wire(), None).into();
        found.head = found.head.sent(Kind::Whole, wire);
        (found, None)
    }

    /// The first bytes of a form, as far as the request wants any.
    async fn first_of(&self, request: &Request, hit: &mut Hit) -> Result<Bytes, ReadError> {
        if *request.method() == Method::HEAD {
            return Ok(Bytes::new());
        }
        Ok(hit.body.next(self.shared.held.piece_bytes()).await?.unwrap_or_default())
    }

    /// The form that this client would have wanted of an answer that is just being stored, if any.
    pub fn wanted_of(&self, request: &Request, place: &Key, head: &StoredHead) -> Option<Box<Wanted>> {
        let forms = Forms::of(head).filter(|_| is_for_client(request))?;
        let coding = codings_for(request, &forms).iter().next()?;
        let (name, place, facts) = (request.ticket.name.clone(), place.clone(), head.facts);
        Some(Box::new(Wanted { name, place, facts, forms, coding }))
    }

    /// Makes a form, by and by, unless somebody is about that already, or just was.
    pub fn begin(self: &Arc<Self>, wanted: Wanted) {
        let Some(disk) = self.disk() else { return };
        let place = form_place(&disk, &wanted.name, (&wanted.facts, &wanted.forms), wanted.coding);
        {
            let mut making = self.making.lock();
            // Looked at under the lock: whoever has made one says so before it is no longer being made.
            if self.tried.get(&place, self.shared.clock.now()) == Some(wanted.forms.id) || making.contains(&place) {
                return;
            }
            if making.len() >= MOST_WAITING {
                drop(making);
                return self.count(|encoded| encoded.left_out(wanted.coding));
            }
            making.insert(place.clone());
        }
        let making = Making { encoder: self.clone(), place };
        self.shared.clock.start(
            async move {
                let encoder = &making.encoder;
                let made = match encoder.in_turn(&disk, &wanted, &making.place, Length::Short).await {
                    Err(NotMade::Long) => {
                        // Who waits for this holds no turn: short ones go on.
                        let Ok(_long) = encoder.long_turn.acquire().await else { return };
                        encoder.in_turn(&disk, &wanted, &making.place, Length::Any).await
                    }
                    made => made,
                };
                let (id, now) = (wanted.forms.id, encoder.shared.clock.now());
                encoder.tried.add(making.place.clone(), id, now, now + REST);
                if let Err(why) = &made {
                    tracing::debug!("an answer was not encoded: {why}");
                }
                encoder.count(|encoded| encoded.made(wanted.coding, made.as_ref().ok().copied()));
            }
            .in_current_span(),
        );
    }

    /// Makes a form as soon as one of the few may, and in the time that there is for it.
    async fn in_turn(&self, disk: &Storage, wanted: &Wanted, place: &Key, most: Length) -> Result<(u64, u64), NotMade> {
        // It is never closed.
        let Ok(_turn) = self.turns.acquire().await else { return Err(NotMade::Late) };
        let made = self.shared.clock.timeout(PATIENCE, self.make(disk, wanted, place, most)).await;
        made.unwrap_or(Err(NotMade::Late))
    }

    /// Makes a form and stores it. How long the answer is, and its form; 0 for one that would be no smaller.
    async fn make(&self, disk: &Storage, wanted: &Wanted, place: &Key, longest: Length) -> Result<(u64, u64), NotMade> {
        let Wanted { name, forms, coding, .. } = wanted;
        let mut hit = self.store.find(&wanted.place).await.ok_or(NotMade::Gone)?;
        let head = StoredHead::decode(&hit.head).filter(|head| head.belongs_to(name.primary())).ok_or(NotMade::Gone)?;
        let is_its = Forms::of(&head).is_some_and(|found| found.id == forms.id);
        let length = hit.body.len().filter(|length| is_its && hit.state == State::Whole && may_be_so_long(*length));
        let length = length.ok_or(NotMade::Gone)?;
        if length > LONG_BYTES && longest == Length::Short {
            return Err(NotMade::Long);
        }
        let most = length * MOST_PERCENT / 100;
        let mut coder = Coder::new(*coding, length)?;
        let mut made = None;
        loop {
            let Some(piece) = hit.body.next(READ_PIECE_BYTES).await? else {
                made = Some(self.apart(move || coder.finish()).await?);
                break;
            };
            coder = self.apart(move || coder.write(&piece).map(|()| coder)).await?;
            if coder.made() as u64 > most {
                break;
            }
        }
        let made = made.filter(|made| made.len() as u64 <= most).unwrap_or_default();
        let bytes = made.len() as u64;
        let hint = Hint { expected_bytes: Some(bytes), fresh_until: Some(head.facts.fresh_until), ..Hint::default() };
        let made_head = forms.head(*coding, &head).ok_or(NotMade::Gone)?;
        let mut writer = name.put(&**disk, place, made_head, hint);
        if !made.is_empty() {
            writer.write(Bytes::from(made)).await;
        }
        match writer.commit().await {
            Commit::Stored { .. } => Ok((length, bytes)),
            Commit::NotStored(why) => Err(NotMade::Store(why)),
        }
    }

    /// Does what takes long where no request waits for it.
    async fn apart<T: Send + 'static>(&self, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        self.shared.clock.block(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    pub fn count(&self, count: impl FnOnce(&Encoded)) {
        if let Some(metrics) = &self.shared.metrics {
            count(&metrics.encoded);
        }
    }
}

/// One that is to be made, and may be wanted again once this is dropped.
struct Making {
    encoder: Arc<Encoder>,
    place: Key,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.encoder.making.lock().remove(&self.place);
    }
}

/// Whether what is so long is encoded.
pub(super) fn may_be_so_long(length: u64) -> bool {
    (LEAST_BYTES..=MOST_BYTES).contains(&length)
}

/// Whether the answer goes to a client that may want it encoded. Neighbours encode for their clients themselves, and in what mirrors give
/// links are changed.
pub(super) fn is_for_client(request: &Request) -> bool {
    !request.ticket.neighbour && request.ticket.mirror.is_none()
}

/// The codings in which a client wants an answer, the best first. Parts are parts of it as it is.
fn codings_for(request: &Request, forms: &Forms) -> Codings {
    let fields = &request.head.headers;
    if fields.contains_key(RANGE) { Codings::NONE } else { request.accepts(&forms.codings) }
}

/// The request for the whole in place of one for a part that its client might put to another coding's beginning: where what is stored has forms by a rule that is
/// gone. Of those that there are [`super::said`] thinks before anything is looked up.
pub(super) fn without_mixing(request: &Request, head: &StoredHead) -> Option<Request> {
    let fields = &request.head.headers;
    if !fields.contains_key(RANGE) || !may_mix(fields) {
        return None;
    }
    let forms = Forms::of(head).filter(|_| is_for_client(request))?;
    if request.accepts(&forms.codings).is_empty() {
        return None;
    }
    let mut whole = request.clone();
    whole.head.headers.remove(&RANGE);
    Some(whole)
}
