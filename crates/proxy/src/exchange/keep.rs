//! Storing an answer: whether, with which facts and which fields (RFC 9111 3), and under which name.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{
    ACCEPT_ENCODING, AGE, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, FORWARDED, LAST_MODIFIED,
    TRANSFER_ENCODING, VARY,
};
use tinaja_http::encoding::{Codings, varies};
use tinaja_http::message::ResponseHead;
use tinaja_http::storable::{self, Keep, NotStorable, Policy};
use tinaja_http::targeted::CDN_CACHE_CONTROL;
use tinaja_store::{Hint, Key, Writer};

use super::encode::may_be_so_long;
use super::headers::X_FORWARDED_FOR;
use super::plan::random;
use super::request::{Request, Ticket};
use crate::bans::{Stamp, Tags};
use crate::cache_rules::Seen;
use crate::group::{Groups, Member};
use crate::shared::Shared;
use crate::storage::Storage;
use crate::stored::{Facts, Families, Forms, Kind, StoredHead};

/// An answer that may be stored, and the times that its age is reckoned from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a> {
    pub head: &'a ResponseHead,
    /// When it was asked for.
    pub asked: SystemTime,
    /// When its head came.
    pub answered: SystemTime,
    /// Which bans had been made when it was asked for.
    pub stamp: Stamp,
    /// How many URLs had been removed when it was asked for.
    pub removals: u64,
    /// What its origin calls it.
    pub tags: &'a Tags,
    pub from: IpAddr,
}

/// When a family of variants began, and which of them an answer is.
pub(super) type Variant = (SystemTime, [u8; 16]);

/// Whether an answer to this request may be stored, and how long it is good: by the rules of the listener that it came in at, and
/// by RFC 9111.
pub(super) fn keep(request: &Request, answer: &Received<'_>) -> Result<Keep, NotStorable> {
    // Only a cache that speaks for the origin is meant by what is said to its content network (RFC 9213 2).
    let targets = if request.ticket.is_reverse() { vec![CDN_CACHE_CONTROL] } else { Vec::new() };
    let exchange = storable::Exchange {
        method: request.method(),
        request: &request.head.headers,
        status: answer.head.status,
        response: &answer.head.headers,
        asked: answer.asked,
        answered: answer.answered,
    };
    let ticket = &request.ticket;
    let rule = ticket.cache_rule(Seen {
        host: ticket.host_name(),
        path: &ticket.path,
        status: answer.head.status,
        response: answer.head.headers.as_map(),
    });
    let mut orders = rule.map_or_else(Default::default, |rule| rule.orders);
    if !rule.is_some_and(|rule| ticket.heeds_encode(rule)) {
        orders.encode = Codings::NONE;
    }
    let typed = rule.is_some_and(|rule| !rule.types.is_empty());
    let (decrypted, cookies_named) = (ticket.intercepted, ticket.names_cookies());
    storable::keep(&exchange, &Policy { targets, orders, decrypted, typed, cookies_named, ..Policy::default() })
}

/// The facts to store with an answer. What was asked for before `distrusted_before` is validated before it is used: it may have lain in a socket while this
/// process stood still, and so have been removed without its hearing of it.
pub(super) fn facts(
    keep: &Keep,
    answer: &Received<'_>,
    variant: Option<Variant>,
    distrusted_before: Option<SystemTime>,
) -> Facts {
    let capped = |seconds: u64| u32::try_from(seconds).unwrap_or(u32::MAX);
    let facts = Facts {
        received: answer.answered,
        fresh_until: answer.answered + Duration::from_secs(keep.fresh_seconds)
            - Duration::from_secs(keep.stale_seconds),
        age_seconds: capped(keep.age_seconds),
        stale_while_revalidate_seconds: capped(keep.stale_while_revalidate_seconds),
        stale_if_error_seconds: capped(keep.stale_if_error_seconds),
        may_be_stale: keep.may_be_stale,
        family: variant.map_or(SystemTime::UNIX_EPOCH, |(began, _)| began),
        variant: variant.map(|(_, variant)| variant),
        fetched_from: Some(answer.from),
        stamp: answer.stamp,
    };
    facts.asked_at(answer.asked, distrusted_before)
}

/// The header to store: without what ends at this hop, what the origin keeps from others, and the age, which the
/// facts have.
pub(super) fn header(keep: &Keep, head: &ResponseHead) -> ResponseHead {
    let mut header = head.clone();
    for name in keep.without.iter().chain(&[AGE, CONNECTION, TRANSFER_ENCODING]) {
        header.headers.remove(name);
    }
    header
}

/// What the store is told of an answer that is stored with these facts and this header.
pub(super) fn hint(facts: &Facts, header: &ResponseHead) -> Hint {
    let can_validate = [ETAG, LAST_MODIFIED].iter().any(|name| header.headers.contains_key(name));
    let fresh_until = Some(facts.fresh_until);
    Hint { fresh_until, can_validate: Some(can_validate), ..Hint::default() }
}

