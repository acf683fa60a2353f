//! The answer of a mirror on its way to the client: redirects are held back and followed, links are rewritten, and the client's
//! conditions are judged by what the client has, the rewritten form.
//!
//! A rewritten form has an ETag of its own, made of the original's and of all that the rewriting goes by, so another `public_url` is
//! another form. It is weak: no part of a rewritten body is given out, since its bytes are counted by nobody. The conditions of
//! a request to a mirror that rewrites are taken from what goes on to the cache and judged here, where both forms are told apart.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, LAST_MODIFIED, LINK, LOCATION, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use tinaja_http::conditional::{self, Answer, Stored};
use tinaja_http::message::{BadField, ResponseHead};

use super::forms::{OF_THE_SOURCE, form, rewrite_field, tag, type_of_links};
use super::learn::Learning;
use super::location::Place;
use super::rewrite::Rewriter;
use super::{Aim, At, Challenge, Links, Unrewritten};
use crate::client::{Filter, Left};
use crate::failure::Failure;

/// Of an answer that the client has already, or does not get, so much is read for the cache's sake.
const READ_FOR_NOBODY: u64 = 1 << 20;
/// The same of an index that says something new, which is read to the end where it can be.
const LEARNED_FOR_NOBODY: u64 = 16 << 20;

/// What became of an answer.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// What is to be done instead of giving it to the client.
    pub next: Option<Next>,
    /// The status that the client got, where it is another than the answer's.
    pub status: Option<StatusCode>,
    /// All was said before the answer's end.
    pub is_done: bool,
}

/// What is done next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Ask for all of it: no part of a rewritten form is given out.
    Whole,
    /// Ask there.
    Follow(Box<Aim>),
    /// Ask for a token first.
    Token(Box<Challenge>),
    /// Say why not.
    Refuse(Failure),
}

/// What shapes one answer.
pub(crate) struct Shaping {
    at: At,
    place: Place,
    links: Option<Links>,
    method: Method,
    /// The request's fields, as the client sent them.
    asked: HeaderMap,
    now: SystemTime,
    may_ask_token: bool,
    body: Body,
    /// It is an index that says something new.
    learning: Option<Box<Learning>>,
    held: Arc<Mutex<Held>>,
}

/// What becomes of the body.
enum Body {
    /// Nothing: something else is done next. So many bytes have come.
    Held(u64),
    /// The client has it.
    Spare(u64),
    Plain,
    /// Rewritten; so many bytes have come.
    Rewritten(Box<Rewriter>, u64),
}

impl Shaping {
    /// What shapes the answer to a request that goes where `aim` says. Both ends read `held`. `may_ask_token` says that none was
    /// asked for yet.
    pub fn new(
        aim: &Aim,
        (method, asked): (&Method, &HeaderMap),
        now: SystemTime,
        may_ask_token: bool,
        held: Arc<Mutex<Held>>,
    ) -> Shaping {
        let Aim { at, destination, host, path } = aim.clone();
        let links = Links::new(&at, &destination);
        let place = Place { destination, host, path };
        let (method, asked) = (method.clone(), asked.clone());
        Shaping { at, place, links, method, asked, now, may_ask_token, body: Body::Plain, learning: None, held }
    }

    fn hold(&mut self, next: Next) -> Option<ResponseHead> {
        self.held.lock().next = Some(next);
        self.body = Body::Held(0);
        None
    }

    fn refuse(&mut self, why: String) -> Option<ResponseHead> {
        self.hold(Next::Refuse(Failure::Mirror(why)))
    }

