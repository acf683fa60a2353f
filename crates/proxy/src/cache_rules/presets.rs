//! Rules that come with Tinaja, for hosts that an operator lists.

use std::str::FromStr;

use tinaja_http::storable::Orders;

use super::rule::{CacheRule, StatusPattern};
use crate::fits::{HostPattern, PathPattern};

/// A list of rules by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Mirrors of packages: files whose names say their version are kept, and indexes are always validated.
    Packages,
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "packages" => Ok(Preset::Packages),
            _ => Err(format!("{text:?} is not a preset; use \"packages\"")),
        }
    }
}

/// A year, as RFC 9111 4.2.1 lets caches take for the future.
const LONG_SECONDS: u64 = 365 * 24 * 3600;

/// Paths of files that never change: a new version has a new name.
const IMMUTABLE: [&str; 7] = [
    // Debian: pools, and what is named after its own hash.
    r"/pool/.+\.(u?deb|ddeb|dsc|diff\.gz|tar\.(gz|bz2|xz|zst))$",
    r"/by-hash/(MD5Sum|SHA1|SHA256|SHA512)/[0-9a-f]+$",
    // Python: wheels and their metadata; sdists where no other archives are.
    r"\.whl(\.metadata)?$|/packages/.+\.(tar\.gz|zip)(\.metadata)?$",
    // Rust: as files, and as the registry's own links to them.
    r"\.crate$|/crates/[^/]+/[^/]+/download$",
    // npm: below the package's own name alone, since other archives end so too.
    r"/-/[^/]+\.tgz$",
    // Registries of containers.
    r"/v2/.+/blobs/sha(256|512):[0-9a-f]+$",
    // Go modules.
    r"/@v/v[^/]+\.(zip|mod|info)$",
];

/// Paths of what says which files there are.
const INDEXES: [&str; 7] = [
    r"/dists/",
    r"/(InRelease|Release|Release\.gpg)$",
    r"/(Packages|Sources|Contents-[^/]+|Translation-[^/]+)(\.[a-z0-9]+)?$",
    r"^(/.+)?/simple(/|$)",
    // Cargo's sparse index, by the form of its paths.
    r"^(/index)?/(config\.json|[12]/[^/]+|3/[^/]/[^/]+|[^/]{2}/[^/]{2}/[^/]+)$",
    r"/v2/.+/(manifests/[^/]+|tags/list)$",
    r"/@v/list$|/@latest$",
];

/// What is done with files that never change.
pub(crate) fn kept() -> Orders {
    let ttl_seconds = Some(LONG_SECONDS);
    Orders { ttl_seconds, min_seconds: LONG_SECONDS, ignores_reload: true, ..Orders::default() }
}

/// What is done with indexes. An InRelease and a Packages of different ages fail apt, so none is served unasked, stale ones neither.
pub(crate) fn validated() -> Orders {
    Orders { max_seconds: 0, grace_seconds: Some(0), ..Orders::default() }
}

impl Preset {
    /// Its rules, for these hosts alone.
    pub fn rules(self, hosts: &[HostPattern]) -> Vec<CacheRule> {
        let paths = |list: &[&str]| list.iter().map(|path| PathPattern::Regex((*path).to_owned())).collect();
        let rule =
            |orders, list: &[&str]| CacheRule { hosts: hosts.into(), paths: paths(list), ..CacheRule::new(orders) };
        match self {
            Preset::Packages => {
                // A file that is not there yet may come, so only what is there is kept.
                let immutable = CacheRule { statuses: vec![StatusPattern::One(200)], ..rule(kept(), &IMMUTABLE) };
                vec![immutable, rule(validated(), &INDEXES)]
            }
        }
    }
}
