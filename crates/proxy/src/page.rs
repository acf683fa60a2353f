//! The pages that the proxy answers with by itself.

use std::borrow::Cow;

use http::{HeaderName, StatusCode, header};
use tinaja_http::message::{BadField, ResponseHead, Usual};

use crate::failure::{Failure, Reason};
use crate::ids::RequestId;

/// The media type of the pages.
pub(crate) const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// The media type of texts that are no pages.
const TEXT: &str = "text/plain; charset=utf-8";

/// Says why a head was refused.
const X_REFUSAL: HeaderName = HeaderName::from_static("x-refusal");

/// The methods of Allow (RFC 9110 10.2.1): those that go through, in either mode, wherever the origin takes them.
pub(crate) const ALLOWED: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// A small page that says what went wrong, as far as that is its reader's business, and by which id the operator finds the rest in
/// the log. What came from outside is escaped.
pub(crate) fn page(failure: &Failure, id: Option<&RequestId>) -> String {
    page_with(failure, failure.reason(), id)
}

/// The same with another reason than clients are told usually.
pub(crate) fn page_with(failure: &Failure, told: Reason, id: Option<&RequestId>) -> String {
    let status = failure.status();
    let reason = reason(status);
    let mut text = escape(told.sentence());
    if let Some(id) = id {
        text.push_str(&format!("</p>\n<p>Request id: {}", escape(&id.to_string())));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><title>{status} {reason}</title></head>\n\
         <body><h1>{status} {reason}</h1>\n<p>{text}</p>\n<hr><p>Tinaja</p></body></html>\n"
    )
}

/// The head of a page, for clients whose answers are framed elsewhere.
///
/// Errors: none, as all of it is ours; the type is that of setting fields.
pub(crate) fn head(failure: &Failure, length: usize) -> Result<ResponseHead, BadField> {
    let mut head = ResponseHead::new(StatusCode::from_u16(failure.status())?);
    head.headers.insert(header::CONTENT_TYPE, CONTENT_TYPE)?;
    head.headers.insert(header::CONTENT_LENGTH, length)?;
    head.headers.insert(header::CACHE_CONTROL, "no-store")?;
    if let Some((name, value)) = more(failure) {
        head.headers.insert(name, &*value)?;
    }
    Ok(head)
}

/// The head of a text that says that something was done.
///
/// Errors: as [`head`]'s.
pub(crate) fn text_head(status: u16, length: usize) -> Result<ResponseHead, BadField> {
    let mut head = ResponseHead::new(StatusCode::from_u16(status)?);
    head.headers.insert(header::CONTENT_TYPE, TEXT)?;
    head.headers.insert(header::CONTENT_LENGTH, length)?;
    head.headers.insert(header::CACHE_CONTROL, "no-store")?;
    Ok(head)
}

/// Fields that some pages have: why a head was refused, and what 405 must say (RFC 9110 15.5.6).
fn more(failure: &Failure) -> Option<(HeaderName, Cow<'static, str>)> {
    match failure {
        Failure::Refused(refusal) => Some((X_REFUSAL, refusal.name().into())),
        Failure::NoTunnels | Failure::NoConnect => Some((header::ALLOW, ALLOWED.into())),
        Failure::TooManyOfClient | Failure::TooManyConnections => Some((header::RETRY_AFTER, "1".into())),
        Failure::TooMuchOfClient(over) => Some((header::RETRY_AFTER, over.retry_seconds.to_string().into())),
        _ => None,
    }
}

/// A whole answer as bytes, for a connection that is closed behind it.
pub(crate) fn raw_answer(failure: &Failure, id: Option<&RequestId>, with_body: bool) -> Vec<u8> {
    raw_answer_with(failure, failure.reason(), id, with_body)
}

/// The same with another reason than clients are told usually.
pub(crate) fn raw_answer_with(failure: &Failure, told: Reason, id: Option<&RequestId>, with_body: bool) -> Vec<u8> {
    let fields = more(failure).map(|(name, value)| format!("{}: {value}\r\n", Usual(&name))).unwrap_or_default();
    let body = page_with(failure, told, id);
    raw(failure.status(), CONTENT_TYPE, &fields, &body, with_body)
}

/// The same for one that says that something was done.
pub(crate) fn raw_text(status: u16, text: &str) -> Vec<u8> {
    raw(status, TEXT, "", text, true)
}

fn raw(status: u16, content_type: &str, more: &str, body: &str, with_body: bool) -> Vec<u8> {
    let reason = reason(status);
    let mut answer = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n{more}\r\n",
        body.len()
    );
    if with_body {
        answer.push_str(body);
    }
    answer.into_bytes()
}

fn reason(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Error")
}

/// Text as it may stand in HTML; control characters become spaces.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_escaped() {
        let failure = Failure::Resolve { host: "inside".into(), error: "x".into() };
        let id = RequestId::Taken("<script>\"'&\u{1b}".into());
        let page = page(&failure, Some(&id));
        assert!(page.contains("<p>Request id: &lt;script&gt;&quot;&#39;&amp; </p>"), "{page}");
        let answer = String::from_utf8(raw_answer(&failure, Some(&id), true)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && answer.ends_with(&page));
        assert!(raw_answer(&failure, None, false).ends_with(b"\r\n\r\n"));
    }
}