    fn is_read(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// Where a redirect leads.
    fn redirect(&mut self, mut head: ResponseHead) -> Result<Option<ResponseHead>, BadField> {
        let mut locations = head.headers.get_all(LOCATION).iter();
        let (first, more) = (locations.next(), locations.next());
        let Some(location) = first.filter(|_| more.is_none()) else {
            return Ok(self.refuse("the source redirects without saying where".into()));
        };
        let Some(place) = self.place.follow(location.as_bytes()) else {
            return Ok(self.refuse("the source redirects to what is no URL of HTTP".into()));
        };
        let mounted = self.at.mounted.clone();
        let mirror = &mounted.mirror;
        if self.is_read() && place.destination == self.place.destination && place.path == self.place.path {
            return Ok(self.refuse(format!("the source redirects {} to itself", place.path)));
        }
        let below = place.path.strip_prefix(&mirror.origin.prefix);
        if let (true, Some(rest)) = (place.destination == mirror.origin.server.destination(), below) {
            // Whoever gets a page must know where it is, or its relative links lead elsewhere.
            let base = mounted.base.as_deref().unwrap_or(&mirror.path);
            head.headers.insert(LOCATION, format!("{base}{rest}"))?;
            return Ok(Some(head));
        }
        let host = place.host.to_string();
        if !self.is_read() {
            // What was sent with it is not sent again by us.
            return Ok(Some(head));
        }
        match mounted.elsewhere(place.destination, place.host, place.path) {
            Some(aim) => Ok(self.hold(Next::Follow(Box::new(aim)))),
            None => Ok(self.refuse(format!(
                "the source redirects to {host}, which is not in hosts of the mirror {}: add it there if that is right",
                mirror.path
            ))),
        }
    }

    /// Links in fields.
    fn fields(&self, head: &mut ResponseHead) -> Result<(), BadField> {
        OF_THE_SOURCE.iter().for_each(|name| head.headers.remove(name));
        // A source's page must not run as one of this host's, whatever else is served here.
        head.headers.append(CONTENT_SECURITY_POLICY, "sandbox")?;
        let Some(links) = &self.links else { return Ok(()) };
        for (name, before, after) in [(LINK, '<', '>'), (WWW_AUTHENTICATE, '"', '"')] {
            let values = head.headers.get_all(&name).iter();
            let texts: Vec<String> = values.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
            let new: Vec<String> = texts.iter().map(|text| rewrite_field(text, (before, after), links)).collect();
            if new != texts {
                head.headers.remove(&name);
                for value in new {
                    head.headers.append(name.clone(), value)?;
                }
            }
        }
        Ok(())
    }

    /// Where a token is to be asked for, if the source wants one that this request has not got yet.
    fn challenge(&self, head: &ResponseHead) -> Option<Challenge> {
        let own = self.asked.contains_key(AUTHORIZATION) && self.at.mounted.mirror.credentials.is_none();
        let may =
            head.status == StatusCode::UNAUTHORIZED && self.is_read() && self.at.is_home && self.may_ask_token && !own;
        let mut fields = head.headers.get_all(WWW_AUTHENTICATE).iter().filter(|_| may);
        fields.find_map(|field| Challenge::read(&self.at, &self.place, field.as_bytes()))
    }

    /// What the client gets of an answer.
    fn shape(&mut self, head: &ResponseHead) -> Result<Option<ResponseHead>, BadField> {
        if let Some(challenge) = self.challenge(head) {
            return Ok(self.hold(Next::Token(Box::new(challenge))));
        }
        let mut head = head.clone();
        self.fields(&mut head)?;
        if matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return self.redirect(head);
        }
        if !self.is_read() {
            return Ok(Some(head));
        }
        if self.method == Method::GET {
            self.learning = Learning::begin(&self.at, &self.place, &head);
        }
        if !self.at.mounted.rewrites() {
            return if self.at.teaches(&self.place.path) { self.judge(head) } else { Ok(Some(head)) };
        }
        let partial = matches!(head.status, StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE);
        if partial && type_of_links(&self.at, &self.place, &head).is_some() {
            return Ok(self.hold(Next::Whole));
        }
        if let Some(form) = form(&self.at, &self.place, &head) {
            let length: Option<u64> =
                head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
            let encoding = head.headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity").cloned();
            let mirror = &self.at.mounted.mirror;
            let too_long = length.is_some_and(|length| length > mirror.rewrite_limit_bytes);
            let why = match (encoding, too_long) {
                (Some(encoding), _) => Some(format!("compressed ({})", encoding.to_str().unwrap_or("?"))),
                (None, true) => Some(format!("longer than rewrite_limit ({} bytes)", mirror.rewrite_limit_bytes)),
                (None, false) => None,
            };
            match (why, mirror.unrewritten, &self.links) {
                (Some(why), Unrewritten::Refuse, _) => {
                    return Ok(self.refuse(format!("the answer is {why}, so that its links cannot be rewritten")));
                }
                (None, _, Some(links)) => {
                    self.body = Body::Rewritten(Box::new(Rewriter::new(links.clone(), form)), 0);
                    self.rewritten(&mut head)?;
                }
                _ => {}
            }
        }
        self.judge(head)
    }

