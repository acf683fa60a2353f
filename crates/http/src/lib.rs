//! HTTP's rules for caches and proxies, as pure functions: no I/O, and the time is passed in.
//!
//! Each rule stands in one function that names its section. RFC 9110 is HTTP, 9111 caching, 9112 HTTP/1.1,
//! 9211 the Cache-Status field.
//!
//! - [`judge`]: is this raw HTTP/1 request head beyond doubt, and where does its body end?
//! - [`head`], [`body`]: where a request's head and body end
//! - [`lines`]: the header lines of a head that has been judged
//! - [`freshness`]: may this response be stored, and for how long is it fresh?
//! - [`vary`]: which requests share a stored response?
//! - [`control`]: Cache-Control of requests and responses
//! - [`status`], [`hops`]: what a proxy adds to messages and removes from them
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

pub mod age;
pub mod authority;
pub mod body;
pub mod conditional;
pub mod control;
pub mod dates;
pub mod edits;
mod fields;
pub mod freshness;
pub mod head;
pub mod hops;
pub mod invalidate;
pub mod judge;
pub mod limits;
pub mod lines;
pub mod range;
pub mod refusal;
pub mod reuse;
pub mod status;
pub mod storable;
mod structured;
pub mod targeted;
pub mod validate;
pub mod vary;

/// The value of a field as text; a value that is not ASCII reads as empty.
pub(crate) fn text(value: &http::HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// The members of a comma-separated list field, over all its lines, trimmed; empty members are skipped
/// (RFC 9110 5.6.1). Quoted strings are not looked into: for lists of tokens only.
pub(crate) fn list_members<'a>(
    headers: &'a http::HeaderMap,
    name: &http::HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    headers.get_all(name).into_iter().flat_map(|value| text(value).split(',')).map(str::trim).filter(|m| !m.is_empty())
}
