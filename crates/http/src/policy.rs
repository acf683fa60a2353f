//! What an operator may choose about storing.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};

use crate::encoding::Codings;
use crate::limits::{MAX_HEURISTIC_SECONDS, MAX_SECONDS};

/// What an operator may choose. The default is what the RFCs say, for a cache that speaks for nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The targeted fields this cache heeds, the most special first (RFC 9213). None by default: a reverse proxy sets
    /// [`crate::targeted::CDN_CACHE_CONTROL`].
    pub targets: Vec<HeaderName>,
    /// The longest guessed lifetime, in seconds; [`MAX_HEURISTIC_SECONDS`] by default, which is also the most.
    pub max_heuristic_seconds: u64,
    /// A lifetime for 404 and 410 that come without one, in seconds. 0 by default: what appears at its origin is
    /// seen that much later.
    pub negative_seconds: u64,
    /// Whether 206 may be stored, by a caller that stores parts as parts (RFC 9111 3.3). Off by default.
    pub parts: bool,
    /// What the operator says of this answer. Nothing by default.
    pub orders: Orders,
    /// The exchange was meant to be seen by its two ends alone. Then what came with Cookie or Authorization, or sets a cookie, is
    /// stored only where the answer says `public` or `s-maxage`, without the cookie, and no order changes that. Off by default.
    pub decrypted: bool,
    /// The operator names the media type of this answer, so that he knows that compressing it is worth while. Off by default: then
    /// only text is compressed.
    pub typed: bool,
    /// The operator has named the cookies that the origin got of this request, so that no others count where the answer varies by Cookie.
    /// Off by default: then such an answer is stored only if the request had no Cookie, or by [`Storing::Shared`].
    pub cookies_named: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            targets: Vec::new(),
            max_heuristic_seconds: MAX_HEURISTIC_SECONDS,
            negative_seconds: 0,
            parts: false,
            orders: Orders::default(),
            decrypted: false,
            typed: false,
            cookies_named: false,
        }
    }
}

/// What an operator says of some answers. The default says nothing, and the RFCs decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// Whether they are stored.
    pub store: Storing,
    /// The lifetime of answers that come without one, in seconds.
    pub ttl_seconds: Option<u64>,
    /// A shorter lifetime counts as this one, in seconds.
    pub min_seconds: u64,
    /// A longer lifetime counts as this one, in seconds.
    pub max_seconds: u64,
    /// Seconds past their lifetime for which they are served while they are validated, and while the origin fails. It replaces
    /// what the answers say themselves.
    pub grace_seconds: Option<u64>,
    /// What does not count though the answers say it.
    pub overrides: Overrides,
    /// They are stored without Set-Cookie.
    pub without_cookies: bool,
    /// A client's wish to have a fresh answer validated does not count.
    pub ignores_reload: bool,
    /// The codings in which they may be sent, the best first.
    pub encode: Codings,
}

/// Whether answers are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storing {
    /// As this cache does by itself, which is more careful than RFC 9111 asks for.
    #[default]
    Careful,
    /// Whatever RFC 9111 lets a shared cache store: with cookies too, a variant for each Cookie, and errors that one request can bring about.
    Shared,
    /// Never.
    Never,
}

impl Default for Orders {
    fn default() -> Orders {
        Orders {
            store: Storing::Careful,
            ttl_seconds: None,
            min_seconds: 0,
            max_seconds: MAX_SECONDS,
            grace_seconds: None,
            overrides: Overrides::default(),
            without_cookies: false,
            ignores_reload: false,
            encode: Codings::NONE,
        }
    }
}

impl Orders {
    /// What of it counts for an answer to this request. Who asked with Authorization has an answer that may be for nobody else,
    /// so it is kept no longer and for no other reason than its origin says.
    pub(crate) fn for_request(self, request: &HeaderMap) -> Orders {
        if !request.contains_key(AUTHORIZATION) || self.overrides.has(Override::Authorization) {
            return self;
        }
        let Orders { store, max_seconds, without_cookies, ignores_reload, .. } = self;
        let store = if store == Storing::Shared { Storing::Careful } else { store };
        Orders { store, max_seconds, without_cookies, ignores_reload, ..Orders::default() }
    }

    /// A lifetime within its bounds.
    pub(crate) fn bounded(&self, seconds: u64) -> u64 {
        seconds.max(self.min_seconds).min(self.max_seconds)
    }
}

/// Something that an answer says and an operator may overrule. Each breaks a sentence of RFC 9111.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Override {
    /// `no-store` of the answer (5.2.2.5).
    NoStore,
    /// `no-cache` of the answer (5.2.2.4).
    NoCache,
    /// `private` of the answer (5.2.2.7).
    Private,
    /// `must-revalidate`, `proxy-revalidate` and what `s-maxage` says of stale answers (4.2.4, 5.2.2.2).
    MustRevalidate,
    /// `s-maxage`, `max-age` and Expires (4.2.1).
    Lifetime,
    /// Authorization of the request (3.5).
    Authorization,
    /// A status whose answers need a lifetime of their own to be stored (3).
    Status,
}

impl Override {
    /// All of them.
    pub const ALL: [Override; 7] = [
        Override::NoStore,
        Override::NoCache,
        Override::Private,
        Override::MustRevalidate,
        Override::Lifetime,
        Override::Authorization,
        Override::Status,
    ];

    /// Its name in settings and in Cache-Status.
    pub fn name(self) -> &'static str {
        match self {
            Override::NoStore => "no-store",
            Override::NoCache => "no-cache",
            Override::Private => "private",
            Override::MustRevalidate => "must-revalidate",
            Override::Lifetime => "lifetime",
            Override::Authorization => "authorization",
            Override::Status => "status",
        }
    }
}

/// Some of [`Override::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides(u8);

impl Overrides {
    /// Nothing is overruled.
    pub const NONE: Overrides = Overrides(0);

    /// Whether this one is among them.
    pub fn has(self, one: Override) -> bool {
        self.0 & (1 << one as u8) != 0
    }

    /// Adds one.
    pub fn add(&mut self, one: Override) {
        self.0 |= 1 << one as u8;
    }

    /// Those that there are.
    pub fn all(self) -> impl Iterator<Item = Override> {
        Override::ALL.into_iter().filter(move |one| self.has(*one))
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is needed and is among them; it is then noted in `used`.
    pub(crate) fn lift(self, one: Override, needed: bool, used: &mut Overrides) -> bool {
        let lifts = needed && self.has(one);
        if lifts {
            used.add(one);
        }
        lifts
    }
}

impl FromIterator<Override> for Overrides {
    fn from_iter<I: IntoIterator<Item = Override>>(all: I) -> Overrides {
        let mut overrides = Overrides::default();
        all.into_iter().for_each(|one| overrides.add(one));
        overrides
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