/// What stores answers, each under its name and with its group.
pub(super) struct Keeper {
    pub shared: Arc<Shared>,
    pub store: Storage,
    pub families: Arc<Families>,
    groups: Groups,
}

impl Keeper {
    pub fn new(shared: Arc<Shared>, store: Storage) -> Keeper {
        let families = shared.families.clone();
        Keeper { shared, store, families, groups: Groups::default() }
    }

    /// Begins to store an answer, whose body is still to be written. `None` where it is not to be stored after all:
    /// its head is too large, the store could not keep which variants there are, its URL was purged while it was on its way, or a purge was forgotten
    /// meanwhile that might name it.
    pub async fn begin(
        &self,
        request: &Request,
        keep: &Keep,
        answer: &Received<'_>,
        length: Option<u64>,
    ) -> Option<(Key, Writer)> {
        let (place, variant) = self.place(request, &answer.head.headers, answer.removals).await?;
        let facts = facts(keep, answer, variant, self.store.distrusted_before());
        let name = &request.ticket.name;
        let header = header(keep, answer.head);
        let passes = !request.ticket.is_kept(&self.shared);
        let is_out_of_reach = length.is_some_and(|length| !may_be_so_long(length));
        let codings = if passes || keep.of_one || is_out_of_reach { Codings::NONE } else { keep.encodings };
        let forms = if codings.is_empty() { Vec::new() } else { Forms { id: random().to_le_bytes(), codings }.bytes() };
        let head = StoredHead::encode_pieces(Kind::Whole, &facts, name.primary(), &forms, answer.tags, &header)?;
        let group = self.groups.join(&member(request, answer.head), self.shared.clock.now());
        let hint = Hint { group: Some(group), expected_bytes: length, passes, ..hint(&facts, &header) };
        let writer = name.put(&*self.store, &place, head, hint);
        // Given up, it is aborted.
        let bans = &self.shared.bans;
        (bans.takes(answer.stamp) && !bans.was_removed(&name.place(), answer.removals)).then_some((place, writer))
    }

    /// Where an answer with these headers is to stand, and which variant it is. `None` where the store could not keep
    /// which variants there are, or its URL was purged since there had been so many removals.
    pub async fn place(&self, request: &Request, headers: &HeaderMap, removals: u64) -> Option<(Key, Option<Variant>)> {
        let name = &request.ticket.name;
        let unencoded = unencoded(&request.ticket, headers);
        let headers = unencoded.as_ref().unwrap_or(headers);
        let names = tinaja_http::vary::fields(headers)?;
        if names.is_empty() && name.added().is_none() {
            return Some((name.place(), None));
        }
        // In front of origins each client's address is in it, which no other client's request has.
        if request.ticket.is_reverse() && (names.contains(&X_FORWARDED_FOR) || names.contains(&FORWARDED)) {
            return None;
        }
        // Which variants there are is known where they are kept.
        if !request.ticket.is_kept(&self.shared) {
            return None;
        }
        let was_removed = || self.shared.bans.was_removed(&name.place(), removals);
        let variant = self.families.join(&self.store, name, (headers, &request.head.headers), was_removed).await?;
        Some((name.variant_place(&variant.1), Some(variant)))
    }
}

/// The fields of an answer to this request as it is named by them, where those are others than it has.
pub(super) fn unencoded(ticket: &Ticket, headers: &HeaderMap) -> Option<HeaderMap> {
    ticket.asks_identity().then(|| without_accept_encoding(headers)).flatten()
}

/// The fields of an answer that is in no coding and comes from an origin that is asked for nothing else, without Accept-Encoding among those that it
/// varies by: what is forwarded has always the same. `None` where nothing is to be left out.
fn without_accept_encoding(headers: &HeaderMap) -> Option<HeaderMap> {
    if headers.contains_key(CONTENT_ENCODING) || !varies(headers) {
        return None;
    }
    let names = tinaja_http::vary::fields(headers)?;
    let mut others = headers.clone();
    others.remove(VARY);
    for name in names.into_iter().filter(|name| *name != ACCEPT_ENCODING) {
        others.append(VARY, name.into());
    }
    Some(others)
}

/// An answer, as one of those that are asked for together.
fn member<'a>(request: &'a Request, head: &'a ResponseHead) -> Member<'a> {
    let Ticket { client, host, path, .. } = &*request.ticket;
    Member { client: *client, host, path, request: &request.head.headers, response: &head.headers }
}

/// The length of its body that a response announces; `None` where it has none or announces none.
pub(super) fn announced(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let length = lengths.next()?.to_str().ok()?.trim();
    let plain = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    if plain && lengths.next().is_none() { length.parse().ok() } else { None }
}
