//! Reading caches that another commit made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tinaja_store::{Cache, Store, block_on};

use crate::manifest::{Entry, Manifest, Word, found};
use crate::recipes::{disks, options};

/// Bytes of a superblock, which opening a cache must leave as they are.
const SUPERBLOCK_BYTES: usize = 4096;

/// Look at every cache there, on a copy of it.
pub fn read_all(dir: &Path) -> ExitCode {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.join("manifest").exists());
    names.sort();
    let failed = names.iter().filter(|path| !read(path)).count();
    println!("{} caches, {failed} failed", names.len());
    if failed == 0 && !names.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(original: &Path) -> bool {
    let copy = tempfile::tempdir().unwrap();
    copy_tree(original, copy.path());
    let manifest = Manifest::read(&original.join("manifest"));
    let before = superblocks(copy.path());
    let dirs = disks(copy.path(), manifest.two_disks);
    let mut wrong = Vec::new();
    let bytes =
        |dirs: &[PathBuf]| dirs.iter().map(|dir| fs::read(dir.join("tinaja.cache")).unwrap()).collect::<Vec<_>>();
    let all = bytes(&dirs);
    match Cache::open_read_only(&dirs) {
        Ok(cache) => wrong.extend(check(&cache, &manifest).into_iter().map(|what| format!("looked at only: {what}"))),
        Err(error) => wrong.push(format!("cannot be looked at: {error}")),
    }
    if bytes(&dirs) != all {
        wrong.push("looking at it changed it".into());
    }
    // Twice: what the first closing wrote is read by the second opening.
    for time in 1..=2 {
        match Cache::open(options(copy.path(), manifest.two_disks, manifest.apart)) {
            Ok(cache) => {
                wrong.extend(check(&cache, &manifest).into_iter().map(|what| format!("opening {time}: {what}")));
                wrong.extend(block_on(cache.close()).err().map(|error| format!("closing {time}: {error}")));
            }
            Err(error) => wrong.push(format!("opening {time}: {error}")),
        }
    }
    if superblocks(copy.path()) != before {
        wrong.push("its superblock is another".into());
    }
    let there = manifest.entries.iter().filter(|entry| entry.word == Word::There).count();
    let verdict = if wrong.is_empty() { "ok" } else { "FAILED" };
    println!("{}: {there} objects, {verdict}", original.file_name().unwrap().display());
    wrong.iter().take(10).for_each(|what| println!("    {what}"));
    wrong.is_empty()
}

/// What is wrong with a cache of such a list.
fn check(cache: &Cache, manifest: &Manifest) -> Vec<String> {
    let stats = cache.stats();
    let kind = (!manifest.is_of(&stats)).then(|| format!("it is {} of {} slots now", stats.engine, stats.slots));
    let entries = manifest.entries.iter().filter_map(|Entry { word, name, sums }| {
        let now = found(cache, name);
        match (word, &now) {
            (Word::There, None) => Some(format!("{name} is not there")),
            (Word::Gone, Some(_)) => Some(format!("{name} was removed, and is there")),
            (_, Some(now)) if now != sums => Some(format!("{name} is {now}, not {sums}")),
            _ => None,
        }
    });
    kind.into_iter().chain(entries).collect()
}

/// The beginning of every file of a cache.
fn superblocks(dir: &Path) -> Vec<Vec<u8>> {
    let files = ["cache", "second"].map(|disk| dir.join(disk).join("tinaja.cache"));
    let read = |path: &PathBuf| fs::read(path).unwrap()[..SUPERBLOCK_BYTES].to_vec();
    files.iter().filter(|path| path.exists()).map(read).collect()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
