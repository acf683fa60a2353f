//! What an index says of files, learned while it passes, whether it comes from its source or from the cache.
//!
//! # Decisions
//!
//! - It is learned from the answer on its way to the client, so that nothing is fetched for it, and after a restart the first client that asks
//!   for an index has it learned again. A client that has the index already is told so; the body is read for our sake then.
//! - An index that was read since the start, in this form, and of which nothing was pushed out, is not read again (`table`, marks).
//! - Only what lies below the source's own URL teaches, and what it says counts for this mirror alone: another may have another source for the
//!   same URL, or be for other clients.
//! - Whoever may have a page of his own at a source could name the files of others there. So one index alone may change what it has said
//!   of a file; where another says something else, that file is not checked (`table`).

mod html;
mod index;
mod json;
mod packages;
mod table;
mod unpack;

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};
use tinaja_http::message::ResponseHead;

use self::html::Html;
use self::index::{Index, Said, crate_url};
use self::json::Json;
use self::packages::Packages;
pub(super) use self::table::Table;
use self::table::{Key, State};
use super::location::Place;
use super::sum::{Hash, Sum};
use super::{At, Checking, Kind, Mounted};
use crate::origin::Destination;

/// Bytes of an index that are read at most.
const MOST_BYTES: u64 = 256 << 20;
/// What one index may tell: the largest archives have 70,000 packages. All else that was told is not pushed out by one.
const MOST_TOLD: usize = table::MOST_ENTRIES / 4 * 3;

/// What an index has told of the file that a request is for.
#[derive(Clone, Debug)]
pub(crate) struct Learned {
    table: Arc<Table>,
    key: Key,
    sum: Sum,
}

/// One index on its way.
#[derive(Debug)]
pub(super) struct Learning {
    index: Index,
    teacher: Teacher,
    mark: (Key, u64),
    read: u64,
}

/// Whose index it is.
#[derive(Debug)]
struct Teacher {
    mounted: Arc<Mounted>,
    place: Place,
    owner: u32,
    now: u32,
    left: usize,
    /// It could not be understood, for something else is not known yet.
    is_missing: bool,
}

impl Learned {
    /// Begins to check bytes.
    pub fn check(&self) -> Checking {
        Checking::learned(self.sum, self.clone())
    }

    /// Whether what is stored at a place, by this digest of its name, was found to be right already.
    pub fn is_proved(&self, place: &[u8; 16]) -> bool {
        let known = self.table.find(self.key);
        known == Some((self.sum, State::Proved(number_of(place))))
    }

    /// Whether what is stored is known to be another.
    pub fn is_outdated(&self) -> bool {
        self.table.find(self.key).is_some_and(|(_, state)| state == State::Outdated)
    }

    pub(super) fn prove(&self, place: &[u8; 16]) {
        self.table.judge(self.key, self.sum, Some(number_of(place)));
    }

    /// Notes that what is stored is wrong.
    pub fn disprove(&self) {
        self.table.judge(self.key, self.sum, None);
    }
}

impl Mounted {
    /// What is known of what is at a destination, by the path as a request has it.
    pub(super) fn learned(&self, destination: &Destination, path: &str) -> Option<Learned> {
        self.mirror.kind.filter(|kind| kind.has_sums())?;
        let (table, key) = (self.table.clone(), self.key(destination, &unescaped(path)));
        let (sum, _) = table.find(key)?;
        Some(Learned { table, key, sum })
    }

    fn key(&self, destination: &Destination, path: &[u8]) -> Key {
        let Destination { tls, host, port } = destination;
        let parts = [self.mirror.path.as_bytes(), &[u8::from(*tls)], host.as_bytes(), &port.to_le_bytes(), path];
        self.table.key(&parts)
    }

    /// Where the mark of an index stands.
    fn mark(&self, place: &Place, media_type: &[u8]) -> Key {
        self.table.key(&[b"index", self.mirror.path.as_bytes(), place.path.as_bytes(), media_type])
    }
}

impl Learning {
    /// Begins with an answer, if it is an index that says something new.
    pub fn begin(at: &At, place: &Place, head: &ResponseHead) -> Option<Box<Learning>> {
        let is_plain = head.headers.get(CONTENT_ENCODING).is_none_or(|encoding| encoding == "identity");
        if head.status != StatusCode::OK || !is_plain || !at.is_home {
            return None;
        }
        let media_type = media_type(head.headers.as_map());
        let (mounted, place) = (at.mounted.clone(), place.clone());
        let table = &mounted.table;
        let index = index(mounted.mirror.kind?, &place, &media_type, table)?;
        let said = [ETAG, LAST_MODIFIED].map(|name| head.headers.get(name).map(http::HeaderValue::as_bytes));
        let [etag, modified] = said.map(Option::unwrap_or_default);
        let dl = mounted.downloads.lock().clone().unwrap_or_default();
        let form = table.number(&[etag, modified, dl.as_bytes()]);
        let mark = mounted.mark(&place, media_type.as_bytes());
        // What has its digest in its name is the same each time.
        let is_known_again = at.named.is_some() || !(etag.is_empty() && modified.is_empty());
        if is_known_again && table.is_marked(mark, form) {
            return None;
        }
        let page = place.path.split('?').next().unwrap_or_default();
        let owner = match mounted.mirror.kind {
            // All that is in an archive is its own.
            Some(Kind::Apt) => 0,
            _ => low(table.number(&[b"owner", &unescaped(page)])),
        };
        let now = table.begin();
        let teacher = Teacher { mounted, place, owner, now, left: MOST_TOLD, is_missing: false };
        Some(Box::new(Learning { index, teacher, mark: (mark, form), read: 0 }))
    }

