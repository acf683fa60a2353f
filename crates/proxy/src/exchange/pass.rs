//! Requests and answers that pass by the cache, in bounded memory.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::header::{ALLOW, CONTENT_LENGTH, MAX_FORWARDS};
use http::{Method, StatusCode};
use tinaja_http::hops;
use tinaja_http::message::ResponseHead;
use tinaja_http::status::CACHE_STATUS;
use tinaja_http::status::Outcome;

use super::ask::{Asker, With, send_on};
use super::change::{invalidate, note_head};
use super::entry::Entry;
use super::errand::Errands;
use super::headers;
use super::keep::announced;
use super::piece::{Keeping, Pieces};
use super::read::{Reader, Remainder};
use super::reply::Reply;
use super::request::Request;
use super::transaction::{Ended, Transaction};
use crate::client::Client;
use crate::failure::Failure;
use crate::origin::Connection;
use crate::page;
use crate::shared::Shared;
use crate::storage::{Storage, Switch};
use crate::stored::Found;

/// Whether git asks for a pack that its server makes for it (the "smart" protocol).
fn is_of_git(request: &Request) -> bool {
    let path = request.ticket.path.split('?').next().unwrap_or_default();
    *request.method() == Method::POST && path.ends_with("/git-upload-pack")
}

/// What passes requests and answers on.
pub(super) struct Passer {
    pub shared: Arc<Shared>,
    pub store: Storage,
    /// The same, where it matters whether it is there.
    pub switch: Arc<Switch>,
    pub asker: Arc<Asker>,
    pub reader: Arc<Reader>,
    pub pieces: Arc<Pieces>,
    pub errands: Arc<Errands>,
}

impl Passer {
    /// Passes a request on as it is, and its answer back. `found` is what is stored for it and did not do.
    pub async fn pass(&self, transaction: &mut Transaction<'_>, found: Option<Box<Found>>) -> Result<(), Ended> {
        let Transaction { request, client, entry } = transaction;
        // What is not for the cache is kept by no part of it either: a Host that lies, with a range, would have filled the true one's place.
        let cached = request.not_for_cache.is_none() && !self.switch.is_away();
        let mut head = request.head.clone();
        match max_forwards(request) {
            Some(0) => return self.answer_options(client, entry).await,
            Some(hops) => head.headers.insert(MAX_FORWARDS, hops - 1)?,
            None => {}
        }
        let reply = self.asker.ask(request, head, cached, With::Content(client), entry).await?;
        if is_of_git(request) {
            self.shared.metrics.as_ref().inspect(|metrics| metrics.fetches.of_git.inc());
        }
        invalidate(&self.shared, &self.store, request, &reply).await;
        if let Some(found) = found {
            note_head(&self.store, &self.shared.bans, request, found, &reply).await?;
        }
        self.hand_on(transaction, reply, cached).await
    }

    /// Asks for a request that would leave HTTP for one of these protocols. The origin's 101, if that is what it answers; the client has got any other
    /// answer.
    pub async fn switch(
        &self,
        transaction: &mut Transaction<'_>,
        protocols: &str,
    ) -> Result<Option<(ResponseHead, Connection)>, Ended> {
        let Transaction { request, client, entry } = transaction;
        if request.is_loop {
            return Err(Failure::Loop.into());
        }
        let head = request.head.clone();
        let mut reply = self.asker.ask(request, head, false, With::Switch(client, protocols), entry).await?;
        if reply.head.status == StatusCode::SWITCHING_PROTOCOLS {
            headers::switched_to_client(&self.shared, &mut reply.head, entry)?;
            entry.note(&reply.head);
            return Ok(Some((reply.head, reply.connection)));
        }
        invalidate(&self.shared, &self.store, request, &reply).await;
        self.hand_on(transaction, reply, false).await?;
        Ok(None)
    }

