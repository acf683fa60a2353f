//! Where a cache lives and how large a new one becomes.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tinaja_store::{OpenError, existing};

/// The most disk that a new cache takes without being told.
pub const MOST_UNTOLD_BYTES: u64 = 10 << 30;

/// `tinaja` in the user's cache directory: below `$XDG_CACHE_HOME`, or else `~/.cache`.
///
/// Errors: neither variable is set to an absolute path.
fn default_cache_dir() -> Result<PathBuf> {
    cache_dir_of(env::var_os("XDG_CACHE_HOME").map(PathBuf::from), env::var_os("HOME").map(PathBuf::from))
}

/// The directories that were named, or the one where a cache lives by default.
///
/// Errors: those of [`default_cache_dir`].
pub fn cache_dirs(named: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    if named.is_empty() { Ok(vec![default_cache_dir()?]) } else { Ok(named) }
}

fn cache_dir_of(xdg_cache_home: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
    // The standard says that a relative path is to be ignored.
    let base = xdg_cache_home.filter(|path| path.is_absolute());
    let base = base.or_else(|| home.filter(|path| path.is_absolute()).map(|home| home.join(".cache")));
    match base {
        Some(base) => Ok(base.join("tinaja")),
        None => bail!("neither XDG_CACHE_HOME nor HOME is an absolute path: name a directory with --cache DIR"),
    }
}

/// Where a CA lives: where it is said, or `ca` in the service's state directory, or in the user's.
///
/// Errors: nothing says where, and neither variable is set to an absolute path.
pub fn ca_dir(named: Option<PathBuf>) -> Result<PathBuf> {
    let of = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = || of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")));
    let dir = named.or_else(|| Some(of("STATE_DIRECTORY")?.join("ca"))).or_else(|| Some(state()?.join("tinaja/ca")));
    dir.context("neither XDG_STATE_HOME nor HOME is an absolute path: name a directory, as in `tinaja ca create DIR`")
}

/// How large a new cache in `dir` becomes when nobody says: a quarter of what is free, [`MOST_UNTOLD_BYTES`] at most.
///
/// Errors: the file system cannot be asked.
pub fn untold_disk_bytes(dir: &Path) -> Result<u64> {
    let there = existing(dir);
    let stat = rustix::fs::statvfs(there).with_context(|| {
        format!("cannot find out how much disk space is free at {}: set it with --disk SIZE", there.display())
    })?;
    Ok(quarter(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// Why a cache cannot be opened, and with which flags that is mended.
pub fn with_flags(error: OpenError) -> OpenError {
    let flags = match &error {
        OpenError::NoPositions(_) => "--positions-dir DIR, or --positions-in-memory 8",
        OpenError::Directory { .. } => "--cache DIR, or --positions-dir DIR",
        OpenError::OtherGeometry { .. } | OpenError::OtherSize { .. } | OpenError::OtherDisk { .. } => {
            return OpenError::Setting(format!("{error} (tinaja resize)"));
        }
        OpenError::Unreadable(_) => "--despite-errors",
        _ => return error,
    };
    OpenError::Setting(format!("{error}: give {flags}"))
}

fn quarter(free_bytes: u64) -> u64 {
    // Whole MiB read better, and nobody misses the rest.
    (free_bytes / 4).min(MOST_UNTOLD_BYTES) >> 20 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_live_where_the_standard_says() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(cache_dir_of(path("/x"), path("/home/a")).unwrap(), Path::new("/x/tinaja"));
        assert_eq!(cache_dir_of(path("x"), path("/home/a")).unwrap(), Path::new("/home/a/.cache/tinaja"));
        assert_eq!(cache_dir_of(path(""), path("/home/a")).unwrap(), Path::new("/home/a/.cache/tinaja"));
        assert!(cache_dir_of(None, None).is_err());
    }

    #[test]
    fn a_new_cache_leaves_most_of_the_disk() {
        assert_eq!(quarter(8 << 30), 2 << 30);
        assert_eq!(quarter(8 << 40), MOST_UNTOLD_BYTES);
        assert_eq!(quarter(0), 0);
    }

    #[test]
    fn the_disk_is_asked_where_the_directory_will_be() {
        let dir = tempfile::tempdir().unwrap();
        assert!(untold_disk_bytes(&dir.path().join("not/there/yet")).unwrap() <= MOST_UNTOLD_BYTES);
        assert_eq!(existing(&dir.path().join("not/there/yet")), dir.path());
        assert_eq!(
            [existing(Path::new("not/there")), existing(Path::new("yet"))],
            [Path::new("."); 2],
            "not the root's disk"
        );
    }
}
