//! Header fields that a proxy adds, changes and removes on the way.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::SystemTime;

use http::header::{
    ACCEPT_ENCODING, AGE, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, FORWARDED,
    HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{StatusCode, Version};
use tinaja_http::accept::settled;
use tinaja_http::age::age_field;
use tinaja_http::dates;
use tinaja_http::forwarded::{ChainField, is_well_formed};
use tinaja_http::hops;
use tinaja_http::message::{BadField, RequestHead, ResponseHead};
use tinaja_http::misleading::misleading;
use tinaja_http::status::CACHE_STATUS;

use super::asked_at::AskedAt;
use super::entry::Entry;
use super::request::{Request, Ticket};
use crate::bans::Tags;
use crate::config::Forwarding;
use crate::failure::Failure;
use crate::neighbours::{ASKED_AT, CLIENT, FETCHED_FROM, HAS, INTERCEPTED, OBJECT, TRIED};
use crate::shared::Shared;

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Makes of a request what its origin gets, but for the fields that frame its body. `cached` says whether the answer
/// may be stored.
pub(super) fn to_origin(
    shared: &Shared,
    request: &Request,
    head: &mut RequestHead,
    cached: bool,
) -> Result<(), BadField> {
    // Whoever speaks HTTP/2 with both ends passes trailers on, as gRPC needs them; over HTTP/1 they end here.
    let takes_trailers = !cached && request.version == Version::HTTP_2 && head.headers.contains_key(TE);
    for name in hops::hop_by_hop(&head.headers) {
        head.headers.remove(&name);
    }
    if takes_trailers {
        head.headers.insert(TE, "trailers")?;
    }
    // What a client says in these fields it says to nobody.
    [OBJECT, CLIENT, HAS, INTERCEPTED].iter().for_each(|name| head.headers.remove(name));
    // What a neighbour has written of its client.
    let told = head.headers.get_all(FORWARDED).iter().next_back().filter(|_| request.ticket.neighbour).cloned();
    let chain = (told.is_none() && request.ticket.is_reverse() && request.ticket.listener.forwarding.has_forwarded())
        .then(|| forwarded(&request.ticket, head));
    for name in misleading(head.headers.as_map(), cached) {
        head.headers.remove(&name);
    }
    // A key rule that says what the origin has gives an order of its own.
    let is_folded =
        request.ticket.keyed.as_ref().is_some_and(|asked| asked.is_read && asked.rule.rule.encodings.is_some());
    if cached && !is_folded {
        let encodings = head.headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes);
        if let Some(settled) = settled(encodings) {
            let value = match settled {
                Cow::Borrowed(common) => HeaderValue::from_static(common),
                Cow::Owned(own) => HeaderValue::from_maybe_shared(own)?,
            };
            head.headers.insert(ACCEPT_ENCODING, value)?;
        }
    }
    head.headers.append(VIA, shared.via.member(request.version))?;
    if request.ticket.is_reverse() {
        let forwarding = request.ticket.listener.forwarding;
        if forwarding.has_x_forwarded() {
            // Where a neighbour asks, it has added its client already.
            if !request.ticket.neighbour {
                forwarded_for(&request.ticket, head)?;
            }
            head.headers.insert(X_FORWARDED_PROTO, proto(&request.ticket))?;
        } else {
            [X_FORWARDED_FOR, X_FORWARDED_PROTO].iter().for_each(|name| head.headers.remove(name));
        }
        if forwarding.has_forwarded() {
            match (told, chain) {
                (Some(told), _) => head.headers.insert(FORWARDED, told)?,
                (None, chain) => head.headers.insert(FORWARDED, chain.unwrap_or_default())?,
            }
        } else if forwarding == Forwarding::None {
            head.headers.remove(&FORWARDED);
        }
    }
    if let Some(name) = shared.ids.header()
        && let Some(value) = request.ticket.id.value()
    {
        head.headers.insert(name.clone(), value)?;
    }
    Ok(())
}

/// Adds who has sent the request to X-Forwarded-For. Clients can write what they like before it; the last address is ours.
fn forwarded_for(ticket: &Ticket, head: &mut RequestHead) -> Result<(), BadField> {
    let mut chain = match told_in(ticket) {
        // Those before this one write the other field, and what is in this one is anybody's.
        Some(ChainField::Forwarded) => named(ticket).map(|client| format!("{client}, ")).unwrap_or_default(),
        _ => {
            let before = head.headers.get_all(X_FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
            before.filter(|value| !value.is_empty()).flat_map(|value| [value, ", "]).collect::<String>()
        }
    };
    push_address(ticket.peer.to_canonical(), &mut chain);
    head.headers.insert(X_FORWARDED_FOR, HeaderValue::from_maybe_shared(chain)?)
}

/// Writes an address. Those of IPv4 without the machinery of formats, since each request has one.
fn push_address(address: IpAddr, text: &mut String) {
    let IpAddr::V4(v4) = address else { return text.push_str(&address.to_string()) };
    for (number, octet) in v4.octets().into_iter().enumerate() {
        if number > 0 {
            text.push('.');
        }
        for (unit, is_shown) in [(100, octet > 99), (10, octet > 9), (1, true)] {
            if is_shown {
                text.push(char::from(b'0' + octet / unit % 10));
            }
        }
    }
}

/// The field in which those before this one say who the client is, if they are proxies that are believed.
fn told_in(ticket: &Ticket) -> Option<ChainField> {
    ticket.listener.is_proxy(ticket.peer).then_some(ticket.listener.client_field)
}

/// The client that those before this one have named, if they have.
fn named(ticket: &Ticket) -> Option<IpAddr> {
    (ticket.client != ticket.peer).then(|| ticket.client.to_canonical())
}

fn proto(ticket: &Ticket) -> &'static str {
    if ticket.tls { "https" } else { "http" }
}

