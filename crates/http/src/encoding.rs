//! Codings of content that a cache makes itself: for which responses, what of a head changes, and which one a client wants
//! (RFC 9110 8.4 and 12.5.3).
//!
//! An encoded response is another representation of the same resource. So it has an entity tag of its own, which is the origin's made
//! weak, with the coding behind it: the content means the same, and the bytes differ (8.8.1). And all representations say that they vary by Accept-Encoding.

pub mod tags;

use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_RANGE, RANGE, SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderName, StatusCode};

use crate::accept::codings;
use crate::conditional::EntityTag;
use crate::control::{CacheControl, Scope};
use crate::lines::lines;
use crate::words::list_members;

/// A coding of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// `gzip` (RFC 1952).
    Gzip = 1,
    /// `br` (RFC 7932).
    Br = 2,
    /// `zstd` (RFC 8878).
    Zstd = 3,
}

impl Coding {
    /// All of them.
    pub const ALL: [Coding; 3] = [Coding::Gzip, Coding::Br, Coding::Zstd];

    /// Its name in fields and settings.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Br => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// The coding with this number.
    pub fn of(number: u8) -> Option<Coding> {
        Coding::ALL.into_iter().find(|coding| *coding as u8 == number)
    }
}

/// Some codings, each once, the best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codings([Option<Coding>; Coding::ALL.len()]);

impl Codings {
    /// None.
    pub const NONE: Codings = Codings([None; Coding::ALL.len()]);

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Those that there are, the best first.
    pub fn iter(&self) -> impl Iterator<Item = Coding> + use<> {
        self.0.into_iter().flatten()
    }
}

impl FromIterator<Coding> for Codings {
    /// One that comes again counts where it came first.
    fn from_iter<I: IntoIterator<Item = Coding>>(all: I) -> Codings {
        let mut codings = Codings::NONE;
        for coding in all {
            let known = codings.iter().any(|other| other == coding);
            if let (false, Some(free)) = (known, codings.0.iter_mut().find(|place| place.is_none())) {
                *free = Some(coding);
            }
        }
        codings
    }
}

/// Fields that say what the bytes of a response are: with other bytes they would be wrong, and without them nobody could check.
static OF_BYTES: [HeaderName; 6] = [
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("signature"),
    HeaderName::from_static("signature-input"),
];

/// Whether a response may be sent encoded: a whole 200 of text that is in no coding yet, and that nobody wants to stay as it is. If it is
/// `typed`, any type will do.
pub fn may_encode(status: StatusCode, response: &HeaderMap, typed: bool) -> bool {
    let as_it_is = [CONTENT_ENCODING, CONTENT_RANGE, SET_COOKIE];
    let may_change = || {
        let control = CacheControl::of(response);
        !control.has("no-transform") && control.scope("private") != Scope::All
    };
    status == StatusCode::OK
        && is_type(response, typed)
        && !as_it_is.iter().chain(&OF_BYTES).any(|name| response.contains_key(name))
        && may_change()
}

/// Whether the media type, which must come once, is text, or is `typed`.
fn is_type(response: &HeaderMap, typed: bool) -> bool {
    let mut all = response.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return false };
    let Ok(value) = value.to_str() else { return false };
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // Its parts have heads of their own.
    !media_type.starts_with("multipart/") && (typed || is_text(&media_type))
}

/// Whether responses of this type usually shrink by half or more.
fn is_text(media_type: &str) -> bool {
    let Some((kind, name)) = media_type.split_once('/') else { return false };
    match kind {
        // Events are sent one by one, and are to come at once.
        "text" => name != "event-stream",
        "image" => matches!(name, "svg+xml" | "bmp" | "x-icon" | "vnd.microsoft.icon"),
        "font" => matches!(name, "ttf" | "otf" | "collection"),
        "application" => {
            ["+json", "+xml"].iter().any(|end| name.ends_with(end))
                || matches!(
                    name,
                    "json"
                        | "javascript"
                        | "x-javascript"
                        | "ecmascript"
                        | "xml"
                        | "xml-dtd"
                        | "wasm"
                        | "manifest"
                        | "x-ndjson"
                        | "graphql"
                        | "toml"
                        | "yaml"
                        | "x-yaml"
                        | "rtf"
                        | "sql"
                        | "vnd.ms-fontobject"
                        | "x-font-ttf"
                )
        }
        "model" => matches!(name, "gltf-binary" | "obj" | "stl"),
        _ => false,
    }
}

