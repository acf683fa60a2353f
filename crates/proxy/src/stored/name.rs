//! The name under which an answer is stored.

use std::sync::Arc;

use bytes::Bytes;
use tinaja_http::authority::Authority;
use tinaja_http::key::{join, split};
use tinaja_store::{Hint, Key, Store, Writer};

use crate::bans::Subject;
use crate::config::Mode;
use crate::mirrors::is_mirrors;
use crate::origin::{Destination, default_port};

/// The name of what is at a URL: scheme, host, port, and path with query, by their exact bytes. A reverse proxy's names
/// the origin and, for it may serve many sites, the Host.
///
/// Listeners of one kind share what is stored, for the same name means the same request to the same origin; a transparent proxy is
/// of a forward one's kind. A forward and a reverse proxy do not: the origins of the latter are told whom it speaks for, and may answer accordingly. They are
/// also told whether the client came by TLS (X-Forwarded-Proto), and many redirect clients without it. With one answer for
/// both, a client would be redirected in a circle; so a reverse proxy's names say that too.
///
/// Each part is written with its length ([`join`]), so that no delimiter inside one can make two requests look alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    primary: Arc<[u8]>,
    /// Where [`Name::place`] is, which each request asks for several times.
    place: [u8; 16],
    /// What a key rule adds of a request: it tells variants of this name apart.
    added: Option<[u8; 16]>,
}

impl Name {
    /// The name with these bytes, which another [`Name::primary`] was.
    pub fn from_primary(primary: &[u8]) -> Name {
        Name { primary: primary.into(), place: digest(primary, &[]), added: None }
    }

    /// The same name, of whose variants this is added to the request.
    pub fn with(self, added: Option<[u8; 16]>) -> Name {
        Name { added, ..self }
    }

    /// What was added.
    pub fn added(&self) -> Option<[u8; 16]> {
        self.added
    }

    /// The bytes that every head of this name holds.
    pub fn primary(&self) -> &[u8] {
        &self.primary
    }

    /// What stands for the site it comes from, the same number after every restart: its host, and for a reverse proxy whom it
    /// speaks for.
    fn site(&self) -> Option<u64> {
        let Parts { host, site, .. } = parts_of(&self.primary)?;
        let number = blake3::hash(&join(&[host, site]));
        number.as_bytes().first_chunk().map(|first| u64::from_le_bytes(*first))
    }

    /// The URL that a client would ask for, as far as the name says it; empty where it is none of ours.
    fn url(&self) -> String {
        let Some(Parts { scheme, host, port, site, path }) = parts_of(&self.primary) else { return String::new() };
        match site {
            "" => [scheme, "://", host, ":", port, path].concat(),
            _ if is_store_id(site) => [scheme, "://", host, ":", port, path].concat(),
            _ if site.contains("://") => [site, path].concat(),
            _ => ["http://", site, path].concat(),
        }
    }

    /// What bans see of it: the URL that a client would ask for, or that of a mirror's source. Nothing where it is none of ours.
    pub fn subject(&self) -> Option<Subject<'_>> {
        let Parts { scheme, host, port, site, path } = parts_of(&self.primary)?;
        if site.is_empty() || is_mirrors(site) || is_store_id(site) {
            let tls = scheme == "https";
            let default = default_port(tls).to_string();
            let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            let url = if port == default { format!("{shown}{path}") } else { format!("{shown}:{port}{path}") };
            return Some(Subject { scheme, host: host.into(), url });
        }
        let (scheme, authority) = site.split_once("://").unwrap_or(("http", site));
        let host =
            Authority::parse(authority.as_bytes()).map_or_else(|_| authority.to_owned(), |it| it.host().to_owned());
        Some(Subject { scheme, host: host.into(), url: format!("{authority}{path}") })
    }

    /// Begins an object of this name at one of its places. A store that goes by where objects come from is told.
    pub fn put(&self, store: &dyn Store, place: &Key, head: Bytes, hint: Hint) -> Writer {
        if !store.goes_by_origin() {
            return store.put(place, head, hint);
        }
        store.put(&place.clone().at_url(&self.url()), head, Hint { site: self.site(), ..hint })
    }

    /// Where the object, or the family of its variants, stands in the store.
    pub fn place(&self) -> Key {
        Key::from_digest(self.place)
    }

    /// Where a variant stands.
    pub fn variant_place(&self, variant: &[u8; 16]) -> Key {
        Key::from_digest(digest(&self.primary, variant))
    }

    /// Where the piece with this mark, of it or of a variant, stands.
    pub fn piece_place(&self, mark: &[u8; 24]) -> Key {
        Key::from_digest(digest(&self.primary, mark))
    }

    /// Where the form with this mark, of it or of a variant, stands.
    pub fn form_place(&self, mark: &[u8; 18]) -> Key {
        Key::from_digest(digest(&self.primary, mark))
    }
}

