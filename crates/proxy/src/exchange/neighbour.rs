//! Asking neighbours for an object before its origin is asked.
//!
//! A neighbour carries a request out as if its client were its own: from its disk, or from the origin. One that says at once that it is about the
//! request may take as long for it as the origin may. One that says nothing costs what it was given, and the next is asked.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{CACHE_CONTROL, PRAGMA};
use http::{Method, StatusCode};
use tinaja_clock::Clock;
use tinaja_http::message::{BadField, RequestHead, ResponseHead};

use super::asked_at::AskedAt;
use super::entry::Entry;
use super::headers;
use super::keep::{announced, keep};
use super::reply::Reply;
use super::request::Request;
use crate::bans::Verdict;
use crate::failure::Failure;
use crate::neighbours::{ASKED_AT, CLIENT, FETCHED_FROM, HAS, INTERCEPTED, LISTENER, Neighbours, OBJECT, TRIED, Way};
use crate::origin::{Connection, Destination, Origins, Target};
use crate::shared::Shared;

/// Neighbours that one request goes to, one after the other. If two do not answer, the origin's answer is worth more than the third's.
const MOST_ASKED: usize = 2;

/// Interim answers of one neighbour.
const MOST_INTERIM: usize = 16;

/// A neighbour's answer of up to so many bytes is read whole before anything of it goes on, so that another is asked if that neighbour dies meanwhile. A longer
/// one is taken up where it ended, if its fields say that the rest is of the same. No more than a connection takes unasked.
const READ_FIRST_BYTES: u64 = 64 * 1024;

/// How often it is looked whether a neighbour that is waited for is still there.
const LOOK: Duration = Duration::from_millis(250);

/// A neighbour that has not fetched what it was told of is told again, so often, after a pause that doubles each time: in 16 seconds.
const TELLS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(500);

/// What asks neighbours.
#[derive(Clone)]
pub(super) struct Neighbourhood {
    shared: Arc<Shared>,
    origins: Arc<Origins>,
    /// How they are connected to; nothing where there are none.
    target: Option<Target>,
}

/// What a neighbour is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The object, wherever it has it from.
    Object,
    /// The object, if it has it.
    WhatItHas,
    /// To fetch it from that neighbour.
    Fetch(SocketAddr),
}

impl Neighbourhood {
    pub fn new(shared: Arc<Shared>, origins: Arc<Origins>) -> Neighbourhood {
        let target = shared.neighbours.as_ref().map(|neighbours| origins.neighbours(neighbours));
        Neighbourhood { shared, origins, target }
    }

    /// The answer of the first neighbour that may have the object and gives one. None if there is no such neighbour: the origin is to be asked.
    ///
    /// Errors: only neighbours were to be asked, or the origin has failed one of them already.
    pub async fn ask(
        &self,
        request: &Request,
        head: &RequestHead,
        entry: &mut Entry,
    ) -> Result<Option<Box<Reply>>, Failure> {
        let Some(neighbours) = &self.shared.neighbours else { return Ok(None) };
        if request.not_for_cache.is_some() {
            return Ok(None);
        }
        if let Some(has) = request.told_of {
            let none = |why| Failure::Origin(format!("its neighbour gave none: {why}"));
            let reply = self.counted(request, head, has, Asked::WhatItHas).await.map_err(none)?;
            return self.taken(request, reply, entry).map(Some);
        }
        let Way { keeps, ask, before, .. } = (neighbours.way)(&request.ticket.name.place());
        // Whoever was asked though it does not keep the object is not to ask others: they may think the same of this one.
        if request.ticket.neighbour && !keeps {
            return Ok(None);
        }
        // Homes before this one would ask it in turn, so they are asked for what they have; and not at all where they may have asked.
        let before = before.into_iter().filter(|_| !request.ticket.neighbour).map(|one| (one, Asked::WhatItHas));
        let all = before.chain(ask.into_iter().map(|one| (one, Asked::Object)));
        let (mut asked, mut without) = (0, Vec::new());
        for (neighbour, what) in all {
            if asked == MOST_ASKED || !neighbours.may_ask(neighbour, self.shared.clock.now()) {
                without.push(neighbour);
                continue;
            }
            asked += 1;
            match self.counted(request, head, neighbour, what).await {
                Ok(reply) => {
                    // What the rules do not let the client have from there, the origin may have at another address.
                    let Ok(reply) = self.taken(request, reply, entry) else { break };
                    if *request.method() == Method::GET && keep(request, &reply.received()).is_ok() {
                        self.tell(request, without, neighbour);
                    }
                    return Ok(Some(reply));
                }
                Err(Declined::Tried) if request.ticket.neighbour => {
                    return Err(Failure::Origin("it failed another node of the cluster".into()));
                }
                Err(Declined::Tried) => break,
                // It has a reason not to have it.
                Err(Declined::Answered) if what == Asked::Object => {}
                Err(_) => without.push(neighbour),
            }
        }
        entry.without = without;
        Ok(None)
    }

