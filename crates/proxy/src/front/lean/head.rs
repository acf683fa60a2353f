//! The head of a plain hit: the stored one with the fields of this answer.

use std::io;
use std::time::SystemTime;

use http::header::{AGE, CONTENT_LENGTH, CONTENT_TYPE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version};
use tinaja_http::http2::CONNECTION_FIELDS;
use tinaja_http::lines::lines;
use tinaja_http::message::Usual;
use tinaja_http::status::{CACHE_STATUS, CacheStatus, Outcome};

use super::{Answered, MaybePlain, To};
use crate::stored::{Found, StoredHead};

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
        let mut fields = stored_fields(&found.head)?;
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

/// Fields that most answers do not exceed: a map that grows is made anew.
const FIELDS: usize = 14;

/// The stored fields as HTTP/2 has them. They share one copy of the stored lines, and nothing with the record.
fn stored_fields(head: &StoredHead) -> Option<HeaderMap> {
    let wire = head.own_wire();
    let mut fields = HeaderMap::with_capacity(FIELDS);
    for line in lines(&wire) {
        let name = HeaderName::from_bytes(line.name).ok()?;
        if CONNECTION_FIELDS.contains(&name) {
            continue;
        }
        let value = HeaderValue::from_maybe_shared(wire.slice_ref(line.value)).ok()?;
        fields.try_append(name, value).ok()?;
    }
    Some(fields)
}

/// The length that is said where the stored head does not say it.
fn length_to_add(found: &Found, has_length: bool) -> Option<u64> {
    let may_have = !has_length && found.head.status() != StatusCode::NO_CONTENT;
    found.hit.body.len().filter(|_| may_have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bans::{Stamp, Tags};
    use crate::stored::{Facts, Kind};
    use tinaja_http::message::ResponseHead;

    /// HPACK's table keeps fields as long as a connection lives. Each once kept the whole record, body and all.
    #[test]
    fn fields_do_not_keep_the_record() {
        let mut header = ResponseHead::new(StatusCode::OK);
        for name in ["content-type", "x-one", "x-two"] {
            header.headers.append(HeaderName::from_static(name), "a value").unwrap();
        }
        let then = SystemTime::UNIX_EPOCH;
        let facts = Facts {
            received: then,
            fresh_until: then,
            age_seconds: 0,
            stale_while_revalidate_seconds: 0,
            stale_if_error_seconds: 0,
            may_be_stale: false,
            family: then,
            variant: None,
            fetched_from: None,
            stamp: Stamp::default(),
        };
        let record = StoredHead::encode(Kind::Whole, &facts, b"https://a/", &Tags::default(), &header).unwrap();
        let head = StoredHead::decode(&record).unwrap();
        let of_exchange = head.header().unwrap();
        let lean = stored_fields(&head).unwrap();
        assert_eq!((lean.len(), of_exchange.headers.as_map()), (3, &lean));
        for value in lean.values().chain(of_exchange.headers.as_map().values()) {
            assert!(!record.as_ptr_range().contains(&value.as_bytes().as_ptr()), "{value:?}");
        }
    }
}
