//! What becomes of a fetch when its client leaves: it goes on for those who read along, or if it is nearly done.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context as Waking, Waker};
use std::time::Duration;

use pingora_cache::CachePhase;
use pingora_error::{Error, ErrorType, Result};
use pingora_proxy::Session;
use tinaja_pingora::announced_bytes;

use super::context::Context;
use crate::Storage;
use crate::config::Limits;

/// Those who waited for the origin's head join within this time after it; until then nobody can be told to be the
/// last. On a link of 1 Mbit/s this lets 32 KiB pass that may be of use to nobody.
const JOINING: Duration = Duration::from_millis(250);

/// Notes that the client has left.
pub(super) fn client_left(ctx: &Context) {
    ctx.fetch.client_left.store(true, Ordering::Relaxed);
}

/// Called for each piece of an origin's body. Errors, which end the fetch: the client has left, or there was none and the
/// object is not as small as it was said to be; nobody else reads along; and the rest is not worth fetching.
pub(super) fn check(storage: Storage, limits: &Limits, session: &mut Session, ctx: &Context) -> Result<()> {
    let left = ctx.fetch.client_left.load(Ordering::Relaxed);
    let outgrown = ctx.errand.is_some() && ctx.fetch.arrived > limits.fill_range_below;
    if !(left || outgrown) || goes_on(storage, limits, session, ctx) {
        return Ok(());
    }
    let error = Error::explain(ErrorType::ConnectionClosed, "the last client left, and the rest is not worth fetching");
    Err(error.into_down())
}

fn goes_on(storage: Storage, limits: &Limits, session: &mut Session, ctx: &Context) -> bool {
    if !session.cache.enabled() {
        return false;
    }
    if !matches!(session.cache.phase(), CachePhase::Miss | CachePhase::Expired) {
        // The body is of no further use, and read only so that the connection can be used again.
        return true;
    }
    let left = ctx.fetch.client_left.load(Ordering::Relaxed);
    if left {
        stop_reading(session);
    }
    let tag = session.cache.miss_handler().and_then(|fill| fill.streaming_write_tag().map(<[u8]>::to_vec));
    let Some(tag) = tag else {
        return true;
    };
    // An errand reads along itself.
    if storage.followers(session.cache.cache_key(), &tag) > usize::from(!left)
        || ctx.fetch.head_at.is_none_or(|at| at.elapsed() < JOINING)
    {
        return true;
    }
    let length = session.cache.maybe_cache_meta().and_then(announced_bytes);
    length.is_some_and(|length| nearly_done(limits, ctx.fetch.arrived, length))
}

/// The client's own end of the fill: it would count as one who reads along, and hold up the others.
fn stop_reading(session: &mut Session) {
    // Our readers end at once; there is nothing to wait for.
    let _ = pin!(session.cache.finish_hit_handler()).poll(&mut Waking::from_waker(Waker::noop()));
}

fn nearly_done(limits: &Limits, arrived: u64, length: u64) -> bool {
    let left = length.saturating_sub(arrived);
    let percent = u128::from(limits.quick_abort_percent);
    left <= limits.quick_abort_bytes || u128::from(arrived) * 100 >= u128::from(length) * percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly() {
        let limits = Limits { quick_abort_bytes: 1000, quick_abort_percent: 90, ..Limits::default() };
        for (arrived, length, done) in [
            (0, 1000, true),
            (0, 1001, false),
            (99_000, 100_000, true),
            (89_999, 100_000, false),
            (90_000, 100_000, true),
            (u64::MAX / 2, u64::MAX, false),
            (u64::MAX, u64::MAX, true),
            (5, 0, true),
        ] {
            assert_eq!(nearly_done(&limits, arrived, length), done, "{arrived} of {length}");
        }
        let never = Limits { quick_abort_bytes: 0, quick_abort_percent: 101, ..limits };
        assert!(!nearly_done(&never, 99, 100) && nearly_done(&never, 100, 100));
    }
}