    /// A neighbour's answer as one of the origin's that it comes from.
    fn taken(&self, request: &Request, mut reply: Box<Reply>, entry: &mut Entry) -> Result<Box<Reply>, Failure> {
        let asked = request.ticket.asked(request.method());
        self.shared.check_fetched(&request.ticket.listener, asked, reply.from)?;
        entry.fwd_status = Some(reply.head.status.as_u16());
        entry.note_asked(reply.stamp, &reply.tags);
        let neighbour = Some(reply.connection.address);
        (entry.origin, entry.fetched_from, entry.by_neighbour) = (neighbour, Some(reply.from), true);
        if let Some(name) = self.shared.ids.header() {
            reply.head.headers.remove(name);
        }
        Ok(reply)
    }

    /// Tells neighbours that one has an object that belongs on their disks, until each has fetched it from there; in tasks of their own. Of more than
    /// there is room for they hear when they are asked.
    pub fn tell(&self, request: &Request, without: Vec<SocketAddr>, has: SocketAddr) {
        let Some(neighbours) = &self.shared.neighbours else { return };
        for neighbour in without {
            let place = request.ticket.name.place();
            if !neighbours.begin_telling(neighbour, &place) {
                continue;
            }
            let (own, neighbours, request) = (self.clone(), neighbours.clone(), request.clone());
            self.shared.clock.start(async move {
                own.tell_one(&neighbours, &request, neighbour, has).await;
                neighbours.end_telling(neighbour, &place);
            });
        }
    }

    /// The same of what this proxy has fetched by itself.
    pub fn tell_of_own(&self, request: &Request, without: Vec<SocketAddr>) {
        let own = self.shared.neighbours.as_ref().map(|neighbours| (neighbours.way)(&request.ticket.name.place()).own);
        if let Some(own) = own.flatten() {
            self.tell(request, without, own);
        }
    }

    async fn tell_one(&self, neighbours: &Neighbours, request: &Request, neighbour: SocketAddr, has: SocketAddr) {
        let mut head = request.whole();
        // What its client thinks of what is stored is not the neighbour's to heed.
        [CACHE_CONTROL, PRAGMA].iter().for_each(|name| head.headers.remove(name));
        for n in 0..TELLS {
            if n > 0 {
                self.shared.clock.timer(PAUSE * 2_u32.pow(n - 1)).await;
            }
            if !(neighbours.is_there)(neighbour) {
                return;
            }
            match self.ask_neighbour(request, &head, neighbour, Asked::Fetch(has)).await {
                Ok((answer, ..)) if answer.status == StatusCode::NO_CONTENT => return,
                Ok((answer, ..)) => {
                    tracing::debug!(%neighbour, status = %answer.status, "a neighbour does not fetch what another has")
                }
                Err(why) => tracing::debug!(%neighbour, %why, "a neighbour does not hear of what another has"),
            }
        }
    }

    /// Asks one neighbour for an object, and counts what comes of it. One that says nothing has a rest.
    async fn counted(
        &self,
        request: &Request,
        head: &RequestHead,
        neighbour: SocketAddr,
        what: Asked,
    ) -> Result<Box<Reply>, Declined> {
        let asked = (self.shared.clock.wall(), self.shared.bans.removals());
        let answered = match self.ask_neighbour(request, head, neighbour, what).await {
            Ok((head, connection)) => match self.reply(request, head, connection, asked) {
                Ok(reply) => self.short_and_whole(reply, neighbour).await,
                Err(why) => Err(why),
            },
            Err(why) => Err(why),
        };
        if let Some(metrics) = &self.shared.metrics {
            let counts = &metrics.neighbours;
            if answered.is_ok() { counts.answered.inc() } else { counts.failed.inc() }
        }
        if let Err(why) = &answered {
            tracing::debug!(%neighbour, %why, "a neighbour was asked in vain");
            if let (Declined::Silent | Declined::Unreachable(_), Some(neighbours)) = (why, &self.shared.neighbours) {
                neighbours.rest(neighbour, self.shared.clock.now());
            }
        }
        answered
    }

    fn reply(
        &self,
        request: &Request,
        mut head: ResponseHead,
        connection: Connection,
        (asked, removals): (SystemTime, u64),
    ) -> Result<Box<Reply>, Declined> {
        if head.headers.contains_key(&TRIED) {
            return Err(Declined::Tried);
        }
        let from = head.headers.get(FETCHED_FROM).and_then(|from| from.to_str().ok()?.parse::<IpAddr>().ok());
        let from = from.ok_or(Declined::Answered)?;
        self.shared.clock.note();
        let answered = self.shared.clock.wall();
        let asked_at = AskedAt::of(head.headers.get(&ASKED_AT));
        headers::from_origin(&mut head, answered)?;
        let tags = headers::tags(&request.ticket, &mut head).with(&asked_at.tags);
        // The origin may have been asked before a ban that the neighbour has not heard of.
        let (bans, name) = (&self.shared.bans, &request.ticket.name);
        let stamp = asked_at.stamp;
        if bans.judge(&name.place(), stamp, &tags, || name.subject()) != Verdict::Counts {
            return Err(Declined::Banned);
        }
        Ok(Box::new(Reply { head, connection, asked, answered, stamp, removals, tags, from, sending: false }))
    }

