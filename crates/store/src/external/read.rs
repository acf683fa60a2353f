//! A read that is left to the program, and the ticket that judges it.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::ExternalError;
use super::index::{Index, Next, Purpose, Share, at_once};
use crate::device::lending::{Handed, catch};
use crate::memory::AlignedBuf;

/// Bytes to be read, and the ticket for what is read. Dropped, the lookup is given up and nothing else happens.
pub struct Read {
    handed: Handed,
    ticket: Ticket,
}

/// What judges a read.
pub(super) struct Ticket {
    pub(super) index: Index,
    pub(super) purpose: Purpose,
    pub(super) share: Share,
}

impl Read {
    pub(super) fn new(handed: Handed, ticket: Ticket) -> Self {
        Read { handed, ticket }
    }

    /// The file or block device to read: open for reading only, for as long as anybody holds this.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.handed.file().as_fd()
    }

    /// The same, to be kept.
    pub fn file(&self) -> Arc<File> {
        self.handed.file().clone()
    }

    /// Where in it to begin, in bytes.
    pub fn offset(&self) -> u64 {
        self.handed.at()
    }

    /// How many bytes to read, all of which lie in a row.
    pub fn bytes(&self) -> usize {
        self.handed.bytes()
    }

    /// What the memory that is read into must be aligned to, in bytes: the descriptor reads past the page cache where the
    /// store does, which takes aligned memory only. Offset and length are multiples of it. 1 if any memory will do.
    pub fn align(&self) -> u64 {
        self.handed.block_bytes()
    }

    /// Read the bytes, for programs that have no other way of their own. Blocks. Errors: the system's; of a file that is
    /// shorter, [`std::io::ErrorKind::UnexpectedEof`].
    pub fn read(&self) -> std::io::Result<AlignedBuf> {
        let mut bytes = AlignedBuf::zeroed(self.bytes());
        self.handed.file().read_exact_at(&mut bytes, self.offset())?;
        Ok(bytes)
    }

    /// What the bytes are that were read: those of the object, or where to read on, or a miss. They are copied. Bytes that
    /// do not verify count as damage of the disk, as if the store had read them, and its index forgets what they were to
    /// be. Errors: [`ExternalError::Length`], [`ExternalError::Closed`].
    pub fn verify(self, bytes: &[u8]) -> Next {
        let Read { handed, ticket: Ticket { index, purpose, share } } = self;
        if bytes.len() != handed.bytes() {
            return at_once(Err(ExternalError::Length { given: bytes.len(), wanted: handed.bytes() }));
        }
        if let Err(error) = index.check_open() {
            return at_once(Err(error));
        }
        let ((), handed) = catch(|| handed.answer(bytes));
        index.go_on(handed, purpose, share)
    }
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Read({} bytes at {})", self.bytes(), self.offset())
    }
}
