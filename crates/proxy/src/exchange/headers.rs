//! Header fields that a proxy adds, changes and removes on the way.

use std::time::SystemTime;

use http::header::{
    AGE, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, FORWARDED, HeaderName,
    TRANSFER_ENCODING,
};
use http::{HeaderValue, Version};
use pingora_error::Result;
use pingora_http::{RequestHeader, ResponseHeader};
use tinaja_http::age::age_field;
use tinaja_http::dates;
use tinaja_http::edits::Edits;
use tinaja_http::hops;

use super::entry::Entry;
use super::ticket::{Request, Ticket};
use crate::shared::Shared;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Fields by which a client can make some servers answer for another URL than the key says. Whoever sets them may
/// not poison what others get, so requests that may be answered from the cache lose them.
const OVERRIDES: [HeaderName; 15] = [
    FORWARDED,
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-scheme"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-host"),
    HeaderName::from_static("x-original-host"),
    HeaderName::from_static("x-http-host-override"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
];

/// Makes of a request what its origin gets, but for the fields that frame its body. `cached` says whether the answer
/// may be stored.
pub(super) fn to_origin(shared: &Shared, request: &Request, head: &mut RequestHeader, cached: bool) -> Result<()> {
    for name in hops::hop_by_hop(&head.headers) {
        head.remove_header(&name);
    }
    if cached {
        for name in &OVERRIDES {
            head.remove_header(name);
        }
    }
    head.append_header("Via", hops::via_member(request.version, &shared.name))?;
    if request.ticket.is_reverse() {
        forwarded_for(&request.ticket, head)?;
        head.insert_header("X-Forwarded-Proto", if request.ticket.tls { "https" } else { "http" })?;
    }
    if let (Some(name), Some(value)) = (shared.ids.header(), request.ticket.id.value()) {
        head.insert_header(name.clone(), value)?;
    }
    head.set_version(Version::HTTP_11);
    Ok(())
}

/// Adds the client to X-Forwarded-For. Clients can write what they like before it; the last address is ours.
fn forwarded_for(ticket: &Ticket, head: &mut RequestHeader) -> Result<()> {
    let Some(client) = ticket.client else {
        return Ok(());
    };
    let before = head.headers.get_all(X_FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let mut chain: Vec<String> = before.map(str::to_owned).filter(|value| !value.is_empty()).collect();
    chain.push(client.to_canonical().to_string());
    head.insert_header("X-Forwarded-For", chain.join(", "))
}

/// The origin's final answer, before anything is done with it: without what ended at its connection, and with a Date,
/// as whoever receives an answer without one has to add it (RFC 9110 6.6.1).
pub(super) fn from_origin(head: &mut ResponseHeader, answered: SystemTime) -> Result<()> {
    for name in hops::hop_by_hop(&head.headers) {
        head.remove_header(&name);
    }
    head.remove_header(&TRANSFER_ENCODING);
    if !head.headers.contains_key(DATE) {
        head.insert_header(DATE, dates::format(answered))?;
    }
    Ok(())
}

/// An answer as the client gets it, from wherever it came. `age` is a stored answer's.
pub(super) fn to_client(shared: &Shared, head: &mut ResponseHeader, age: Option<u64>, entry: &Entry) -> Result<()> {
    head.remove_header(&CONNECTION);
    head.remove_header(&TRANSFER_ENCODING);
    match age {
        Some(age) => head.insert_header(AGE, age)?,
        // Age says that an answer is not first-hand (RFC 9111 5.1), which this one is.
        None if age_field(&head.headers) == 0 => drop(head.remove_header(&AGE)),
        None => {}
    }
    // A proxy says which version it received (RFC 9110 7.6.3), and speaks its own.
    let received = head.version;
    head.set_version(Version::HTTP_11);
    head.append_header("Via", hops::via_member(received, &shared.name))?;
    if let Some(id) = &entry.id {
        shared.tell(id, head)?;
    }
    head.append_header("Cache-Status", entry.cache_status().to_string()).map(drop)
}

/// A 304's head from that of the stored answer that it is about (RFC 9110 15.4.5).
pub(super) fn not_modified(head: &mut ResponseHeader) -> Result<()> {
    for name in [CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING, CONTENT_RANGE] {
        head.remove_header(&name);
    }
    head.set_status(304)
}

/// Makes edits in a response's head.
pub(super) fn edit(head: &mut ResponseHeader, edits: &Edits) -> Result<()> {
    for name in &edits.removed {
        head.remove_header(name);
    }
    for (name, value) in &edits.added {
        head.append_header(name.clone(), value.clone())?;
    }
    Ok(())
}

/// Makes edits in a request's head.
pub(super) fn edit_request(head: &mut RequestHeader, edits: &Edits) -> Result<()> {
    for name in &edits.removed {
        head.remove_header(name);
    }
    for (name, value) in &edits.added {
        head.append_header(name.clone(), HeaderValue::clone(value))?;
    }
    Ok(())
}
