//! Objects as files in a tree [a-z]/[a-z], as section 5.1 has them beside Dámelo.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use super::limited::Keeps;
use super::load::Objects;
use crate::paper::damelo as paper;
use crate::random::mix;

/// The files.
pub struct FileTree {
    root: PathBuf,
    objects: Arc<Objects>,
}

impl FileTree {
    /// Make the directories. Errors: the system's.
    pub fn make(root: &Path, objects: Arc<Objects>) -> io::Result<FileTree> {
        let tree = FileTree { root: root.to_owned(), objects };
        (0..DIRECTORIES).try_for_each(|directory| fs::create_dir_all(tree.directory(directory)))?;
        Ok(tree)
    }

    fn directory(&self, number: u32) -> PathBuf {
        let letter = |number: u32| char::from(b'a' + (number % paper::DIRECTORIES) as u8).to_string();
        self.root.join(letter(number / paper::DIRECTORIES)).join(letter(number))
    }

    /// Directories have the objects that groups have; a name says nothing of its place in the directory.
    fn file(&self, object: u32) -> PathBuf {
        self.directory(self.objects.group(object, DIRECTORIES)).join(format!("{:016x}", mix(u64::from(object))))
    }
}

/// How often it is looked whether there is memory again, and for how many times.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 60_000;

/// Asks the kernel again while it has no memory: where that is limited for who asks, and all of it is on its way to a slow disk, a
/// page is waited for, but with control groups of the first version an inode is not.
///
/// Errors: what else the kernel says, or that for a minute.
fn when_there_is_memory<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut looks = 0;
    loop {
        match ask() {
            Err(why) if why.kind() == io::ErrorKind::OutOfMemory && looks < LOOKS => looks += 1,
            answer => return answer,
        }
        sleep(LOOK);
    }
}

/// In both levels.
const DIRECTORIES: u32 = paper::DIRECTORIES * paper::DIRECTORIES;

impl Keeps for FileTree {
    fn create(&self, object: u32) -> Result<(), String> {
        let body = vec![mix(u64::from(object)) as u8; self.objects.bytes(object) as usize];
        let path = self.file(object);
        let file = when_there_is_memory(|| File::create_new(&path));
        let written = file.and_then(|file| when_there_is_memory(|| file.write_all_at(&body, 0)));
        written.map_err(|why| self.why(object, why))
    }

    fn read(&self, object: u32) -> Result<(), String> {
        let mut body = Vec::with_capacity(self.objects.bytes(object) as usize + 1);
        let path = self.file(object);
        let read = when_there_is_memory(|| {
            body.clear();
            File::open(&path)?.read_to_end(&mut body)
        });
        read.map_err(|why| self.why(object, why))?;
        let right =
            body.len() == self.objects.bytes(object) as usize && body.first() == Some(&(mix(u64::from(object)) as u8));
        if right { Ok(()) } else { Err(format!("object {object} is another one")) }
    }

    fn delete(&self, object: u32) -> Result<(), String> {
        when_there_is_memory(|| fs::remove_file(self.file(object))).map_err(|why| self.why(object, why))
    }
}

impl FileTree {
    fn why(&self, object: u32, why: io::Error) -> String {
        format!("{}: {why}", self.file(object).display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_waited_for_and_nothing_else() {
        let asked = |answers: &[Option<io::ErrorKind>]| {
            let mut answers = answers.iter();
            when_there_is_memory(|| answers.next().unwrap().map_or(Ok(()), |kind| Err(kind.into())))
        };
        let (none, full) = (Some(io::ErrorKind::OutOfMemory), Some(io::ErrorKind::StorageFull));
        assert!(asked(&[none, none, None]).is_ok());
        assert_eq!(asked(&[none, full]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn objects_are_files_in_the_directories_of_their_groups() {
        let dir = tempfile::tempdir().unwrap();
        let objects = Arc::new(Objects::new(1352, 5000, 3));
        let tree = FileTree::make(dir.path(), objects).unwrap();
        for object in [0, 1, 2, 1351] {
            assert!(tree.read(object).is_err());
            tree.create(object).unwrap();
            tree.read(object).unwrap();
        }
        let files = |name: &str| fs::read_dir(dir.path().join(name)).unwrap().count();
        assert_eq!([files("a/a"), files("a/b"), files("z/z"), files("m/m")], [2, 1, 1, 0]);
        assert!(tree.create(0).unwrap_err().contains("a/a"), "it is there");
        fs::write(tree.file(1), b"other").unwrap();
        assert_eq!(tree.read(1).unwrap_err(), "object 1 is another one");
        tree.delete(0).unwrap();
        assert!(tree.read(0).is_err() && tree.delete(0).is_err());
    }
}