    /// The cache is another process's at this moment, which this one takes over from or hands over to.
    pub async fn pass_by(&self, transaction: &mut Transaction<'_>) -> Result<(), Ended> {
        if transaction.request.directives.only_if_cached {
            return Err(Failure::NotCached.into());
        }
        self.shared.metrics.as_ref().inspect(|metrics| metrics.hand_over.passed.inc());
        // Whoever waited for somebody else's fetch has no part in it.
        (transaction.entry.outcome, transaction.entry.collapsed) = (Outcome::Bypass, false);
        self.pass(transaction, None).await
    }

    /// Gives an origin's answer to the client as it is. If it is `cached`, a part is kept, or the whole fetched behind it.
    pub async fn hand_on(
        &self,
        transaction: &mut Transaction<'_>,
        reply: Box<Reply>,
        cached: bool,
    ) -> Result<(), Ended> {
        let request = transaction.request;
        let worth_it = cached && self.errands.is_worth_it(request, &reply.received());
        let keeping = if cached && !worth_it { self.pieces.begin(request, &reply, false).await } else { None };
        self.pipe(transaction, reply, keeping).await?;
        if worth_it {
            self.errands.fetch_whole(request);
        }
        Ok(())
    }

    /// OPTIONS that was to go no further than here.
    async fn answer_options(&self, client: &mut Client, entry: &mut Entry) -> Result<(), Ended> {
        let mut head = ResponseHead::new(StatusCode::OK);
        head.headers.insert(CONTENT_LENGTH, 0)?;
        head.headers.insert(ALLOW, page::ALLOWED)?;
        headers::to_client(&self.shared, &mut head, None, entry)?;
        head.headers.remove(&CACHE_STATUS);
        entry.note(&head);
        client.begin(&head, Bytes::new()).await?;
        Ok(client.end().await?)
    }

    /// Gives an origin's answer to the client, and perhaps to the store.
    pub async fn pipe(
        &self,
        transaction: &mut Transaction<'_>,
        reply: Box<Reply>,
        mut keeping: Option<Keeping>,
    ) -> Result<(), Ended> {
        transaction.entry.stored = keeping.is_some();
        let outcome = self.pipe_pieces(transaction, reply, &mut keeping).await;
        if let Some(keeping) = keeping {
            self.pieces.end_apart(keeping);
        }
        outcome
    }