    /// The same answer once all of it is here, if it is short: nobody is cut off then. What fails on the neighbour's way to the origin is left to whoever reads it.
    async fn short_and_whole(&self, mut reply: Box<Reply>, neighbour: SocketAddr) -> Result<Box<Reply>, Declined> {
        if announced(&reply.head.headers).is_none_or(|length| length > READ_FIRST_BYTES) {
            return Ok(reply);
        }
        let read = tokio::select! {
            read = reply.connection.read_ahead() => read,
            () = self.gone(neighbour) => return Err(Declined::Silent),
        };
        if read.is_err() && reply.connection.is_lost() { Err(Declined::Silent) } else { Ok(reply) }
    }

    /// Asks one neighbour something, once more where it is known not to have seen it. Its final answer's head.
    async fn ask_neighbour(
        &self,
        request: &Request,
        head: &RequestHead,
        neighbour: SocketAddr,
        what: Asked,
    ) -> Result<(ResponseHead, Connection), Declined> {
        let (Some(neighbours), Some(target)) = (&self.shared.neighbours, &self.target) else {
            return Err(Declined::Silent);
        };
        let head = self.head(request, head, what)?;
        // Its listeners are those of this proxy, in the same order.
        let host = format!("{}{LISTENER}", request.ticket.index);
        let destination = Destination { tls: true, host, port: neighbour.port() };
        let mut again = true;
        loop {
            let connected = self.origins.connect(&destination, target, &[neighbour], false).await;
            let mut connection = connected.map_err(Declined::Unreachable)?;
            connection.has_scheme(request.ticket.https);
            let sign_of_life = async {
                connection.send(&head).await?;
                connection.read_head().await
            };
            let answer = match self.shared.clock.timeout(neighbours.patience, sign_of_life).await {
                Err(_) => {
                    // What it says nothing on may be no connection any more.
                    connection.retire();
                    return Err(Declined::Silent);
                }
                Ok(Err(_)) if again && connection.is_unseen() => {
                    again = false;
                    continue;
                }
                Ok(answer) => answer?,
            };
            return self.final_head(answer, connection, neighbours, neighbour).await;
        }
    }

    /// A request's head as a neighbour gets it.
    fn head(&self, request: &Request, head: &RequestHead, what: Asked) -> Result<RequestHead, BadField> {
        let mut head = head.clone();
        headers::to_origin(&self.shared, request, &mut head, true)?;
        head.headers.insert(OBJECT, request.mark())?;
        match what {
            Asked::Object => {}
            Asked::WhatItHas => head.headers.append(CACHE_CONTROL, "only-if-cached")?,
            Asked::Fetch(has) => head.headers.insert(HAS, has.to_string())?,
        }
        head.headers.insert(CLIENT, request.ticket.client.to_string())?;
        if request.ticket.intercepted {
            head.headers.insert(INTERCEPTED, 1)?;
        }
        Ok(head)
    }

    /// The final head of an answer of which this is the first, as long as the neighbour is one.
    async fn final_head(
        &self,
        mut answer: ResponseHead,
        mut connection: Connection,
        neighbours: &Neighbours,
        neighbour: SocketAddr,
    ) -> Result<(ResponseHead, Connection), Declined> {
        let mut interim = 0;
        while answer.status.is_informational() {
            interim += 1;
            if interim > MOST_INTERIM {
                return Err(Declined::Answered);
            }
            answer = match self.next_head(&mut connection, neighbours, neighbour).await {
                // It waits for an origin that says nothing.
                Err(Declined::Failed(Failure::OriginTimeout)) => return Err(Declined::Tried),
                answer => answer?,
            };
        }
        Ok((answer, connection))
    }

    async fn next_head(
        &self,
        connection: &mut Connection,
        neighbours: &Neighbours,
        neighbour: SocketAddr,
    ) -> Result<ResponseHead, Declined> {
        tokio::select! {
            head = connection.read_head() => Ok(head?),
            () = gone(neighbours, neighbour, &self.shared.clock) => Err(Declined::Silent),
        }
    }

    /// Returns once a neighbour is none any more.
    pub async fn gone(&self, neighbour: SocketAddr) {
        match &self.shared.neighbours {
            Some(neighbours) => gone(neighbours, neighbour, &self.shared.clock).await,
            None => pending().await,
        }
    }
}

async fn gone(neighbours: &Neighbours, neighbour: SocketAddr, clock: &Clock) {
    loop {
        clock.timer(LOOK).await;
        if !(neighbours.is_there)(neighbour) {
            return;
        }
    }
}

/// Why a neighbour's answer is none.
#[derive(Debug, thiserror::Error)]
enum Declined {
    #[error("it said nothing in time, or is gone")]
    Silent,
    #[error("{0}")]
    Unreachable(Failure),
    #[error("it has no answer of an origin's")]
    Answered,
    #[error("it has what was purged here")]
    Banned,
    #[error("the origin has failed it")]
    Tried,
    #[error("{0}")]
    Failed(#[from] Failure),
}

impl From<BadField> for Declined {
    fn from(bad: BadField) -> Declined {
        Declined::Failed(bad.into())
    }
}
