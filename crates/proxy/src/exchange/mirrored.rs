//! A request for a mirror: what its source is asked, where its redirects lead, and what the client gets of the answer.
//!
//! The cache knows nothing of mirrors: each step is a request like any other, under the name of the URL that it goes to, and what
//! is stored is what came. So a redirect is stored and validated by itself, and what it leads to is one object whichever
//! way it is asked for.

use std::sync::Arc;
use std::time::SystemTime;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, COOKIE, FORWARDED, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE,
    REFERER,
};
use http::{HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use tinaja_clock::Clock;
use tinaja_http::message::BadField;

use super::ask::{Asker, With};
use super::entry::Entry;
use super::headers::X_FORWARDED_FOR;
use super::request::{Request, Ticket};
use super::transaction::Ended;
use crate::failure::Failure;
use crate::mirrors::{Aim, At, Held, Next, Shaping, Token};

/// Redirects that are followed for one request. Sources send one, or two.
const MOST_REDIRECTS: usize = 5;
/// Bytes of an answer with a token in it; tokens take a few KB.
const MOST_TOKEN_BYTES: usize = 64 * 1024;

/// The steps of one request.
pub(super) struct Steps<'a> {
    request: &'a Request,
    /// What is asked now.
    pub step: Request,
    redirects: usize,
    /// A token was asked for, for this request.
    has_asked_token: bool,
}

impl<'a> Steps<'a> {
    /// Begins with what the source is asked.
    pub fn new(request: &'a Request, at: &At, clock: &Clock) -> Result<Steps<'a>, Ended> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if !is_read && at.mounted.mirror.credentials.is_some() {
            return Err(Failure::ReadOnly.into());
        }
        let mut steps = Steps { request, step: first(request, at)?, redirects: 0, has_asked_token: false };
        let is_own = request.head.headers.contains_key(AUTHORIZATION) && at.mounted.mirror.credentials.is_none();
        let known = at.mounted.tokens.get(&request.ticket.path, clock.now()).filter(|_| at.is_home && !is_own);
        if let Some(token) = known {
            steps.tell(token);
        }
        Ok(steps)
    }

    /// Tells the source this token from now on.
    fn tell(&mut self, token: Token) {
        let mut ticket = (*self.step.ticket).clone();
        if let Some(at) = &mut ticket.mirror {
            at.token = Some(token);
        }
        self.step.ticket = Arc::new(ticket);
    }

    /// What shapes the answer to this step, and where it says what became of it.
    pub fn shaping(&self, now: SystemTime) -> Result<(Box<Shaping>, Arc<Mutex<Held>>), Ended> {
        let lost = || Failure::Internal("a mirror's request has lost its way".into());
        let (aim, held) = (aim_of(&self.step).ok_or_else(lost)?, Arc::new(Mutex::new(Held::default())));
        let asked = (self.request.method(), self.request.head.headers.as_map());
        Ok((Box::new(Shaping::new(&aim, asked, now, !self.has_asked_token, held.clone())), held))
    }

    /// Goes on to the next step; `asker` gets what it takes.
    pub async fn go_on(&mut self, next: Next, asker: &Asker, clock: &Clock) -> Result<(), Ended> {
        match next {
            Next::Refuse(failure) => Err(failure.into()),
            Next::Whole if !self.step.head.headers.contains_key(RANGE) => {
                Err(Failure::Origin("it sends a part that nobody asked for".into()).into())
            }
            Next::Whole => {
                [RANGE, IF_RANGE].iter().for_each(|name| self.step.head.headers.remove(name));
                Ok(())
            }
            Next::Token(challenge) => {
                self.has_asked_token = true;
                let token = token(&self.step, challenge.aim, asker, clock).await?;
                self.tell(token);
                Ok(())
            }
            Next::Follow(_) if self.redirects == MOST_REDIRECTS => {
                let why = format!("the source redirects more than {MOST_REDIRECTS} times, or in a circle");
                Err(Failure::Mirror(why).into())
            }
            Next::Follow(aim) => {
                self.redirects += 1;
                self.step = follow(&self.step, *aim)?;
                Ok(self.step.ticket.check_request(self.request.method().as_str())?)
            }
        }
    }
}

/// Asks for a token.
async fn token(step: &Request, aim: Aim, asker: &Asker, clock: &Clock) -> Result<Token, Failure> {
    let failed = |why: String| Failure::Mirror(format!("no token for the source: {why}"));
    let mut request = follow(step, aim)?;
    request.head.headers.insert(ACCEPT, "application/json")?;
    request.ticket.check_request("GET")?;
    let head = request.whole();
    let mut reply = asker.ask(&request, head, false, With::Nobody, &mut Entry::default()).await?;
    if reply.head.status != StatusCode::OK {
        return Err(failed(format!("{} answered {}", request.ticket.host, reply.head.status)));
    }
    let mut answer = Vec::new();
    while let Some(piece) = reply.connection.read().await? {
        answer.extend_from_slice(&piece);
        if answer.len() > MOST_TOKEN_BYTES {
            return Err(failed(format!("{} sends more than {MOST_TOKEN_BYTES} bytes", request.ticket.host)));
        }
    }
    asker.release(reply.connection);
    let tokens = step.ticket.mirror.as_ref().map(|at| &at.mounted.tokens);
    let kept = tokens.and_then(|tokens| tokens.keep(&step.ticket.path, &answer, clock.now()));
    kept.ok_or_else(|| failed(format!("there is none in the answer of {}", request.ticket.host)))
}

/// What the source is asked first: without what its client says to us alone.
fn first(request: &Request, at: &At) -> Result<Request, BadField> {
    let mut step = request.clone();
    let headers = &mut step.head.headers;
    [COOKIE, REFERER, FORWARDED, X_FORWARDED_FOR].iter().for_each(|name| headers.remove(name));
    if at.mounted.mirror.credentials.is_some() {
        headers.remove(&AUTHORIZATION);
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read && (at.mounted.rewrites() || at.teaches(&request.ticket.path)) {
        // They are about the form that the client has, and are judged there.
        [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().for_each(|name| headers.remove(name));
    }
    if is_read && at.mounted.rewrites() {
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
    let Aim { mut at, destination, path, .. } = aim;
    if !at.asks_token {
        let before = step.ticket.mirror.as_ref();
        at.named = before.and_then(|at| at.named.clone());
        // What was asked for is what must come, wherever it lies.
        at.learned = before.and_then(|at| at.learned.clone()).or(at.learned);
    }
    let is_followed = at.is_followed();
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
    let elsewhere = if is_followed { None } else { ticket.name_at(&ticket.path) };
    let name = elsewhere.unwrap_or_else(|| ticket.name.clone());
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
