//! HTTP's rules for caches and proxies, as pure functions: no I/O, and the time is passed in.
//!
//! Each rule stands in one function that names its section. RFC 9110 is HTTP, 9111 caching, 9112 HTTP/1.1, 5861
//! stale answers, 8246 `immutable`, 9211 the Cache-Status field, 9213 targeted Cache-Control.
//!
//! A message and its frame:
//! - [`judge`]: is this raw HTTP/1 request head beyond doubt, and where does its body end?
//! - [`answer`]: is this raw response head beyond doubt?
//! - [`head`], [`body`]: where a request's head and body end; [`lines`]: the header lines of a head that was judged
//! - [`message`]: heads that are changed and sent on; [`forwarded`]: for whom proxies before this one ask
//! - [`http2`]: a head that came over HTTP/2, put into the form that is judged
//! - [`status`], [`hops`]: what a proxy adds to messages and removes from them, interim responses too
//!
//! What a cache does, one call each:
//! - [`storable::keep`]: may this answer be stored, for how long is it fresh or may be stale, and without which fields?
//!   [`freshness`], [`age`], [`control`], [`targeted`] and [`dates`] are what it goes by
//! - [`key`], [`vary`]: under which name, and which requests share a stored response?
//! - [`reuse::reuse`]: may it be used for this request, as it is, stale, or after validation?
//! - [`conditional::evaluate`]: the client's conditions; [`range::wanted`], [`multipart`]: the parts it asks for
//! - [`encoding`]: what may be sent compressed, what of a head changes then, and which coding a client wants
//! - [`validate`]: asking the origin, which stored response its 304 is about, what that or a HEAD's answer changes
//! - [`partial`]: pieces of an object, and which belong together
//! - [`invalidate::invalidated`]: what an unsafe method's answer makes invalid
//!
//! Changes to fields come as [`edits::Edits`], for whatever map the caller keeps. Every bound is in [`limits`].
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

pub mod accept;
pub mod age;
pub mod answer;
pub mod authority;
pub mod body;
pub mod conditional;
pub mod control;
pub mod dates;
pub mod edits;
pub mod encoding;
mod fields;
pub mod forwarded;
pub mod freshness;
pub mod head;
pub mod hops;
pub mod http2;
pub mod invalidate;
pub mod judge;
pub mod key;
pub mod limits;
pub mod lines;
pub mod message;
pub mod misleading;
pub mod multipart;
pub mod partial;
mod policy;
pub mod range;
pub mod refusal;
pub mod reuse;
pub mod status;
pub mod storable;
mod structured;
pub mod targeted;
pub mod validate;
pub mod vary;
mod words;
