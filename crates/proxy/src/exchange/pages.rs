//! Answers that the proxy gives by itself.

use bytes::Bytes;
use http::Method;
use tinaja_http::message::{BadField, ResponseHead};
use tinaja_http::status::CACHE_STATUS;

use super::entry::Entry;
use super::headers;
use super::transaction::Transaction;
use crate::failure::Failure;
use crate::neighbours::TRIED;
use crate::page;
use crate::shared::Shared;

/// Answers with a page that says what went wrong, the last on its connection, if it is not too late for one: a
/// client whose answer broke off sees that from the connection's end.
pub(super) async fn give_up(shared: &Shared, transaction: Transaction<'_>, failure: &Failure) {
    let Transaction { request, client, entry } = transaction;
    client.close_after();
    shared.explain(failure);
    entry.why = Some(failure.to_string());
    if client.has_begun() || *failure == Failure::ClientLeft {
        return;
    }
    // It is nobody's but this proxy's.
    entry.fetched_from = None;
    let told = if request.ticket.intercepted { failure.reason_inside() } else { failure.reason() };
    let body = page::page_with(failure, told, Some(&request.ticket.id));
    let Ok(head) = page_head(shared, failure, body.len(), entry) else {
        return;
    };
    entry.note(&head);
    let body = if request.method() == Method::HEAD { String::new() } else { body };
    if client.begin(&head, Bytes::from(body)).await.is_err() || client.end().await.is_err() {
        tracing::debug!("the client left before its error page");
    }
}

fn page_head(shared: &Shared, failure: &Failure, length: usize, entry: &Entry) -> Result<ResponseHead, BadField> {
    let mut head = page::head(failure, length)?;
    headers::to_client(shared, &mut head, None, entry)?;
    if entry.for_neighbour && failure.is_upstream() {
        head.headers.insert(TRIED, 1)?;
    }
    // Nothing stored is in it (RFC 9211 2).
    head.headers.remove(&CACHE_STATUS);
    Ok(head)
}