/// What Forwarded says of a request: for whom those before this proxy ask, who has sent it, and how it came (RFC 7239 5). The host is in Host.
fn forwarded(ticket: &Ticket, head: &RequestHead) -> String {
    let node = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(v4) => format!("for={v4}"),
        // Brackets and colons are not for a token (RFC 7239 6).
        IpAddr::V6(v6) => format!("for=\"[{v6}]\""),
    };
    let chain = || {
        let lines = head.headers.get_all(FORWARDED).iter().map(|line| line.to_str().ok());
        let lines = lines.map(|line| line.filter(|line| is_well_formed(line.as_bytes())));
        Some(lines.collect::<Option<Vec<_>>>()?.join(", "))
    };
    let before = match told_in(ticket) {
        None => None,
        // Not behind what a client has left open: a quote there would swallow what comes next.
        Some(ChainField::Forwarded) => chain().or_else(|| named(ticket).map(node)).filter(|chain| !chain.is_empty()),
        Some(ChainField::XForwardedFor) => named(ticket).map(node),
    };
    let own = format!("{};proto={}", node(ticket.peer), proto(ticket));
    before.map(|before| format!("{before}, {own}")).unwrap_or(own)
}

/// The origin's final answer, before anything is done with it: without what ended at its connection, and with a Date,
/// as whoever receives an answer without one has to add it (RFC 9110 6.6.1).
pub(crate) fn from_origin(head: &mut ResponseHead, answered: SystemTime) -> Result<(), BadField> {
    for name in hops::hop_by_hop(&head.headers) {
        head.headers.remove(&name);
    }
    head.headers.remove(&TRANSFER_ENCODING);
    // Nodes alone say these.
    [FETCHED_FROM, ASKED_AT, TRIED].iter().for_each(|name| head.headers.remove(name));
    if !head.headers.contains_key(DATE) {
        head.headers.insert(DATE, dates::format(answered))?;
    }
    Ok(())
}

/// The origin's 101, as it goes to a client that has asked for one of these protocols.
///
/// Errors: [`Failure::Origin`]: it switches to something that nobody asked for.
pub(crate) fn switched(head: &mut ResponseHead, asked: &str) -> Result<(), Failure> {
    let is_asked = |protocol: &str| asked.split(", ").any(|one| one.eq_ignore_ascii_case(protocol));
    let protocols: Vec<_> = hops::upgrades(head.headers.as_map()).map(str::to_owned).collect();
    if protocols.is_empty() || !protocols.iter().all(|protocol| is_asked(protocol)) {
        return Err(Failure::Origin("it switches to a protocol that it was not asked for".into()));
    }
    for name in hops::not_interim(head.headers.as_map()) {
        head.headers.remove(&name);
    }
    head.headers.insert(CONNECTION, "upgrade")?;
    Ok(head.headers.insert(UPGRADE, protocols.join(", "))?)
}

/// What an origin calls its answer. Where this proxy speaks for the origin nobody else hears it, unless the operator says so.
pub(super) fn tags(ticket: &Ticket, head: &mut ResponseHead) -> Tags {
    let speaks_for_it = ticket.is_reverse() || ticket.mirror.is_some();
    Tags::take(&mut head.headers, speaks_for_it && !ticket.listener.pass_tags)
}

/// An answer as the client gets it, from wherever it came. `age` is a stored answer's.
pub(super) fn to_client(
    shared: &Shared,
    head: &mut ResponseHead,
    age: Option<u64>,
    entry: &Entry,
) -> Result<(), BadField> {
    head.headers.remove(&CONNECTION);
    head.headers.remove(&TRANSFER_ENCODING);
    match age {
        Some(age) => head.headers.insert(AGE, age)?,
        // Age says that an answer is not first-hand (RFC 9111 5.1), which this one is.
        None if age_field(&head.headers) == 0 => head.headers.remove(&AGE),
        None => {}
    }
    // A proxy says which version it received (RFC 9110 7.6.3), and speaks its own.
    let received = head.version;
    head.version = Version::HTTP_11;
    head.headers.append(VIA, shared.via.member(received))?;
    if let Some(id) = &entry.id {
        shared.tell(id, head)?;
    }
    if let (true, Some(address)) = (entry.for_neighbour, entry.fetched_from) {
        head.headers.insert(FETCHED_FROM, address.to_string())?;
        let asked_at = entry.asked_at.as_deref().map(AskedAt::value);
        asked_at.map_or(Ok(()), |value| head.headers.insert(ASKED_AT, value))?;
    }
    head.headers.append(CACHE_STATUS, entry.cache_status().value())
}

/// A 101 as the client gets it.
pub(super) fn switched_to_client(shared: &Shared, head: &mut ResponseHead, entry: &Entry) -> Result<(), BadField> {
    let received = head.version;
    head.version = Version::HTTP_11;
    head.headers.append(VIA, shared.via.member(received))?;
    entry.id.as_ref().map_or(Ok(()), |id| shared.tell(id, head))
}

/// A 304's head from that of the stored answer that it is about (RFC 9110 15.4.5).
pub(super) fn not_modified(head: &mut ResponseHead) {
    for name in [CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING, CONTENT_RANGE] {
        head.headers.remove(&name);
    }
    head.status = StatusCode::NOT_MODIFIED;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn addresses_are_written_as_everywhere() {
        let v4 = (0..=u8::MAX).map(|octet| IpAddr::V4(Ipv4Addr::new(octet, 0, 255 - octet, 9)));
        for address in v4.chain(["::1".parse().unwrap(), "2001:db8::f".parse().unwrap()]) {
            let mut text = String::new();
            push_address(address, &mut text);
            assert_eq!(text, address.to_string());
        }
    }
}
