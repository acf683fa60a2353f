//! Header fields that a proxy adds, changes and removes on the way.

use std::time::{Instant, SystemTime};

use http::header::{AGE, CONNECTION, DATE, FORWARDED, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Version};
use pingora_cache::{CacheMeta, CachePhase};
use pingora_error::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;
use tinaja_http::freshness::{age_field, current_age};
use tinaja_http::hops;

use super::context::{Context, OriginAnswer};
use super::outcome::cache_status;
use super::storing::FETCHED_FROM;
use crate::config::Mode;
use crate::shared::Shared;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields by which a client can make some servers answer for another URL than the key says. Whoever sets them may
/// not poison what others get, so requests that may be answered from the cache lose them.
const OVERRIDES: [HeaderName; 11] = [
    FORWARDED,
    X_FORWARDED_PROTO,
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-scheme"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-host"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
];

/// The request as the origin gets it.
pub(super) fn to_origin(shared: &Shared, session: &Session, request: &mut RequestHeader, ctx: &Context) -> Result<()> {
    for name in hops::hop_by_hop(&request.headers) {
        request.remove_header(&name);
    }
    if session.cache.enabled() {
        for name in &OVERRIDES {
            request.remove_header(name);
        }
    }
    request.append_header("Via", hops::via_member(session.req_header().version, &shared.name))?;
    if ctx.ticket.as_ref().is_some_and(|ticket| matches!(ticket.listener.mode, Mode::Reverse(_))) {
        forwarded_for(request, ctx)?;
        request.insert_header("X-Forwarded-Proto", "http")?;
    }
    Ok(())
}

/// Adds the client to X-Forwarded-For. Clients can write what they like before it; the last address is ours.
fn forwarded_for(request: &mut RequestHeader, ctx: &Context) -> Result<()> {
    let Some(client) = ctx.ticket.as_ref().and_then(|ticket| ticket.client) else {
        return Ok(());
    };
    let before = request.headers.get_all(X_FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let mut chain: Vec<String> = before.map(str::to_owned).filter(|value| !value.is_empty()).collect();
    chain.push(client.to_canonical().to_string());
    request.insert_header("X-Forwarded-For", chain.join(", "))
}

/// The origin's answer, before anything is done with it.
pub(super) fn from_origin(session: &Session, response: &mut ResponseHeader, ctx: &mut Context) -> Result<()> {
    if response.status.is_informational() {
        return interim(session, response, ctx);
    }
    for name in hops::hop_by_hop(&response.headers) {
        response.remove_header(&name);
    }
    let date = match response.headers.get(DATE) {
        Some(date) => date.clone(),
        // Whoever receives an answer without a Date says when that was (RFC 9110 6.6.1).
        None => HeaderValue::from_str(&httpdate::fmt_http_date(SystemTime::now()))
            .unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT")),
    };
    response.insert_header(DATE, date.clone())?;
    ctx.fetch.head_at = Some(Instant::now());
    ctx.origin = Some(OriginAnswer { status: response.status.as_u16(), date, age: age_field(&response.headers) });
    Ok(())
}

/// An answer before the answer. Upgrades are not passed on, so nobody asked for one, and what follows would be judged by
/// nobody. The front has Pingora keep the others from HTTP/1.0 clients.
fn interim(session: &Session, response: &mut ResponseHeader, ctx: &mut Context) -> Result<()> {
    let http10 = session.req_header().version == Version::HTTP_10;
    if hops::interim(response.status, http10, false, ctx.interim) == hops::Interim::Refuse {
        let text = "the origin upgrades without being asked, or sends interim answers without end";
        return Err(Error::explain(ErrorType::InvalidHTTPHeader, text).into_up());
    }
    ctx.interim += 1;
    for name in hops::not_interim(&response.headers) {
        response.remove_header(&name);
    }
    Ok(())
}

/// The answer as the client gets it, from wherever it came.
pub(super) fn to_client(
    shared: &Shared,
    session: &Session,
    response: &mut ResponseHeader,
    ctx: &mut Context,
) -> Result<()> {
    if response.status.is_informational() {
        return Ok(());
    }
    response.remove_header(&CONNECTION);
    response.remove_header(&FETCHED_FROM);
    // A proxy speaks its own version, whatever the origin's is (RFC 9110 2.5), and says in Via which it got.
    let received = response.version;
    response.set_version(Version::HTTP_11);
    match session.cache.maybe_cache_meta() {
        Some(meta) if is_from_cache(session.cache.phase()) => response.insert_header(AGE, age(meta))?,
        // Age says that an answer is not first-hand (RFC 9111 5.1), which this one is.
        _ if age_field(&response.headers) == 0 => drop(response.remove_header(&AGE)),
        _ => {}
    }
    response.append_header("Via", hops::via_member(received, &shared.name))?;
    response.append_header("Cache-Status", cache_status(session, ctx).to_string())?;
    if session.req_header().version == Version::HTTP_10 {
        // Such a client knows no chunks: its answer ends with the connection.
        response.remove_header(&TRANSFER_ENCODING);
    }
    Ok(())
}

/// Whether the answer is a stored one, rather than one that is just being stored.
fn is_from_cache(phase: CachePhase) -> bool {
    use CachePhase::{Hit, Revalidated, RevalidatedNoCache, Stale, StaleUpdating};
    matches!(phase, Hit | Stale | StaleUpdating | Revalidated | RevalidatedNoCache(_))
}

/// The age of a stored answer in seconds.
pub(super) fn age(meta: &CacheMeta) -> u64 {
    current_age_of(meta.headers(), meta.epoch(), SystemTime::now())
}

/// The age in seconds of an answer stored at `epoch` with these headers: what it had on arrival, and its time here.
pub(crate) fn current_age_of(headers: &HeaderMap, epoch: SystemTime, now: SystemTime) -> u64 {
    current_age(age_field(headers), now.duration_since(epoch).unwrap_or_default())
}
