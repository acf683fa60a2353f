//! How far a read or write has come whose system calls may do part of it, or none.

use std::io::{self, ErrorKind};
use std::thread;

/// A system that answers "try again" so many times in a row is not going to do it.
const MAX_TRIES: u32 = 1000;

/// The progress of one request.
#[derive(Debug)]
pub(super) struct Progress {
    done: usize,
    len: usize,
    tries: u32,
}

impl Progress {
    pub(super) fn of(len: usize) -> Self {
        Progress { done: 0, len, tries: 0 }
    }

    /// Bytes done so far: where the next system call goes on.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// A system call returned. The outcome of the whole request, or `None` if another call must go on with it.
    pub(super) fn after(&mut self, call: io::Result<usize>) -> Option<io::Result<()>> {
        match call {
            Ok(bytes) => {
                self.done += bytes;
                self.tries = 0;
                let ended = bytes == 0 && self.done < self.len;
                let short = || io::Error::new(ErrorKind::UnexpectedEof, "the file is shorter than it was");
                if ended { Some(Err(short())) } else { (self.done >= self.len).then_some(Ok(())) }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => None,
            Err(error) if error.kind() == ErrorKind::WouldBlock && self.tries < MAX_TRIES => {
                self.tries += 1;
                thread::yield_now();
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// The error with what failed and where.
pub(super) fn explain(error: io::Error, what: &str, len: usize, at: u64) -> io::Error {
    io::Error::new(error.kind(), format!("{what} of {len} bytes at offset {at}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(len: usize, calls: Vec<Result<usize, ErrorKind>>) -> Option<Result<(), ErrorKind>> {
        let mut progress = Progress::of(len);
        let mut calls = calls.into_iter();
        let ended = calls.by_ref().find_map(|call| progress.after(call.map_err(io::Error::from)));
        assert!(calls.next().is_none(), "a call too many");
        ended.map(|ended| ended.map_err(|error| error.kind()))
    }

    #[test]
    fn parts_and_interruptions_are_gone_on_from() {
        let (interrupted, again) = (Err(ErrorKind::Interrupted), Err(ErrorKind::WouldBlock));
        assert_eq!(outcome(10, vec![Ok(10)]), Some(Ok(())));
        assert_eq!(outcome(10, vec![Ok(3), interrupted, Ok(3), again, Ok(4)]), Some(Ok(())));
        assert_eq!(outcome(10, vec![Ok(3), interrupted]), None);
        assert_eq!(outcome(10, vec![Ok(3), Ok(0)]), Some(Err(ErrorKind::UnexpectedEof)));
        assert_eq!(outcome(10, vec![Err(ErrorKind::StorageFull)]), Some(Err(ErrorKind::StorageFull)));
        assert_eq!(outcome(10, vec![again; 1001]), Some(Err(ErrorKind::WouldBlock)), "but not for ever");
        assert_eq!(outcome(0, vec![Ok(0)]), Some(Ok(())), "a sync has no bytes");
    }
}
