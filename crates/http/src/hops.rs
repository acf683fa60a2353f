//! What belongs to one connection only, and who handled a message (RFC 9110 7.6).

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, PROXY_AUTHENTICATE, TRANSFER_ENCODING, UPGRADE, VIA};
use http::{HeaderMap, HeaderName, StatusCode, Version};

use crate::limits::MAX_INTERIM_RESPONSES;
use crate::words::list_members;

/// Fields that end at the next hop whether or not Connection names them (RFC 9110 7.6.1, RFC 9111 3.1), without
/// Transfer-Encoding, which whoever frames the body sets.
fn ends_at_next_hop(name: &HeaderName) -> bool {
    // By length and bytes: each field of each message is looked at.
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "http2-settings"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "upgrade"
    )
}

/// Fields that Connection may not take away: the message would mean something else, or the next hop would no longer
/// see what we added.
const PROTECTED: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "cache-control",
    "authorization",
    "via",
    "age",
    "x-forwarded-for",
    "set-cookie",
];

/// What a proxy says of itself to whoever stands behind it.
static PROXY_ONLY: [HeaderName; 2] = [PROXY_AUTHENTICATE, HeaderName::from_static("proxy-authentication-info")];

/// What a head alone may say: framing, routing, modifiers of requests, authentication, control of caches and what content is.
const NEVER_TRAILERS: [&str; 34] = [
    "accept-ranges",
    "age",
    "authentication-info",
    "authorization",
    "cache-control",
    "cache-status",
    "clear-site-data",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "host",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authentication-info",
    "range",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "vary",
    "via",
    "warning",
    "www-authenticate",
];

/// The fields of a message that end at this hop (RFC 9110 7.6.1): the known ones and those its Connection names,
/// but none that would change what the message means.
pub fn hop_by_hop(headers: &HeaderMap) -> Vec<HeaderName> {
    let named = list_members(headers, &CONNECTION).filter_map(|member| member.parse::<HeaderName>().ok());
    let named = named.filter(|name| !PROTECTED.contains(&name.as_str()));
    // By the fields that are there, which are fewer than those to look for, and mostly none of them.
    let always = headers.keys().filter(|name| ends_at_next_hop(name)).cloned();
    always.chain(named.filter(|name| headers.contains_key(name))).collect()
}

/// Trailer fields that pass through a proxy beside the content that they end: all but those that would change how the message is
/// framed, routed, understood, cached or who is who (RFC 9110 6.5.1). Nothing is left of them in the head.
pub fn trailers_that_pass(trailers: &HeaderMap) -> HeaderMap {
    let connection = hop_by_hop(trailers);
    let passes = |name: &HeaderName| !connection.contains(name) && !NEVER_TRAILERS.contains(&name.as_str());
    let passing = trailers.iter().filter(|(name, _)| passes(name) && !name.as_str().starts_with("if-"));
    passing.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The fields of a response that are not stored (RFC 9111 3.1): those that end at this hop, and what a proxy nearer to
/// the origin said of itself.
pub fn not_stored(response: &HeaderMap) -> Vec<HeaderName> {
    let mut names = hop_by_hop(response);
    names.extend(PROXY_ONLY.iter().filter(|name| response.contains_key(*name)).cloned());
    names
}

/// What becomes of an interim response from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interim {
    /// Pass it on, without [`not_interim`]'s fields.
    Forward,
    /// The client's version knows no interim responses: read on.
    Drop,
    /// The origin breaks the rules; nothing that follows on its connection can be trusted.
    Refuse,
}

/// Judges one interim response (RFC 9110 15.2): a proxy passes on all that it did not ask for itself, but none to an
/// HTTP/1.0 client. `before` counts those that came before it in answer to the same request. 101 is refused where
/// `upgrading` is false: nobody asked for it.
pub fn interim(status: StatusCode, client_is_http10: bool, upgrading: bool, before: usize) -> Interim {
    if before >= MAX_INTERIM_RESPONSES || (status == StatusCode::SWITCHING_PROTOCOLS && !upgrading) {
        return Interim::Refuse;
    }
    if client_is_http10 { Interim::Drop } else { Interim::Forward }
}