/// A name ends with the length and the bytes of its last part, so nothing behind it can pass for part of it; and what
/// stands behind it is of another length for each kind of object.
fn digest(primary: &[u8], behind: &[u8]) -> [u8; 16] {
    let mut digest = [0; 16];
    let whole = match behind {
        // One call is cheaper than a hasher, whose state is 2 KiB.
        [] => blake3::hash(primary),
        _ => blake3::Hasher::new().update(primary).update(behind).finalize(),
    };
    digest.copy_from_slice(&whole.as_bytes()[..16]);
    digest
}

/// The name of what is at a path of a destination. `host` is the Host that a client of a reverse proxy asked for, and
/// `tls` whether it came by TLS: origins are told, and many answer otherwise then.
pub(crate) fn name_of(mode: &Mode, destination: &Destination, tls: bool, host: &str, path: &str) -> Name {
    match mode {
        Mode::Forward | Mode::Transparent(_) => Name::of(destination, "", path),
        Mode::Reverse(_) if !tls => Name::of(destination, host, path),
        Mode::Reverse(_) => Name::of(destination, &site(tls, host), path),
    }
}

/// What names the site in a reverse proxy's names. No Host has slashes in it.
pub(crate) fn site(tls: bool, host: &str) -> String {
    if tls { ["https://", host].concat() } else { host.to_owned() }
}

impl Name {
    /// The same; `site` is empty for a forward proxy.
    pub fn of(destination: &Destination, site: &str, path: &str) -> Name {
        let Destination { tls, host, port } = destination;
        let scheme = if *tls { "https" } else { "http" };
        Name::from_primary(&join(&[scheme, host, &port.to_string(), site, path]))
    }
}

/// How the site begins in names of what has a store id. No Host has a slash in it, and no site of a mirror's begins so.
const STORE_ID: &str = "store-id:/";

/// Whether a name's site says that its host is a store id's.
pub(crate) fn is_store_id(site: &str) -> bool {
    site.starts_with(STORE_ID)
}

impl Name {
    /// The name of what is at a path of all hosts with a store id, which `host` stands for; `asked` is the one that was asked for. A forward and
    /// a reverse proxy share nothing, as without one.
    ///
    /// Behind a reverse proxy the port that was asked for counts, for its origins are told it and may write it into their answers. Which of a
    /// listener's origins a host leads to does not matter there. But listeners with other routes may lead one host to other origins, as
    /// a staging site's do, so they share nothing.
    pub fn of_store_id(
        mode: &Mode,
        destination: &Destination,
        tls: bool,
        (host, asked): (&str, &Authority),
        path: &str,
    ) -> Name {
        let named = |tls, port, site: &str| Name::of(&Destination { tls, host: host.to_owned(), port }, site, path);
        match mode {
            Mode::Forward | Mode::Transparent(_) => named(destination.tls, destination.port, "store-id:/forward"),
            Mode::Reverse(routes) => {
                let site = format!("store-id:/reverse/{:016x}", routes.number());
                named(tls, asked.port_or(default_port(tls)), &site)
            }
        }
    }
}

/// What a stored object's primary key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub scheme: &'a str,
    pub host: &'a str,
    pub port: &'a str,
    pub site: &'a str,
    pub path: &'a str,
}

