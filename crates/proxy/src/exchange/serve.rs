//! Sending a stored answer, or one that is just being stored: its conditions, its ranges, its bytes.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::Method;
use http::header::{ETAG, VARY};
use tinaja_http::age::age_field;
use tinaja_http::encoding::tags::origin_tag;
use tinaja_http::encoding::varies;
use tinaja_http::message::ResponseHead;
use tinaja_http::status::Outcome;
use tinaja_logs::CacheResult;
use tinaja_store::{Body, ReadError, State};

use super::encode::{Encoder, is_for_client, without_mixing};
use super::headers;
use super::piece::{Keeping, Pieces};
use super::pieced::Gap;
use super::plan::{Plan, plan, shape};
use super::proof::Proving;
use super::read::{Reader, Source};
use super::request::Request;
use super::transaction::{Ended, Transaction};
use crate::boxed::boxed;
use crate::client::Client;
use crate::failure::Failure;
use crate::shared::Shared;
use crate::stored::{Forms, Found};

/// Whether the client has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Answered,
    /// What the client wants of it cannot be had here: it has not been fetched yet, cannot be read, or the origin alone
    /// can judge the request's conditions. Nothing has been sent.
    NotHere,
}

/// Where an answer comes from.
pub(super) enum Given {
    /// From the cache.
    Stored,
    /// This request has fetched it, and this is the head that came: what is stored may lack fields of it.
    Fetched(Box<ResponseHead>),
    /// This request fetches what was missing of it, into the store.
    Filling,
    /// From the cache, but for what the origin sends, which may be kept.
    Completed(Box<Gap>, Option<Box<Keeping>>),
}

/// What sends stored answers.
pub(super) struct Sender {
    pub shared: Arc<Shared>,
    pub reader: Arc<Reader>,
    pub pieces: Arc<Pieces>,
    pub encoder: Arc<Encoder>,
}

impl Sender {
    /// Answers with what was found. Nothing is sent before the first bytes are there.
    pub async fn serve(
        &self,
        transaction: &mut Transaction<'_>,
        found: Box<Found>,
        given: Given,
    ) -> Result<Sent, Ended> {
        let Transaction { request, client, entry } = transaction;
        let unmixed = without_mixing(request, &found.head);
        let request = unmixed.as_ref().unwrap_or(request);
        let is_encodable = Forms::of(&found.head).is_some() && is_for_client(request);
        let (found, begun) = match given {
            Given::Stored if is_encodable => boxed(|| self.encoder.form_of(request, found)).await,
            _ => (found, None),
        };
        let now = self.shared.clock.wall();
        let fetched = matches!(given, Given::Fetched(_) | Given::Filling);
        entry.source = (!fetched).then(|| found.hit.source.into());
        entry.fetched_from = found.head.facts.fetched_from;
        entry.note_asked(found.head.facts.stamp, found.head.tags());
        let stored = |found: &Found| Some((found.head.header()?, Some(found.head.facts.age(now))));
        let (with_age, gap, kept) = match given {
            Given::Fetched(head) => (Some((*head, None)), None, None),
            Given::Stored | Given::Filling => (stored(&found), None, None),
            Given::Completed(gap, kept) => (stored(&found), Some(*gap), kept.map(|kept| *kept)),
        };
        let Some((mut head, age)) = with_age else { return Ok(Sent::NotHere) };
        if is_encodable && !varies(head.headers.as_map()) {
            head.headers.append(VARY, "Accept-Encoding")?;
        }
        let age = age.or_else(|| Some(age_field(&head.headers)).filter(|age| *age > 0));
        let own_tag = head.headers.get(ETAG).filter(|_| begun.is_some()).cloned();
        if let Some(tag) = own_tag.as_ref().and_then(|tag| origin_tag(tag.as_bytes())) {
            // Conditions are about the origin's.
            head.headers.insert(ETAG, tag)?;
        }
        let Some(plan) = plan(request, &head, &found, fetched, now) else {
            return Ok(Sent::NotHere);
        };
        if let Some(tag) = own_tag {
            head.headers.insert(ETAG, tag)?;
        }
        if matches!(plan, Plan::NotModified) {
            request.name_matched(&mut head, is_encodable)?;
        }
        let mut proving = Proving::of(request, &found, &plan, fetched);
        let length = found.length();
        let must_wait = fetched && !matches!(plan, Plan::Parts(..));
        let mut source = Source::of(found, request.ticket.name.clone(), gap);
        source.kept = kept;
        let coding = begun.as_ref().map(|form| form.coding);
        let is_content = matches!(plan, Plan::Whole) && request.method() != Method::HEAD;
        let first = match begun {
            Some(form) if is_content => {
                source.has_read(form.first.len() as u64);
                Ok(form.first)
            }
            _ => self.first_piece(request, &plan, &mut source, must_wait).await,
        };
        let Ok(mut first) = first else { return Ok(Sent::NotHere) };
        if let Some(proving) = &mut proving {
            first = proving.hold(first);
        }
        let is_all = proving.is_some() && Some(source.sent()) == length;
        if let Some(proving) = proving.take_if(|_| is_all) {
            // Nobody has to hear of what was wrong before anything was sent.
            match boxed(|| self.prove(proving)).await {
                Ok(last) => first = last,
                Err(_) => return Ok(Sent::NotHere),
            }
        }
        if entry.outcome == Outcome::Hit || entry.result == CacheResult::Stale {
            entry.ttl = Some(source.ttl_seconds(now));
        }
        shape(&mut head, &plan, length)?;
        if matches!(plan, Plan::NotModified) && entry.result == CacheResult::Hit {
            entry.result = CacheResult::NotModified;
        }
        headers::to_client(&self.shared, &mut head, age, entry)?;
        entry.note(&head);
        let sent = self.send(request, client, (&head, first), &plan, &mut source, proving).await;
        if let Some(keeping) = source.kept.take() {
            self.pieces.end_apart(keeping);
        }
        if let (Ok(()), Some(coding), true) = (&sent, coding, is_content) {
            self.encoder.count(|encoded| encoded.sent(coding));
        }
        sent.map(|()| Sent::Answered)
    }