    /// The fields of a body that is rewritten.
    fn rewritten(&self, head: &mut ResponseHead) -> Result<(), BadField> {
        let tag = tag(&self.at, &self.place, head);
        for name in [CONTENT_LENGTH, ACCEPT_RANGES, LAST_MODIFIED, ETAG, CONTENT_RANGE] {
            head.headers.remove(&name);
        }
        match tag {
            Some(tag) => head.headers.insert(ETAG, tag),
            None => Ok(()),
        }
    }

    /// The client's conditions, by the form that it would get.
    fn judge(&mut self, mut head: ResponseHead) -> Result<Option<ResponseHead>, BadField> {
        let stored = Stored { status: head.status, headers: head.headers.as_map(), received: self.now };
        if conditional::evaluate(&self.method, &self.asked, stored, self.now) != Answer::NotModified {
            return Ok(Some(head));
        }
        for name in [CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING, CONTENT_RANGE] {
            head.headers.remove(&name);
        }
        head.status = StatusCode::NOT_MODIFIED;
        self.body = Body::Spare(0);
        self.held.lock().status = Some(StatusCode::NOT_MODIFIED);
        Ok(Some(head))
    }
}

impl Filter for Shaping {
    fn begin(&mut self, head: &ResponseHead) -> Option<ResponseHead> {
        match self.shape(head) {
            Ok(shaped) => shaped,
            Err(bad) => self.hold(Next::Refuse(bad.into())),
        }
    }

    fn piece(&mut self, piece: Bytes) -> Result<Bytes, Left> {
        if let Some(learning) = &mut self.learning {
            learning.push(&piece);
        }
        match &mut self.body {
            Body::Held(bytes) => {
                *bytes += piece.len() as u64;
                if *bytes > READ_FOR_NOBODY { Err(Left) } else { Ok(Bytes::new()) }
            }
            Body::Plain => Ok(piece),
            Body::Spare(bytes) => {
                *bytes += piece.len() as u64;
                let most = if self.learning.is_some() { LEARNED_FOR_NOBODY } else { READ_FOR_NOBODY };
                let is_done = *bytes > most;
                self.held.lock().is_done = is_done;
                // What has come of it will do, or each client that has it would have it read again.
                if let (true, Some(learning)) = (is_done, self.learning.take_if(|_| is_done)) {
                    learning.end();
                }
                if is_done { Err(Left) } else { Ok(Bytes::new()) }
            }
            Body::Rewritten(rewriter, bytes) => {
                let mirror = &self.at.mounted.mirror;
                *bytes += piece.len() as u64;
                if *bytes <= mirror.rewrite_limit_bytes {
                    return Ok(rewriter.push(&piece).into());
                }
                // Nobody said that it would be so long.
                let held = rewriter.end();
                if mirror.unrewritten == Unrewritten::Refuse {
                    let why = "an answer of unknown length became longer than rewrite_limit, and was cut off";
                    self.held.lock().next = Some(Next::Refuse(Failure::Mirror(why.into())));
                    return Err(Left);
                }
                self.body = Body::Plain;
                Ok([&held, &*piece].concat().into())
            }
        }
    }

    fn end(&mut self) -> Option<Bytes> {
        if let Some(learning) = self.learning.take() {
            learning.end();
        }
        match &mut self.body {
            Body::Held(_) => None,
            Body::Plain | Body::Spare(_) => Some(Bytes::new()),
            Body::Rewritten(rewriter, _) => Some(rewriter.end().into()),
        }
    }
}
