//! The directory of such a cache: a text that says whose it is and how it was made, and the files beneath `objects`.
//!
//! `tinaja.tree` is written once, whole, when the cache is made. It is locked while a process has the cache. It is text, so
//! that whoever finds the directory can tell what it is; the checksum in its last line is XXH3 of the lines before it.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::device::file::create_anew;
use crate::device::mapped::WithMapped;
use crate::device::{Access, OpenDiskError};
use crate::engine::registry::{Ask, EngineRef, Identity};
use crate::engine::{Setting, Settings};
use crate::terms::Secret;

const FILE: &str = "tinaja.tree";
const OBJECTS: &str = "objects";
const MAPPED: &str = "mapped";
/// All that is of such a cache in its directory.
pub const NAMES: [&str; 3] = [FILE, OBJECTS, MAPPED];
const FIRST_LINE: &str = "tinaja tree 1";

/// What a directory says of itself.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub engine: String,
    pub bytes: u64,
    pub mean_object_bytes: u64,
    pub identity: Identity,
    /// Every setting of the engine's that lasts.
    pub made: Settings,
}

/// A directory that is locked.
pub(super) struct Held {
    pub about: About,
    pub objects: PathBuf,
    /// Where the mapped file lies, if the engine has one.
    pub mapped: PathBuf,
    pub lock: File,
}

/// Whether there is a tree of this engine's. One that cannot be read is taken to be the first engine's that asks.
pub(super) fn is_there(dir: &Path, engine: EngineRef) -> bool {
    match fs::read_to_string(dir.join(FILE)) {
        Ok(text) => {
            text.lines().nth(1).and_then(|line| line.strip_prefix("engine ")).is_none_or(|name| name == engine.name)
        }
        Err(error) => error.kind() != ErrorKind::NotFound && error.kind() != ErrorKind::NotADirectory,
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenDiskError {
    let path = path.to_path_buf();
    move |error| OpenDiskError::System { what, path, error }
}

/// Make an empty one: the file that says so comes last, so a crash leaves a directory that is none.
pub(super) fn create(
    dir: &Path,
    ask: &Ask<'_>,
    identity: &Identity,
    engine: EngineRef,
    made: &Settings,
) -> Result<(), OpenDiskError> {
    let about = About {
        engine: engine.name.to_owned(),
        bytes: ask.bytes,
        mean_object_bytes: ask.mean_object_bytes,
        identity: identity.clone(),
        made: made.clone(),
    };
    let (objects, file, new) = (dir.join(OBJECTS), dir.join(FILE), dir.join("tinaja.tree.new"));
    match fs::create_dir(&objects) {
        // Left by a crash while one was made, or somebody's own.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_empty(&objects) => {}
        made => made.map_err(failed("make", &objects))?,
    }
    let written = (|| {
        let mut to = create_anew(&new)?;
        to.write_all(about.encode().as_bytes())?;
        to.sync_all()?;
        fs::rename(&new, &file)?;
        File::open(dir)?.sync_all()
    })();
    written.map_err(failed("write", &file))
}

/// Make an empty mapped file and allocate its blocks. Errors: the system's, as of a full disk; there is something else in its place.
pub(super) fn create_mapped(dir: &Path, bytes: u64) -> Result<(), OpenDiskError> {
    let path = dir.join(MAPPED);
    // A crash, or a full disk, may have left one without a byte of data while one was made.
    let is_blank = |there: fs::Metadata| there.is_file() && WithMapped::is_blank(&path);
    if fs::symlink_metadata(&path).is_ok_and(|there| !is_blank(there)) {
        let error = io::Error::new(ErrorKind::AlreadyExists, "something else has this name: move it away");
        return Err(failed("make", &path)(error));
    }
    WithMapped::allocate(&path, bytes).map(drop).map_err(failed("make", &path))
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Lock the one that is there, and read what it says.
pub(super) fn lock(dir: &Path, access: Access, engine: EngineRef) -> Result<Held, OpenDiskError> {
    let path = dir.join(FILE);
    let lock = File::open(&path).map_err(failed("open", &path))?;
    let locked = if access == Access::Alone { lock.try_lock() } else { lock.try_lock_shared() };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => OpenDiskError::InUse(path.clone()),
        TryLockError::Error(error) => failed("lock", &path)(error),
    })?;
    let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
    let about = About::decode(&text, engine).map_err(|why| failed("read", &path)(io::Error::other(why)))?;
    Ok(Held { about, objects: dir.join(OBJECTS), mapped: dir.join(MAPPED), lock })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl About {
    fn encode(&self) -> String {
        let (disk, of) = self.identity.disk;
        let mut text = format!(
            "{FIRST_LINE}\nengine {}\nbytes {}\nmean-object-bytes {}\ndisk {disk} of {of}\nsecret {}\n",
            self.engine,
            self.bytes,
            self.mean_object_bytes,
            hex(self.identity.secret.bytes()),
        );
        for (setting, value) in self.made.iter() {
            text += &format!("setting {} {value}\n", setting.name);
        }
        let checksum = xxh3_64(text.as_bytes());
        text + &format!("checksum {checksum:016x}\n")
    }

    /// Errors: what is wrong with it and what to do, as text.
    fn decode(text: &str, engine: EngineRef) -> Result<About, String> {
        let damaged =
            || "it is damaged: restore it from a copy, or remove the directory to begin an empty cache".to_owned();
        let at = text.rfind("checksum ").ok_or_else(damaged)?;
        let (said, checksum) = text.split_at_checked(at).ok_or_else(damaged)?;
        if checksum != format!("checksum {:016x}\n", xxh3_64(said.as_bytes())) {
            return Err(damaged());
        }
        let mut lines = said.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("another version of Tinaja made it: open it with that version, or remove the directory to begin an empty cache".into());
        }
        let mut value =
            |name: &str| lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' ')).ok_or_else(damaged);
        let number = |text: &str| text.parse().map_err(|_| damaged());
        let name = value("engine")?.to_owned();
        let (bytes, mean_object_bytes) = (number(value("bytes")?)?, number(value("mean-object-bytes")?)?);
        let (disk, of) = value("disk")?.split_once(" of ").ok_or_else(damaged)?;
        let disk = (disk.parse().map_err(|_| damaged())?, of.parse().map_err(|_| damaged())?);
        let secret = secret(value("secret")?).ok_or_else(damaged)?;
        let mut made = Settings::new();
        for line in lines {
            let (name, said) =
                line.strip_prefix("setting ").and_then(|line| line.split_once(' ')).ok_or_else(damaged)?;
            let known: Option<&'static Setting> = engine.settings.iter().copied().find(|setting| setting.name == name);
            made.set(known.ok_or_else(damaged)?, number(said)?);
        }
        Ok(About { engine: name, bytes, mean_object_bytes, identity: Identity { secret, disk }, made })
    }
}