    /// The first bytes to send.
    async fn first_piece(
        &self,
        request: &Request,
        plan: &Plan,
        source: &mut Source,
        fetched: bool,
    ) -> Result<Bytes, NotThere> {
        let part = match plan {
            Plan::NotModified | Plan::Unsatisfied => return Ok(Bytes::new()),
            _ if request.method() == Method::HEAD => return Ok(Bytes::new()),
            Plan::Whole => None,
            Plan::Part(part) => Some(part),
            Plan::Parts(_, parts) => parts.first(),
        };
        if let Some(part) = part {
            source.seek(part);
        }
        let piece = match source.body() {
            // Others who are at the beginning of an object that is being fetched read along.
            Some((body, state)) => {
                let may_wait = fetched || part.is_none() || !request.wants_part();
                let piece = first_of((body, state), self.shared.held.piece_bytes(), may_wait, fetched).await?;
                source.has_read(piece.len() as u64);
                piece
            }
            // What is missing of an object in pieces comes from the origin, before anything is sent.
            None => self.reader.next(request, source).await.map_err(|_| NotThere)?.unwrap_or_default(),
        };
        match plan {
            Plan::Parts(multipart, parts) => {
                let before = parts.first().map(|part| multipart.before(part)).unwrap_or_default();
                Ok([before.as_bytes(), &piece].concat().into())
            }
            _ => Ok(piece),
        }
    }

    async fn send(
        &self,
        request: &Request,
        client: &mut Client,
        (head, first): (&ResponseHead, Bytes),
        plan: &Plan,
        source: &mut Source,
        proving: Option<Box<Proving>>,
    ) -> Result<(), Ended> {
        client.begin(head, first).await?;
        match proving {
            Some(proving) => boxed(|| self.pump_checked(request, client, source, proving)).await?,
            None if request.method() == Method::HEAD => {}
            None => self.send_content(request, client, plan, source).await?,
        }
        Ok(client.end().await?)
    }

