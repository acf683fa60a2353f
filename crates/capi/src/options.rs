//! How caches are opened: a struct that grows, and what its numbers mean.

use std::ffi::c_char;
use std::mem::{self, MaybeUninit};
use std::path::PathBuf;
use std::{ptr, slice};

use tinaja_store::engines::{self, Setting, Takes};
use tinaja_store::{CacheOptions, EngineRef, MAX_DISKS, Settings};

use crate::args;
use crate::error::{Failure, TINAJA_ARGUMENT, TINAJA_NULL};

/// A setting left as the cache was created, or at its default.
pub const TINAJA_UNSET: u32 = 0;
/// A setting that is off.
pub const TINAJA_OFF: u32 = 1;
/// A setting that is on.
pub const TINAJA_ON: u32 = 2;

/// A struct of more bytes than this is none of ours, however new the program's header is.
const MOST_STRUCT_BYTES: u64 = 4096;
/// The directories that a cache may have besides the first.
const MOST_DIRS: usize = MAX_DISKS - 1;

/// How to open a cache. Zeros and nulls mean the defaults, except for `struct_bytes`. Setting an option that the engine
/// does not have is an error.
///
/// The struct only grows at its end. `struct_bytes` tells the library how large the struct was in the program's header: a
/// newer library takes the missing options for zero, and an older one refuses options it does not know unless they are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tinaja_options {
    /// `sizeof(struct tinaja_options)`.
    pub struct_bytes: u64,
    /// The engine, as in "hashcache-log"; null: what the cache was made with, or hashcache-log, if `engine_by_memory` says no other.
    pub engine: *const c_char,
    /// Bytes of disk in each directory; 0: what the cache has, or 1 GiB. An existing cache of another size is refused.
    pub disk_bytes: u64,
    /// Bytes of memory for hot objects, and with generational for the index too; what has no room of that lies on the disk. 0: no hot
    /// objects, and all of an index in memory.
    pub memory_bytes: u64,
    /// The average object size in bytes, for which a new cache is planned; 0: 8 KiB.
    pub mean_object_bytes: u64,
    /// Directories on further disks, to spread objects over: always the same ones, in the same order. Null if there are none.
    pub more_dirs: *const *const c_char,
    /// How many of them; at most 63.
    pub more_dirs_count: u64,
    /// Bytes per bin of a new Disk Table, a power of two from 4 to 64 KiB; 0: chosen from the average object size.
    pub bin_bytes: u64,
    /// Bins per set of a new Disk Table, 2, 4 or 8; 0: 8.
    pub ways: u32,
    /// Bits of each object's hash that the index of a new cache keeps in memory, 8 to 16; 0: 8.
    pub hash_bits: u32,
    /// Whether a new cache writes and reads related objects together, see the group of `tinaja_create`: `TINAJA_ON`,
    /// `TINAJA_OFF`, or `TINAJA_UNSET`, which is off in a new one. An existing cache that was created otherwise is refused.
    pub prefetch: u32,
    /// How many of a set's 8 positions hashcache-loglru keeps in memory, 1 to 8; 0: 4.
    pub positions_in_memory: u32,
    /// Percentage of sets that hashcache-setmemlru indexes in memory, 1 to 100; 0: 40.
    pub sets_in_memory_percent: u32,
    /// Percentage of the stored bytes that segmented may write again to keep popular objects, up to 50.
    pub keep_percent: u32,
    /// A directory on a separate disk for the positions that hashcache-loglru does not keep in memory. Null: they are stored
    /// beside the objects. A cache that was created with one cannot be opened without one, unless all positions are in memory.
    pub positions_dir: *const c_char,
    /// `TINAJA_ON`: `memory_bytes` and `disk_bytes` choose the engine of a new cache, if `engine` is null: the one that finds the most, which
    /// is generational but on disks below 12 MiB and without any memory. `TINAJA_UNSET` or `TINAJA_OFF`: they do not.
    pub engine_by_memory: u32,
    /// What generational finds as much of as possible: 0: objects, 1: bytes, 2: balanced between both. It may be changed at any opening.
    pub value: u32,
}

/// Which fields are settings of engines, and which ones.
type Field = (&'static str, fn(&tinaja_options) -> u64, &'static Setting);
static SETTINGS: [Field; 8] = [
    ("bin_bytes", |said| said.bin_bytes, &engines::BIN_SIZE),
    ("ways", |said| said.ways.into(), &engines::WAYS),
    ("hash_bits", |said| said.hash_bits.into(), &engines::HASH_BITS),
    ("prefetch", |said| said.prefetch.into(), &engines::PREFETCH),
    ("positions_in_memory", |said| said.positions_in_memory.into(), &engines::POSITIONS_IN_MEMORY),
    ("sets_in_memory_percent", |said| said.sets_in_memory_percent.into(), &engines::SETS_IN_MEMORY),
    ("keep_percent", |said| said.keep_percent.into(), &engines::KEEP),
    ("value", |said| said.value.into(), &engines::VALUE),
];

/// How many bytes the struct had when it was first given out: what every program's has.
const FIRST_BYTES: u64 = 88;
const _: () = assert!(mem::size_of::<tinaja_options>() as u64 >= FIRST_BYTES || cfg!(target_pointer_width = "32"));

fn wrong(message: String) -> Failure {
    Failure::new(TINAJA_ARGUMENT, message)
}