/// Takes a key apart; nothing for what is no key of ours.
pub(crate) fn parts_of(primary: &[u8]) -> Option<Parts<'_>> {
    let [scheme, host, port, site, path] = split(primary)?.map(|part| std::str::from_utf8(part).ok());
    Some(Parts { scheme: scheme?, host: host?, port: port?, site: site?, path: path? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Routes;

    fn key(mode: &Mode, tls: bool, host: &str, port: u16, site: &str, path: &str) -> Vec<u8> {
        name_of(mode, &Destination { tls, host: host.into(), port }, false, site, path).primary().to_vec()
    }

    #[test]
    fn a_site_has_one_number_whatever_is_asked_for_there() {
        let site = |mode: &Mode, host: &str, port, asked: &str, path: &str| {
            Name::from_primary(&key(mode, false, host, port, asked, path)).site().unwrap()
        };
        let (forward, reverse) = (Mode::Forward, Mode::Reverse(Routes::to("http://a".parse().unwrap())));
        let a = site(&forward, "a", 80, "a", "/");
        assert_eq!(site(&forward, "a", 80, "a", "/other?query"), a);
        assert_ne!(site(&forward, "b", 80, "b", "/"), a);
        assert_ne!(site(&reverse, "a", 80, "x", "/"), site(&reverse, "a", 80, "y", "/"), "a site of many");
        assert_eq!(a, 5_045_874_911_795_349_004, "the same after every restart and with every version");
        assert_eq!(Name::from_primary(b"no name").site(), None);
        let url = |name: Name| name.url();
        let destination = Destination { tls: false, host: "a".into(), port: 80 };
        assert_eq!(url(name_of(&forward, &destination, false, "x", "/y?z")), "http://a:80/y?z");
        assert_eq!(url(name_of(&reverse, &destination, false, "x", "/y")), "http://x/y");
        assert_eq!(url(name_of(&reverse, &destination, true, "x:8443", "/y")), "https://x:8443/y");
        assert_eq!(url(Name::from_primary(b"no name")), "");
    }

    /// Hosts with a store id have a name that no URL has, and are shown and purged by a host that nobody has.
    #[test]
    fn names_of_store_ids() {
        let (forward, reverse) = (Mode::Forward, Mode::Reverse(Routes::to("http://a".parse().unwrap())));
        let destination = Destination { tls: false, host: "a".into(), port: 81 };
        let host = "cdn.store-id.invalid";
        let at = |mode, tls, asked: &str| {
            let asked = Authority::parse(asked.as_bytes()).unwrap();
            Name::of_store_id(mode, &destination, tls, (host, &asked), "/x")
        };
        let name = |mode, tls| at(mode, tls, "b");
        let names = [name(&forward, false), name(&reverse, false), name(&reverse, true)];
        assert_eq!(names[0].primary(), b"4:http,20:cdn.store-id.invalid,2:81,17:store-id:/forward,2:/x,");
        let there = "5:https,20:cdn.store-id.invalid,3:443,34:store-id:/reverse/ba6c552f5549bd37,2:/x,";
        assert_eq!(names[2].primary().escape_ascii().to_string(), there, "the same after every restart");
        // What was asked for at another port is another thing, for the origin knows of it.
        assert_eq!(names[1], at(&reverse, false, "c:80"));
        assert_ne!(names[1], at(&reverse, false, "b:81"));
        assert_eq!(at(&reverse, false, "b:81").url(), "http://cdn.store-id.invalid:81/x");
        let staging = Mode::Reverse(Routes::to("http://a:8080".parse().unwrap()));
        assert_ne!(names[1], name(&staging, false), "a listener with other routes");
        assert_ne!(names[0], names[1]);
        let like = Destination { host: host.into(), ..destination.clone() };
        for mode in [&forward, &reverse] {
            for site in ["", host, "store-id:", "store-id"] {
                assert!(!names.contains(&name_of(mode, &like, false, site, "/x")), "{site}");
            }
        }
        assert_eq!(names[0].url(), "http://cdn.store-id.invalid:81/x");
        let shown: Vec<_> = names.iter().map(|name| name.subject().unwrap().url).collect();
        assert_eq!(shown, [format!("{host}:81/x"), format!("{host}/x"), format!("{host}/x")]);
        assert!(names[0].subject().unwrap().host == host && names[0].site().is_some());
    }

    #[test]
    fn every_part_counts() {
        let forward = Mode::Forward;
        let reverse = Mode::Reverse(Routes::to("http://a".parse().unwrap()));
        let keys = [
            key(&forward, false, "a", 80, "a", "/"),
            key(&forward, true, "a", 80, "a", "/"),
            key(&forward, false, "b", 80, "b", "/"),
            key(&forward, false, "a", 8, "a", "/"),
            key(&forward, false, "a", 80, "a", "/?"),
            key(&forward, false, "a", 80, "a", "/,2:80"),
            key(&reverse, false, "a", 80, "x", "/"),
            key(&reverse, false, "a", 80, "y", "/"),
            key(&reverse, false, "a", 80, "x,1:/", "/"),
            name_of(&reverse, &Destination { tls: false, host: "a".into(), port: 80 }, true, "x", "/")
                .primary()
                .to_vec(),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{}", key.escape_ascii());
        }
        for (key, path) in keys.iter().zip(["/", "/", "/", "/", "/?", "/,2:80", "/", "/", "/", "/"]) {
            assert_eq!(parts_of(key).unwrap().path, path);
            assert_eq!(parts_of(&key[..key.len() - 1]), None);
            assert_eq!(parts_of(&[key, &b"0:,"[..]].concat()), None);
        }
        assert_eq!(parts_of(&keys[8]).unwrap().site, "x,1:/");
        let places = keys.iter().flat_map(|key| {
            let name = Name::from_primary(key);
            [
                name.place(),
                name.variant_place(&[0; 16]),
                name.variant_place(&[1; 16]),
                name.piece_place(&[0; 24]),
                name.form_place(&[0; 18]),
            ]
        });
        let places: Vec<_> = places.map(|place| *place.digest()).collect();
        for (index, place) in places.iter().enumerate() {
            assert!(!places[..index].contains(place), "{index}");
        }
        assert_eq!(keys[0], b"4:http,1:a,2:80,0:,1:/,");
        assert_eq!(keys[0], key(&forward, false, "a", 80, "a:80", "/"), "the destination is the authority");
    }
}
