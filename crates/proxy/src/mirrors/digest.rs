//! Digests in names: what is called after its own hash is stored only if it has that hash.

use std::fmt;

use ring::digest::{Algorithm, Context, SHA256, SHA512};

use super::Kind;

/// What a path says of the bytes that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The path at the source, by which rules go wherever the bytes come from.
    pub path: String,
    is_sha512: bool,
    /// In lower case.
    hex: String,
}

/// Bytes that are checked while they come.
pub(crate) struct Checking {
    context: Context,
    hex: String,
}

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
        let is_sha512 = match algorithm.to_ascii_lowercase().as_str() {
            "sha256" => false,
            "sha512" => true,
            _ => return None,
        };
        let length = if is_sha512 { 128 } else { 64 };
        let is_hex = hex.len() == length && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| Named { path: path.to_owned(), is_sha512, hex: hex.to_ascii_lowercase() })
    }

    /// Begins to check bytes.
    pub fn check(&self) -> Checking {
        let algorithm: &'static Algorithm = if self.is_sha512 { &SHA512 } else { &SHA256 };
        Checking { context: Context::new(algorithm), hex: self.hex.clone() }
    }
}

impl Checking {
    /// More of them.
    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    /// Whether they were those of the name.
    pub fn matches(self) -> bool {
        let found: String = self.context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        found == self.hex
    }
}

impl fmt::Debug for Checking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checking").field("hex", &self.hex).finish_non_exhaustive()
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
        assert!(Named::read(Kind::Oci, &format!("/v2/a/blobs/sha256:{empty}")).unwrap().check().matches());
        let abc = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
        for (pieces, is_right) in [(["a", "bc"], true), (["ab", "c"], true), (["ab", "d"], false)] {
            let mut checking = Named::read(Kind::Oci, &format!("/v2/a/blobs/sha256:{abc}")).unwrap().check();
            pieces.iter().for_each(|piece| checking.update(piece.as_bytes()));
            assert_eq!(checking.matches(), is_right, "{pieces:?}");
        }
    }
}
