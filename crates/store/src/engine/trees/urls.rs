//! Where an object lies whose directories are the components of its URL (section 2.3.1).
//!
//! The one naming with bytes of clients in its paths. They are escaped: a component is never empty, `.`, `..` or too long, and has no byte that
//! means something in paths or in names of ours, which all have a comma.

use std::collections::HashMap;
use std::sync::Arc;

use super::limits::{MAX_COMPONENT_BYTES, MAX_COMPONENTS, MAX_LISTED};
use crate::terms::{Digest, Key};

/// What lies at a URL without an end: `http://a.test/`.
const INDEX: &str = ",index";
/// The scheme of what has none, and of what has no URL at all.
const NO_SCHEME: &str = ",none";
const NO_URL: &str = ",digest";

/// Where an object belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its directory beneath the root.
    pub directory: String,
    /// What it is called there, before the comma.
    pub name: String,
}

impl Address {
    /// Of a URL: the scheme, the host and each part of the path are a directory each, and the last part, with the query, is the name. Of a
    /// path with more parts than 12 the last name takes the rest.
    pub fn of_url(url: &str) -> Address {
        let (scheme, rest) =
            url.split_once("://").map_or((NO_SCHEME.to_owned(), url), |(scheme, rest)| (component(scheme), rest));
        let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let mut parts: Vec<&str> = path.splitn(MAX_COMPONENTS, '/').collect();
        let last = parts.pop().unwrap_or_default();
        let name = component(&format!("{last}{query}"));
        let parts: Vec<String> = [scheme].into_iter().chain(parts.into_iter().map(component)).collect();
        Address { directory: parts.join("/"), name }
    }

    /// Of a key's name, if that is a URL.
    pub(super) fn of_name(name: &[u8]) -> Option<Address> {
        std::str::from_utf8(name).ok().filter(|name| name.contains("://")).map(Address::of_url)
    }

    /// Of what has no URL.
    pub(super) fn of_digest(digest: &Digest) -> Address {
        let hex = format!("{:032x}", u128::from_le_bytes(digest.0));
        let (first, rest) = hex.split_at(2);
        Address { directory: format!("{NO_URL}/{first}"), name: rest.to_owned() }
    }
}

/// One component as a name that no file system takes for anything else.
fn component(part: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b'.');
    let mut name = String::with_capacity(part.len() + 1);
    for (at, byte) in part.bytes().enumerate() {
        if is_plain(byte) && !(at == 0 && byte == b'.') {
            name.push(byte.into());
        } else {
            name += &format!("%{byte:02X}");
        }
    }
    if name.len() > MAX_COMPONENT_BYTES {
        let hash = Key::from_name(part.as_bytes());
        name.truncate(MAX_COMPONENT_BYTES);
        name += &format!(",{:032x}", u128::from_be_bytes(*hash.digest()));
    }
    if name.is_empty() { INDEX.to_owned() } else { name }
}

/// Where an object's file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// Its directory; those in one directory share it.
    pub directory: Arc<str>,
    name: Box<str>,
    /// When it expires, in seconds since 1970 by the wall clock; 0 where nobody said.
    pub expires: u64,
}

impl Named {
    /// Where its object belongs, whether it found room there or beside.
    pub fn address(&self) -> Address {
        Address { directory: beside(&self.directory).0.to_owned(), name: self.name.to_string() }
    }

    /// Its name in its directory.
    pub fn file_name(&self, number: u32) -> String {
        format!("{},{number:08X}", self.name)
    }

    /// Its path beneath the root. A number in it parts versions of one object.
    pub fn path(&self, number: u32) -> String {
        format!("{}/{}", self.directory, self.file_name(number))
    }
}

/// What a path says: the directory, the object's name and the file's number. `None` for what is no object's.
pub(super) fn parsed(path: &str) -> Option<(&str, &str, u32)> {
    let (directory, file) = path.rsplit_once('/')?;
    let (name, number) = file.rsplit_once(',')?;
    let is_ours = number.len() == 8 && number.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    Some((directory, name, u32::from_str_radix(number, 16).ok().filter(|_| is_ours && !name.is_empty())?))
}

/// A directory that stands beside another one which is full, as that one and its number; 0 is the directory itself.
fn beside(directory: &str) -> (&str, u32) {
    let number = directory.rsplit_once(',').filter(|(_, number)| (1..=10).contains(&number.len()));
    let parsed = number.and_then(|(own, number)| Some((own, number.parse().ok().filter(|number| *number > 0)?)));
    parsed.unwrap_or((directory, 0))
}

/// The files of such a tree by their numbers. Memory: each name, and each directory's once, with 100 bytes beside.
#[derive(Default)]
pub(super) struct Urls {
    named: HashMap<u32, Named>,
    /// Files in each directory.
    counts: HashMap<Arc<str>, usize>,
    /// Of directories that are full or were, the number of the first one beside them that may have room.
    room: HashMap<String, u32>,
    bytes: u64,
}

impl Urls {
    /// A file of this number at an address, or, where that directory has as many as a list may name, in the next one beside it.
    pub fn add(&mut self, number: u32, address: Address, expires: u64) {
        let Address { directory: own, name } = address;
        let first = self.room.get(&own).copied().unwrap_or(0);
        let mut all =
            (first..=u32::MAX).map(|more| (more, if more == 0 { own.clone() } else { format!("{own},{more}") }));
        let has_room = |directory: &str| self.counts.get(directory).is_none_or(|count| *count < MAX_LISTED);
        let Some((more, directory)) = all.find(|(_, directory)| has_room(directory)) else { return };
        if more > 0 {
            self.room.insert(own, more);
        }
        self.found(number, &directory, &name, expires);
    }

