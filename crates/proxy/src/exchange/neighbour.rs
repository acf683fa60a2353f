//! Asking neighbours for an object before its origin is asked.
//!
//! A neighbour carries a request out as if its client were its own: from its disk, or from the origin. One that says at once that it is about the
//! request may take as long for it as the origin may. One that says nothing costs what it was given, and the next is asked.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::CACHE_CONTROL;
use tinaja_http::message::{BadField, RequestHead, ResponseHead};

use super::entry::Entry;
use super::headers;
use super::reply::Reply;
use super::request::Request;
use crate::failure::Failure;
use crate::neighbours::{CLIENT, FETCHED_FROM, HAS, LISTENER, Neighbours, OBJECT, Way, mark_of};
use crate::origin::{Connection, Destination, Origins, Target};
use crate::shared::Shared;

/// Neighbours that one request goes to, one after the other. If two do not answer, the origin's answer is worth more than the third's.
const MOST_ASKED: usize = 2;

/// Interim answers of one neighbour.
const MOST_INTERIM: usize = 16;

/// How often it is looked whether a neighbour that is waited for is still there.
const LOOK: Duration = Duration::from_millis(250);

/// What asks neighbours.
pub(super) struct Neighbourhood {
    shared: Arc<Shared>,
    origins: Arc<Origins>,
    /// How they are connected to; nothing where there are none.
    target: Option<Target>,
}

impl Neighbourhood {
    pub fn new(shared: Arc<Shared>, origins: Arc<Origins>) -> Neighbourhood {
        let target = shared.neighbours.as_ref().map(|neighbours| origins.neighbours(neighbours));
        Neighbourhood { shared, origins, target }
    }

