//! What of an answer has links that may be changed, and what the changed form is called.

use http::StatusCode;
use http::header::{
    ALT_SVC, CONTENT_LOCATION, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, SET_COOKIE, STRICT_TRANSPORT_SECURITY,
};
use tinaja_http::conditional::EntityTag;
use tinaja_http::control::CacheControl;
use tinaja_http::message::ResponseHead;

use super::location::Place;
use super::rewrite::Form;
use super::{At, Links};

/// Fields that mean the source's host, and would be taken for ours.
pub(super) const OF_THE_SOURCE: [HeaderName; 6] = [
    SET_COOKIE,
    STRICT_TRANSPORT_SECURITY,
    ALT_SVC,
    CONTENT_LOCATION,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("service-worker-allowed"),
];

/// Fields that say what the bytes of a body are: it is passed as it is.
const OF_THE_BYTES: [HeaderName; 6] = [
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("docker-content-digest"),
    HeaderName::from_static("signature"),
];

/// How the links of this answer's body are written, if it is one with links that may be changed.
pub(super) fn form(at: &At, place: &Place, head: &ResponseHead) -> Option<Form> {
    if !matches!(head.status, StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION) {
        return None;
    }
    let as_it_is = OF_THE_BYTES.iter().any(|name| head.headers.contains_key(name))
        || CacheControl::of(&head.headers).has("no-transform")
        || is_named_by_digest(&place.path);
    if as_it_is { None } else { type_of_links(at, place, head) }
}

/// The same by its type alone.
pub(super) fn type_of_links(at: &At, place: &Place, head: &ResponseHead) -> Option<Form> {
    if !at.mounted.rewrites() {
        return None;
    }
    let media_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = || at.is_home && at.mounted.mirror.kind.is_some_and(|kind| kind.is_json(&place.path));
    match media_type.as_str() {
        "text/html" => Some(Form::Html),
        "application/json" | "text/json" => Some(Form::Json),
        media_type if media_type.ends_with("+html") || media_type.ends_with("+xml") && media_type.contains("xhtml") => {
            Some(Form::Html)
        }
        media_type if media_type.ends_with("+json") => Some(Form::Json),
        _ => is_json().then_some(Form::Json),
    }
}

/// The tag of a rewritten form.
pub(super) fn tag(at: &At, place: &Place, head: &ResponseHead) -> Option<String> {
    let etag = head.headers.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()).map(|tag| tag.opaque));
    let original = etag.or_else(|| head.headers.get(LAST_MODIFIED).map(http::HeaderValue::as_bytes))?;
    let mounted = &at.mounted;
    let mirror = &mounted.mirror;
    let mut hasher = blake3::Hasher::new();
    let said = format!(
        "1 {:?} {} {:?} {:?} {} {:?}",
        mounted.base, mirror.origin, mirror.hosts, mirror.kind, mirror.rewrite_limit_bytes, place.destination
    );
    hasher.update(said.as_bytes()).update(&[0]).update(original);
    Some(format!("W/\"{}\"", &hasher.finalize().to_hex()[..32]))
}

/// Whether a path says the digest of what is there.
fn is_named_by_digest(path: &str) -> bool {
    path.contains("/by-hash/")
        || ["sha256:", "sha512:", "sha256%3a", "sha512%3a"].iter().any(|name| path.contains(name))
}

/// A field's value with the URLs between these marks rewritten.
pub(super) fn rewrite_field(text: &str, (before, after): (char, char), links: &Links) -> String {
    let (mut new, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((head, tail)) = rest.split_once(before) {
        new.push_str(head);
        new.push(before);
        let (url, tail) = tail.split_once(after).unwrap_or((tail, ""));
        let closed = rest.len() > head.len() + 1 + url.len();
        new.push_str(&links.url(url).unwrap_or_else(|| url.to_owned()));
        if closed {
            new.push(after);
        }
        rest = tail;
    }
    new.push_str(rest);
    new
}
