//! Sending a request to its origin and reading the head of the answer; counted, for the metrics.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use tinaja_http::body::Framing;
use tinaja_http::hops::{self, Interim};
use tinaja_http::message::{BadField, RequestHead, ResponseHead};

use super::entry::Entry;
use super::headers;
use super::neighbour::Neighbourhood;
use super::reply::Reply;
use super::request::Request;
use crate::client::{BadContent, Client};
use crate::failure::Failure;
use crate::origin::{Backend, Connection, Destination, Origins, Target, resolve, resolve_chosen};
use crate::quotas::{Over, Taken};
use crate::shared::Shared;

/// Times that one request is sent on kept connections that turn out to have been closed; then it gets its own. A retry
/// that fails is not retried (RFC 9110 9.2.2).
const MOST_KEPT: usize = 1;

/// Who sends what with a request, and hears what comes before its answer.
pub(super) enum With<'a> {
    /// The client hears of interim answers.
    Client(&'a mut Client),
    /// And sends the request's content.
    Content(&'a mut Client),
    /// And leaves HTTP, if the origin switches to one of these protocols. The answer is a 101 then.
    Switch(&'a mut Client, &'a str),
    /// Nobody: the proxy asks for more of an answer that clients have the beginning of.
    Rest,
    /// Nobody: the proxy asks of its own accord.
    Nobody,
}

/// How far one request has got, which decides whether it may be sent again.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// An origin may have it, and carry it out.
    sent: bool,
    /// Of its content something has been taken from the client, who will not send it twice.
    taken: bool,
    /// The client has heard something of an answer.
    heard: bool,
}

impl Progress {
    /// Whether it may be sent to another origin after a failure (RFC 9110 9.2.2). Anything else that is sent twice may be carried
    /// out twice, and a client that has the beginning of one answer would get the end of another.
    fn may_go_on(self, request: &Request, failure: &Failure) -> bool {
        let harmless = !self.sent || request.method().is_idempotent();
        failure.is_upstream() && harmless && !self.taken && !self.heard
    }
}

/// What is sent to an origin, whichever one.
struct Asking<'a> {
    head: &'a RequestHead,
    request: &'a Request,
    /// The client sends content.
    with_content: bool,
    progress: Progress,
}

/// What asks origins.
pub(super) struct Asker {
    shared: Arc<Shared>,
    origins: Arc<Origins>,
    neighbours: Neighbourhood,
}

impl Asker {
    pub fn new(shared: Arc<Shared>, origins: Arc<Origins>) -> Asker {
        let neighbours = Neighbourhood::new(shared.clone(), origins.clone());
        Asker { shared, origins, neighbours }
    }

    /// Tells neighbours that this proxy has fetched an object that belongs on their disks. They fetch it from here.
    pub fn tell_of(&self, request: &Request, without: Vec<SocketAddr>) {
        self.neighbours.tell_of_own(request, without);
    }

    /// Returns once a neighbour is none any more; never without one.
    pub async fn gone(&self, neighbour: Option<SocketAddr>) {
        match neighbour {
            Some(neighbour) => self.neighbours.gone(neighbour).await,
            None => pending().await,
        }
    }

    /// Gives a connection back, to be used again if its answer was whole and nothing else came.
    pub fn release(&self, connection: Connection) {
        self.origins.release(connection);
    }

    /// Sends a request with this head: to those of the neighbours that may have the object, then to its destination, or to one after the other of its route's origins as long as
    /// that is safe. `cached` says whether the answer may be stored. What origins say of the request's id is taken away.
    pub async fn ask(
        &self,
        request: &Request,
        mut head: RequestHead,
        cached: bool,
        with: With<'_>,
        entry: &mut Entry,
    ) -> Result<Box<Reply>, Failure> {
        request.check_online()?;
        if cached && request.ticket.asks_identity() {
            // Encoded here, once, for all who want it so.
            let set = head.headers.insert(ACCEPT_ENCODING, "identity");
            set.map_err(|error| Failure::Internal(error.to_string()))?;
        }
        let fetch = self.take_place(request, &with, entry)?;
        // A node of the cluster would take the path for one of its own.
        let shared = cached && request.ticket.mirror.is_none();
        if shared && let Some(mut reply) = self.neighbours.ask(request, &head, entry).await? {
            reply.connection.fetch = fetch;
            return Ok(reply);
        }
        let fetches = self.shared.metrics.as_ref().map(|metrics| &metrics.fetches);
        let (began, _waiting) = (self.shared.clock.now(), fetches.map(|fetches| fetches.wait()));
        let mut reply = self.ask_origin(request, &mut head, cached, with, entry).await;
        if let Some(fetches) = fetches {
            fetches.count(reply.as_ref().map(|reply| reply.head.status.as_u16()), self.shared.clock.since(began));
            if let Ok(reply) = &mut reply {
                reply.connection.received = Some(fetches.received.clone());
            }
        }
        if let Ok(reply) = &mut reply {
            reply.connection.fetch = fetch;
        }
        if let (Some(name), Ok(reply)) = (self.shared.ids.header(), &mut reply) {
            // The id that an origin repeats is this request's alone: if it were stored, a hit would tell it to others.
            reply.head.headers.remove(name);
        }
        reply
    }