    /// Reads the next piece of its body.
    pub fn push(&mut self, piece: &[u8]) {
        self.read += piece.len() as u64;
        if self.read <= MOST_BYTES {
            let Learning { index, teacher, .. } = self;
            index.push(piece, &mut |said| teacher.take(said));
        }
    }

    /// Its body has come to its end.
    pub fn end(mut self: Box<Self>) {
        let Learning { index, teacher, mark: (mark, form), .. } = &mut *self;
        index.end(&mut |said| teacher.take(said));
        if !teacher.is_missing && !index.is_put_off() {
            teacher.mounted.table.mark(*mark, *form, teacher.now);
        }
    }
}

impl Teacher {
    fn take(&mut self, said: Said<'_>) {
        let home = || self.mounted.mirror.origin.server.destination();
        match said {
            Said::Link(link, sum) => self.link(link, sum),
            Said::File(file, sum) => {
                let prefix = &self.mounted.mirror.origin.prefix;
                let root = self.place.path.split_once("/dists/").map_or(prefix.trim_end_matches('/'), |(root, _)| root);
                let file = file.strip_prefix("./").unwrap_or(file).trim_start_matches('/');
                self.tell(&home(), format!("{root}/{file}").as_bytes(), sum);
            }
            Said::Crate(name, version, hex) => {
                let dl = self.mounted.downloads.lock().clone();
                self.is_missing |= dl.is_none();
                // The file of a crate speaks for that crate.
                let is_own = self.place.path.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(name));
                let url = dl.filter(|_| is_own).and_then(|dl| crate_url(&dl, name, version, hex));
                if let (Some(url), Some(sum)) = (url, Sum::hex(Hash::Sha256, hex)) {
                    self.link(&url, sum);
                }
            }
            Said::Downloads(dl) => *self.mounted.downloads.lock() = Some(dl.to_owned()),
        }
    }

    fn link(&mut self, link: &str, sum: Sum) {
        if let Some(Place { destination, path, .. }) = self.place.follow(link.as_bytes()) {
            self.tell(&destination, &unescaped(&path), sum);
        }
    }

    fn tell(&mut self, destination: &Destination, path: &[u8], sum: Sum) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            let key = self.mounted.key(destination, path);
            self.mounted.table.tell(key, sum, self.owner, self.now);
        }
    }
}

impl Kind {
    /// Whether its indexes say digests that are read here. Container registries have them in names; Go has a checksum database, and
    /// Maven a file beside each file.
    fn has_sums(self) -> bool {
        matches!(self, Kind::Pip | Kind::Npm | Kind::Cargo | Kind::Apt)
    }

    /// Whether a path is that of an index whose body is not changed on its way, though it is to be learned.
    pub(super) fn is_plain_index(self, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        let is_packages = last.starts_with("Packages") && !path.contains(".diff/");
        self == Kind::Apt && (is_packages || path.contains("/binary-") && path.contains("/by-hash/"))
    }
}

/// What reads such an answer.
fn index(kind: Kind, place: &Place, media_type: &str, table: &Table) -> Option<Index> {
    let path = place.path.split('?').next().unwrap_or_default();
    let is_json = media_type == "application/json" || media_type.ends_with("+json");
    match kind {
        Kind::Pip if is_json => Some(Index::project()),
        Kind::Pip if media_type == "text/html" || media_type.ends_with("+html") => Some(Index::Page(Html::default())),
        Kind::Npm if is_json => Some(Index::document()),
        Kind::Cargo if path.ends_with("/config.json") => Some(Index::Config(Json::default())),
        // Static servers know no type for them.
        Kind::Cargo if !path.ends_with("/download") && !path.ends_with(".crate") => Some(Index::crates()),
        Kind::Apt if kind.is_plain_index(path) => Some(Index::Packages(Packages::new(table.windows()))),
        _ => None,
    }
}

fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A path without escapes, for clients escape what sources do not; the query stays as it is.
fn unescaped(path: &str) -> Vec<u8> {
    let (plain, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), plain.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high << 4 | low).unwrap_or_default());
                rest = after.get(2..).unwrap_or_default();
            }
            _ => bytes.push(*byte),
        }
    }
    bytes.extend_from_slice(query.as_bytes());
    bytes
}

fn low(number: u64) -> u32 {
    u32::try_from(number & 0xffff_ffff).unwrap_or_default()
}

/// What tells one place from another: variants of a URL stand at several.
fn number_of(place: &[u8; 16]) -> u32 {
    place.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
