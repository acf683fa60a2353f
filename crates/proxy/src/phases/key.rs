//! The name under which an answer is stored.

use pingora_cache::CacheKey;
use tinaja_http::key::{join, split};

use super::context::Ticket;
use crate::config::Mode;
use crate::origin::Destination;

/// The key of a request: scheme, host, port, and path with query, by their exact bytes. A reverse proxy's key names
/// the origin and, for it may serve many sites, the Host.
///
/// Listeners of one kind share what is stored, for the same key means the same request to the same origin. A forward
/// and a reverse proxy do not: the origins of the latter are told whom it speaks for, and may answer accordingly.
///
/// Each part is written with its length ([`join`]), so that no delimiter inside one can make two requests look alike.
pub(crate) fn cache_key(ticket: &Ticket) -> CacheKey {
    let site = match ticket.listener.mode {
        Mode::Forward => "",
        Mode::Reverse(_) => ticket.host.as_str(),
    };
    key_of(&ticket.destination, site, &ticket.path)
}

/// The key of what is at a path of a destination; `site` is the Host for a reverse proxy, and empty for a forward one.
pub(crate) fn key_of(destination: &Destination, site: &str, path: &str) -> CacheKey {
    let Destination { tls, host, port } = destination;
    let scheme = if *tls { "https" } else { "http" };
    CacheKey::new(join(&[scheme, host, &port.to_string(), site, path]), "")
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
    let parts: Vec<_> = split(primary)?.into_iter().map(std::str::from_utf8).collect::<Result<_, _>>().ok()?;
    let &[scheme, host, port, site, path] = parts.as_slice() else { return None };
    Some(Parts { scheme, host, port, site, path })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tinaja_http::body::Framing;

    use super::*;
    use crate::config::Listener;
    use crate::routes::Routes;
    use crate::rules::Rules;

    fn key(mode: &Mode, tls: bool, host: &str, port: u16, site: &str, path: &str) -> Vec<u8> {
        let ticket = Ticket {
            began: Instant::now(),
            client: None,
            listener: Arc::new(Listener {
                address: "127.0.0.1:80".parse().unwrap(),
                mode: mode.clone(),
                rules: Rules::default(),
            }),
            destination: Destination { tls, host: host.into(), port },
            host: site.into(),
            path: path.into(),
            url: String::new(),
            framing: Framing::Length(0),
        };
        cache_key(&ticket).primary_key().to_vec()
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
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{}", key.escape_ascii());
        }
        for (key, path) in keys.iter().zip(["/", "/", "/", "/", "/?", "/,2:80", "/", "/", "/"]) {
            assert_eq!(parts_of(key).unwrap().path, path);
            assert_eq!(parts_of(&key[..key.len() - 1]), None);
            assert_eq!(parts_of(&[key, &b"0:,"[..]].concat()), None);
        }
        assert_eq!(parts_of(&keys[8]).unwrap().site, "x,1:/");
        assert_eq!(keys[0], b"4:http,1:a,2:80,0:,1:/,");
        assert_eq!(keys[0], key(&forward, false, "a", 80, "a:80", "/"), "the destination is the authority");
    }
}