    async fn send_content(
        &self,
        request: &Request,
        client: &mut Client,
        plan: &Plan,
        source: &mut Source,
    ) -> Result<(), Ended> {
        match plan {
            Plan::NotModified | Plan::Unsatisfied => Ok(()),
            Plan::Whole | Plan::Part(_) => self.pump(request, client, source).await,
            Plan::Parts(multipart, parts) => {
                for (number, part) in parts.iter().enumerate() {
                    // The first part has begun.
                    if number > 0 {
                        client.piece(Bytes::from(multipart.before(part))).await?;
                        source.seek(part);
                    }
                    self.pump(request, client, source).await?;
                }
                Ok(client.piece(Bytes::from(multipart.end())).await?)
            }
        }
    }

    /// The same of what is checked on the way. Its last bytes go out once all are known to be right.
    async fn pump_checked(
        &self,
        request: &Request,
        client: &mut Client,
        source: &mut Source,
        mut proving: Box<Proving>,
    ) -> Result<(), Ended> {
        loop {
            let piece = tokio::select! {
                biased;
                piece = self.reader.next(request, source) => piece?,
                () = client.gone() => return Err(Ended::Left),
            };
            let piece = match piece {
                Some(piece) => proving.hold(piece),
                None => {
                    let last = self.prove(proving).await?;
                    return Ok(client.piece(last).await?);
                }
            };
            if !piece.is_empty() {
                client.piece(piece).await?;
            }
        }
    }

    /// What was held back, if all was right. Else what is stored is forgotten.
    async fn prove(&self, proving: Box<Proving>) -> Result<Bytes, Failure> {
        match proving.end() {
            Ok(last) => Ok(last),
            Err(place) => {
                let why = "what is stored is not what its index says by now: ask again, and it is fetched anew";
                tracing::warn!("{why}");
                self.shared.metrics.as_ref().inspect(|metrics| metrics.fetches.wrong.inc());
                self.reader.forget(&mut Some(place)).await;
                Err(Failure::Mirror(why.into()))
            }
        }
    }

    /// Sends what is left of a source, and notices when the client leaves.
    async fn pump(&self, request: &Request, client: &mut Client, source: &mut Source) -> Result<(), Ended> {
        loop {
            let piece = tokio::select! {
                biased;
                piece = self.reader.next(request, source) => piece?,
                () = client.gone() => return Err(Ended::Left),
            };
            match piece {
                Some(piece) => client.piece(piece).await?,
                None => return Ok(()),
            }
        }
    }
}

/// What is wanted cannot be had here and now.
struct NotThere;

/// The first bytes of a stored body: an object that cannot be read must become a miss, not an answer that breaks off.
/// Of an object that is still being fetched there may be none yet; `may_wait` says that this will do.
async fn first_of(
    (body, state): (&mut Body, State),
    piece_bytes: usize,
    may_wait: bool,
    fetched: bool,
) -> Result<Bytes, NotThere> {
    let piece = match state {
        State::Whole => Some(body.next(piece_bytes).await),
        State::Filling => there_is(body, piece_bytes).await,
    };
    match piece {
        Some(Ok(piece)) => Ok(piece.unwrap_or_default()),
        None if may_wait => Ok(Bytes::new()),
        None => Err(NotThere),
        // This request's own fetch has broken off already. The error comes again, and the rest is taken up, or the
        // client sees the cut: the same as if it had come a moment later, and never a second request for the whole.
        Some(Err(_)) if fetched => Ok(Bytes::new()),
        Some(Err(error)) => {
            tracing::debug!("a stored object counts as a miss: {error}");
            Err(NotThere)
        }
    }
}

/// The next piece of a body, if it is there already.
async fn there_is(body: &mut Body, piece_bytes: usize) -> Option<Result<Option<Bytes>, ReadError>> {
    std::future::poll_fn(|cx| {
        Poll::Ready(match body.poll_next(cx, piece_bytes) {
            Poll::Ready(piece) => Some(piece),
            Poll::Pending => None,
        })
    })
    .await
}
