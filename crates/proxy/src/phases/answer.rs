//! Answers that the proxy gives by itself, amid Pingora's steps.

use bytes::Bytes;
use http::Method;
use pingora_error::{Error, ErrorType, Result};
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::context::Context;
use super::headers;
use super::outcome::failure_of;
use crate::failure::Failure;
use crate::page;
use crate::shared::Shared;

/// Pingora's error for a failure; the page is made from the failure itself, which the context keeps.
pub(super) fn error_of(ctx: &mut Context, failure: Failure) -> Box<Error> {
    let error = Error::explain(ErrorType::HTTPStatus(failure.status()), failure.to_string());
    let error = if failure.is_upstream() { error.into_up() } else { error };
    ctx.failure = Some(failure);
    error
}

/// The end of a request that failed: a page, if it is not too late for one. Returns its status, or 0.
pub(super) async fn give_up(shared: &Shared, session: &mut Session, error: &Error, ctx: &mut Context) -> u16 {
    if session.response_written().is_some_and(|written| !written.status.is_informational()) {
        // Too late for a page. The connection is cut, so that the client sees that its answer is not whole.
        return 0;
    }
    let Some(failure) = failure_of(error, ctx) else {
        return 0;
    };
    let written = write_page(shared, session, &failure, ctx).await;
    let status = failure.status();
    ctx.failure = Some(failure);
    if let Err(error) = written {
        tracing::debug!(%error, "the client left before its error page");
    }
    status
}

/// Answers with a page; the connection is closed behind it.
async fn write_page(shared: &Shared, session: &mut Session, failure: &Failure, ctx: &mut Context) -> Result<()> {
    let body = page::page(failure);
    let mut response = ResponseHeader::build(failure.status(), Some(6))?;
    response.insert_header(http::header::CONTENT_TYPE, page::CONTENT_TYPE)?;
    response.insert_header(http::header::CONTENT_LENGTH, body.len())?;
    response.insert_header(http::header::CACHE_CONTROL, "no-store")?;
    headers::to_client(shared, session, &mut response, ctx)?;
    if !failure.is_upstream() {
        // The request went nowhere, so there is nothing to say about how.
        response.remove_header("cache-status");
    }
    session.set_keepalive(None);
    let head_only = session.req_header().method == Method::HEAD;
    session.write_response_header(Box::new(response), head_only).await?;
    if !head_only {
        session.write_response_body(Some(Bytes::from(body)), true).await?;
    }
    Ok(())
}
