//! A process that ends at any step of putting a cache in its place, and while that is put right.
//!
//! It once removed `remade` with the marks in it in whatever order the directory had them: ended in the middle, the next start took the new
//! cache for the old one and removed it. And it removed one directory's before the next one's was moved.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Beside, settle};
use crate::cache::open::FILE_NAME;
use crate::engine::trees;

thread_local! {
    /// Steps until the process ends.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

pub fn step() -> io::Result<()> {
    LEFT.with(|left| match left.get().checked_sub(1) {
        Some(fewer) => {
            left.set(fewer);
            Ok(())
        }
        None => Err(io::Error::other("the process has ended")),
    })
}

/// The parts of a cache, each with the words in it.
fn write(dir: &Path, parts: &[&str], words: &str) {
    for part in parts {
        if *part == "objects" {
            fs::create_dir_all(dir.join(part)).unwrap();
            ["1", "2"].iter().for_each(|file| fs::write(dir.join(part).join(file), words).unwrap());
        } else {
            fs::write(dir.join(part), words).unwrap();
        }
    }
}

/// What is in a directory, all parts of one state, and which.
fn state(dir: &Path, old: &[&str], new: &[&str]) -> &'static str {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for (parts, words) in [(old, "old"), (new, "new")] {
        let mut expected: Vec<_> = parts.iter().chain(&["own"]).map(Into::into).collect::<Vec<std::ffi::OsString>>();
        expected.sort();
        let says = |part: &&str| {
            let path = dir.join(part);
            let path = if path.is_dir() { path.join("1") } else { path };
            fs::read_to_string(path).unwrap() == words
        };
        if names == expected && parts.iter().all(says) {
            return words;
        }
    }
    panic!("{names:?}");
}

fn begun(old: &[&str], new: &[&str]) -> (TempDir, [PathBuf; 2], Beside) {
    // In memory, where the system has that: each step is synced.
    let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dirs = ["a", "b"].map(|name| place.path().join(name));
    for dir in &dirs {
        fs::create_dir(dir).unwrap();
        write(dir, old, "old");
        fs::write(dir.join("own"), "somebody's own").unwrap();
    }
    let beside = Beside::make(&dirs, new.contains(&trees::NAMES[0])).unwrap();
    beside.dirs().iter().for_each(|dir| write(dir, new, "new"));
    (place, dirs, beside)
}

#[test]
fn ended_at_any_step_both_disks_are_old_or_both_are_new() {
    let (file, tree, mapped) = (&[FILE_NAME][..], &trees::NAMES[..2], &trees::NAMES[..]);
    for (old, new) in [(file, file), (file, tree), (mapped, tree), (tree, mapped), (mapped, file)] {
        let mut seen = [0, 0];
        for first in 0.. {
            let mut was_cut = false;
            // Putting it right is cut short, too, once.
            for second in [0, 1, 3, 6, usize::MAX] {
                let (_place, dirs, beside) = begun(old, new);
                LEFT.set(first);
                was_cut = beside.put_in_place().is_err();
                LEFT.set(second);
                let _ = settle(&dirs);
                LEFT.set(usize::MAX);
                settle(&dirs).unwrap();
                let states = dirs.each_ref().map(|dir| state(dir, old, new));
                assert_eq!(states[0], states[1], "{old:?} to {new:?}, {first} and {second} steps");
                seen[usize::from(states[0] == "new")] += 1;
                assert!(was_cut || states[0] == "new");
            }
            if !was_cut {
                break;
            }
        }
        assert!(seen[0] > 0 && seen[1] > 20, "{seen:?}");
    }
}

#[test]
fn what_is_somebodys_own_stays() {
    let (_place, dirs, beside) = begun(&[FILE_NAME], &[FILE_NAME]);
    // A second one is refused, and leaves the first one's alone.
    assert!(Beside::make(&dirs, false).is_err() && beside.dirs().iter().all(|dir| dir.join(FILE_NAME).exists()));
    assert!(settle(&dirs).unwrap_err().to_string().contains("by another process"));
    drop(beside);
    assert!(dirs.iter().all(|dir| state(dir, &[FILE_NAME], &[]) == "old"));
    for own in ["remade", "remade-old", "objects"] {
        fs::create_dir(dirs[0].join(own)).unwrap();
        fs::write(dirs[0].join(own).join("x"), "somebody's own").unwrap();
        settle(&dirs).unwrap();
        // Made or refused, and dropped.
        drop(Beside::make(&dirs, own == "objects"));
        assert!(dirs[0].join(own).join("x").exists(), "{own}");
        fs::remove_dir_all(dirs[0].join(own)).unwrap();
    }
    fs::rename(dirs[0].join(FILE_NAME), dirs[0].join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", dirs[0].join(FILE_NAME)).unwrap();
    let refused = Beside::make(&dirs, false).err().unwrap().to_string();
    assert!(refused.contains("is a link"), "{refused}");
}
