//! A request for a mirror: what its source is asked, where its redirects lead, and what the client gets of the answer.
//!
//! The cache knows nothing of mirrors: each step is a request like any other, under the name of the URL that it goes to, and what
//! is stored is what came. So a redirect is stored and validated by itself, and what it leads to is one object whichever
//! way it is asked for.

use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, COOKIE, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE, REFERER,
};
use http::{HeaderValue, Method};
use parking_lot::Mutex;
use tinaja_http::message::BadField;

use super::entry::Entry;
use super::request::{Request, Ticket};
use super::transaction::{Ended, Transaction};
use super::{Exchange, Looked};
use crate::failure::Failure;
use crate::mirrors::{Aim, At, Held, Next, Shaping};

/// Redirects that are followed for one request. Sources send one, or two.
const MOST_REDIRECTS: usize = 5;

impl Exchange {
    /// Answers a request for a mirror.
    pub(super) async fn mirrored(&self, transaction: &mut Transaction<'_>, at: &At) -> Result<(), Ended> {
        let request = transaction.request;
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if !is_read && at.mounted.mirror.credentials.is_some() {
            return Err(Failure::ReadOnly.into());
        }
        let mut step = first(request, at)?;
        let mut redirects = 0;
        loop {
            let (ended, held) = self.step(transaction, request, &step).await;
            match held.next {
                None => {
                    if let Some(status) = held.status {
                        transaction.entry.status = status.as_u16();
                    }
                    return match ended {
                        // The client has all that it gets, and the rest was read for nobody.
                        Err(Ended::Left) if held.is_done => Ok(transaction.client.end().await?),
                        ended => ended,
                    };
                }
                Some(Next::Refuse(failure)) => return Err(failure.into()),
                Some(Next::Whole) => [RANGE, IF_RANGE].iter().for_each(|name| step.head.headers.remove(name)),
                Some(Next::Follow(_)) if redirects == MOST_REDIRECTS => {
                    let why = format!("the source redirects more than {MOST_REDIRECTS} times, or in a circle");
                    return Err(Failure::Mirror(why).into());
                }
                Some(Next::Follow(aim)) => {
                    redirects += 1;
                    step = follow(&step, *aim)?;
                    step.ticket.check_request(request.method().as_str())?;
                }
            }
        }
    }

    /// Asks once, and gives the client what is for it.
    async fn step(
        &self,
        transaction: &mut Transaction<'_>,
        request: &Request,
        step: &Request,
    ) -> (Result<(), Ended>, Held) {
        let held = Arc::new(Mutex::new(Held::default()));
        let Some(aim) = aim_of(step) else {
            return (Err(Failure::Internal("a mirror's request has lost its way".into()).into()), Held::default());
        };
        let now = self.shared.clock.wall();
        let shaping = Shaping::new(&aim, request.method(), request.head.headers.as_map(), now, held.clone());
        // What was noted of the step before is not this one's.
        let Entry { id, for_neighbour, offline, .. } = std::mem::take(transaction.entry);
        *transaction.entry = Entry { id, for_neighbour, offline, ..Entry::default() };
        transaction.client.set_filter(Some(Box::new(shaping)));
        let looked = None::<Looked>;
        let ended = Box::pin(self.carry_out(&mut transaction.of(step), looked)).await;
        transaction.client.set_filter(None);
        let held = std::mem::take(&mut *held.lock());
        (ended, held)
    }
}

/// What the source is asked first: without what its client says to us alone.
fn first(request: &Request, at: &At) -> Result<Request, BadField> {
    let mut step = request.clone();
    let headers = &mut step.head.headers;
    [COOKIE, REFERER].iter().for_each(|name| headers.remove(name));
    if at.mounted.mirror.credentials.is_some() {
        headers.remove(&AUTHORIZATION);
    }
    if at.mounted.rewrites() && matches!(*request.method(), Method::GET | Method::HEAD) {
        // They are about the form that the client has, and are judged there.
        [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().for_each(|name| headers.remove(name));
        let parts = headers.get(RANGE).map_or(0, |range| range.as_bytes().split(|byte| *byte == b',').count());
        if parts > 1 {
            // What such an answer holds is told by its parts alone.
            [RANGE, IF_RANGE].iter().for_each(|name| headers.remove(name));
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"))?;
    }
    Ok(step)
}

/// The same request at the place that a redirect leads to. What proves who the client is stays behind.
fn follow(step: &Request, aim: Aim) -> Result<Request, BadField> {
    let mut next = step.clone();
    let host = aim.host_field();
    let Aim { at, destination, path, .. } = aim;
    next.head.headers.remove(&AUTHORIZATION);
    next.head.headers.insert(http::header::HOST, host.as_str())?;
    next.head.target = bytes::Bytes::copy_from_slice(path.as_bytes());
    let ticket = Ticket {
        https: destination.tls,
        behind: Some(at.behind().clone()),
        mirror: Some(at),
        destination,
        host,
        path,
        ..(*step.ticket).clone()
    };
    let name = ticket.name_at(&ticket.path);
    next.ticket = Arc::new(Ticket { name, ..ticket });
    Ok(next)
}

/// Where a step goes.
fn aim_of(step: &Request) -> Option<Aim> {
    let ticket = &step.ticket;
    let host = tinaja_http::authority::Authority::parse(ticket.host.as_bytes()).ok()?;
    let (destination, path) = (ticket.destination.clone(), ticket.path.clone());
    Some(Aim { at: ticket.mirror.clone()?, destination, host, path })
}
