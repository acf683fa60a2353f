//! Files in a directory of a file system.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Call, Tree};

/// Files beneath a directory of the system's. Links are never followed: whoever puts one in the place of a directory or of
/// a file makes errors, and nothing outside is read, written or removed. Only their owner may read the files: a cache
/// holds what people asked for.
pub struct RealTree {
    root: File,
    path: PathBuf,
}

impl RealTree {
    /// The files beneath a directory that is there. Errors: the system's.
    pub fn open(path: &Path) -> io::Result<RealTree> {
        Ok(RealTree { root: File::open(path)?, path: path.to_path_buf() })
    }

    fn open_file(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // A mode where nothing is made is an error.
        let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = match rustix::fs::openat2(&self.root, path, flags, mode, inside) {
            // Containers may forbid it, old kernels lack it.
            Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(&self.root, path, flags, mode),
            opened => opened,
        };
        Ok(File::from(opened?))
    }

    /// Open a file to write; the directories that lead to it are made when they turn out not to be there, so that a file in
    /// one that is costs no call more.
    fn open_to_write(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        match self.open_file(path, flags) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                for (end, _) in path.match_indices('/') {
                    let made = rustix::fs::mkdirat(&self.root, path.get(..end).unwrap_or_default(), Mode::RWXU);
                    made.or_else(|error| if error == Errno::EXIST { Ok(()) } else { Err(error) })?;
                }
                self.open_file(path, flags)
            }
            opened => opened,
        }
    }
}

impl Tree for RealTree {
    fn call(&self, call: Call<'_>) -> io::Result<()> {
        match call {
            Call::Read { path, at, into } => self.open_file(path, OFlags::RDONLY)?.read_exact_at(into, at),
            Call::Write { path, at, bytes } => self.open_to_write(path)?.write_all_at(bytes, at),
            Call::Remove { path } => {
                // What leads there is looked up without following links, as for reading.
                let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
                let removed = self
                    .open_file(parent, OFlags::PATH | OFlags::DIRECTORY)
                    .and_then(|parent| Ok(rustix::fs::unlinkat(&parent, name, rustix::fs::AtFlags::empty())?));
                removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
            }
            Call::RemoveDirectory { path } => {
                let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
                let parent = self.open_file(parent, OFlags::PATH | OFlags::DIRECTORY)?;
                Ok(rustix::fs::unlinkat(&parent, name, rustix::fs::AtFlags::REMOVEDIR)?)
            }
            // One call for all files: with one each, ext4 would commit its journal for each.
            Call::Sync => Ok(rustix::fs::syncfs(&self.root)?),
        }
    }

    fn list(&self, each: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        let mut waiting = vec![String::new()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(self.path.join(&directory))? {
                let entry = entry?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    waiting.push(path);
                } else if kind.is_file() {
                    each(&path, entry.metadata()?.len());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn nothing_outside_is_reached_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
        for made in [&inside, &outside] {
            fs::create_dir(made).unwrap();
        }
        fs::write(outside.join("secret"), "secret").unwrap();
        symlink(&outside, inside.join("00")).unwrap();
        symlink(outside.join("secret"), inside.join("link")).unwrap();
        let tree = RealTree::open(&inside).unwrap();
        let mut into = [0; 6];
        for path in ["00/secret", "link", "../outside/secret"] {
            assert!(tree.call(Call::Read { path, at: 0, into: &mut into }).is_err(), "{path}");
            assert!(tree.call(Call::Write { path, at: 0, bytes: b"other!" }).is_err(), "{path}");
        }
        for path in ["00/secret", "../outside/secret"] {
            assert!(tree.call(Call::Remove { path }).is_err(), "{path}");
        }
        assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
        let mut found = Vec::new();
        tree.list(&mut |path, _| found.push(path.to_owned())).unwrap();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn what_is_written_is_read_until_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let tree = RealTree::open(dir.path()).unwrap();
        let path = "0A/FF/00000007";
        tree.call(Call::Write { path, at: 0, bytes: b"begin" }).unwrap();
        tree.call(Call::Write { path, at: 5, bytes: b" end" }).unwrap();
        let mut into = [0; 7];
        tree.call(Call::Read { path, at: 2, into: &mut into }).unwrap();
        assert_eq!(&into, b"gin end");
        let past = tree.call(Call::Read { path, at: 3, into: &mut into }).unwrap_err();
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
        let mut found = Vec::new();
        tree.list(&mut |path, bytes| found.push((path.to_owned(), bytes))).unwrap();
        assert_eq!(found, [(path.to_owned(), 9)]);
        tree.call(Call::Sync).unwrap();
        for _ in 0..2 {
            tree.call(Call::Remove { path }).unwrap();
        }
        let gone = tree.call(Call::Read { path, at: 0, into: &mut into }).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn only_their_owner_may_read_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let tree = RealTree::open(dir.path()).unwrap();
        tree.call(Call::Write { path: "0A/FF/00000007", at: 0, bytes: b"body" }).unwrap();
        for (path, mode) in [("0A", 0o700), ("0A/FF", 0o700), ("0A/FF/00000007", 0o600)] {
            let permissions = fs::metadata(dir.path().join(path)).unwrap().permissions();
            assert_eq!(permissions.mode() & 0o777, mode, "{path}");
        }
    }
}
