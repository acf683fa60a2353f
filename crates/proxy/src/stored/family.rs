//! Which variants a URL has: a small object under the URL itself.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::VARY;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tinaja_http::message::ResponseHead;
use tinaja_http::vary::{self, VariantPlace};
use tinaja_store::Hint;
use tokio::sync::{Mutex, MutexGuard};

use super::facts::Facts;
use super::head::{Kind, StoredHead};
use super::name::Name;
use crate::bans::Tags;
use crate::storage::Storage;

/// The field of a family's head that lists its variants, the one stored last at the end.
const VARIANTS: HeaderName = HeaderName::from_static("variants");

/// In a family's Vary: its variants differ by what a key rule adds to the URL, too. No field of a request.
const ADDED: HeaderName = HeaderName::from_static("tinaja-added");

/// A URL's variants.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// When it was first known; variants of an earlier family of the same URL are none of this one.
    pub began: SystemTime,
    /// The fields that they differ by, as a Vary.
    vary: HeaderMap,
    /// And by what a key rule adds to the URL.
    added: bool,
    known: Vec<[u8; 16]>,
}

/// Which variant a request wants, or is answered with, where answers vary so and a key rule has added this.
fn variant(vary: &HeaderMap, added: Option<[u8; 16]>, request: &HeaderMap) -> Option<[u8; 16]> {
    let Some(added) = added else { return vary::key(vary, request) };
    let by_fields = if vary::fields(vary)?.is_empty() { [0; 16] } else { vary::key(vary, request)? };
    let mut variant = [0; 16];
    blake3::Hasher::new().update(&added).update(&by_fields).finalize_xof().fill(&mut variant);
    Some(variant)
}

impl Family {
    /// The family in a head; `None` if it is not one's.
    pub fn of(head: &StoredHead) -> Option<Family> {
        if head.kind != Kind::Family {
            return None;
        }
        let mut vary = head.fields(|line| line.is(&VARY) || line.is(&VARIANTS))?;
        let known = vary.remove(VARIANTS)?;
        let known = known.to_str().ok()?.split(' ').filter(|variant| !variant.is_empty()).map(from_hex);
        let known = known.collect::<Option<_>>()?;
        let lines = vary.get_all(VARY).iter().filter(|value| *value != ADDED.as_str());
        let fields: HeaderMap = lines.map(|value| (VARY, value.clone())).collect();
        Some(Family { began: head.facts.received, added: fields.len() < vary.len(), vary: fields, known })
    }

    /// How many variants it knows of.
    pub fn variants(&self) -> usize {
        self.known.len()
    }

    /// Whether an answer to this request would be of one Cookie alone.
    pub fn is_of_one_cookie(&self, request: &HeaderMap) -> bool {
        vary::is_of_one_cookie(&self.vary, request)
    }

    /// Which variant a request for this name wants; none if the rules that add to names have changed.
    pub fn variant(&self, name: &Name, request: &HeaderMap) -> Option<[u8; 16]> {
        let added = name.added();
        if added.is_some() == self.added { variant(&self.vary, added, request) } else { None }
    }

    /// Adds a variant; the one that has to make room for it, if any.
    fn add(&mut self, variant: [u8; 16]) -> Option<[u8; 16]> {
        let gone = match vary::place(&self.known, &variant) {
            VariantPlace::New => None,
            VariantPlace::Known(at) => {
                self.known.remove(at);
                None
            }
            VariantPlace::Instead(at) => Some(self.known.remove(at)),
        };
        self.known.push(variant);
        gone
    }

    fn head(&self, name: &Name) -> Option<Bytes> {
        let mut header = ResponseHead::new(StatusCode::OK);
        for value in self.vary.get_all(VARY) {
            header.headers.append(VARY, value.clone()).ok()?;
        }
        if self.added {
            header.headers.append(VARY, HeaderValue::from(ADDED)).ok()?;
        }
        let known: Vec<String> = self.known.iter().map(to_hex).collect();
        header.headers.insert(VARIANTS, known.join(" ")).ok()?;
        // Its variants have stamps of their own.
        let facts = Facts { family: self.began, ..Facts::bare(self.began) };
        StoredHead::encode(Kind::Family, &facts, name.primary(), &Tags::default(), &header)
    }
}

