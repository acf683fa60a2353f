//! What became of a request, in the words of Cache-Status, of the access log, and of error pages.

use std::net::SocketAddr;
use std::time::SystemTime;

use http::StatusCode;
use http::header::{CONTENT_TYPE, REFERER, USER_AGENT};
use pingora_cache::CachePhase;
use pingora_error::{Error, ErrorSource, ErrorType};
use pingora_proxy::Session;
use tinaja_http::status::{CacheStatus, Outcome};
use tinaja_logs::{CacheResult, Record};

use super::context::Context;
use crate::access::record;
use crate::failure::Failure;
use crate::origin::handshake;

/// This cache's member of Cache-Status (RFC 9211).
pub(super) fn cache_status(session: &Session, ctx: &Context) -> CacheStatus {
    let phase = session.cache.phase();
    let ttl = session.cache.maybe_cache_meta().map(|meta| ttl_seconds(meta.fresh_until(), SystemTime::now()));
    let fwd_status = ctx.origin.as_ref().map(|origin| origin.status);
    match phase {
        CachePhase::Hit if waited(session) => {
            CacheStatus { outcome: Outcome::Miss, collapsed: true, ..CacheStatus::default() }
        }
        CachePhase::Hit | CachePhase::Stale | CachePhase::StaleUpdating => {
            CacheStatus { outcome: Outcome::Hit, ttl, ..CacheStatus::default() }
        }
        CachePhase::Miss | CachePhase::Expired => {
            CacheStatus { outcome: ctx.outcome, fwd_status, stored: true, ..CacheStatus::default() }
        }
        _ => CacheStatus { outcome: ctx.outcome, fwd_status, ..CacheStatus::default() },
    }
}

/// Whether the request waited for another client's fetch.
fn waited(session: &Session) -> bool {
    session.cache.lock_duration().is_some()
}

/// Seconds until then; negative once it is past.
pub(crate) fn ttl_seconds(fresh_until: SystemTime, now: SystemTime) -> i64 {
    let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match fresh_until.duration_since(now) {
        Ok(left) => seconds(left),
        Err(past) => -seconds(past.duration()),
    }
}

/// The access log's line for a request that has been answered, or given up.
pub(super) fn access_record(session: &Session, ctx: &Context) -> Record {
    let request = session.req_header();
    let response = session.response_written();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let media_type = |value: String| value.split(';').next().unwrap_or_default().trim().to_owned();
    let status = response.map_or(0, |response| response.status.as_u16());
    let (client, began) = match &ctx.ticket {
        Some(ticket) => (ticket.client, ticket.began),
        None => (None, std::time::Instant::now()),
    };
    Record {
        method: request.method.to_string(),
        url: ctx.ticket.as_ref().map(|ticket| ticket.url.clone()).unwrap_or_default(),
        status,
        bytes: session.body_bytes_sent() as u64,
        result: cache_result(session, ctx, status),
        origin: ctx.asked.map(|address| address.ip().to_canonical().to_string()),
        content_type: response.and_then(|response| response.headers.get(CONTENT_TYPE)).map(text).map(media_type),
        referer: request.headers.get(REFERER).map(text),
        user_agent: request.headers.get(USER_AGENT).map(text),
        ..record(client, began)
    }
}

fn cache_result(session: &Session, ctx: &Context, status: u16) -> CacheResult {
    if ctx.failure.as_ref().is_some_and(Failure::is_denial) {
        return CacheResult::Denied;
    }
    match session.cache.phase() {
        CachePhase::Hit if waited(session) => CacheResult::Collapsed,
        CachePhase::Hit if status == StatusCode::NOT_MODIFIED => CacheResult::NotModified,
        CachePhase::Hit => CacheResult::Hit,
        CachePhase::Stale | CachePhase::StaleUpdating => CacheResult::Stale,
        CachePhase::Revalidated | CachePhase::RevalidatedNoCache(_) => CacheResult::Revalidated,
        CachePhase::Expired if ctx.outcome == Outcome::Request => CacheResult::ClientRefresh,
        CachePhase::Expired => CacheResult::Refetched,
        _ => CacheResult::Miss,
    }
}

/// Keeps why a connection failed, for the page. Of an address that speaks and one that is silent, the first is what
/// the client asked for.
pub(super) fn note_connect_failure(ctx: &mut Context, error: &Error) {
    if !matches!(ctx.failure, Some(Failure::Tls { .. }))
        && let (Some(address), Some(ticket)) = (ctx.asked, &ctx.ticket)
    {
        ctx.failure = Some(connect_failure(&ticket.destination.host, address, error));
    }
}

/// Why a connection to `host` at `address` failed.
fn connect_failure(host: &str, address: SocketAddr, error: &Error) -> Failure {
    match error.etype() {
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => Failure::ConnectTimeout { address },
        ErrorType::ConnectRefused => Failure::Connect { address, error: "it was refused".into() },
        ErrorType::ConnectNoRoute => Failure::Connect { address, error: "there is no route to it".into() },
        ErrorType::TLSHandshakeFailure => {
            Failure::Tls { host: host.to_owned(), address, error: handshake::reason(error) }
        }
        other => Failure::Connect { address, error: other.as_str().to_owned() },
    }
}

/// Why a request failed; nothing where nobody is left to be told.
pub(super) fn failure_of(error: &Error, ctx: &mut Context) -> Option<Failure> {
    if let ErrorType::HTTPStatus(_) = error.etype()
        && let Some(failure) = ctx.failure.take()
    {
        return Some(failure);
    }
    let connecting = ctx.failure.take();
    match (error.esource(), error.etype()) {
        (ErrorSource::Upstream, ErrorType::ReadTimedout | ErrorType::WriteTimedout) => Some(Failure::OriginTimeout),
        (ErrorSource::Upstream, ErrorType::InvalidHTTPHeader) => {
            Some(Failure::Origin("its answer is no valid HTTP".into()))
        }
        (ErrorSource::Upstream, ErrorType::ConnectionClosed) => {
            Some(Failure::Origin("it closed the connection without an answer".into()))
        }
        (ErrorSource::Upstream, etype) => Some(connecting.unwrap_or_else(|| Failure::Origin(etype.as_str().into()))),
        (ErrorSource::Downstream, ErrorType::WriteError | ErrorType::WriteTimedout | ErrorType::ConnectionClosed) => {
            None
        }
        (ErrorSource::Downstream, _) => Some(Failure::BadRequest),
        (_, etype) => Some(Failure::Internal(etype.as_str().into())),
    }
}