    /// The answer of the first neighbour that may have the object and gives one. None if there is no such neighbour: the origin is to be asked.
    ///
    /// Errors: the rules do not let the client have what comes from that origin.
    pub async fn ask(
        &self,
        request: &Request,
        head: &RequestHead,
        entry: &mut Entry,
    ) -> Result<Option<Reply>, Failure> {
        let (Some(neighbours), Some(target)) = (&self.shared.neighbours, &self.target) else { return Ok(None) };
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return Ok(None);
        }
        let place = request.ticket.name.place();
        let Way { keeps, ask, before } = (neighbours.way)(&place);
        // Whoever was asked though it does not keep the object is not to ask others: they may think the same of this one.
        if request.ticket.neighbour && !keeps {
            return Ok(None);
        }
        // Homes before this one would ask it in turn, so they are asked for what they have; and not at all where they may have asked.
        let before = before.into_iter().filter(|_| !request.ticket.neighbour).map(|one| (one, true));
        let clock = &self.shared.clock;
        let all = before.chain(ask.into_iter().map(|one| (one, false)));
        for (neighbour, only_what_it_has) in
            all.filter(|(one, _)| neighbours.may_ask(*one, clock.now())).take(MOST_ASKED)
        {
            let mut head = head.clone();
            if only_what_it_has {
                head.headers.append(CACHE_CONTROL, "only-if-cached")?;
            }
            let asked = self.ask_neighbour(request, head, (neighbours, target, neighbour), false).await;
            let counted = self.shared.metrics.as_ref().map(|metrics| &metrics.neighbours);
            match asked {
                Ok(reply) => {
                    counted.inspect(|counted| counted.answered.inc());
                    let asked = request.ticket.asked(request.method());
                    self.shared.check_fetched(&request.ticket.listener, asked, reply.from)?;
                    entry.fwd_status = Some(reply.head.status.as_u16());
                    (entry.origin, entry.fetched_from, entry.by_neighbour) = (Some(neighbour), Some(reply.from), true);
                    return Ok(Some(reply));
                }
                Err(why) => {
                    counted.inspect(|counted| counted.failed.inc());
                    tracing::debug!(%neighbour, %why, "a neighbour was asked in vain");
                    if !matches!(why, Declined::Answered) {
                        neighbours.rest(neighbour, clock.now());
                    }
                }
            }
        }
        Ok(None)
    }

    /// Tells the homes before this one that it has fetched an object, if it was not one of them that asked. They fetch it from here.
    pub async fn tell_of(&self, request: &Request) {
        let (Some(neighbours), Some(target)) = (&self.shared.neighbours, &self.target) else { return };
        for neighbour in (neighbours.way)(&request.ticket.name.place()).before {
            let told = self.ask_neighbour(request, request.whole(), (neighbours, target, neighbour), true).await;
            if let Err(why @ (Declined::Silent | Declined::Failed(_))) = told {
                tracing::debug!(%neighbour, %why, "a neighbour does not hear of what was fetched");
            }
        }
    }

    /// Asks one neighbour; or, if this proxy `has` the object, tells it so.
    async fn ask_neighbour(
        &self,
        request: &Request,
        mut head: RequestHead,
        (neighbours, target, neighbour): (&Neighbours, &Target, SocketAddr),
        has: bool,
    ) -> Result<Reply, Declined> {
        let (ticket, clock) = (&request.ticket, &self.shared.clock);
        // What the client says in these fields it says to nobody.
        [CLIENT, HAS].iter().for_each(|name| head.headers.remove(name));
        headers::to_origin(&self.shared, request, &mut head, true)?;
        let place = ticket.name.place();
        head.headers.insert(OBJECT, mark_of(&place))?;
        if has {
            head.headers.insert(HAS, 1)?;
        }
        if let Some(client) = ticket.client {
            head.headers.insert(CLIENT, client.to_string())?;
        }
        // Its listeners are those of this proxy, in the same order.
        let host = format!("{}{LISTENER}", ticket.index);
        let destination = Destination { tls: true, host, port: neighbour.port() };
        let asked = clock.wall();
        let mut connection = self.origins.connect(&destination, target, &[neighbour], false).await?;
        connection.has_scheme(ticket.https);
        let sign_of_life = async {
            connection.send(&head).await?;
            connection.read_head().await
        };
        let mut answer = clock.timeout(neighbours.patience, sign_of_life).await.map_err(|_| Declined::Silent)??;
        let mut interim = 0;
        while answer.status.is_informational() {
            interim += 1;
            if interim > MOST_INTERIM {
                return Err(Declined::Answered);
            }
            answer = self.next_head(&mut connection, neighbours, neighbour).await?;
        }
        let from = answer.headers.get(FETCHED_FROM).and_then(|from| from.to_str().ok()?.parse::<IpAddr>().ok());
        let from = from.ok_or(Declined::Answered)?;
        let answered = clock.wall();
        headers::from_origin(&mut answer, answered)?;
        Ok(Reply { head: answer, connection, asked, answered, from, sending: false })
    }

    /// The next head of an answer, as long as the neighbour is one.
    async fn next_head(
        &self,
        connection: &mut Connection,
        neighbours: &Neighbours,
        neighbour: SocketAddr,
    ) -> Result<ResponseHead, Declined> {
        let mut look = pin!(self.shared.clock.timer(LOOK));
        let mut reading = pin!(connection.read_head());
        loop {
            tokio::select! {
                head = &mut reading => return Ok(head?),
                () = &mut look => {
                    if !(neighbours.is_there)(neighbour) {
                        return Err(Declined::Silent);
                    }
                    look.as_mut().reset(self.shared.clock.now() + LOOK);
                }
            }
        }
    }
}

/// Why a neighbour's answer is none.
#[derive(Debug, thiserror::Error)]
enum Declined {
    #[error("it said nothing in time, or is gone")]
    Silent,
    #[error("it has no answer of an origin's")]
    Answered,
    #[error("{0}")]
    Failed(#[from] Failure),
}

impl From<BadField> for Declined {
    fn from(bad: BadField) -> Declined {
        Declined::Failed(bad.into())
    }
}
