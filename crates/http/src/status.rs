//! The Cache-Status field (RFC 9211): what this cache did, in words that other tools read.

use std::fmt::{self, Write as _};

use http::HeaderName;

use crate::policy::{Override, Overrides};

/// The field's name.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// What the cache did with one request; `Display` is this cache's member of Cache-Status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Whether the origin had to be asked, and why.
    pub outcome: Outcome,
    /// Seconds of freshness left of what is served; negative once stale. Unknown where nothing stored is served.
    pub ttl: Option<i64>,
    /// The status the origin answered with.
    pub fwd_status: Option<u16>,
    /// Whether the answer was stored.
    pub stored: bool,
    /// Whether another client's fetch answered this request too.
    pub collapsed: bool,
    /// What the answer says and a rule overruled when it was stored.
    pub overruled: Overrides,
    /// Whether the cache asks no origin at present, so that nobody could say whether this still holds.
    pub offline: bool,
    /// Whether the request names a host that is not known to be at the address that its client chose: the answer is for it alone.
    pub unproved: bool,
    /// Whether something was stored that an operator has taken back.
    pub purged: bool,
    /// Whether the answer was not stored because it varies by Cookie and no rule says which cookies count.
    pub varies_by_cookie: bool,
}

/// Whether the origin had to be asked, and why (RFC 9211 2.1 and 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the cache.
    Hit,
    /// This request is not for the cache.
    #[default]
    Bypass,
    /// The method is never answered from the cache.
    Method,
    /// Nothing is stored under this URL.
    UriMiss,
    /// Something is stored under this URL, but not for such a request.
    VaryMiss,
    /// Nothing usable was stored; not known which of the above.
    Miss,
    /// The client asked for a fresh answer.
    Request,
    /// What is stored was stale.
    Stale,
    /// Only a part of what the client asked for is stored.
    Partial,
}

impl CacheStatus {
    /// The member as a field's value.
    pub fn value(&self) -> String {
        // As long as most are: a string that grows by the way is moved several times.
        let mut text = String::with_capacity(64);
        // Nothing that is written to a string fails.
        let _ = write!(text, "{self}");
        text
    }
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Hit => "hit",
            Outcome::Bypass => "fwd=bypass",
            Outcome::Method => "fwd=method",
            Outcome::UriMiss => "fwd=uri-miss",
            Outcome::VaryMiss => "fwd=vary-miss",
            Outcome::Miss => "fwd=miss",
            Outcome::Request => "fwd=request",
            Outcome::Stale => "fwd=stale",
            Outcome::Partial => "fwd=partial",
        };
        f.write_str("Tinaja; ")?;
        f.write_str(outcome)?;
        if let Some(status) = self.fwd_status {
            f.write_str("; fwd-status=")?;
            status.fmt(f)?;
        }
        if let Some(ttl) = self.ttl {
            f.write_str("; ttl=")?;
            ttl.fmt(f)?;
        }
        f.write_str(if self.stored { "; stored" } else { "" })?;
        f.write_str(if self.collapsed { "; collapsed" } else { "" })?;
        if self.offline {
            return f.write_str("; detail=OFFLINE");
        }
        if self.unproved {
            return f.write_str("; detail=HOST_NOT_PROVED");
        }
        // A token: their names have no other characters.
        let mut separator = "; detail=";
        let purged = self.purged.then_some("PURGED");
        for word in purged.into_iter().chain(self.varies_by_cookie.then_some("VARY_COOKIE")) {
            write!(f, "{separator}{word}")?;
            separator = "+";
        }
        let mut overruled = self.overruled.all().map(Override::name);
        if let Some(first) = overruled.next() {
            write!(f, "{separator}OVERRIDE_{first}")?;
            overruled.try_for_each(|name| write!(f, "+{name}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members() {
        let none = CacheStatus::default();
        for (status, text) in [
            (CacheStatus { outcome: Outcome::Hit, ttl: Some(30), ..none.clone() }, "Tinaja; hit; ttl=30"),
            (
                CacheStatus { outcome: Outcome::UriMiss, fwd_status: Some(200), stored: true, ..none.clone() },
                "Tinaja; fwd=uri-miss; fwd-status=200; stored",
            ),
            (
                CacheStatus { outcome: Outcome::Stale, fwd_status: Some(304), ..none.clone() },
                "Tinaja; fwd=stale; fwd-status=304",
            ),
            (
                CacheStatus { outcome: Outcome::Partial, fwd_status: Some(206), ..none.clone() },
                "Tinaja; fwd=partial; fwd-status=206",
            ),
            (CacheStatus { outcome: Outcome::Miss, collapsed: true, ..none.clone() }, "Tinaja; fwd=miss; collapsed"),
            (
                CacheStatus {
                    outcome: Outcome::UriMiss,
                    stored: true,
                    overruled: [Override::NoStore, Override::Private].into_iter().collect(),
                    ..none.clone()
                },
                "Tinaja; fwd=uri-miss; stored; detail=OVERRIDE_no-store+private",
            ),
            (
                CacheStatus { outcome: Outcome::Hit, ttl: Some(-123), offline: true, ..none.clone() },
                "Tinaja; hit; ttl=-123; detail=OFFLINE",
            ),
            (
                CacheStatus { fwd_status: Some(200), unproved: true, ..none.clone() },
                "Tinaja; fwd=bypass; fwd-status=200; detail=HOST_NOT_PROVED",
            ),
            (
                CacheStatus { outcome: Outcome::UriMiss, purged: true, stored: true, ..none.clone() },
                "Tinaja; fwd=uri-miss; stored; detail=PURGED",
            ),
            (
                CacheStatus {
                    outcome: Outcome::UriMiss,
                    purged: true,
                    overruled: [Override::Private].into_iter().collect(),
                    ..none.clone()
                },
                "Tinaja; fwd=uri-miss; detail=PURGED+OVERRIDE_private",
            ),
            (
                CacheStatus {
                    outcome: Outcome::VaryMiss,
                    fwd_status: Some(200),
                    purged: true,
                    varies_by_cookie: true,
                    ..none.clone()
                },
                "Tinaja; fwd=vary-miss; fwd-status=200; detail=PURGED+VARY_COOKIE",
            ),
            (none, "Tinaja; fwd=bypass"),
        ] {
            assert_eq!(status.to_string(), text);
        }
    }
}
