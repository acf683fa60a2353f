//! May a stored response be used for a request, and how? (RFC 9111 4 and 5.2.1, RFC 5861)

use crate::control::RequestDirectives;

/// What is known of a stored response at the moment it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredState {
    /// Its current age, in seconds.
    pub age_seconds: u64,
    /// Seconds until it is stale; from 0 down it is.
    pub ttl_seconds: i64,
    /// See [`crate::storable::Keep::stale_while_revalidate_seconds`].
    pub stale_while_revalidate_seconds: u64,
    /// See [`crate::storable::Keep::stale_if_error_seconds`].
    pub stale_if_error_seconds: u64,
    /// See [`crate::storable::Keep::may_be_stale`].
    pub may_be_stale: bool,
}

/// How to use a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It is fresh, and fresh enough for this client.
    Serve,
    /// It is stale, and the client takes it so (`max-stale`), or nobody can be asked ([`disconnected`]).
    ServeStale,
    /// It is stale, and the origin lets it be served while it is being validated (RFC 5861 3): serve and validate.
    ServeAndValidate,
    /// It has to be validated before it is served.
    Validate,
    /// It would have to be validated, and the client wants a stored answer or none: 504 (RFC 9111 5.2.1.7).
    NotCached,
}

/// Why a cache that can ask nobody does not use a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// It is stale, and may be used only after its origin has validated it.
    MustValidate,
    /// The request asks for something younger, fresher or validated.
    Unwanted,
}

impl StoredState {
    fn stale_seconds(&self) -> u64 {
        self.ttl_seconds.min(0).unsigned_abs()
    }
}

/// What a request asks, but for its wish to have what is fresh validated: `no-cache`, `max-age=0` and Pragma. These are advice
/// (RFC 9111 5.2.1), which an operator may leave unheeded ([`crate::storable::Orders::ignores_reload`]).
pub fn without_reload(directives: &RequestDirectives) -> RequestDirectives {
    let max_age = directives.max_age.filter(|most| *most > 0);
    RequestDirectives { revalidate: false, max_age, ..*directives }
}

/// Decides by what the request asks (RFC 9111 5.2.1) and the response allows (4.2.4).
pub fn reuse(directives: &RequestDirectives, stored: &StoredState) -> Reuse {
    let validate = if directives.only_if_cached { Reuse::NotCached } else { Reuse::Validate };
    if wants_better(directives, stored) {
        return validate;
    }
    if stored.ttl_seconds > 0 {
        return Reuse::Serve;
    }
    let stale = stored.stale_seconds();
    if stored.may_be_stale && directives.max_stale.is_some_and(|most| stale <= most) {
        return Reuse::ServeStale;
    }
    // A client that sets a limit of its own to age does not want it stale (RFC 9111 5.2.1.1).
    let within_window = stored.may_be_stale && stale < stored.stale_while_revalidate_seconds;
    if within_window && directives.max_age.is_none() { Reuse::ServeAndValidate } else { validate }
}

/// The same for a cache that can ask nobody, which may serve what is stale unless the response forbids it (RFC 9111 4.2.4).
///
/// What a request asks for is heeded as well as it can be without an origin. `no-cache` is not satisfied by what nobody has
/// validated; and a client that sets a limit of its own to age does not want it stale, unless it says by how much (5.2.1.1).
///
/// Errors: [`Withheld`].
pub fn disconnected(directives: &RequestDirectives, stored: &StoredState) -> Result<Reuse, Withheld> {
    if wants_better(directives, stored) {
        return Err(Withheld::Unwanted);
    }
    if stored.ttl_seconds > 0 {
        return Ok(Reuse::Serve);
    }
    if !stored.may_be_stale {
        return Err(Withheld::MustValidate);
    }
    let takes_it = match directives.max_stale {
        Some(most) => stored.stale_seconds() <= most,
        None => directives.max_age.is_none(),
    };
    if takes_it { Ok(Reuse::ServeStale) } else { Err(Withheld::Unwanted) }
}

/// Whether a request asks for something validated, younger, or fresh for longer.
fn wants_better(directives: &RequestDirectives, stored: &StoredState) -> bool {
    let too_old = directives.max_age.is_some_and(|most| stored.age_seconds > most);
    let for_too_short = directives.min_fresh.is_some_and(|least| i128::from(stored.ttl_seconds) < i128::from(least));
    directives.revalidate || too_old || for_too_short
}