/// How long an answer waits until its variant is noted; it then passes without being stored. Usually this takes no time
/// that could be felt, and where the disk stalls no client is to wait for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Families are changed under one of so many locks, so that one URL on a disk that stalls holds up few others.
const LOCKS: usize = 64;

/// Changes families, each by one at a time: two answers that come at once must both be in.
#[derive(Debug)]
pub(crate) struct Families([Mutex<()>; LOCKS]);

impl Default for Families {
    fn default() -> Families {
        Families(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Families {
    /// Notes that a variant of `name` is about to be stored, for requests that this one is like. The family's beginning
    /// and the variant; `None` where neither the response varies nor a rule adds anything to its name, or the family could not be kept, in time.
    /// Where `was_removed` says that the URL was purged since it was asked for, nothing is noted: what is purged would come back. Purges have a
    /// turn, too, so that none comes in between.
    ///
    /// Each variant writes its family anew. So a log that evicts in its order never evicts the family before it.
    pub async fn join(
        &self,
        store: &Storage,
        name: &Name,
        (response, request): (&HeaderMap, &HeaderMap),
        was_removed: impl Fn() -> bool,
    ) -> Option<(SystemTime, [u8; 16])> {
        let variant = variant(response, name.added(), request)?;
        let names = vary::fields(response)?;
        let joined = async {
            let _turn = self.turn(name).await?;
            if was_removed() { None } else { join_as(store, name, variant, &names).await }
        };
        store.clock().timeout(PATIENCE, joined).await.unwrap_or_else(|_| {
            tracing::debug!("the disk was too slow to note a variant, which passes without being stored");
            None
        })
    }

    /// Waits until nobody else changes what says how a URL's objects hang together.
    pub async fn turn(&self, name: &Name) -> Option<MutexGuard<'_, ()>> {
        let [first, ..] = *name.place().digest();
        Some(self.0.get(usize::from(first) % LOCKS)?.lock().await)
    }
}

/// Does it, in a turn.
async fn join_as(
    store: &Storage,
    name: &Name,
    variant: [u8; 16],
    names: &[HeaderName],
) -> Option<(SystemTime, [u8; 16])> {
    let before = store.find(&name.place()).await.and_then(|hit| StoredHead::decode(&hit.head));
    let before = before.filter(|head| head.belongs_to(name.primary())).and_then(|head| Family::of(&head));
    // An origin that varies by other fields now has other variants.
    let added = name.added().is_some();
    let same = before.filter(|family| family.added == added && vary::fields(&family.vary).as_deref() == Some(names));
    let mut family = same.unwrap_or_else(|| Family {
        began: store.clock().wall(),
        vary: names.iter().map(|name| (VARY, name.clone().into())).collect(),
        added,
        known: Vec::new(),
    });
    if let Some(gone) = family.add(variant)
        && let Err(error) = store.remove(&name.variant_place(&gone)).await
    {
        tracing::warn!("a variant that had to make room was not removed: {error}");
    }
    let head = family.head(name)?;
    let began = StoredHead::decode(&head)?.facts.received;
    let hint = Hint { expected_bytes: Some(0), ..Hint::default() };
    let writer = name.put(&**store, &name.place(), head, hint);
    match writer.commit().await {
        tinaja_store::Commit::Stored { .. } => Some((began, variant)),
        tinaja_store::Commit::NotStored(why) => {
            tracing::debug!("a URL's variants are not stored: {why}");
            None
        }
    }
}

fn to_hex(variant: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*variant))
}

fn from_hex(text: &str) -> Option<[u8; 16]> {
    (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}
