//! Objects that the proxy fetches of its own accord: small ones of which a client wanted a part.
//!
//! On the first request for a part nothing but that part moves before it has been answered; that answer says how long
//! the whole is. Whoever reads a part of a small object usually reads others too (archives, documents, players), and
//! all of it then costs little more than one of the parts.

use std::sync::Arc;
use std::time::Instant;

use http::header::{
    CONTENT_RANGE, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{Method, StatusCode};
use pingora_cache::RespCacheable;
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;
use pingora_proxy::subrequest::Ctx;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::context::{Context, Ticket};
use super::{ranges, storing};

/// Errands at once, for all clients; further objects are left for the next request. Each holds a connection to an
/// origin and at most `fill_range_below` bytes.
const MOST_ERRANDS: usize = 8;

/// Fields that ask for less than the whole.
const PARTIAL: [HeaderName; 6] = [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];

/// A request that no client sent.
#[derive(Debug)]
pub(crate) struct Errand {
    _turn: OwnedSemaphorePermit,
}

/// What goes from the request that was answered to the one that fetches the whole.
struct Order {
    ticket: Option<Box<Ticket>>,
    errand: Option<Errand>,
}

/// The turns of all errands.
#[derive(Clone, Debug)]
pub(super) struct Errands(Arc<Semaphore>);

impl Errands {
    pub fn new() -> Errands {
        Errands(Arc::new(Semaphore::new(MOST_ERRANDS)))
    }

    /// Fetches the whole of an object of which a part was just given, if that is worth it and turns are left.
    pub fn send(&self, session: &Session, ctx: &mut Context) {
        let (true, Some(spawner), Some(mut ticket)) =
            (ctx.worth_filling, &session.subrequest_spawner, ctx.ticket.take())
        else {
            return;
        };
        let Ok(turn) = self.0.clone().try_acquire_owned() else {
            return;
        };
        ticket.began = Instant::now();
        let order = Order { ticket: Some(ticket), errand: Some(Errand { _turn: turn }) };
        // It ends by itself, by the limits of any request.
        drop(spawner.spawn_background_subrequest(session.as_ref(), Ctx::builder().user_ctx(Box::new(order)).build()));
    }
}

/// If this request is an errand: takes its order, and makes the part that was asked for the whole.
pub(super) fn accept(session: &mut Session, ctx: &mut Context) {
    let order = session.subrequest_ctx.as_mut().and_then(|sub| sub.user_ctx_mut());
    let Some(order) = order.and_then(|order| order.downcast_mut::<Order>()) else {
        return;
    };
    ctx.ticket = order.ticket.take();
    ctx.errand = order.errand.take();
    whole(session.req_header_mut());
}

fn whole(request: &mut RequestHeader) {
    for name in &PARTIAL {
        request.remove_header(name);
    }
}

/// Whether the answer to a request for a part says that the whole has at most `most` bytes and may be stored.
pub(super) fn is_worth_it(request: &RequestHeader, response: &ResponseHeader, ctx: &Context, most: u64) -> bool {
    let small = ranges::length_of_whole(&response.headers).is_some_and(|length| length <= most);
    let for_cache = ctx.partial && request.method == Method::GET && !ctx.directives.no_store;
    if !small || !for_cache || response.status != StatusCode::PARTIAL_CONTENT {
        return false;
    }
    let (mut request, mut response) = (request.clone(), response.clone());
    whole(&mut request);
    response.remove_header(&CONTENT_RANGE);
    response.set_status(StatusCode::OK).is_ok()
        && matches!(storing::cacheable(&request, &response, ctx), RespCacheable::Cacheable(_))
}
