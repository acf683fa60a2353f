//! Caches: opened, closed, flushed, and objects removed from them.

use std::ffi::c_char;
use std::sync::{Arc, LazyLock};

use tinaja_files::Handle;
use tinaja_files::handles::{Handles, NoSuch};
use tinaja_store::{Cache, Key, Removed, Store, block_on};

use crate::error::{
    Failure, TINAJA_ARGUMENT, TINAJA_CLOSED_HANDLE, TINAJA_FULL, TINAJA_NOT_FOUND, TINAJA_UNKNOWN_HANDLE,
};
use crate::options::tinaja_options;
use crate::{args, guard, options};

/// Caches open at once: a program has one, or one for each of its users.
const MAX_CACHES: usize = 256;
/// The kind of handles that caches have.
const CACHES: u8 = 2;

static OPEN: LazyLock<Handles<Arc<Cache>>> = LazyLock::new(|| Handles::new(CACHES, MAX_CACHES));

/// A cache that is open. Errors: of the handle.
pub(crate) fn cache(handle: i64) -> Result<Arc<Cache>, Failure> {
    let cache = OPEN.get(Handle(handle)).map_err(|none| no_such(none, "cache"))?;
    Ok((*cache).clone())
}

pub(crate) fn no_such(none: NoSuch, what: &str) -> Failure {
    match none {
        NoSuch::Unknown(handle) => Failure::new(
            TINAJA_UNKNOWN_HANDLE,
            format!("there is no {what} {handle}, and there never was: use a handle as it was returned"),
        ),
        NoSuch::Closed(handle) => Failure::new(TINAJA_CLOSED_HANDLE, format!("{what} {handle} was closed already")),
    }
}

/// The key of a name. Errors: it is empty, or null.
///
/// # Safety
/// As [`args::bytes`].
pub(crate) unsafe fn key(name: *const u8, bytes: usize) -> Result<Key, Failure> {
    // SAFETY: the caller's word.
    let name = unsafe { args::bytes(name, bytes, "the key") }?;
    if name.is_empty() {
        return Err(Failure::new(TINAJA_ARGUMENT, "the key has no bytes: give it at least one"));
    }
    Ok(Key::from_name(name))
}

/// Open the cache in a directory, or make one there. `options` may be null. Returns its handle, or a code.
///
/// # Safety
/// `dir` is null or a text that ends in a zero; `options` is null or as many bytes may be read there as it says, and so may the
/// texts in it, of `more_dirs` as many as `more_dirs_count` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_cache_open(dir: *const c_char, options: *const tinaja_options) -> i64 {
    guard::count(|| {
        // SAFETY: the caller's word.
        let options = unsafe { options::of_program(args::some_text(dir, "the directory")?, options) }?;
        let cache = Arc::new(Cache::open(options)?);
        let full =
            || Failure::new(TINAJA_FULL, format!("{MAX_CACHES} caches are open, which is the limit: close some"));
        OPEN.add(cache).map(|handle| handle.0 as u64).ok_or_else(full)
    })
}

/// Write everything to disk and close a cache. The handle is closed even if that fails. The cache's files and tickets are
/// closed with it, and later calls on them fail. Returns 0 or a code.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_cache_close(cache: i64) -> i32 {
    guard::code(|| {
        let cache = OPEN.take(Handle(cache)).map_err(|none| no_such(none, "cache"))?;
        Ok(block_on(cache.close())?)
    })
}

/// Make everything stored so far survive a loss of power. Returns 0 or a code.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_flush(cache: i64) -> i32 {
    guard::code(|| Ok(block_on(self::cache(cache)?.flush())?))
}

/// Remove an object. Returns 0 if it was there, or may have been; `TINAJA_NOT_FOUND` if it was not; or a code.
///
/// # Safety
/// `key` is null, or `key_bytes` bytes may be read there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_remove(cache: i64, key: *const u8, key_bytes: usize) -> i32 {
    guard::code(|| {
        // SAFETY: the caller's word.
        let (cache, key) = (self::cache(cache)?, unsafe { self::key(key, key_bytes) }?);
        match block_on(cache.remove(&key))? {
            Removed::Gone | Removed::Elsewhere => Ok(()),
            Removed::Absent => Err(Failure::new(TINAJA_NOT_FOUND, "there is no such object to remove")),
        }
    })
}
