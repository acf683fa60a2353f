//! All mirrors of a proxy, and which of them a request is for.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use tinaja_http::authority::Authority;

use super::{Aim, Mirror, Mounted, PublicUrl, Table, tells};
use crate::failure::Failure;
use crate::origin::Behind;
use crate::routes::beginning;

/// Mirrors, read once. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Mirrors {
    /// Longest path first.
    list: Arc<[Arc<Mounted>]>,
    public: Option<PublicUrl>,
}

/// Why a mirror makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMirror {
    /// A path that no request could begin with.
    #[error("{0:?} is not the path of a mirror; write it as in /pypi/, with a slash at both ends")]
    Path(String),
    /// A path, two times.
    #[error("there are two mirrors at {0}; remove one, or give it another path")]
    Twice(String),
    /// Credentials for everybody.
    #[error("a mirror with credentials needs clients: the networks that may use them, as in 192.168.0.0/16")]
    Clients,
    /// Links without an address.
    #[error(
        "the links of this mirror are rewritten, and nothing says where clients find it: set public_url, as in \
         http://cache.example.org:3128, or rewrite = false"
    )]
    Public,
    /// A path that is taken.
    #[error("a path must not contain ~/, which leads to the other hosts of a mirror")]
    Elsewhere,
}

impl Mirrors {
    /// Checks mirrors and puts them in order; `public` is where clients find this proxy. Takes a few KB of memory for each, and 6 MiB at most for what
    /// the indexes of all of them tell.
    ///
    /// Errors: [`BadMirror`], with the place in the list of the one to blame, from 0.
    pub fn new(mirrors: Vec<Mirror>, public: Option<PublicUrl>) -> Result<Mirrors, (usize, BadMirror)> {
        let mut list: Vec<Arc<Mounted>> = Vec::new();
        let table = Table::new(secret());
        for (at, mirror) in mirrors.into_iter().enumerate() {
            check(&mirror, public.as_ref()).map_err(|bad| (at, bad))?;
            if list.iter().any(|other| other.mirror.path == mirror.path) {
                return Err((at, BadMirror::Twice(mirror.path)));
            }
            list.push(Arc::new(Mounted::new(mirror, public.as_ref(), table.clone())));
        }
        let public = public.filter(|_| !list.is_empty());
        list.sort_by_key(|mounted| std::cmp::Reverse(mounted.mirror.path.len()));
        Ok(Mirrors { list: list.into(), public })
    }

    /// Goes on with what these have learned from indexes, and with their tokens, if they are the same mirrors.
    pub(crate) fn go_on_as(&mut self, before: &Mirrors) {
        if self == before {
            self.clone_from(before);
        }
    }

    /// Each of them, longer paths first.
    pub fn iter(&self) -> impl Iterator<Item = &Mirror> {
        self.list.iter().map(|mounted| &mounted.mirror)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Where clients find this proxy.
    pub fn public_url(&self) -> Option<&PublicUrl> {
        self.public.as_ref()
    }

    /// Where a request with this path (and query) goes, if it is a mirror's.
    pub(crate) fn find(&self, path: &str) -> Option<Result<Aim, Failure>> {
        self.list.iter().find(|mounted| mounted.takes(path)).map(|mounted| mounted.aim(path))
    }

    /// What names of mirrors that have names of their own hold besides the URL.
    pub(crate) fn sites(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|mounted| mounted.site.as_str()).filter(|site| !site.is_empty())
    }

    /// Whether a client may come to this mirror by this Host. One with credentials is found by an address or by our own name alone: a page
    /// whose name was made to lead here would get what its reader may read.
    pub(crate) fn is_known_as(&self, aim: &Aim, host: &Authority) -> bool {
        let is_ours = || self.public.as_ref().is_some_and(|url| url.is_at(host));
        !aim.at.mounted.tells() || host.address().is_some() || host.host() == "localhost" || is_ours()
    }

    /// What they lead to.
    pub(crate) fn behind(&self) -> impl Iterator<Item = &Arc<Behind>> {
        self.list.iter().flat_map(|mounted| [&mounted.behind, &mounted.elsewhere])
    }
}

impl PartialEq for Mirrors {
    fn eq(&self, other: &Mirrors) -> bool {
        self.public == other.public && self.iter().eq(other.iter())
    }
}

