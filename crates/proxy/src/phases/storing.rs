//! Whether an answer is stored, what is stored with it, and when it is forgotten.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http::header::{AGE, DATE};
use http::{HeaderMap, HeaderName};
use pingora_cache::storage::{PurgeTarget, PurgeType, Storage as _};
use pingora_cache::trace::Span;
use pingora_cache::{CacheKey, CacheMeta, NoCacheReason, RespCacheable};
use pingora_http::{RequestHeader, ResponseHeader};
use tinaja_http::freshness::storable;
use tinaja_pingora::announced_bytes;

use super::context::Context;
use crate::Storage;

/// The field of a stored head that says from which address it came, for [`crate::config::Listener::may_serve`]. Clients
/// do not get it, and what an origin writes there is replaced.
pub(crate) const FETCHED_FROM: HeaderName = HeaderName::from_static("tinaja-fetched-from");

/// The address that a stored answer was fetched from.
pub(crate) fn fetched_from(stored: &HeaderMap) -> Option<IpAddr> {
    stored.get(FETCHED_FROM)?.to_str().ok()?.parse().ok()
}

/// Decides by RFC 9111 3. `response` is the origin's answer, or the stored one updated by a 304.
///
/// Date and Age are stored as of this answer: after a 304, the stored ones describe an answer from long ago.
pub(super) fn cacheable(request: &RequestHeader, response: &ResponseHeader, ctx: &Context) -> RespCacheable {
    // One reason for all: Pingora then lets those who wait for this fetch go to the origin at once.
    let not = RespCacheable::Uncacheable(NoCacheReason::OriginNotCache);
    let mut stored = response.clone();
    if let Some(origin) = &ctx.origin
        && (stored.insert_header(DATE, origin.date.clone()).is_err() || stored.insert_header(AGE, origin.age).is_err())
    {
        return not;
    }
    let fetched_from = ctx.asked.map(|address| address.ip().to_string()).unwrap_or_default();
    if stored.insert_header(FETCHED_FROM, fetched_from).is_err() {
        return not;
    }
    let now = SystemTime::now();
    let Ok(decision) = storable(&request.method, &request.headers, response.status, &stored.headers, now) else {
        return not;
    };
    if stored.insert_header(AGE, decision.age_seconds).is_err() {
        return not;
    }
    // Fresh for no time at all must not be fresh at this very moment.
    let fresh_until = match decision.fresh_seconds {
        0 => now.checked_sub(Duration::from_secs(1)),
        seconds => now.checked_add(Duration::from_secs(seconds)),
    };
    let stale_if_error = u32::try_from(decision.stale_if_error_seconds).unwrap_or(u32::MAX);
    match fresh_until {
        Some(fresh_until) => RespCacheable::Cacheable(CacheMeta::new(fresh_until, now, 0, stale_if_error, stored)),
        None => not,
    }
}

/// What is larger than the store takes passes through, rather than through a store that does not keep it.
pub(super) fn small_enough(cacheable: RespCacheable, most: u64) -> RespCacheable {
    match cacheable {
        RespCacheable::Cacheable(meta) if announced_bytes(&meta).is_some_and(|length| length > most) => {
            RespCacheable::Uncacheable(NoCacheReason::ResponseTooLarge)
        }
        other => other,
    }
}

/// Forgets what is stored under a URL that has just been changed (RFC 9111 4.4).
///
/// The request goes on whatever becomes of it; a store that cannot forget says so in the program's log.
pub(super) async fn invalidate(storage: Storage, key: &CacheKey) {
    let target = key.to_compact();
    let span = Span::inactive();
    if let Err(error) = storage.purge(PurgeTarget::Active(&target), PurgeType::Invalidation, &span.handle()).await {
        tracing::warn!(%error, "an object that was changed at its origin could not be removed from the cache");
    }
}
