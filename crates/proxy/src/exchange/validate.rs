//! Asking for the whole of an object, or whether what is stored of it still holds (RFC 9111 4.3).

use http::StatusCode;
use http::header::{HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use tinaja_http::message::{BadField, RequestHead};
use tinaja_http::validate::{selected, validation};

use super::ask::{Asker, With};
use super::entry::Entry;
use super::reply::Reply;
use super::request::Request;
use crate::boxed::boxed;
use crate::failure::Failure;
use crate::stored::Found;

/// The client's conditions of a request for something of which nothing is stored: they are the origin's to judge (RFC
/// 9111 4.3.2), which may save sending what the client has and the cache may not keep.
const FOR_ORIGIN: [HeaderName; 2] = [IF_NONE_MATCH, IF_MODIFIED_SINCE];

/// Adds them to the head of a request for the whole.
fn with_conditions(mut head: RequestHead, request: &Request) -> Result<RequestHead, BadField> {
    for name in &FOR_ORIGIN {
        for value in request.head.headers.get_all(name) {
            head.headers.append(name.clone(), value.clone())?;
        }
    }
    Ok(head)
}

/// A request whose conditions the origin has judged, and answered with all there is.
pub(super) fn without_conditions(request: &Request) -> Request {
    let mut request = request.clone();
    for name in &FOR_ORIGIN {
        request.head.headers.remove(name);
    }
    request
}

/// Whether a request has them.
pub(super) fn has_conditions(request: &Request) -> bool {
    FOR_ORIGIN.iter().any(|name| request.head.headers.contains_key(name))
}

/// Asks for the whole, or whether what is stored still holds. A 304 that is about something else is no answer: the
/// whole is asked for again.
pub(super) async fn ask_or_validate(
    asker: &Asker,
    request: &Request,
    mut with: With<'_>,
    entry: &mut Entry,
    stale: Option<&Found>,
) -> Result<Box<Reply>, Failure> {
    let internal = |error: BadField| Failure::Internal(error.to_string());
    let mut head = match (stale, &with) {
        (None, With::Client(_)) => with_conditions(request.whole(), request).map_err(internal)?,
        _ => request.whole(),
    };
    let stored = stale.and_then(|found| found.head.fields(|_| true));
    let edits = stored.as_ref().and_then(|stored| validation(&head.headers, stored));
    if let Some(edits) = &edits {
        head.headers.edit(edits).map_err(internal)?;
    }
    let again = match &mut with {
        With::Client(client) => With::Client(client),
        _ => With::Nobody,
    };
    let reply = asker.ask(request, head, true, again, entry).await?;
    let meant = match &stored {
        Some(stored) => !selected(&[stored], &reply.head.headers).is_empty(),
        None => false,
    };
    if reply.head.status != StatusCode::NOT_MODIFIED || (edits.is_some() && meant) {
        return Ok(reply);
    }
    let plain = || Failure::Origin("it answered 304 to a plain request".into());
    if edits.is_none() {
        // Nothing was asked that could be answered so. A client that did ask knows what it means.
        let asked = has_conditions(request);
        return if asked { Ok(reply) } else { Err(plain()) };
    }
    asker.release(reply.connection);
    let reply = boxed(|| asker.ask(request, request.whole(), true, with, entry)).await?;
    if reply.head.status == StatusCode::NOT_MODIFIED {
        return Err(plain());
    }
    Ok(reply)
}