/// What nobody outside can foresee, from the system's randomness.
fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    secret.chunks_mut(8).for_each(|part| part.copy_from_slice(&RandomState::new().hash_one(0).to_le_bytes()));
    secret
}

fn check(mirror: &Mirror, public: Option<&PublicUrl>) -> Result<(), BadMirror> {
    let path = &mirror.path;
    if !path.ends_with('/') || beginning(path).is_none_or(|begins| format!("{begins}/") != *path) {
        return Err(BadMirror::Path(path.clone()));
    }
    if path.contains("/~/") {
        return Err(BadMirror::Elsewhere);
    }
    if tells(mirror) && mirror.clients.is_empty() {
        return Err(BadMirror::Clients);
    }
    if mirror.wants_links() && public.is_none() && (mirror.rewrite == Some(true) || mirror.kind.is_some()) {
        return Err(BadMirror::Public);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(path: &str, origin: &str) -> Mirror {
        Mirror::new(path.into(), origin.parse().unwrap())
    }

    #[test]
    fn the_longest_path_leads_to_the_source() {
        let files =
            Mirror { hosts: vec!["files.example".parse().unwrap()], ..mirror("/a/", "https://index.example/simple/") };
        let mirrors = Mirrors::new(vec![files, mirror("/a/b/", "http://other.example:8080")], None).unwrap();
        let aimed = |path: &str| {
            let aim = mirrors.find(path)?.map(|aim| format!("{} {} {}", aim.at.is_home, aim.host_field(), aim.path));
            Some(aim.map_err(|failure| failure.to_string()))
        };
        for (path, expected) in [
            ("/a/", "true index.example /simple/"),
            ("/a", "true index.example /simple/"),
            ("/a?x", "true index.example /simple/?x"),
            ("/a/x/?y=/../z", "true index.example /simple/x/?y=/../z"),
            ("/a/b/c", "true other.example:8080 /c"),
            ("/a/@s%2fp", "true index.example /simple/@s%2fp"),
            ("/a/~/https/files.example/x?y", "false files.example /x?y"),
            ("/a/%7E/https-443/files.example/x", "false files.example /x"),
            ("/a/./x/./y/.z", "true index.example /simple/x/y/.z"),
        ] {
            assert_eq!(aimed(path).unwrap().unwrap(), expected, "{path}");
        }
        for path in ["/", "/ab", "/ab/c", "*"] {
            assert!(aimed(path).is_none(), "{path}");
        }
        for path in [
            "/a/../b",
            "/a/%2e%2e/b",
            "/a/x%2f../y",
            "/a/~/https/other.example/x",
            "/a/~/https/files.example.evil/x",
            "/a/~/http/files.example/x",
            "/a/~/https-8443/files.example/x",
            "/a/~/https-0443x/files.example/x",
            "/a/~/https-/files.example/x",
            "/a/~/https/files.example:443/x",
            "/a/~/https/files.example",
            "/a/~/https/127.0.0.1/x",
            "/a/~/https/u@files.example/x",
            "/a/~/ftp/files.example/x",
            "/a/b/~/https/files.example/x",
        ] {
            assert!(aimed(path).unwrap().is_err(), "{path}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        let new = |mirrors, public: Option<&str>| {
            let (at, bad) = Mirrors::new(mirrors, public.map(|url| url.parse().unwrap())).unwrap_err();
            (at, bad.to_string())
        };
        let good = || mirror("/a/", "https://a");
        for path in ["", "/a", "a/", "/a//b", "/a//", "/a/../", "/a?b/", "/%61/"] {
            let (at, text) = new(vec![good(), mirror(path, "https://b")], None);
            assert!(at == 1 && text.contains("slash at both ends"), "{path}: {text}");
        }
        let (at, text) = new(vec![good(), good()], None);
        assert!(at == 1 && text.contains("two mirrors at /a/"), "{text}");
        let pip = Mirror { kind: Some(super::super::Kind::Pip), ..good() };
        assert!(new(vec![pip.clone()], None).1.contains("public_url"));
        assert!(Mirrors::new(vec![pip.clone()], Some("http://c:80".parse().unwrap())).is_ok());
        assert!(Mirrors::new(vec![Mirror { rewrite: Some(false), ..pip }], None).is_ok());
    }
}
