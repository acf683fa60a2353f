//! Objects as files: open, create, read, write, seek, close.

use std::io::SeekFrom;
use std::sync::{Arc, LazyLock};

use tinaja_files::{Files, Handle};
use tinaja_store::{Hint, Store};

use crate::cache::{cache, key};
use crate::error::{Failure, TINAJA_ARGUMENT};
use crate::{args, guard};

/// Seek from the beginning.
pub const TINAJA_SEEK_SET: i32 = 0;
/// Seek from the current position.
pub const TINAJA_SEEK_CUR: i32 = 1;
/// Seek from the end.
pub const TINAJA_SEEK_END: i32 = 2;

/// A length that is not known when an object is created.
pub const TINAJA_ANY_LENGTH: i64 = -1;

static FILES: LazyLock<Files> = LazyLock::new(Files::default);

/// Open an object for reading. Returns the file's handle, or a code: `TINAJA_NOT_FOUND` if it is not there.
///
/// # Safety
/// `key` is null, or `key_bytes` bytes may be read there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_open(cache: i64, key: *const u8, key_bytes: usize) -> i64 {
    guard::count(|| {
        // SAFETY: the caller's word.
        let (store, key) = (store(cache)?, unsafe { self::key(key, key_bytes) }?);
        Ok(FILES.open(&store, &key)?.0 as u64)
    })
}

/// Open a new object for writing. It replaces the stored one. `head` is stored with it unchanged. `length` is the number of
/// bytes to come, or `TINAJA_ANY_LENGTH`; an object of any other length is not stored. `group` is a number that the program
/// gives to objects that are likely to be read together: a cache that prefetches writes those that arrive at about the same
/// time one after another, and reads them with one request. 0: no group. Returns the file's handle, or a code.
///
/// # Safety
/// `key` is null, or `key_bytes` bytes may be read there; and so for `head`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_create(
    cache: i64,
    key: *const u8,
    key_bytes: usize,
    head: *const u8,
    head_bytes: usize,
    length: i64,
    group: u64,
) -> i64 {
    guard::count(|| {
        // SAFETY: the caller's word.
        let (key, head) = unsafe { (self::key(key, key_bytes)?, args::bytes(head, head_bytes, "the head")?) };
        let length = match length {
            TINAJA_ANY_LENGTH => None,
            length => Some(u64::try_from(length).map_err(|_| negative(length))?),
        };
        let hint = Hint { expected_bytes: length, group: Some(group).filter(|group| *group != 0), ..Hint::default() };
        Ok(FILES.create(&store(cache)?, &key, head, hint)?.0 as u64)
    })
}

fn negative(length: i64) -> Failure {
    let message = format!("no object can have {length} bytes: give its length, or TINAJA_ANY_LENGTH");
    Failure::new(TINAJA_ARGUMENT, message)
}

fn store(cache: i64) -> Result<Arc<dyn Store>, Failure> {
    self::cache(cache).map(|cache| cache as Arc<dyn Store>)
}

/// Read up to `bytes` bytes into `into`. Returns how many were read, 0 at the end, or a code.
///
/// # Safety
/// `into` is null, or `bytes` bytes may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_read(file: i64, into: *mut u8, bytes: usize) -> i64 {
    guard::count(|| {
        // SAFETY: the caller's word.
        let into = unsafe { args::room(into, bytes, "the buffer to read into") }?;
        Ok(FILES.read(Handle(file), into)? as u64)
    })
}

/// Write all of `bytes` bytes at `from`. Returns how many, or a code. If the bytes cannot be stored, `tinaja_close` reports it.
///
/// # Safety
/// `from` is null, or `bytes` bytes may be read there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_write(file: i64, from: *const u8, bytes: usize) -> i64 {
    guard::count(|| {
        // SAFETY: the caller's word.
        let from = unsafe { args::bytes(from, bytes, "the buffer to write from") }?;
        Ok(FILES.write(Handle(file), from)? as u64)
    })
}

/// Move the position from which bytes are read. `whence` is `TINAJA_SEEK_SET`, `_CUR` or `_END`. Returns the new position, or
/// a code; a position before the beginning or beyond the end is an error.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_seek(file: i64, offset: i64, whence: i32) -> i64 {
    guard::count(|| {
        let to = match whence {
            TINAJA_SEEK_SET => SeekFrom::Start(u64::try_from(offset).unwrap_or(u64::MAX)),
            TINAJA_SEEK_CUR => SeekFrom::Current(offset),
            TINAJA_SEEK_END => SeekFrom::End(offset),
            _ => {
                let message = format!("whence is {whence}: give TINAJA_SEEK_SET, TINAJA_SEEK_CUR or TINAJA_SEEK_END");
                return Err(Failure::new(TINAJA_ARGUMENT, message));
            }
        };
        Ok(FILES.seek(Handle(file), to)?)
    })
}

/// The file's length in bytes, so far of one that is being written; or a code.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_length(file: i64) -> i64 {
    guard::count(|| Ok(FILES.length(Handle(file))?))
}

/// Copy the object's head to `into`. Returns its length, or a code: `TINAJA_TOO_SMALL` if there is not room for all of it.
///
/// # Safety
/// `into` is null, or `bytes` bytes may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tinaja_head(file: i64, into: *mut u8, bytes: usize) -> i64 {
    guard::count(|| {
        // SAFETY: the caller's word.
        let into = unsafe { args::room(into, bytes, "the buffer for the head") }?;
        args::copy_all(&FILES.head(Handle(file))?, into, "the head")
    })
}

/// Close a file. What was written becomes the object. Returns the bytes stored, head included, 0 for a file that was
/// read; or a code. The file is closed even if this fails.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_close(file: i64) -> i64 {
    guard::count(|| Ok(FILES.close(Handle(file))?))
}

/// Close a file and forget what was written to it. Returns 0 or a code.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_discard(file: i64) -> i32 {
    guard::code(|| Ok(FILES.discard(Handle(file))?))
}
