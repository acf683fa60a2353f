//! The head of a plain hit: the stored one with the fields of this answer.

use std::io;
use std::time::SystemTime;

use http::header::{AGE, CONTENT_LENGTH, CONTENT_TYPE, VIA};
use http::{HeaderName, HeaderValue, Response, StatusCode, Version};
use tinaja_http::lines::lines;
use tinaja_http::message::Usual;
use tinaja_http::status::{CACHE_STATUS, CacheStatus, Outcome};

use super::{Answered, MaybePlain, To};
use crate::stored::Found;

/// A head in the form that the client gets.
pub(super) enum Head {
    /// Its bytes.
    H1(Vec<u8>),
    /// Its fields.
    H2(Response<()>),
}

impl MaybePlain<'_> {
    /// The head of an answer, of which `answer` notes what the log says. Nothing where what is stored cannot be read.
    pub(super) fn head(&self, to: &To<'_>, found: &Found, answer: &mut Answered, now: SystemTime) -> Option<Head> {
        answer.status = found.head.status().as_u16();
        match to {
            To::H1(_) => Some(Head::H1(self.lines(found, answer, now))),
            To::H2(_) => self.fields(found, answer, now).map(Head::H2),
        }
    }

    /// The stored lines, and those of this answer.
    fn lines(&self, found: &Found, answer: &mut Answered, now: SystemTime) -> Vec<u8> {
        let wire = found.head.wire();
        let mut head = Vec::with_capacity(wire.len() + 256);
        head.extend_from_slice(wire);
        let mut has_length = false;
        for line in lines(wire) {
            has_length |= line.is(&CONTENT_LENGTH);
            if self.shared.log.is_on() && line.is(&CONTENT_TYPE) {
                answer.content_type = Some(String::from_utf8_lossy(line.value).into_owned());
            }
        }
        let mut add = |line: std::fmt::Arguments<'_>| {
            // Writing to memory does not fail.
            let _ = io::Write::write_fmt(&mut head, line);
        };
        if let Some(length) = length_to_add(found, has_length) {
            add(format_args!("Content-Length: {length}\r\n"));
        }
        let status = self.cache_status(found, now);
        let (age, via) = (found.head.facts.age(now), self.via.to_str().unwrap_or_default());
        add(format_args!("Age: {age}\r\nVia: {via}\r\nCache-Status: {status}\r\n"));
        if let Some(name) = self.shared.ids.header() {
            add(format_args!("{}: {}\r\n", Usual(name), self.request.ticket.id));
        }
        let connection = if answer.keep { "keep-alive" } else { "close" };
        add(format_args!("Connection: {connection}\r\n\r\n"));
        head
    }

    /// The same as fields.
    fn fields(&self, found: &Found, answer: &mut Answered, now: SystemTime) -> Option<Response<()>> {
        let mut fields = self.shared.prepared.fields(&found.head, &found.place)?;
        if self.shared.log.is_on() {
            let content_type = fields.get_all(CONTENT_TYPE).iter().next_back();
            answer.content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
        let mut set = |name: HeaderName, value| fields.try_insert(name, value).map(drop).ok();
        if let Some(length) = length_to_add(found, false) {
            set(CONTENT_LENGTH, length.into())?;
        }
        set(AGE, found.head.facts.age(now).into())?;
        if let Some(name) = self.shared.ids.header() {
            set(name.clone(), self.request.ticket.id.value()?)?;
        }
        fields.try_append(VIA, self.via.clone()).ok()?;
        let status = self.cache_status(found, now).value();
        fields.try_append(CACHE_STATUS, HeaderValue::from_maybe_shared(bytes::Bytes::from(status)).ok()?).ok()?;
        let mut head = Response::new(());
        *head.status_mut() = found.head.status();
        *head.version_mut() = Version::HTTP_2;
        *head.headers_mut() = fields;
        Some(head)
    }

    fn cache_status(&self, found: &Found, now: SystemTime) -> CacheStatus {
        let left = found.head.facts.fresh_until.duration_since(now).unwrap_or_default();
        let ttl = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        let offline = self.request.ticket.is_offline();
        CacheStatus { outcome: Outcome::Hit, ttl: Some(ttl), offline, ..CacheStatus::default() }
    }
}

/// The length that is said where the stored head does not say it.
fn length_to_add(found: &Found, has_length: bool) -> Option<u64> {
    let may_have = !has_length && found.head.status() != StatusCode::NO_CONTENT;
    found.hit.body.len().filter(|_| may_have)
}
