//! Objects that were found, and parts of large ones.

use std::fmt;

use bytes::Bytes;

use super::Step;
use crate::engine::{self, Engine, Fetched};
use crate::layout::table::{Extent, Table};
use crate::terms::Digest;
use crate::terms::limits::{MAX_REQUEST_BYTES, TOGETHER_BYTES};

/// An object, verified: its head, and its body or where the parts of its body lie. Memory: head and body of a small one;
/// of a large one 16 bytes for each of its parts, which are 256 KiB each in all but small caches.
#[derive(Clone)]
pub struct Object {
    head: Bytes,
    body: Body,
}

#[derive(Clone)]
enum Body {
    Whole(Bytes),
    Large(Digest, Table),
}

/// Bytes of a large object, verified, in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    at: u64,
    bytes: Vec<Bytes>,
}

impl Part {
    pub(super) fn new(at: u64, bytes: Vec<Bytes>) -> Self {
        Part { at, bytes }
    }

    /// Where in the body they begin: at the byte that was asked for, or before it.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The bytes, in pieces.
    pub fn bytes(&self) -> &[Bytes] {
        &self.bytes
    }

    /// How many bytes there are.
    pub fn length(&self) -> u64 {
        self.bytes.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl Object {
    pub(super) fn whole(head: Bytes, body: Bytes) -> Self {
        Object { head, body: Body::Whole(body) }
    }

    pub(super) fn large(head: Bytes, digest: Digest, table: Table) -> Self {
        Object { head, body: Body::Large(digest, table) }
    }

    /// Its head, as it was stored.
    pub fn head(&self) -> &Bytes {
        &self.head
    }

    /// The length of its body in bytes.
    pub fn length(&self) -> u64 {
        match &self.body {
            Body::Whole(body) => body.len() as u64,
            Body::Large(_, table) => table.body_bytes(),
        }
    }

    /// Its body, if it came with the head; else [`super::Index::part`] has it.
    pub fn body(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Whole(body) => Some(body),
            Body::Large(..) => None,
        }
    }

    /// What of its body came with the head: all of it, or its beginning, or nothing.
    pub(super) fn beginning(&self) -> &Bytes {
        match &self.body {
            Body::Whole(body) => body,
            Body::Large(_, table) => &table.first,
        }
    }

    /// What to ask the engine for to get the bytes from `at` on.
    pub(super) fn parts_from(&self, at: u64, engine: &dyn Engine) -> Option<(PartsSought, Vec<engine::Part>)> {
        let Body::Large(digest, table) = &self.body else { return None };
        let each = u64::from(table.extent_bytes).max(1);
        let begun = table.first.len() as u64;
        let first = at.checked_sub(begun)? / each;
        let wanted = (TOGETHER_BYTES as u64).div_ceil(each).max(1) as usize;
        let part = |extent: &Extent| engine::Part { place: extent.place, body_bytes: extent.bytes as usize };
        let mut parts: Vec<_> = table.extents.iter().skip(first as usize).take(wanted).map(part).collect();
        parts.truncate(engine.together(&parts, MAX_REQUEST_BYTES).parts);
        let lengths = parts.iter().map(|part| part.body_bytes).collect();
        (!parts.is_empty()).then_some((PartsSought { digest: *digest, at: begun + first * each, lengths }, parts))
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} bytes of head, {} of body)", self.head.len(), self.length())
    }
}

/// Parts that are looked for.
pub(super) struct PartsSought {
    digest: Digest,
    at: u64,
    lengths: Vec<usize>,
}

impl PartsSought {
    pub(super) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The parts up to the first that is not as it was written; if that is the first of all, a miss.
    pub(super) fn judge(self, fetched: Option<Vec<Fetched>>) -> Step {
        let found = fetched.unwrap_or_default().into_iter().zip(self.lengths).map_while(|(fetched, length)| {
            let Fetched::Record(found) = fetched else { return None };
            (found.body.len() == length).then_some(found.body)
        });
        let bytes: Vec<_> = found.collect();
        if bytes.is_empty() { Step::Missing } else { Step::Part(Part::new(self.at, bytes)) }
    }
}
