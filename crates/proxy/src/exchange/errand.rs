//! Objects that the proxy fetches of its own accord: small ones of which a client wanted a part.
//!
//! On the first request for a part nothing but that part moves before it has been answered; that answer says how long
//! the whole is. Whoever reads a part of a small object usually reads others too (archives, documents, players), and
//! all of it then costs little more than one of the parts.

use std::sync::Arc;

use http::header::CONTENT_RANGE;
use http::{Method, StatusCode};
use tinaja_http::message::ResponseHead;
use tinaja_http::range::ContentRange;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument as _;

use super::Exchange;
use super::fetch::whole;
use super::keep::{Received, keep};
use super::request::Request;

/// Errands at once, for all clients; further objects are left for the next request. Each holds a connection to an
/// origin and at most `fill_range_below` bytes.
const MOST_ERRANDS: usize = 8;

/// The turns of all errands.
#[derive(Clone, Debug)]
pub(super) struct Errands(Arc<Semaphore>);

impl Errands {
    pub fn new() -> Errands {
        Errands(Arc::new(Semaphore::new(MOST_ERRANDS)))
    }

    /// A turn, if one is left.
    pub fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }
}

impl Exchange {
    /// Fetches the whole of an object of which a part was just given, if turns are left and nobody fetches it already.
    pub(super) fn run_errand(self: &Arc<Self>, request: &Request) {
        let request = Request { head: whole(request), ..request.clone() };
        let place = request.ticket.name.place();
        let (Some(turn), Ok(pilot)) = (self.errands.turn(), self.flights.board(&place, request.ticket.began)) else {
            return;
        };
        let exchange = self.clone();
        // It ends by itself, by the limits of any request.
        self.shared.clock.start(
            async move {
                exchange.fetch_unasked(&request, false, pilot).await;
                drop(turn);
            }
            .in_current_span(),
        );
    }

    /// Whether the answer to a request for a part says that the whole is small and may be stored.
    pub(super) fn is_worth_it(&self, request: &Request, answer: &Received<'_>) -> bool {
        let most = self.shared.limits.fill_range_below.min(self.store.max_object_bytes());
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
