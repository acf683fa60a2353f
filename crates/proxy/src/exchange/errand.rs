//! Objects that the proxy fetches of its own accord: small ones of which a client wanted a part, and those that are
//! validated behind a client that was served something stale (RFC 5861 3).
//!
//! On the first request for a part nothing but that part moves before it has been answered; that answer says how long
//! the whole is. Whoever reads a part of a small object usually reads others too (archives, documents, players), and
//! all of it then costs little more than one of the parts.

use std::sync::Arc;

use http::header::CONTENT_RANGE;
use http::{Method, StatusCode};
use tinaja_http::message::ResponseHead;
use tinaja_http::range::ContentRange;
use tinaja_http::reuse::StoredState;
use tinaja_store::{Key, State};
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use super::ask::With;
use super::entry::Entry;
use super::fill::Filler;
use super::flights::{Flights, Grounded, Landed, Pilot};
use super::keep::{Received, announced, keep};
use super::refresh::refresh;
use super::request::Request;
use super::validate::ask_or_validate;
use crate::stored::{Found, Kind, Looked, find};

/// Errands at once, for all clients, and as many for neighbours; further objects are left for the next request. Each holds a connection to
/// an origin or a neighbour. Those for clients fetch at most `fill_range_below` bytes, those for neighbours as much as an object has.
const MOST_ERRANDS: usize = 8;

/// Why an object is fetched that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// A client got a part of it.
    Part,
    /// A client got it stale.
    Stale,
    /// A neighbour has it, and this proxy should.
    Neighbour,
}

/// What runs errands.
pub(super) struct Errands {
    filler: Arc<Filler>,
    flights: Flights,
    turns: Arc<Semaphore>,
    /// For what neighbours have.
    long_turns: Semaphore,
}

impl Errands {
    pub fn new(filler: Arc<Filler>, flights: Flights) -> Errands {
        Errands {
            filler,
            flights,
            turns: Arc::new(Semaphore::new(MOST_ERRANDS)),
            long_turns: Semaphore::new(MOST_ERRANDS),
        }
    }

    /// Fetches the whole of an object of which a part was just given, if turns are left and nobody fetches it already.
    pub fn fetch_whole(self: &Arc<Self>, request: &Request) {
        let request = Request { head: request.whole(), ..request.clone() };
        let place = request.ticket.name.place();
        self.begin(request, &place, Why::Part);
    }

    /// Fetches an object that a neighbour has, and that belongs on this proxy's disk too, if turns are left and nobody fetches it already. However long it
    /// is: it comes over no thin link. Whether it is on the disk now.
    pub async fn fetch_long(&self, request: &Request) -> bool {
        let place = request.ticket.name.place();
        let Ok(_turn) = self.long_turns.try_acquire() else { return false };
        match self.flights.board(&place, request.ticket.began) {
            Ok(pilot) => self.fetch(request, Why::Neighbour, pilot).await,
            // Somebody has just begun to fetch it: whether it comes whole is seen when the neighbour asks again.
            Err(Grounded::LookAgain | Grounded::Wait(_)) => false,
        }
    }

    /// Validates what is just being served stale, unless somebody is about that already.
    pub fn validate(self: &Arc<Self>, request: &Request, found: &Found) {
        self.begin(request.clone(), &found.place, Why::Stale);
    }

    /// Goes for what is to stand at `place`, in a task that ends by itself, by the limits of any request.
    fn begin(self: &Arc<Self>, request: Request, place: &Key, why: Why) {
        let turn = self.turns.clone().try_acquire_owned();
        let (Ok(turn), Ok(pilot)) = (turn, self.flights.board(&request.ticket.flight(place), request.ticket.began))
        else {
            return;
        };
        let errands = self.clone();
        self.filler.shared.clock.start(
            async move {
                errands.fetch(&request, why, pilot).await;
                drop(turn);
            }
            .in_current_span(),
        );
    }

    /// Fetches an object, or validates it, without a client. Others may wait for it. Whether it is stored now.
    async fn fetch(&self, request: &Request, why: Why, pilot: Pilot) -> bool {
        let mut entry = Entry::default();
        let (name, bans) = (&request.ticket.name, &*self.filler.shared.bans);
        let looked = match why {
            // What is found as usual may be in another's memory alone.
            Why::Neighbour => match self.filler.shared.neighbours.as_ref().and_then(|neighbours| (neighbours.disk)()) {
                Some(disk) => find(&disk, bans, name, &request.head.headers).await,
                None => Looked::Nothing,
            },
            Why::Part | Why::Stale => find(&self.filler.store, bans, name, &request.head.headers).await,
        };
        let found = match looked {
            Looked::Found(found) if why == Why::Stale => Some(found),
            Looked::Found(found) if self.is_fresh(&found) && found.head.kind == Kind::Whole => {
                return found.hit.state == State::Whole;
            }
            _ => None,
        };
        let reply = match ask_or_validate(&self.filler.asker, request, With::Nobody, &mut entry, found.as_deref()).await
        {
            Ok(reply) => reply,
            Err(failure) => {
                tracing::debug!("an object that nobody waits for was not fetched: {failure}");
                return false;
            }
        };
        match found {
            Some(found) if reply.head.status == StatusCode::NOT_MODIFIED => {
                // Nobody is served, so nobody has to be told.
                let _ = refresh(&self.filler.store, bans, request, found, &reply).await;
                pilot.land(Landed::Stored);
                self.filler.asker.release(reply.connection);
                true
            }
            _ => {
                let most = match why {
                    Why::Neighbour => self.filler.most_bytes(request),
                    Why::Part | Why::Stale => self.filler.shared.limits.fill_range_below,
                };
                let small = match announced(&reply.head.headers) {
                    Some(length) => length <= most,
                    None => why == Why::Neighbour,
                };
                // What has changed is not worth a long fetch that nobody asked for.
                if let (Ok(keep), true) = (keep(request, &reply.received()), small)
                    && let Ok((reader, _, mut fill)) = self.filler.begin(request, &keep, reply).await
                {
                    pilot.land(Landed::Stored);
                    drop(reader);
                    fill.unwatched_bytes = most;
                    return self.filler.fill(fill).await;
                }
                false
            }
        }
    }

    fn is_fresh(&self, found: &Found) -> bool {
        let facts = found.head.facts.trusted_from(self.filler.store.distrusted_before());
        let StoredState { ttl_seconds, .. } = facts.state(self.filler.shared.clock.wall());
        ttl_seconds > 0
    }

    /// Whether the answer to a request for a part says that the whole is small and may be stored.
    pub fn is_worth_it(&self, request: &Request, answer: &Received<'_>) -> bool {
        let most = self.filler.shared.limits.fill_range_below.min(self.filler.most_bytes(request));
        let small = length_of_whole(answer.head).is_some_and(|length| length <= most);
        let for_cache = request.method() == Method::GET && !request.directives.no_store;
        if !small || !for_cache || answer.head.status != StatusCode::PARTIAL_CONTENT {
            return false;
        }
        let mut head = answer.head.clone();
        head.headers.remove(&CONTENT_RANGE);
        head.status = StatusCode::OK;
        keep(request, &Received { head: &head, ..*answer }).is_ok()
    }
}

/// The whole object's length, as the answer to a request for a part says.
fn length_of_whole(head: &ResponseHead) -> Option<u64> {
    let mut lines = head.headers.get_all(CONTENT_RANGE).iter();
    match (lines.next().and_then(ContentRange::parse), lines.next()) {
        (Some(ContentRange::Part { whole, .. }), None) => whole,
        _ => None,
    }
}