    /// Whether a file's directory has no other one.
    pub fn is_alone(&self, number: u32) -> bool {
        self.named.get(&number).is_none_or(|named| self.count_in(&named.directory) <= 1)
    }

    /// Files that a directory has.
    pub fn count_in(&self, directory: &str) -> usize {
        self.counts.get(directory).copied().unwrap_or_default()
    }

    /// One that is there. `false` if its number is another's.
    pub fn found(&mut self, number: u32, directory: &str, name: &str, expires: u64) -> bool {
        if self.named.contains_key(&number) {
            return false;
        }
        let directory = match self.counts.get_key_value(directory) {
            Some((directory, _)) => directory.clone(),
            None => {
                self.bytes += directory.len() as u64;
                directory.into()
            }
        };
        self.bytes += name.len() as u64;
        *self.counts.entry(directory.clone()).or_default() += 1;
        self.named.insert(number, Named { directory, name: name.into(), expires });
        true
    }

    /// A file, by its number.
    pub fn get(&self, number: u32) -> Option<&Named> {
        self.named.get(&number)
    }

    /// A new head tells when the object expires.
    pub fn expires(&mut self, number: u32, expires: u64) {
        self.named.get_mut(&number).into_iter().for_each(|named| named.expires = expires);
    }

    /// The file is gone.
    pub fn remove(&mut self, number: u32) {
        let Some(Named { directory, name, .. }) = self.named.remove(&number) else { return };
        self.bytes -= name.len() as u64;
        let (own, more) = beside(&directory);
        if let Some(first) = self.room.get_mut(own) {
            *first = more.min(*first);
            if *first == 0 {
                self.room.remove(own);
            }
        }
        if let Some(count) = self.counts.get_mut(&directory) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&directory);
                self.bytes -= directory.len() as u64;
            }
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        let of_maps =
            self.named.capacity() * (size_of::<Named>() + 5) + self.counts.capacity() * (size_of::<Arc<str>>() + 9);
        self.bytes + of_maps as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(url: &str) -> String {
        let Address { directory, name } = Address::of_url(url);
        format!("{directory}/{name}")
    }

    #[test]
    fn a_url_is_its_directories() {
        assert_eq!(path("http://a.test/x/y.gif"), "http/a.test/x/y.gif");
        assert_eq!(path("http://a.test/x/"), "http/a.test/x/,index");
        assert_eq!(path("http://a.test:80/x?u=/b/c"), "http/a.test%3A80/x%3Fu%3D%2Fb%2Fc");
        assert_eq!(path("http://a.test/../../x"), "http/a.test/%2E./%2E./x");
        assert_eq!((path("a/b"), path("://a/b")), (",none/a/b".into(), ",index/a/b".into()));
        let deep = path(&format!("http://a.test/{}", "d/".repeat(4000)));
        assert!(deep.split('/').count() == 13 && deep.len() < 4096, "{deep}");
        assert_eq!(Address::of_digest(&Digest([0xA5; 16])).directory, ",digest/a5");
    }

    #[test]
    fn a_directory_takes_as_many_as_a_list_names() {
        let mut urls = Urls::default();
        let address = Address::of_url("http://a.test/x");
        for number in 0..=2 * MAX_LISTED as u32 {
            urls.add(number, address.clone(), 0);
        }
        let directory = |urls: &Urls, number| urls.get(number).unwrap().directory.to_string();
        assert_eq!(directory(&urls, 0), "http/a.test");
        assert_eq!(directory(&urls, MAX_LISTED as u32), "http/a.test,1");
        assert_eq!(directory(&urls, 2 * MAX_LISTED as u32), "http/a.test,2");
        urls.remove(7);
        urls.add(7, address, 0);
        assert_eq!(directory(&urls, 7), "http/a.test");
        assert_eq!(urls.get(2 * MAX_LISTED as u32).unwrap().address().directory, "http/a.test", "where it belongs");
        (0..=2 * MAX_LISTED as u32).for_each(|number| urls.remove(number));
        assert_eq!((urls.bytes, urls.counts.len(), urls.room.len()), (0, 0, 0));
    }

    proptest! {
        /// Whatever a URL says, it stays beneath the root, two of them share no path, and the path says its number.
        #[test]
        fn no_url_leads_out(urls in prop::collection::hash_set("([a-c]{0,2}://)?([a-c./%,?\u{0}é]{0,6}/?){0,4}", 1..12)) {
            let paths: std::collections::HashSet<String> = urls.iter().map(|url| path(url)).collect();
            prop_assert_eq!(paths.len(), urls.len());
            for path in paths {
                let strange = |part: &str| part.is_empty() || part.starts_with('.') || part.contains('\0');
                prop_assert!(!path.split('/').any(strange), "{}", path);
                let (directory, name) = path.rsplit_once('/').unwrap();
                let named = Named { directory: directory.into(), name: name.into(), expires: 0 };
                let path = named.path(0x2A);
                prop_assert_eq!(parsed(&path), Some((directory, name, 0x2A)));
            }
        }
    }
}