    /// The place of a fetch among those that its client may have. A client is refused where its request begins to fetch, and nowhere else: whoever reads
    /// along with an answer that is under way may be another, and what is asked again has its place already. The proxy's own errands are nobody's.
    fn take_place(&self, request: &Request, with: &With<'_>, entry: &mut Entry) -> Result<Taken, Over> {
        let (quotas, client) = (&self.shared.quotas, request.ticket.client);
        match with {
            // Each node counts its own clients, and whoever asks for one of its is a node.
            _ if request.ticket.neighbour => Ok(Taken::nothing()),
            With::Nobody => Ok(Taken::nothing()),
            With::Rest => Ok(quotas.fetch_on(client)),
            With::Client(_) | With::Content(_) | With::Switch(..) if entry.has_fetched => Ok(quotas.fetch_on(client)),
            With::Client(_) | With::Content(_) | With::Switch(..) => {
                let taken = quotas.fetch(client)?;
                entry.has_fetched = true;
                Ok(taken)
            }
        }
    }

    async fn ask_origin(
        &self,
        request: &Request,
        head: &mut RequestHead,
        cached: bool,
        mut with: With<'_>,
        entry: &mut Entry,
    ) -> Result<Box<Reply>, Failure> {
        headers::to_origin(&self.shared, request, head, cached)?;
        if let Some(at) = &request.ticket.mirror {
            at.authorize(head)?;
        }
        let with_content = matches!(with, With::Content(_)) && request.ticket.framing != Framing::Length(0);
        frame(head, request.ticket.framing, with_content)?;
        if let With::Switch(_, protocols) = &with {
            head.headers.insert(CONNECTION, "upgrade")?;
            head.headers.insert(UPGRADE, *protocols)?;
        }
        let mut asking = Asking { head, request, with_content, progress: Progress::default() };
        let ticket = &request.ticket;
        let Some(behind) = &ticket.behind else {
            return self.ask_at(&ticket.destination, &self.origins.anywhere(), &mut asking, &mut with, entry).await;
        };
        let group = self.origins.group(behind)?;
        if ticket.mirror.as_ref().is_some_and(|at| !at.is_home) {
            let none = || Failure::Internal("a mirror has lost its source".into());
            let target = Target::of(&group, group.members.first().ok_or_else(none)?);
            return self.ask_at(&ticket.destination, &target, &mut asking, &mut with, entry).await;
        }
        let mut course = group.course(ticket.name.primary());
        let (began, mut last) = (self.shared.clock.now(), None::<(Arc<Backend>, Failure)>);
        let repeatable = request.method().is_idempotent() && !with_content;
        while let Some(attempt) = course.next(repeatable) {
            let backend = attempt.backend.clone();
            let (destination, target) = (&backend.destination, Target::of(&group, &backend));
            if let Some((failed, _)) = &last {
                failed.counts.retries.fetch_add(1, Ordering::Relaxed);
            }
            match self.ask_at(destination, &target, &mut asking, &mut with, entry).await {
                Ok(reply) => {
                    attempt.succeeded();
                    return Ok(reply);
                }
                Err(failure) => {
                    attempt.failed(&failure);
                    let late = self.shared.clock.since(began) >= behind.upstream.retry_within;
                    if late || !asking.progress.may_go_on(request, &failure) {
                        return Err(failure);
                    }
                    last = Some((backend, failure));
                }
            }
        }
        Err(last.map_or_else(|| group.none_left(), |(_, failure)| failure))
    }

