//! What an engine is told of an object beside its bytes, to place it by and to find it by.

use std::time::SystemTime;

use super::Digest;

/// Whether an object is likely to be read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Likely.
    Likely,
    /// Unlikely.
    Unlikely,
}

/// Which object a call is about, and what is known of it. The digest is always there. All else is known to some callers
/// only: an engine that needs it does its best without.
///
/// A file tree by host needs the site, one by URL the URL, groups of pages need the group, an engine that weighs objects against each other the rest.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// What identifies the object in this store.
    pub digest: Digest,
    /// The key's name, empty where it has none or the caller does not know it.
    pub name: &'a [u8],
    /// The URL that it comes from, empty where the caller does not know it.
    pub url: &'a str,
    /// Objects of one group are likely to be asked for together: those of a page, a client or a host.
    pub group: Option<u64>,
    /// The site that it comes from, the same number for all that come from there; what is asked for is mostly asked for with
    /// more from its site.
    pub site: Option<u64>,
    /// Whether it is likely to be read again.
    pub reuse: Reuse,
    /// Until when it may be served without asking its origin, by the wall clock.
    pub fresh_until: Option<SystemTime>,
    /// Whether the origin can say later that it has not changed, so that a stale object is worth keeping.
    pub can_validate: Option<bool>,
    /// The body's length in bytes, as it was announced.
    pub expected_bytes: Option<u64>,
}

impl<'a> Placement<'a> {
    /// An object of which nothing else is known.
    pub fn of(digest: Digest) -> Self {
        Placement {
            digest,
            name: &[],
            url: "",
            group: None,
            site: None,
            reuse: Reuse::Unknown,
            fresh_until: None,
            can_validate: None,
            expected_bytes: None,
        }
    }

    /// The same with its key's name.
    #[must_use]
    pub fn named(self, name: &'a [u8]) -> Self {
        Placement { name, ..self }
    }
}
