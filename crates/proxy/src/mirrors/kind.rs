//! What is known of the sources of each package manager: which of their files never change, and where links stand.

use std::str::FromStr;

use tinaja_http::storable::{Orders, Storing};

use crate::cache_rules::{CacheRule, CacheRules, PathPattern, StatusPattern, kept, validated};

/// For whose packages a mirror is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Python's simple index, as HTML and JSON.
    Pip,
    /// npm's registry.
    Npm,
    /// Cargo's sparse index.
    Cargo,
    /// Go's modules.
    Go,
    /// Debian's archives.
    Apt,
    /// Maven's repositories.
    Maven,
    /// Registries of container images.
    Oci,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [Kind::Pip, Kind::Npm, Kind::Cargo, Kind::Go, Kind::Apt, Kind::Maven, Kind::Oci];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pip => "pip",
            Kind::Npm => "npm",
            Kind::Cargo => "cargo",
            Kind::Go => "go",
            Kind::Apt => "apt",
            Kind::Maven => "maven",
            Kind::Oci => "oci",
        }
    }

    /// Whether its indexes hold whole URLs, which are rewritten. Those of the others hold paths, or are signed.
    pub fn has_links(self) -> bool {
        matches!(self, Kind::Pip | Kind::Npm | Kind::Cargo)
    }

    /// How a client is told of a mirror at this URL, in one line of a shell.
    pub fn client(self, url: &str) -> String {
        match self {
            Kind::Pip => format!("pip config set global.index-url {url}simple/"),
            Kind::Npm => format!("npm config set registry {url}"),
            Kind::Cargo => format!(
                r#"printf '[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "sparse+{url}"\n' >> ~/.cargo/config.toml"#
            ),
            Kind::Go => format!("go env -w GOPROXY={}", url.trim_end_matches('/')),
            Kind::Apt => format!("echo 'deb {url} stable main' | sudo tee /etc/apt/sources.list.d/mirror.list"),
            Kind::Maven => {
                format!("in ~/.m2/settings.xml: <mirror><id>tinaja</id><mirrorOf>*</mirrorOf><url>{url}</url></mirror>")
            }
            Kind::Oci => format!(
                r#"in /etc/docker/daemon.json: {{"registry-mirrors": ["{}"]}}"#,
                url.trim_end_matches('/').trim_end_matches("/v2")
            ),
        }
    }

    /// Whether a body at this path holds links whatever its type says: static servers often know no type for it.
    pub(super) fn is_json(self, path: &str) -> bool {
        self == Kind::Cargo && path.split('?').next().is_some_and(|path| path.ends_with("/config.json"))
    }

    /// Paths of files that never change: a new version has a new name.
    fn immutable(self) -> &'static [&'static str] {
        match self {
            Kind::Pip => &[r"\.(whl|tar\.(gz|bz2|xz)|zip|egg)(\.metadata|\.asc|\.provenance)?$"],
            Kind::Npm => &[r"/-/.+\.tgz$", r"\.tgz$"],
            Kind::Cargo => &[r"\.crate$", r"/[^/]+/[^/]+/download$"],
            Kind::Go => &[r"/@v/v[^/]+\.(zip|mod|info)$"],
            Kind::Apt => &[
                r"/pool/.+\.(u?deb|ddeb|dsc|diff\.gz|tar\.(gz|bz2|xz|zst))$",
                r"/by-hash/(MD5Sum|SHA1|SHA256|SHA512)/[0-9a-f]+$",
            ],
            // Snapshots are called the same each time.
            Kind::Maven => {
                &[r"/[^/]*[0-9][^/]*/[^/]+\.(jar|pom|aar|war|module|zip|tar\.gz)(\.(sha1|sha256|sha512|md5|asc))?$"]
            }
            Kind::Oci => &[r"/(blobs|manifests)/sha(256|512):[0-9a-f]+$"],
        }
    }

    /// Paths of which all that lies there may change, though it looks immutable.
    fn mutable(self) -> &'static [&'static str] {
        match self {
            Kind::Maven => &[r"-SNAPSHOT/"],
            _ => &[],
        }
    }

    /// What is stored: files for long, and indexes so that the source is asked each time whether they still hold. A file that
    /// is not there yet may come, so only what is there is kept.
    pub(super) fn rules(self) -> CacheRules {
        let paths = |list: &[&str]| list.iter().map(|path| PathPattern::Regex((*path).to_owned())).collect::<Vec<_>>();
        let mut rules = Vec::new();
        if !self.mutable().is_empty() {
            rules.push(CacheRule { paths: paths(self.mutable()), ..CacheRule::new(validated()) });
        }
        if self == Kind::Oci {
            // What they lead to is stored under their own names.
            let never = Orders { store: Storing::Never, ..Orders::default() };
            let statuses = vec![StatusPattern::Class(3)];
            rules.push(CacheRule { paths: paths(self.immutable()), statuses, ..CacheRule::new(never) });
        }
        let statuses = vec![StatusPattern::One(200)];
        rules.push(CacheRule { paths: paths(self.immutable()), statuses, ..CacheRule::new(kept()) });
        // Of redirects the source alone knows how long they hold.
        let statuses = [2, 4, 5].map(StatusPattern::Class).into();
        rules.push(CacheRule { statuses, ..CacheRule::new(validated()) });
        // They are constants, and a test reads them all.
        CacheRules::new(rules).unwrap_or_default()
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            format!("{text:?} is not a kind of mirror; use {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;
    use crate::cache_rules::Seen;

    #[test]
    fn what_is_kept_and_what_is_validated() {
        for (kind, path, kept) in [
            ("pip", "/packages/ab/x-1.0-py3-none-any.whl", true),
            ("pip", "/packages/ab/x-1.0-py3-none-any.whl.metadata", true),
            ("pip", "/packages/ab/x-1.0.tar.gz?y", true),
            ("pip", "/simple/x/", false),
            ("npm", "/left/-/left-1.0.0.tgz", true),
            ("npm", "/@scope%2fleft", false),
            ("cargo", "/index/config.json", false),
            ("cargo", "/index/ti/na/tinaja", false),
            ("cargo", "/crates/tinaja/1.0.0/download", true),
            ("cargo", "/api/tinaja-1.0.0.crate", true),
            ("go", "/example.org/x/@v/v1.0.0.zip", true),
            ("go", "/example.org/x/@v/list", false),
            ("apt", "/debian/pool/main/x/x_1_all.deb", true),
            ("apt", "/debian/dists/stable/InRelease", false),
            ("maven", "/org/x/y/1.0/y-1.0.jar", true),
            ("maven", "/org/x/y/1.0-SNAPSHOT/y-1.0-SNAPSHOT.jar", false),
            ("maven", "/org/x/y/maven-metadata.xml", false),
            ("oci", "/v2/a/b/blobs/sha256:00ff", true),
            ("oci", "/v2/a/b/manifests/sha256:00ff", true),
            ("oci", "/v2/a/b/manifests/latest", false),
        ] {
            let rules = kind.parse::<Kind>().unwrap().rules();
            let none = HeaderMap::new();
            let seen = |status| Seen { host: "any.example", path, status, response: &none };
            let orders = rules.orders(seen(StatusCode::OK));
            assert_eq!((orders.min_seconds > 0, orders.max_seconds == 0), (kept, !kept), "{kind} {path}");
            assert_eq!(rules.orders(seen(StatusCode::NOT_FOUND)).max_seconds, 0, "{kind} {path}");
        }
        assert!("deb".parse::<Kind>().unwrap_err().contains("pip, npm, cargo"));
    }
}