/// The protocols for which a request would leave HTTP (RFC 9110 7.8), or to which a 101 says that it does: the members of Upgrade, where
/// Connection names it. HTTP in its other versions is none of them, nor TLS: what came then would be requests that nobody has judged.
pub fn upgrades(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let is_said = headers.contains_key(UPGRADE)
        && list_members(headers, &CONNECTION).any(|option| option.eq_ignore_ascii_case("upgrade"));
    let is_http = |protocol: &str| {
        let name = protocol.split('/').next().unwrap_or_default();
        ["h2c", "h2", "h3", "http", "https", "tls"].iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    list_members(headers, &UPGRADE).filter(move |protocol| is_said && !protocol.is_empty() && !is_http(protocol))
}

/// The fields of an interim response that are not passed on: those that end at this hop, and those that frame a body,
/// which no interim response has (RFC 9110 8.6, RFC 9112 6.1).
pub fn not_interim(response: &HeaderMap) -> Vec<HeaderName> {
    let mut names = hop_by_hop(response);
    names.extend([CONTENT_LENGTH, TRANSFER_ENCODING].into_iter().filter(|name| response.contains_key(name)));
    names
}

/// Whether the connection ends with the answer to this request (RFC 9112 9.3).
pub fn closes(headers: &HeaderMap, http11: bool) -> bool {
    let says = |option: &str| list_members(headers, &CONNECTION).any(|member| member.eq_ignore_ascii_case(option));
    says("close") || !(http11 || says("keep-alive"))
}

/// Whether a client's connection ends with the answer to this request. A proxy keeps none with a client of HTTP/1.0,
/// which may stand behind one that passes Keep-Alive on without knowing it (RFC 9112 9.3 and C.2.2); `for_origins` says
/// that this is no proxy of its clients, but a server to them.
pub fn closes_to_client(headers: &HeaderMap, http11: bool, for_origins: bool) -> bool {
    closes(headers, http11) || !(http11 || for_origins)
}

/// How a proxy is called in Via, and what it writes there, made once for all messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    name: String,
    members: [(Version, HeaderValue); 3],
}

impl Via {
    /// A proxy of this name.
    pub fn new(name: String) -> Via {
        let members = [Version::HTTP_11, Version::HTTP_2, Version::HTTP_10];
        Via { members: members.map(|version| (version, via_member(version, &name))), name }
    }

    /// The name, by which [`is_loop`] finds loops.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// [`via_member`] for a message that came with `version`.
    pub fn member(&self, version: Version) -> HeaderValue {
        let known = self.members.iter().find(|(known, _)| *known == version);
        known.map_or_else(|| via_member(version, &self.name), |(_, member)| member.clone())
    }
}