fn secret(hex: &str) -> Option<Secret> {
    let mut bytes = [0; 32];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    (hex.len() == 64).then(|| Secret::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::trees::{FILES_PER_DIRECTORY, FIRST_LEVEL, SQUID2};

    fn about() -> About {
        let made = Settings::new().with(&FIRST_LEVEL, 16).with(&FILES_PER_DIRECTORY, 256);
        let identity = Identity { secret: Secret::from_bytes([7; 32]), disk: (1, 2) };
        About { engine: "squid2".into(), bytes: 1 << 30, mean_object_bytes: 8192, identity, made }
    }

    /// The golden file of version 1.
    #[test]
    fn it_is_written_as_it_was() {
        let text = about().encode();
        assert_eq!(text, include_str!("golden-tree-v1.txt"));
        let read = About::decode(&text, &SQUID2).unwrap();
        assert_eq!((read.bytes, read.mean_object_bytes, read.identity.disk), (1 << 30, 8192, (1, 2)));
        assert_eq!((read.made, read.identity.secret.bytes()), (about().made, &[7; 32]));
    }

    #[test]
    fn what_is_damaged_or_another_versions_is_refused_with_what_to_do() {
        let text = about().encode();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let refused = About::decode(&String::from_utf8(bytes).unwrap(), &SQUID2).unwrap_err();
            assert!(refused.contains("remove the directory to begin an empty cache"), "byte {at}: {refused}");
        }
        for cut in 0..text.len() {
            assert!(About::decode(&text[..cut], &SQUID2).is_err(), "cut to {cut}");
        }
        let (said, _) = text.split_once("checksum").unwrap();
        let newer = said.replace("tree 1", "tree 2");
        let newer = format!("{newer}checksum {:016x}\n", xxh3_64(newer.as_bytes()));
        assert!(About::decode(&newer, &SQUID2).unwrap_err().contains("another version of Tinaja"));
    }
}
