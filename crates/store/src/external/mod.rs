//! The external indexing interface (HashCache, section 4.1): where objects lie, for programs that read the disk
//! themselves.
//!
//! A program that moves its data in its own way wants the index and not the reader: from Linux `splice` to a WAN
//! accelerator that sends chunks from its own buffers. [`Index::locate`] takes a key and returns the next [`Step`]: the
//! object, where memory has it; that it is not there; or a [`Read`]: descriptor, offset and contiguous length of the
//! bytes that hold it if it is there, and the ticket that tells after the read whether it was. [`Read::verify`] takes
//! what the program read and returns the next step in turn. Nothing counts as the object before its checksum, its whole
//! key and its place have been compared; what was damaged, or overwritten meanwhile, is a miss.
//!
//! It works over every engine, without a line of the engine's own: the engine looks for the record, and only its reads are
//! handed out (see `device::lending`). So one place decides whether bytes are the object. A second one would differ from it
//! some day. How many steps a lookup takes depends on the policy:
//!
//! | engine | what is handed out |
//! |---|---|
//! | Basic | the object's bin |
//! | Set, SetMem, SetMemLRU | its set; or its bin alone, where the set's row is in memory |
//! | Log, LogN | each place where a record of its fingerprint lies, the newest first, until one is the object's |
//! | LogLRU | the same, behind the block of the offset file that says where, if memory does not |
//! | those with a Disk Table | then the place in the log, of a record that does not fit its bin |
//!
//! In a log the first length is a guess, half as long again as the mean object; of a longer record the next step is the
//! whole. A large object's head comes first, with a table of its parts, and in a bin with the beginning of its body, which
//! needs no further read; [`Index::part`] then hands out the parts from a given byte on that lie in a row, up to 1 MiB.
//!
//! Calls never wait for the disk where the engine reads on the caller's thread, as all of them do; an engine that asks
//! its disk by itself makes the call wait, which is why they return futures. [`crate::block_on`] blocks on one; any
//! number may be in flight, from any threads, up to [`crate::limits::MAX_TICKETS`].
//!
//! ```
//! use tinaja_store::external::Step;
//! use tinaja_store::{block_on, Cache, CacheOptions, Hint, Key, Store};
//!
//! # let dir = std::env::temp_dir().join(format!("tinaja-doc-external-{}", std::process::id()));
//! let cache = Cache::open(CacheOptions::new(&dir).disk_bytes(16 << 20).memory_bytes(0))?;
//! let key = Key::from_name(b"chunk 1");
//! let mut writer = cache.put(&key, "".into(), Hint::default());
//! block_on(writer.write("the rain it keeps".into()));
//! block_on(writer.commit());
//! block_on(cache.flush())?;
//!
//! let index = cache.external();
//! let mut step = block_on(index.locate(&key))?;
//! let object = loop {
//!     step = match step {
//!         Step::Object(object) => break object,
//!         Step::Read(read) => {
//!             // The program's own read: pread(read.descriptor(), ..., read.bytes(), read.offset()).
//!             let bytes = read.read()?;
//!             block_on(read.verify(&bytes))?
//!         }
//!         Step::Missing | Step::Part(_) => panic!("it was stored"),
//!     };
//! };
//! assert_eq!(&object.body().unwrap()[..], b"the rain it keeps");
//! # drop((index, cache));
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod index;
mod parts;
mod read;

pub use index::Index;
pub use parts::{Object, Part};
pub use read::Read;

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// The object is not there, or not any more; or what was read is not what was written.
    Missing,
    /// Read these bytes, and hand them to [`Read::verify`].
    Read(Read),
    /// The object, verified.
    Object(Object),
    /// Bytes of a large object, verified: the answer to [`Index::part`].
    Part(Part),
}

/// Why a step could not be taken. The store and the object are as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExternalError {
    /// The store is closed: what lies on its disk may be anything by now.
    #[error("the store is closed: open it again, and ask again")]
    Closed,
    /// Too many reads are handed out.
    #[error("{0} reads are waiting to be verified, which is the limit: verify or drop some first")]
    TooMany(usize),
    /// Other bytes were handed in than were to be read.
    #[error("{given} bytes were handed in for a read of {wanted}: hand in exactly the bytes of that read")]
    Length {
        /// How many there were.
        given: usize,
        /// How many there should have been.
        wanted: usize,
    },
    /// The bytes asked for lie behind the end of the object.
    #[error("byte {at} lies beyond the end of an object of {length} bytes")]
    BeyondEnd {
        /// What was asked for.
        at: u64,
        /// The object's length.
        length: u64,
    },
}
