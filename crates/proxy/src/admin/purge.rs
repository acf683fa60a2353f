//! Forgetting what is stored under a URL.
//!
//! Variants are found through the family under the URL itself: with that gone none of them is found, and the next family
//! knows none of them. So one removal forgets them all.
//!
//! A running server goes by its listeners' routes. Of a stopped cache every object is looked at: a reverse proxy's keys name
//! the origin, which a URL does not, and without the configuration only the objects can tell.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use tinaja_http::authority::Authority;
use tinaja_http::judge::{Target, judge};
use tinaja_store::{Cursor, Key, Removed, Store, StoreError};

use crate::bans::Bans;
use crate::config::{Listener, Mode};
use crate::mirrors::is_mirrors;
use crate::origin::{Destination, default_port};
use crate::stored::{Families, Forms, Name, StoredHead, form_place, is_store_id, keyed, parts_of, site};

/// Objects looked at in one go.
pub(super) const PAGE: usize = 256;

/// An absolute URL, in the form that keys are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    tls: bool,
    authority: Authority,
    path: String,
}

/// A text that is no absolute URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no URL; write it whole, as in http://www.example.org/a.png, with what must be escaped escaped")]
pub struct BadUrl(String);

/// Why an object was not forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurgeError {
    /// The store could not make the removal last, or could not be read.
    #[error("the cache's disk fails, and the object may be back after a restart: {0}")]
    Store(StoreError),
    /// Not all nodes of the cluster have forgotten it.
    #[error(
        "it is forgotten here, and may not be on other nodes of the cluster: {0}. Purge it again in a few seconds; a node that is \
         gone by then validates what it has before it serves it again"
    )]
    Elsewhere(String),
}

impl From<StoreError> for PurgeError {
    fn from(error: StoreError) -> PurgeError {
        match error {
            StoreError::Elsewhere(who) => PurgeError::Elsewhere(who),
            error => PurgeError::Store(error),
        }
    }
}

impl FromStr for Url {
    type Err = BadUrl;

    /// Read as the URL of a request is, so that it becomes the same key.
    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let judged = judge(format!("GET {text} HTTP/1.0\r\n\r\n").as_bytes());
        match judged.map(|judged| (judged.target, judged.authority)) {
            Ok((Target::Absolute { tls, path }, Some(authority))) => Ok(Url { tls, authority, path }),
            _ => Err(BadUrl(text.to_owned())),
        }
    }
}

impl Url {
    fn destination(&self) -> Destination {
        Destination::of(self.tls, &self.authority)
    }

    /// What names the site in the keys of a reverse proxy, where its clients came by plain HTTP, and by TLS.
    fn sites(&self) -> [String; 2] {
        let host = self.authority.host_field(default_port(self.tls));
        [site(false, &host), site(true, &host)]
    }

    /// Every key under which these listeners may have stored it.
    fn keys(&self, listeners: &[Arc<Listener>]) -> Vec<Name> {
        let mut keys = vec![Name::of(&self.destination(), "", &self.path)];
        let mut add = |key: Name| {
            if !keys.contains(&key) {
                keys.push(key);
            }
        };
        for listener in listeners {
            // A mirror's object by both of its URLs: at this proxy, whatever it is called, and at the source.
            if let Some(Ok(aim)) = listener.mirrors.find(&self.path) {
                add(Name::of(&aim.destination, &aim.at.site(), &aim.path));
            }
            for site in listener.mirrors.sites() {
                add(Name::of(&self.destination(), site, &self.path));
            }
            for key in self.keyed(listener) {
                add(key);
            }
            let Mode::Reverse(routes) = &listener.mode else { continue };
            let behind = routes.find(Some(self.authority.host()), &self.path);
            if let Some(destination) = behind.ok().and_then(|behind| behind.upstream.destination()) {
                for site in self.sites() {
                    add(Name::of(&destination, &site, &self.path));
                }
            }
        }
        keys
    }