/// The Via member for a message that came with `version` (RFC 9110 7.6.3). `name` is a pseudonym; characters that
/// are not allowed in one become `-`.
pub fn via_member(version: Version, name: &str) -> HeaderValue {
    let version = match version {
        Version::HTTP_09 => "0.9",
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
    let mut member = String::with_capacity(version.len() + 1 + name.len());
    member.push_str(version);
    member.push(' ');
    member.extend(name.chars().map(plain));
    HeaderValue::try_from(member).unwrap_or(HeaderValue::from_static("1.1 proxy"))
}

/// Whether a message has passed the proxy called `name` before, by its Via (RFC 9110 7.6.3).
pub fn is_loop(headers: &HeaderMap, name: &str) -> bool {
    list_members(headers, &VIA).any(|member| member.split_ascii_whitespace().nth(1) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn trailers_pass_but_for_what_a_head_alone_may_say() {
        let mut trailers = HeaderMap::new();
        for name in
            ["grpc-status", "grpc-message", "x-own", "te", "connection", "x-named", "set-cookie", "if-match", "vary"]
        {
            trailers.insert(HeaderName::from_static(name), HeaderValue::from_static("0"));
        }
        trailers.insert("connection", HeaderValue::from_static("x-named"));
        let passed = trailers_that_pass(&trailers);
        let names: Vec<_> = passed.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["grpc-status", "grpc-message", "x-own"]);
    }

    #[test]
    fn what_ends_here() {
        for (fields, gone) in [
            (vec![("connection", "close")], vec!["connection"]),
            (vec![("connection", "X-A, x-b"), ("x-a", "1"), ("x-c", "1")], vec!["connection", "x-a"]),
            (
                vec![("te", "trailers"), ("proxy-authorization", "x"), ("accept", "x")],
                vec!["te", "proxy-authorization"],
            ),
            (
                vec![("connection", "host, content-length, x-forwarded-for"), ("host", "a"), ("x-forwarded-for", "b")],
                vec!["connection"],
            ),
            (vec![("upgrade", "websocket"), ("transfer-encoding", "chunked")], vec!["upgrade"]),
            (vec![("connection", "@@, ,")], vec!["connection"]),
        ] {
            assert_eq!(hop_by_hop(&headers(&fields)), gone, "{fields:?}");
        }
    }

    #[test]
    fn interim_responses() {
        for (status, http10, upgrading, before, expected) in [
            (100, false, false, 0, Interim::Forward),
            (103, false, false, 1, Interim::Forward),
            (199, false, false, MAX_INTERIM_RESPONSES - 1, Interim::Forward),
            (103, false, false, MAX_INTERIM_RESPONSES, Interim::Refuse),
            (103, true, false, 0, Interim::Drop),
            (101, false, true, 0, Interim::Forward),
            (101, false, false, 0, Interim::Refuse),
            (101, true, false, 0, Interim::Refuse),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(interim(status, http10, upgrading, before), expected, "{status} {http10} {before}");
        }
        let hints = headers(&[("link", "x"), ("connection", "y"), ("y", "1"), ("content-length", "0")]);
        assert_eq!(not_interim(&hints), ["connection", "y", "content-length"]);
    }

    #[test]
    fn protocols_other_than_http() {
        for (fields, expected) in [
            (vec![("connection", "Upgrade"), ("upgrade", "websocket")], vec!["websocket"]),
            (vec![("connection", "x, upgrade"), ("upgrade", "h2c, WebSocket, , tcp/1")], vec!["WebSocket", "tcp/1"]),
            (vec![("connection", "upgrade"), ("upgrade", "HTTP/2.0"), ("upgrade", "TLS/1.0, h2c")], vec![]),
            (vec![("connection", "x"), ("upgrade", "websocket")], vec![]),
            (vec![("connection", "upgrade")], vec![]),
        ] {
            assert_eq!(upgrades(&headers(&fields)).collect::<Vec<_>>(), expected, "{fields:?}");
        }
    }

    #[test]
    fn what_is_stored() {
        let response = headers(&[("connection", "x-a"), ("x-a", "1"), ("proxy-authenticate", "x"), ("etag", "x")]);
        assert_eq!(not_stored(&response), ["connection", "x-a", "proxy-authenticate"]);
    }

    #[test]
    fn connections_that_end() {
        for (connection, http11, expected) in [
            ("", true, false),
            ("x, Close", true, true),
            ("keep-alive, close", true, true),
            ("", false, true),
            ("Keep-Alive", false, false),
        ] {
            let fields = headers(&[("connection", connection)]);
            assert_eq!(closes(&fields, http11), expected, "{connection} {http11}");
            assert_eq!(closes_to_client(&fields, http11, true), expected, "{connection} {http11}");
            assert_eq!(closes_to_client(&fields, http11, false), expected || !http11, "{connection} {http11}");
        }
    }

    #[test]
    fn loops() {
        for (via, expected) in [
            ("1.1 me", true),
            ("1.0 other, 1.1 me (Tinaja)", true),
            ("HTTP/1.1 me", true),
            ("1.1 me2", false),
            ("1.1 other (me)", false),
            ("me", false),
            ("", false),
        ] {
            assert_eq!(is_loop(&headers(&[("via", via)]), "me"), expected, "{via}");
        }
        assert_eq!(via_member(Version::HTTP_11, "tinaja a\n"), "1.1 tinaja-a-");
        assert_eq!(via_member(Version::HTTP_10, "x.y"), "1.0 x.y");
    }
}