/// Which of the codings that are `offered` a client takes, the one that it wants most first. None where it wants the bytes as they are:
/// it names no coding, it likes `identity` better, or it says `no-transform`. An Accept-Encoding that is malformed names none.
pub fn wanted(request: &HeaderMap, offered: &Codings) -> Codings {
    let mut lines = request.get_all(ACCEPT_ENCODING).iter();
    let Some(first) = lines.next() else { return Codings::NONE };
    let mut value = first.as_bytes().to_ascii_lowercase();
    for line in lines {
        value.extend_from_slice(b",");
        value.extend_from_slice(&line.as_bytes().to_ascii_lowercase());
    }
    if request.contains_key(CACHE_CONTROL) && CacheControl::of(request).has("no-transform") {
        return Codings::NONE;
    }
    let Some(named) = codings(&value) else { return Codings::NONE };
    let weight = |name: &str| named.iter().find(|(coding, _)| *coding == name).map(|(_, weight)| *weight);
    let any = weight("*");
    // What is not named is no better than what is, except where `*` says so.
    let least = weight("identity").unwrap_or(0).max(1);
    let mut taken: Vec<(u16, Coding)> = offered
        .iter()
        .map(|coding| (weight(coding.name()).or(any).unwrap_or(0), coding))
        .filter(|(weight, _)| *weight >= least)
        .collect();
    // Those of one weight stay in their order.
    taken.sort_by(|(one, _), (other, _)| other.cmp(one));
    taken.into_iter().map(|(_, coding)| coding).collect()
}

/// Whether a request for a part must get the whole, lest a client put a part of the bytes as they are to the beginning of others: it has
/// only a date for both, which does not tell them apart.
pub fn may_mix(request: &HeaderMap) -> bool {
    let by_tag = |value: &http::HeaderValue| EntityTag::parse(value.as_bytes()).is_some();
    request.contains_key(RANGE) && request.get(IF_RANGE).is_some_and(|value| !by_tag(value))
}

/// Whether a response says already that it varies by Accept-Encoding, or by everything.
pub fn varies(response: &HeaderMap) -> bool {
    list_members(response, &VARY).any(|member| member == "*" || member.eq_ignore_ascii_case(ACCEPT_ENCODING.as_str()))
}

/// A stored head as it is sent: the status line and header lines of a response that may be sent encoded, and is, or is not. The length of what
/// is encoded is for the caller to add.
pub fn sent_as(wire: &[u8], coding: Option<Coding>) -> Vec<u8> {
    let mut sent = Vec::with_capacity(wire.len() + 64);
    let status_line = wire.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    sent.extend_from_slice(wire.get(..status_line).unwrap_or_default());
    let mut varies = false;
    for line in lines(wire.get(status_line..).unwrap_or_default()) {
        if line.is(&VARY) {
            varies |= line.value.split(|byte| *byte == b',').any(|member| {
                let member = member.trim_ascii();
                member == b"*" || member.eq_ignore_ascii_case(ACCEPT_ENCODING.as_str().as_bytes())
            });
        }
        let of_identity = [CONTENT_LENGTH, ACCEPT_RANGES].iter().any(|name| line.is(name));
        match coding {
            Some(_) if of_identity => {}
            Some(coding) if line.is(&ETAG) => {
                // What is no tag could not be made weak.
                if let Some(tag) = tags::form_tag(line.value, coding) {
                    sent.extend_from_slice(b"ETag: ");
                    sent.extend_from_slice(&tag);
                    sent.extend_from_slice(b"\r\n");
                }
            }
            _ => sent.extend_from_slice(line.whole),
        }
    }
    if let Some(coding) = coding {
        sent.extend_from_slice(b"Content-Encoding: ");
        sent.extend_from_slice(coding.name().as_bytes());
        sent.extend_from_slice(b"\r\n");
    }
    if !varies {
        sent.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
    sent
}

#[cfg(test)]
#[path = "encoding_tests.rs"]
mod tests;