    /// Sends a request to one destination. Where a kept connection turns out to be closed, it is sent again; requests
    /// that must not be sent twice get a connection of their own.
    async fn ask_at(
        &self,
        destination: &Destination,
        target: &Target,
        asking: &mut Asking<'_>,
        with: &mut With<'_>,
        entry: &mut Entry,
    ) -> Result<Box<Reply>, Failure> {
        let ticket = &asking.request.ticket;
        let asked = ticket.asked_of(asking.request.method(), destination);
        let leaves = matches!(with, With::Switch(..));
        let check = |address: SocketAddr| {
            self.shared.check_self(address)?;
            if leaves {
                asking.request.check_switch(asked, address.ip())?;
            }
            ticket.check_fetched(&self.shared, asked, address.ip())
        };
        let limit = self.shared.limits.resolve;
        let addresses = match ticket.chosen {
            None => resolve(&self.shared.clock, destination, limit, check).await?,
            Some(chosen) => resolve_chosen(&self.shared.clock, destination, limit, check, chosen).await?,
        };
        entry.origin = addresses.first().copied();
        let idempotent = asking.request.method().is_idempotent() && !asking.with_content;
        let switching = leaves.then(|| target.over_http1());
        for attempt in 0.. {
            let single = switching.is_some() || !idempotent || attempt == MOST_KEPT;
            let target = switching.as_ref().unwrap_or(target);
            let mut connection = self.origins.connect(destination, target, &addresses, single).await?;
            entry.origin = Some(connection.address);
            let (asked, stamp) = (self.shared.clock.wall(), self.shared.bans.now());
            let removals = self.shared.bans.removals();
            let mut sending = asking.with_content;
            match self.ask_on(&mut connection, asking, with, &mut sending).await {
                Ok(mut head) => {
                    self.shared.clock.note();
                    let answered = self.shared.clock.wall();
                    match (head.status, &*with) {
                        (StatusCode::SWITCHING_PROTOCOLS, With::Switch(_, protocols)) => {
                            headers::switched(&mut head, protocols)?;
                        }
                        _ => headers::from_origin(&mut head, answered)?,
                    }
                    let tags = headers::tags(ticket, &mut head);
                    entry.fwd_status = Some(head.status.as_u16());
                    let from = connection.address.ip();
                    (entry.fetched_from, entry.by_neighbour) = (Some(from), false);
                    entry.note_asked(stamp, &tags);
                    let reply = Reply { head, connection, asked, answered, stamp, removals, tags, from, sending };
                    return Ok(Box::new(reply));
                }
                Err(failure) => {
                    let unprocessed = connection.is_unprocessed();
                    asking.progress.sent &= !unprocessed;
                    let closed = connection.reused && !connection.has_answered() && idempotent;
                    let again = closed || (unprocessed && !asking.progress.taken);
                    if !again || attempt == MOST_KEPT {
                        return Err(failure);
                    }
                }
            }
        }
        Err(Failure::Internal("a request was sent too often".into()))
    }

    /// Sends a request and reads up to the final head.
    async fn ask_on(
        &self,
        connection: &mut Connection,
        asking: &mut Asking<'_>,
        with: &mut With<'_>,
        sending: &mut bool,
    ) -> Result<ResponseHead, Failure> {
        let Asking { head, request, progress, .. } = asking;
        progress.sent = true;
        connection.send(head).await?;
        let mut interim = 0;
        loop {
            let head = match with {
                With::Content(client) if *sending => tokio::select! {
                    head = connection.read_head() => head?,
                    piece = client.read_content() => {
                        progress.taken = true;
                        *sending = send_on(connection, piece).await?;
                        continue;
                    }
                },
                _ => connection.read_head().await?,
            };
            if !head.status.is_informational() {
                return Ok(head);
            }
            // Where none was passed on, nobody asked for an upgrade, and what follows would be judged by nobody.
            let switching = matches!(with, With::Switch(..));
            let judged = hops::interim(head.status, request.is_http10(), switching, interim);
            if head.status == StatusCode::SWITCHING_PROTOCOLS && judged == Interim::Forward {
                return Ok(head);
            }
            interim += 1;
            match (judged, &mut *with) {
                (Interim::Refuse, _) => {
                    let text = "it upgrades without being asked, or sends interim answers without end";
                    return Err(Failure::Origin(text.into()));
                }
                (Interim::Forward, With::Client(client) | With::Content(client) | With::Switch(client, _)) => {
                    let mut head = head;
                    for name in hops::not_interim(&head.headers) {
                        head.headers.remove(&name);
                    }
                    progress.heard = true;
                    // A client that has left is noticed when it gets its answer.
                    let _ = client.interim(&head).await;
                }
                _ => {}
            }
        }
    }
}

/// Passes a piece of a request's content on. Whether there is more to send.
pub(super) async fn send_on(
    connection: &mut Connection,
    piece: Result<Option<bytes::Bytes>, BadContent>,
) -> Result<bool, Failure> {
    match piece {
        // An origin that takes no more has answered, or is gone; reading tells.
        Ok(Some(piece)) => Ok(connection.send_content(piece).await),
        Ok(None) => {
            connection.end_content().await;
            Ok(false)
        }
        Err(bad) => {
            connection.give_up_content();
            Err(bad.into())
        }
    }
}

/// Sets the fields that frame a request's content: one of them, or none.
fn frame(head: &mut RequestHead, framing: Framing, with_content: bool) -> Result<(), BadField> {
    head.headers.remove(&TRANSFER_ENCODING);
    head.headers.remove(&CONTENT_LENGTH);
    match framing {
        Framing::Length(0) if head.method == http::Method::POST || head.method == http::Method::PUT => {
            head.headers.insert(CONTENT_LENGTH, "0")
        }
        _ if !with_content => Ok(()),
        Framing::Length(length) => head.headers.insert(CONTENT_LENGTH, length),
        Framing::Chunked => head.headers.insert(TRANSFER_ENCODING, "chunked"),
    }
}
