//! What is known of a stored response beside its header, and what it says of whether it may be used.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use tinaja_http::reuse::StoredState;

use crate::bans::Stamp;

/// What is known of a stored response beside its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// When its head came, or it was last validated.
    pub received: SystemTime,
    /// Until when it may be served without asking.
    pub fresh_until: SystemTime,
    /// Its age when it was received, in seconds.
    pub age_seconds: u32,
    pub stale_while_revalidate_seconds: u32,
    pub stale_if_error_seconds: u32,
    pub may_be_stale: bool,
    /// The family that it belongs to, by when that began; families that were purged begin anew. The Unix epoch where
    /// there is none.
    pub family: SystemTime,
    /// Which of a family's variants it is.
    pub variant: Option<[u8; 16]>,
    /// The address that it was fetched from, for [`crate::config::Listener::may_serve`].
    pub fetched_from: Option<IpAddr>,
    /// Which bans had been made when it was asked for.
    pub stamp: Stamp,
}

impl Facts {
    /// Those of something that came then, is stale since, and of which nothing else is known.
    pub fn bare(received: SystemTime) -> Facts {
        Facts {
            received,
            fresh_until: received,
            age_seconds: 0,
            stale_while_revalidate_seconds: 0,
            stale_if_error_seconds: 0,
            may_be_stale: false,
            family: SystemTime::UNIX_EPOCH,
            variant: None,
            fetched_from: None,
            stamp: Stamp::default(),
        }
    }

    /// The same, stale since then at the latest. It may be served stale as any other.
    pub fn stale_since(self, since: SystemTime) -> Facts {
        Facts { fresh_until: self.fresh_until.min(since.max(self.received)), ..self }
    }

    /// The same, stale if it came before that time: the cache may have missed that it was removed.
    pub fn trusted_from(self, distrusted_before: Option<SystemTime>) -> Facts {
        match distrusted_before {
            Some(before) if self.received < before => self.distrusted_since(before),
            _ => self,
        }
    }

    /// The same, of an answer that was asked for then, whenever it came.
    pub fn asked_at(self, asked: SystemTime, distrusted_before: Option<SystemTime>) -> Facts {
        match distrusted_before {
            Some(before) if asked < before => self.distrusted_since(before),
            _ => self,
        }
    }

    /// The same, to be validated before it is used: it is stale since then, and may not be served so of the proxy's own accord.
    pub fn distrusted_since(self, since: SystemTime) -> Facts {
        Facts { stale_while_revalidate_seconds: 0, may_be_stale: false, ..self.stale_since(since) }
    }

    /// The same, of an answer that is so much older than the clock says, since that was put back.
    pub fn older_by(self, by: Duration) -> Facts {
        let earlier = |time: SystemTime| time.checked_sub(by).unwrap_or(SystemTime::UNIX_EPOCH);
        Facts { received: earlier(self.received), fresh_until: earlier(self.fresh_until), ..self }
    }

    /// What decides reuse at `now`. What was received later than that is stale: the clock was put back, and nobody knows how
    /// long ago it came. So do boxes without a battery at every power cut.
    pub fn state(&self, now: SystemTime) -> StoredState {
        let was_put_back = self.received > now + CLOCK_TOLERANCE;
        let given = self.fresh_until.duration_since(self.received).unwrap_or_default();
        let ttl_seconds = match self.fresh_until.duration_since(now) {
            Ok(_) if was_put_back => -1,
            Ok(left) => {
                // Anything left counts as a second: fresh is fresh until it is over. And no more is left than there was.
                let left = left.min(given);
                seconds(left) + i64::from(left.subsec_nanos() > 0)
            }
            Err(past) => -seconds(past.duration()),
        };
        StoredState {
            age_seconds: self.age(now),
            ttl_seconds,
            stale_while_revalidate_seconds: if was_put_back { 0 } else { self.stale_while_revalidate_seconds.into() },
            stale_if_error_seconds: self.stale_if_error_seconds.into(),
            may_be_stale: self.may_be_stale && !was_put_back,
        }
    }

    /// Its age at `now`, in seconds (RFC 9111 4.2.3).
    pub fn age(&self, now: SystemTime) -> u64 {
        tinaja_http::age::current_age(self.age_seconds.into(), now.duration_since(self.received).unwrap_or_default())
    }
}

/// By so much another node's clock may be ahead, or this one be put back to be right again.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// In which everything says something.
    pub(in crate::stored) fn facts() -> Facts {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, 7);
        Facts {
            received: at(1_700_000_000),
            fresh_until: at(1_700_000_060),
            age_seconds: 5,
            stale_while_revalidate_seconds: 6,
            stale_if_error_seconds: 7,
            may_be_stale: true,
            family: at(1_600_000_000),
            variant: Some([9; 16]),
            fetched_from: Some("192.0.2.1".parse().unwrap()),
            stamp: Stamp(0x0102_0304_0506_0708),
        }
    }

    #[test]
    fn states() {
        let facts = facts();
        for (seconds, nanos, ttl, age) in
            [(0, 7, 60, 5), (59, 8, 1, 64), (60, 7, 0, 65), (61, 7, -1, 66), (0, 0, 60, 5)]
        {
            let now = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000 + seconds, nanos);
            let state = facts.state(now);
            assert_eq!((state.ttl_seconds, state.age_seconds), (ttl, age), "{seconds}");
        }
    }

    /// An answer for one second was a hit for an hour where the clock was an hour behind after a restart.
    #[test]
    fn what_comes_from_the_future_is_stale() {
        let facts = facts();
        for (before, ttl, while_revalidated, may_be_stale) in [
            (4, 60, facts.stale_while_revalidate_seconds, facts.may_be_stale),
            (6, -1, 0, false),
            (3600, -1, 0, false),
            (1_600_000_000, -1, 0, false),
        ] {
            let state = facts.state(facts.received - Duration::from_secs(before));
            let found = (state.ttl_seconds, state.stale_while_revalidate_seconds, state.may_be_stale);
            assert_eq!(found, (ttl, u64::from(while_revalidated), may_be_stale), "{before} s before");
        }
    }

    /// What was asked for before a node may have missed something is validated, though it came afterwards.
    #[test]
    fn what_was_asked_for_before_a_gap_is_validated_whenever_it_came() {
        let second = Duration::from_secs(1);
        let facts = Facts { may_be_stale: true, stale_while_revalidate_seconds: 60, ..facts() };
        let (asked, gap) = (facts.received - 2 * second, facts.received - second);
        let late = facts.asked_at(asked, Some(gap));
        let state = late.state(late.received);
        assert!(
            state.ttl_seconds <= 0 && !state.may_be_stale && state.stale_while_revalidate_seconds == 0,
            "{state:?}"
        );
        assert_eq!(facts.asked_at(gap, Some(gap)), facts);
        assert_eq!(facts.asked_at(asked, None), facts);
    }
}
