//! Digests in names, and those that an index has told: what has one is stored only if it has that hash.

use std::fmt;

use super::sum::{Hash, Sum, Summing};
use super::{Kind, Learned};

/// What a path says of the bytes that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The path at the source, by which rules go wherever the bytes come from.
    pub path: String,
    sum: Sum,
}

/// Bytes that are checked while they come.
pub(crate) struct Checking {
    summing: Summing,
    learned: Option<Box<Learned>>,
}

/// Bytes that were right, and who is to be told once they are stored.
pub(crate) struct Proof(Option<Box<Learned>>);

impl Named {
    /// Reads a path as a source of this kind has it: `/v2/x/blobs/sha256:00ff...`, `/by-hash/SHA256/00ff...`.
    pub fn read(kind: Kind, path: &str) -> Option<Named> {
        let plain = path.split('?').next().unwrap_or_default();
        let (before, last) = plain.rsplit_once('/')?;
        let (algorithm, hex) = match kind {
            Kind::Oci if before.ends_with("/blobs") || before.ends_with("/manifests") => {
                last.split_once(':').or_else(|| last.split_once("%3A")).or_else(|| last.split_once("%3a"))?
            }
            Kind::Apt => (before.rsplit_once("/by-hash/")?.1, last),
            _ => return None,
        };
        let hash = match algorithm.to_ascii_lowercase().as_str() {
            "sha256" => Hash::Sha256,
            "sha512" => Hash::Sha512,
            _ => return None,
        };
        Some(Named { path: path.to_owned(), sum: Sum::hex(hash, hex)? })
    }

    /// Begins to check bytes.
    pub fn check(&self) -> Checking {
        Checking { summing: self.sum.check(), learned: None }
    }
}

impl Checking {
    /// Checks bytes by what an index has told of them.
    pub(super) fn learned(sum: Sum, learned: Learned) -> Checking {
        Checking { summing: sum.check(), learned: Some(Box::new(learned)) }
    }

    /// More of them.
    pub fn update(&mut self, bytes: &[u8]) {
        self.summing.update(bytes);
    }

    /// Whether they were those of the name, or what the index says.
    pub fn finish(self) -> Option<Proof> {
        self.summing.matches().then_some(Proof(self.learned))
    }
}

impl Proof {
    /// Notes that what stands at a place, by this digest of its name, was found to be right.
    pub fn note_stored_at(self, place: &[u8; 16]) {
        if let Some(learned) = self.0 {
            learned.prove(place);
        }
    }
}

impl fmt::Debug for Checking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checking").field("sum", &self.summing.sum()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATER: &str = "b48a2f4b8b24b1f8f5fa7d2e0ce5d9a7b2a0cb5a3d3a1f5f6e2b0b1fd9a6c1d2";

    #[test]
    fn names() {
        for (kind, path, is_named) in [
            (Kind::Oci, format!("/v2/a/b/blobs/sha256:{WATER}"), true),
            (Kind::Oci, format!("/v2/a/b/manifests/sha256%3A{WATER}?x"), true),
            (Kind::Oci, format!("/v2/a/b/blobs/sha512:{WATER}{WATER}"), true),
            (Kind::Oci, format!("/v2/a/b/blobs/sha512:{WATER}"), false),
            (Kind::Oci, format!("/v2/a/b/other/sha256:{WATER}"), false),
            (Kind::Oci, "/v2/a/b/manifests/latest".to_owned(), false),
            (Kind::Oci, format!("/v2/a/b/blobs/md5:{WATER}"), false),
            (Kind::Apt, format!("/dists/stable/main/by-hash/SHA256/{WATER}"), true),
            (Kind::Apt, format!("/dists/stable/main/by-hash/MD5Sum/{WATER}"), false),
            (Kind::Npm, format!("/v2/a/b/blobs/sha256:{WATER}"), false),
        ] {
            assert_eq!(Named::read(kind, &path).is_some(), is_named, "{path}");
        }
    }

    #[test]
    fn bytes_in_pieces() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(Named::read(Kind::Oci, &format!("/v2/a/blobs/sha256:{empty}")).unwrap().check().finish().is_some());
        let abc = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
        for (pieces, is_right) in [(["a", "bc"], true), (["ab", "c"], true), (["ab", "d"], false)] {
            let mut checking = Named::read(Kind::Oci, &format!("/v2/a/blobs/sha256:{abc}")).unwrap().check();
            pieces.iter().for_each(|piece| checking.update(piece.as_bytes()));
            assert_eq!(checking.finish().is_some(), is_right, "{pieces:?}");
        }
    }
}