    /// The keys that a key rule makes of it.
    fn keyed(&self, listener: &Listener) -> Vec<Name> {
        let keyed = match &listener.mode {
            Mode::Forward | Mode::Transparent(_) => keyed(listener, &self.destination(), &self.authority, &self.path),
            Mode::Reverse(routes) => {
                let behind = routes.find(Some(self.authority.host()), &self.path);
                let Some(destination) = behind.ok().and_then(|behind| behind.upstream.destination()) else {
                    return Vec::new();
                };
                // Behind something that ends TLS for it, its clients' port is that of https all the same.
                let authority = Authority::parse(self.authority.host_field(default_port(self.tls)).as_bytes());
                authority.map_or(Ok(None), |authority| keyed(listener, &destination, &authority, &self.path))
            }
        };
        let Ok(Some(keyed)) = keyed else { return Vec::new() };
        [false, true].map(|tls| keyed.name(&listener.mode, tls)).into()
    }

    /// Whether a stored object's primary key is this URL's, whichever origin a reverse proxy had it from.
    fn is_of(&self, primary: &[u8]) -> bool {
        let Some(parts) = parts_of(primary) else { return false };
        if parts.path != self.path {
            return false;
        }
        match parts.site {
            "" => Name::of(&self.destination(), "", &self.path).primary() == primary,
            site if is_mirrors(site) || is_store_id(site) => {
                Name::of(&self.destination(), site, &self.path).primary() == primary
            }
            site => self.sites().iter().any(|its| its == site),
        }
    }
}

/// Forgets what is stored under one name, and what is on its way there. Whether there was something.
///
/// Errors: [`PurgeError`].
pub(crate) async fn purge_name(
    store: &Arc<dyn Store>,
    (bans, families): (&Bans, &Families),
    name: &Name,
) -> Result<bool, PurgeError> {
    let place = name.place();
    // Who changes a list has read it before, and would put back what is removed in between.
    let _turn = families.turn(name).await;
    bans.note_removal(&place);
    remove(store, name, &place).await
}

async fn remove(store: &Arc<dyn Store>, name: &Name, place: &Key) -> Result<bool, PurgeError> {
    let found = store.find(place).await;
    let head = found.and_then(|hit| StoredHead::decode(&hit.head)).filter(|head| head.belongs_to(name.primary()));
    let there = head.is_some();
    let removed = store.remove(place).await?;
    if let Some(head) = head
        && let Some(forms) = Forms::of(&head)
    {
        // Nothing finds them any more. Their bytes need not stay.
        for coding in forms.codings.iter() {
            store.remove(&form_place(store, name, (&head.facts, &forms), coding)).await?;
        }
    }
    Ok(there || removed == Removed::Elsewhere)
}

/// Forgets a URL in a cache that these listeners fill. How many objects there were.
///
/// Errors: [`PurgeError`].
pub(crate) async fn purge(
    store: &Arc<dyn Store>,
    (bans, families): (&Bans, &Families),
    listeners: &[Arc<Listener>],
    url: &Url,
) -> Result<u64, PurgeError> {
    let (mut objects, mut failed) = (0, None);
    for key in url.keys(listeners) {
        // One that fails keeps nobody from removing the others.
        match purge_name(store, (bans, families), &key).await {
            Ok(there) => objects += u64::from(there),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(objects), Err)
}

/// Forgets a URL in a cache that no server runs on, whatever listeners filled it: every object is looked at. How many
/// there were.
///
/// Errors: [`PurgeError`].
pub async fn purge_stopped(store: &Arc<dyn Store>, url: &Url) -> Result<u64, PurgeError> {
    let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut from = Some(Cursor::default());
    while let Some(cursor) = from {
        let page = store.scan(cursor, PAGE).await?;
        keys.extend(page.entries.iter().filter_map(|entry| {
            let head = StoredHead::decode(&entry.head)?;
            url.is_of(head.primary()).then(|| head.primary().to_vec())
        }));
        from = page.next;
    }
    let mut objects = 0;
    for key in keys {
        let name = Name::from_primary(&key);
        objects += u64::from(remove(store, &name, &name.place()).await?);
    }
    Ok(objects)
}

#[cfg(test)]
#[path = "purge_tests.rs"]
mod tests;
