//! Fields by which a client misleads its origin: they say other things there than they do here.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};

/// Fields by which a client can make some servers answer for another URL than the key says. Whoever sets them may not poison
/// what others get, so requests that may be answered from the cache lose them. In the order of their names.
const OVERRIDES: [&str; 22] = [
    "forwarded",
    "front-end-https",
    "x-forwarded-host",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
    "x-url-scheme",
];

/// The same of a whole family: what a framework tells itself between its own layers.
const OVERRIDING_PREFIX: &str = "x-middleware-";

/// Fields that a proxy sets. With underscores they would be others to it, and the same to CGI, WSGI and FastCGI, which turn dashes
/// into underscores. (Those that frame a body are refused so, by [`crate::judge`].)
const OURS: [&str; 2] = ["x-forwarded-for", "x-forwarded-proto"];

/// What CGI makes HTTP_PROXY of, the variable by which programs choose a proxy of their own (httpoxy). It means nothing in HTTP.
const PROXY: &str = "proxy";

/// Conditions, which a cache judges itself: whoever fetches for the store asks without those of the client. With underscores they are no
/// conditions to it, but some origins would heed them, and say of what others are sent that it still holds.
const CONDITIONS: [&str; 5] = ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"];

/// Whether an origin does not get a field of this name: it would make it answer for another URL, and the answer may be stored; or it
/// passes for what the proxy says.
pub fn is_misleading(name: &HeaderName, may_be_stored: bool) -> bool {
    let name = name.as_str();
    let dashed = if name.contains('_') { Cow::from(name.replace('_', "-")) } else { name.into() };
    let is_spelt_otherwise = dashed != name;
    let overrides = || {
        OVERRIDES.binary_search(&&*dashed).is_ok()
            || dashed.starts_with(OVERRIDING_PREFIX)
            || is_spelt_otherwise && CONDITIONS.contains(&&*dashed)
    };
    dashed == PROXY || is_spelt_otherwise && OURS.contains(&&*dashed) || may_be_stored && overrides()
}

/// The fields of a request that its origin does not get.
pub fn misleading(request: &HeaderMap, may_be_stored: bool) -> Vec<HeaderName> {
    request.keys().filter(|name| is_misleading(name, may_be_stored)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(OVERRIDES.is_sorted());
        let lost = |names: &[&str], may_be_stored| {
            let request =
                names.iter().map(|name| (name.parse::<HeaderName>().unwrap(), "x".parse().unwrap())).collect();
            misleading(&request, may_be_stored).iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
        };
        let always = ["proxy", "x_forwarded_for", "x-forwarded_proto"];
        let mut found = lost(&always, false);
        found.sort_unstable();
        assert_eq!(found, ["proxy", "x-forwarded_proto", "x_forwarded_for"]);
        for name in ["if_none_match", "if-modified_since", "if_range"] {
            assert_eq!(
                (lost(&[name], true).len(), lost(&[name.replace('_', "-").as_str()], true).len()),
                (1, 0),
                "{name}"
            );
        }
        for name in ["x_forwarded_host", "X-Original_Url", "x-middleware-rewrite", "x_middleware_rewrite", "Forwarded"]
        {
            assert_eq!((lost(&[name], true).len(), lost(&[name], false).len()), (1, 0), "{name}");
        }
        assert_eq!(lost(&["content-length", "x-forwarded-for", "accept_language", "x-proxy", "cookie"], true), [""; 0]);
    }
}