    /// Gives an origin's answer to the client, while the rest of the request goes the other way.
    async fn pipe_pieces(
        &self,
        transaction: &mut Transaction<'_>,
        mut reply: Box<Reply>,
        keeping: &mut Option<Keeping>,
    ) -> Result<(), Ended> {
        let Transaction { request, client, entry } = transaction;
        let mut head = reply.head.clone();
        if head.status == StatusCode::NOT_MODIFIED {
            request.name_matched(&mut head, false)?;
        }
        headers::to_client(&self.shared, &mut head, None, entry)?;
        entry.note(&head);
        let bodiless = request.method() == Method::HEAD
            || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        // What has come with the head goes out with it.
        let first = tokio::select! {
            biased;
            // An error comes again; of a neighbour's answer another may have the rest.
            piece = reply.connection.read() => if entry.by_neighbour { piece.ok().flatten() } else { piece? },
            () = std::future::ready(()) => None,
        };
        if let (Some(keeping), Some(first)) = (&mut *keeping, &first) {
            keeping.write(first).await;
        }
        let (mut is_neighbours, mut skip) = (entry.by_neighbour, 0);
        // Where the rest of a neighbour's answer ends.
        let mut end = None;
        let mut sent = first.as_ref().map_or(0, Bytes::len) as u64;
        if first.is_none() && keeping.is_none() && !bodiless && reply.connection.ended_with_head() {
            if reply.sending {
                reply.connection.give_up_content();
            }
            return Ok(client.begin_and_end(&head).await?);
        }
        client.begin(&head, first.unwrap_or_default()).await?;
        while !bodiless && !reply.connection.is_done() {
            let neighbour = entry.origin.filter(|_| is_neighbours);
            let next = tokio::select! {
                biased;
                next = next_piece(client, &mut reply) => next,
                () = self.asker.gone(neighbour) => {
                    // It may be leaving for its successor, and sends on: what nobody else has comes from there.
                    is_neighbours = false;
                    match self.rest(request, &reply.head, sent).await {
                        Some(Remainder::Follows { connection, skip: before, length }) => {
                            (reply.connection, reply.sending, skip, end) = (*connection, false, before, length);
                        }
                        Some(Remainder::Nothing) => {
                            (skip, end) = (0, None);
                            break;
                        }
                        None => {}
                    }
                    continue;
                }
            };
            match next {
                Ok(Some(mut piece)) => {
                    let past = usize::try_from(skip).unwrap_or(usize::MAX).min(piece.len());
                    piece.advance(past);
                    skip -= past as u64;
                    let left = end.map_or(u64::MAX, |end: u64| end.saturating_sub(sent));
                    piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    if piece.is_empty() {
                        continue;
                    }
                    if let Some(keeping) = &mut *keeping {
                        keeping.write(&piece).await;
                    }
                    sent += piece.len() as u64;
                    client.piece(piece).await?;
                }
                Ok(None) => break,
                Err(Ended::Failed(failure)) if neighbour.is_some() => {
                    tracing::debug!("a node of the cluster broke off at byte {sent}: {failure}");
                    let rest = self.rest(request, &reply.head, sent).await.ok_or(failure)?;
                    let Remainder::Follows { connection, skip: before, length } = rest else {
                        (skip, end) = (0, None);
                        break;
                    };
                    (reply.connection, reply.sending, skip, end) = (*connection, false, before, length);
                    is_neighbours = false;
                }
                Err(ended) => return Err(ended),
            }
        }
        if skip > 0 || end.is_some_and(|end| sent < end) {
            return Err(Failure::Origin("its answer ended early".into()).into());
        }
        if reply.sending {
            // The origin answered before it had all of the request, and what is left of it is nobody's.
            reply.connection.give_up_content();
        }
        let trailers = reply.connection.take_trailers().map(|trailers| hops::trailers_that_pass(&trailers));
        client.end_with(trailers.filter(|trailers| !trailers.is_empty())).await?;
        self.asker.release(reply.connection);
        Ok(())
    }
}

impl Passer {
    /// The rest of an answer that a neighbour broke off. `None` where it may be of another version.
    async fn rest(&self, request: &Request, broken: &ResponseHead, sent: u64) -> Option<Remainder> {
        let length = announced(&broken.headers);
        let is_whole = *request.method() == Method::GET && broken.status == StatusCode::OK;
        let lacks = length.is_none_or(|length| sent < length);
        let bytes = sent..length.unwrap_or(u64::MAX);
        let asked = (is_whole && lacks).then(|| self.reader.rest(request, &broken.headers, bytes, length))?;
        asked.await.inspect_err(|failure| tracing::debug!("the rest cannot be had: {failure}")).ok()
    }
}

/// The answer's next piece. Meanwhile more of the request is sent, or the client is seen to leave.
async fn next_piece(client: &mut Client, reply: &mut Reply) -> Result<Option<Bytes>, Ended> {
    loop {
        if !reply.sending {
            // What is there counts for more than that the client may have left, which its next piece tells as well.
            return tokio::select! {
                biased;
                piece = reply.connection.read() => piece.map_err(Ended::from),
                () = client.gone() => Err(Ended::Left),
            };
        }
        // Neither may keep the other from its turn.
        tokio::select! {
            piece = reply.connection.read() => return piece.map_err(Ended::from),
            piece = client.read_content() => {
                reply.sending = send_on(&mut reply.connection, piece).await?;
            }
        }
    }
}

/// How many hops an OPTIONS may still go (RFC 9110 7.6.2); the field means nothing for other methods.
fn max_forwards(request: &Request) -> Option<u64> {
    let field = request.head.headers.get(MAX_FORWARDS).filter(|_| *request.method() == Method::OPTIONS)?;
    field.to_str().ok()?.trim().parse().ok()
}