/// May a stored response that could not be validated be served after all (RFC 5861 4)? For errors of the origin: no
/// connection, or 500, 502, 503 or 504.
pub fn may_serve_on_error(directives: &RequestDirectives, stored: &StoredState) -> bool {
    // A client that names a time speaks for itself alone, and may take less as well as more.
    let most = directives.stale_if_error.unwrap_or(stored.stale_if_error_seconds);
    !directives.revalidate && (stored.ttl_seconds > 0 || (stored.may_be_stale && stored.stale_seconds() < most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::request_directives;

    fn request(text: &str) -> RequestDirectives {
        let mut headers = http::HeaderMap::new();
        if !text.is_empty() {
            headers.insert("cache-control", text.parse().unwrap());
        }
        request_directives(&headers)
    }

    fn stored(age_seconds: u64, ttl_seconds: i64) -> StoredState {
        StoredState { age_seconds, ttl_seconds, may_be_stale: true, ..StoredState::default() }
    }

    #[test]
    fn fresh_and_stale() {
        use Reuse::*;
        let lenient = StoredState { stale_while_revalidate_seconds: 10, ..stored(20, -5) };
        let strict = StoredState { may_be_stale: false, ..lenient };
        for (asked, state, expected) in [
            ("", stored(5, 10), Serve),
            ("", stored(5, 1), Serve),
            ("", stored(5, 0), Validate),
            ("", stored(5, -1), Validate),
            ("no-cache", stored(0, 10), Validate),
            ("max-age=0", stored(0, 10), Validate),
            ("max-age=5", stored(5, 10), Serve),
            ("max-age=4", stored(5, 10), Validate),
            ("max-age=999", stored(5, -1), Validate),
            ("min-fresh=10", stored(5, 10), Serve),
            ("min-fresh=11", stored(5, 10), Validate),
            ("min-fresh=x", stored(5, 10), Validate),
            ("max-stale", stored(5, -9999), ServeStale),
            ("max-stale=9", stored(5, -9), ServeStale),
            ("max-stale=9", stored(5, -10), Validate),
            ("max-stale=x", stored(5, -1), Validate),
            ("max-stale", stored(5, 1), Serve),
            ("max-stale, max-age=4", stored(5, -1), Validate),
            ("max-stale, max-age=5", stored(5, -1), ServeStale),
            ("max-stale, min-fresh=1", stored(5, -1), Validate),
            ("max-stale", strict, Validate),
            ("", lenient, ServeAndValidate),
            ("", StoredState { ttl_seconds: -10, ..lenient }, Validate),
            ("", strict, Validate),
            ("max-age=100", lenient, Validate),
            ("no-cache", lenient, Validate),
            ("only-if-cached", stored(5, 10), Serve),
            ("only-if-cached", stored(5, -1), NotCached),
            ("only-if-cached, max-stale", stored(5, -1), ServeStale),
            ("only-if-cached, no-cache", stored(5, 10), NotCached),
            ("only-if-cached", lenient, ServeAndValidate),
            ("", stored(u64::MAX, i64::MIN), Validate),
            ("min-fresh=99999999999999", stored(0, i64::MAX), Serve),
        ] {
            assert_eq!(reuse(&request(asked), &state), expected, "{asked} {state:?}");
        }
    }

    #[test]
    fn with_nobody_to_ask() {
        use Withheld::*;
        let strict = StoredState { may_be_stale: false, ..stored(20, -5) };
        let served = |reuse| -> Result<Reuse, Withheld> { Ok(reuse) };
        for (asked, state, expected) in [
            ("", stored(5, 10), served(Reuse::Serve)),
            ("", stored(5, 0), served(Reuse::ServeStale)),
            ("", stored(u64::MAX, i64::MIN), served(Reuse::ServeStale)),
            ("", StoredState { stale_while_revalidate_seconds: 10, ..stored(20, -5) }, served(Reuse::ServeStale)),
            ("", strict, Err(MustValidate)),
            ("max-stale", strict, Err(MustValidate)),
            ("", StoredState { ttl_seconds: 1, ..strict }, served(Reuse::Serve)),
            ("only-if-cached", stored(5, -1), served(Reuse::ServeStale)),
            ("no-cache", stored(5, 10), Err(Unwanted)),
            ("no-cache, max-stale", stored(5, -1), Err(Unwanted)),
            ("max-age=0", stored(0, 10), Err(Unwanted)),
            ("max-age=4", stored(5, 10), Err(Unwanted)),
            ("max-age=5", stored(5, 10), served(Reuse::Serve)),
            ("max-age=5", stored(5, -1), Err(Unwanted)),
            ("max-age=5, max-stale", stored(5, -1), served(Reuse::ServeStale)),
            ("max-age=4, max-stale", stored(5, -1), Err(Unwanted)),
            ("max-stale=9", stored(5, -9), served(Reuse::ServeStale)),
            ("max-stale=9", stored(5, -10), Err(Unwanted)),
            ("min-fresh=10", stored(5, 10), served(Reuse::Serve)),
            ("min-fresh=11", stored(5, 10), Err(Unwanted)),
            ("min-fresh=1", stored(5, -1), Err(Unwanted)),
        ] {
            assert_eq!(disconnected(&request(asked), &state), expected, "{asked} {state:?}");
        }
        let unheeded = without_reload(&request("no-cache"));
        assert_eq!(disconnected(&unheeded, &stored(5, -1)), Ok(Reuse::ServeStale));
    }

    #[test]
    fn reloads_that_do_not_count() {
        for (asked, state, expected) in [
            ("no-cache", stored(5, 10), Reuse::Serve),
            ("max-age=0", stored(5, 10), Reuse::Serve),
            ("no-cache, max-age=4", stored(5, 10), Reuse::Validate),
            ("no-cache", stored(5, 0), Reuse::Validate),
            ("no-cache, min-fresh=11", stored(5, 10), Reuse::Validate),
            ("no-cache, max-stale", stored(5, -9), Reuse::ServeStale),
        ] {
            assert_eq!(reuse(&without_reload(&request(asked)), &state), expected, "{asked} {state:?}");
        }
    }

    #[test]
    fn errors() {
        let allowed = StoredState { stale_if_error_seconds: 10, ..stored(20, -5) };
        let strict = StoredState { may_be_stale: false, ..allowed };
        for (asked, state, expected) in [
            ("", allowed, true),
            ("", StoredState { ttl_seconds: -10, ..allowed }, false),
            ("", stored(5, -1), false),
            // Asked for because of the request alone, and still fresh.
            ("max-age=1", stored(5, 10), true),
            ("stale-if-error=3", stored(5, -2), true),
            ("stale-if-error=3", stored(5, -3), false),
            ("stale-if-error=3", allowed, false),
            ("stale-if-error=3", StoredState { ttl_seconds: -2, ..strict }, false),
            ("no-cache", allowed, false),
            ("", strict, false),
        ] {
            assert_eq!(may_serve_on_error(&request(asked), &state), expected, "{asked} {state:?}");
        }
    }
}
