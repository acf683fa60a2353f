//! What a source is told, so that it answers: a user and a password, or a token, from a file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a file at most; tokens are a few hundred.
const MOST_BYTES: u64 = 16 * 1024;

/// The value of Authorization. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    field: String,
}

/// Why a file has none.
#[derive(Debug, thiserror::Error)]
pub enum BadCredentials {
    /// It cannot be read.
    #[error("cannot read the credentials in {}: {cause}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Others can read it.
    #[error("{} can be read by others (mode {mode:03o}), and holds credentials: chmod 600 it", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It says something else.
    #[error("{} does not hold credentials: write one line, `basic USER:PASSWORD` or `bearer TOKEN`", .0.display())]
    Malformed(PathBuf),
}

impl Credentials {
    /// Reads a file with one line: `basic USER:PASSWORD` or `bearer TOKEN`.
    ///
    /// Errors: [`BadCredentials`]. The one that is opened is the one that is checked.
    pub fn read(path: &Path) -> Result<Credentials, BadCredentials> {
        let unread = |cause| BadCredentials::Read { path: path.to_owned(), cause };
        let file = File::open(path).map_err(unread)?;
        let mode = file.metadata().map_err(unread)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(BadCredentials::Open { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(unread)?;
        let field = field(text.trim_end()).ok_or_else(|| BadCredentials::Malformed(path.to_owned()))?;
        Ok(Credentials { field })
    }

    /// The value of Authorization.
    pub(crate) fn field(&self) -> &str {
        &self.field
    }

    /// Whether a value of Authorization is these. How long that takes does not depend on how much of it is right.
    pub(crate) fn are(&self, field: &[u8]) -> bool {
        let parts = |field: &[u8]| {
            let at = field.iter().position(|byte| *byte == b' ')?;
            let (scheme, rest) = field.split_at_checked(at)?;
            Some((scheme.to_ascii_lowercase(), rest.trim_ascii().to_vec()))
        };
        let (Some((scheme, told)), Some((own_scheme, own))) = (parts(field), parts(self.field.as_bytes())) else {
            return false;
        };
        let differ = told.iter().zip(&own).fold(0, |differ, (one, other)| differ | (one ^ other));
        scheme == own_scheme && told.len() == own.len() && differ == 0
    }

    /// What stands for them in names, with a word of our own before them: nobody reads the secret from it, as long as that is not one
    /// that can be guessed.
    pub(super) fn digest(&self) -> String {
        blake3::derive_key("tinaja 2026 names of mirrors with credentials", self.field.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

fn field(line: &str) -> Option<String> {
    let (scheme, rest) = line.split_once(' ')?;
    let rest = rest.trim();
    let plain = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic());
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" if plain => Some(format!("Bearer {rest}")),
        // A password may hold spaces and letters of any language; the user's name no colon (RFC 7617 2).
        "basic" if rest.contains(':') && !rest.chars().any(char::is_control) => {
            Some(format!("Basic {}", base64(rest.as_bytes())))
        }
        _ => None,
    }
}

/// RFC 4648 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * at) & 63) as usize).copied().unwrap_or(b'=');
            text.push(if at > three.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn fields() {
        for (line, expected) in [
            ("basic a:b", Some("Basic YTpi")),
            ("Basic Aladdin:open sesame", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
            ("bearer t0ken", Some("Bearer t0ken")),
            ("bearer two words", None),
            ("basic nobody", None),
            ("a:b", None),
            ("digest a:b", None),
            ("", None),
        ] {
            assert_eq!(field(line).as_deref(), expected, "{line}");
        }
        assert_eq!(["", "f", "fo", "foo"].map(|text| base64(text.as_bytes())), ["", "Zg==", "Zm8=", "Zm9v"]);
    }

    #[test]
    fn a_file_that_others_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        fs::write(&path, "bearer secret\n").unwrap();
        for mode in [0o644, 0o640, 0o604] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = Credentials::read(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && !error.contains("secret"), "{error}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let read = Credentials::read(&path).unwrap();
        assert_eq!(read.field(), "Bearer secret");
        for (field, expected) in [
            ("Bearer secret", true),
            ("bearer  secret", true),
            ("Bearer secre", false),
            ("Bearer secret2", false),
            ("Bearer Secret", false),
            ("Basic secret", false),
            ("Bearer", false),
            ("Bearer ", false),
            ("secret", false),
            ("", false),
        ] {
            assert_eq!(read.are(field.as_bytes()), expected, "{field}");
        }
        assert!(!format!("{read:?} {}", read.digest()).contains("secret"));
        fs::write(&path, "secret\n").unwrap();
        let error = Credentials::read(&path).unwrap_err().to_string();
        assert!(error.contains("bearer TOKEN") && !error.contains("secret"), "{error}");
    }
}