/// A program's options, of whatever age; `None` at null. Errors: [`TINAJA_ARGUMENT`].
///
/// # Safety
/// If `options` is not null, as many bytes may be read there as its `struct_bytes` says, and these 8 themselves.
unsafe fn read(options: *const tinaja_options) -> Result<Option<tinaja_options>, Failure> {
    // SAFETY: the caller's word; the number is the first of the struct.
    let Some(said) = (unsafe { args::value(options.cast::<u64>()) }) else { return Ok(None) };
    let known = mem::size_of::<tinaja_options>();
    let first = FIRST_BYTES.min(known as u64);
    if !(first..=MOST_STRUCT_BYTES).contains(&said) {
        return Err(wrong(format!("struct_bytes of the options is {said}: set it to sizeof(struct tinaja_options)")));
    }
    // SAFETY: the caller's word, for a length that makes sense.
    let bytes = unsafe { slice::from_raw_parts(options.cast::<u8>(), said as usize) };
    let (ours, beyond) = bytes.split_at(known.min(bytes.len()));
    if beyond.iter().any(|byte| *byte != 0) {
        return Err(wrong(format!(
            "an option is set that this library, whose options have {known} bytes, does not have yet: leave it 0, or take a \
             newer library"
        )));
    }
    let mut made = MaybeUninit::<tinaja_options>::zeroed();
    // SAFETY: `ours` is no longer than the struct, and does not lie in it; zeros are valid numbers and null pointers, and so is
    // whatever a program writes over them.
    unsafe {
        ptr::copy_nonoverlapping(ours.as_ptr(), made.as_mut_ptr().cast::<u8>(), ours.len());
        Ok(Some(made.assume_init()))
    }
}

/// The options of a cache in a directory. Errors: [`TINAJA_NULL`], [`TINAJA_ARGUMENT`]. What the numbers are good for, opening
/// finds out.
///
/// # Safety
/// As of [`crate::tinaja_cache_open`].
pub(crate) unsafe fn of_program(dir: &str, options: *const tinaja_options) -> Result<CacheOptions, Failure> {
    let opened = CacheOptions::new(dir).memory_bytes(0);
    // SAFETY: the caller's word.
    let Some(said) = unsafe { read(options) }? else { return Ok(opened) };
    // SAFETY: the caller's word.
    let engine = unsafe { args::text(said.engine, "the engine's name") }?;
    let engine = engine.map(str::parse::<EngineRef>).transpose().map_err(wrong)?;
    // SAFETY: the caller's word.
    let more_dirs = unsafe { dirs(said.more_dirs, said.more_dirs_count) }?;
    let mut settings = Settings::new();
    for (name, field, setting) in SETTINGS {
        if let Some(value) = value_of(name, field(&said), setting)? {
            settings.set(setting, value);
        }
    }
    let by_memory = switch("engine_by_memory", said.engine_by_memory.into())?.unwrap_or(false);
    // SAFETY: the caller's word.
    let positions_dir = unsafe { args::text(said.positions_dir, "positions_dir") }?;
    Ok(opened
        .when(engine, CacheOptions::engine)
        .when(given(said.disk_bytes), CacheOptions::disk_bytes)
        .memory_bytes(said.memory_bytes)
        .engine_by_memory(by_memory)
        .when(given(said.mean_object_bytes), CacheOptions::mean_object_bytes)
        .more_dirs(more_dirs)
        .settings(settings)
        .when(positions_dir, CacheOptions::positions_dir))
}

fn given<T: Default + PartialEq>(number: T) -> Option<T> {
    Some(number).filter(|number| *number != T::default())
}

/// What a field says of a setting; `None` where it is zero. Errors: [`TINAJA_ARGUMENT`].
fn value_of(name: &str, said: u64, setting: &Setting) -> Result<Option<u64>, Failure> {
    match (setting.takes, said) {
        (_, 0) => Ok(None),
        (Takes::Switch { .. }, said) => Ok(switch(name, said)?.map(u64::from)),
        (Takes::Number { .. } | Takes::Bytes | Takes::OneOf(_), number) => match setting.refusal(number) {
            // What is wrong and smaller the cache refuses, with a code of its own: programs know both.
            Some(_) if number > u8::MAX.into() => Err(wrong(format!("{name} is {number}: see tinaja.h for its range"))),
            _ => Ok(Some(number)),
        },
    }
}

/// Whether something is on, if it was said. Errors: [`TINAJA_ARGUMENT`].
fn switch(name: &str, said: u64) -> Result<Option<bool>, Failure> {
    match u32::try_from(said) {
        Ok(TINAJA_UNSET) => Ok(None),
        Ok(TINAJA_OFF) => Ok(Some(false)),
        Ok(TINAJA_ON) => Ok(Some(true)),
        _ => Err(wrong(format!("{name} is {said}: give TINAJA_UNSET, TINAJA_OFF or TINAJA_ON"))),
    }
}

/// # Safety
/// If `first` is not null, `count` pointers may be read there, and they need not be aligned; and each of these is null or leads
/// to a text that ends in a zero.
unsafe fn dirs(first: *const *const c_char, count: u64) -> Result<Vec<PathBuf>, Failure> {
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST_DIRS);
    let Some(count) = count else {
        return Err(wrong(format!("a cache may have at most {MOST_DIRS} directories besides the first")));
    };
    if first.is_null() && count > 0 {
        let message = format!("more_dirs is null, and more_dirs_count is {count}: give as many texts, or say 0");
        return Err(Failure::new(TINAJA_NULL, message));
    }
    let one = |nth| {
        // SAFETY: not null, within the array, and the caller's word for the rest.
        let dir = unsafe { args::some_text(ptr::read_unaligned(first.add(nth)), "one of more_dirs") };
        dir.map(PathBuf::from)
    };
    (0..count).map(one).collect()
}
