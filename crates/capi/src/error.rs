//! Codes below 0, what they mean, and what was wrong last.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use tinaja_files::FileError;
use tinaja_store::external::ExternalError;
use tinaja_store::{OpenError, StoreError};

/// Done.
pub const TINAJA_OK: i32 = 0;
/// A required pointer is null.
pub const TINAJA_NULL: i32 = -1;
/// An argument is out of range, or a text is not UTF-8.
pub const TINAJA_ARGUMENT: i32 = -2;
/// No such object is stored.
pub const TINAJA_NOT_FOUND: i32 = -3;
/// No such handle was ever given out, or it is of another kind.
pub const TINAJA_UNKNOWN_HANDLE: i32 = -4;
/// The handle was closed already.
pub const TINAJA_CLOSED_HANDLE: i32 = -5;
/// The file is being written.
pub const TINAJA_NOT_FOR_READING: i32 = -6;
/// The file was opened for reading.
pub const TINAJA_NOT_FOR_WRITING: i32 = -7;
/// The offset is outside the file or object.
pub const TINAJA_OUTSIDE: i32 = -8;
/// The length is not known yet.
pub const TINAJA_LENGTH_UNKNOWN: i32 = -9;
/// Too many handles are open.
pub const TINAJA_FULL: i32 = -10;
/// What was written is not stored.
pub const TINAJA_NOT_STORED: i32 = -11;
/// The rest of the object cannot be read.
pub const TINAJA_READ_FAILED: i32 = -12;
/// The cache cannot be opened.
pub const TINAJA_OPEN_FAILED: i32 = -13;
/// The cache is closed.
pub const TINAJA_CACHE_CLOSED: i32 = -14;
/// The number of bytes handed in is not the number that was to be read.
pub const TINAJA_WRONG_LENGTH: i32 = -15;
/// The disk failed.
pub const TINAJA_DISK: i32 = -16;
/// The buffer is too small.
pub const TINAJA_TOO_SMALL: i32 = -17;
/// The library failed because of a bug in it.
pub const TINAJA_PANIC: i32 = -18;

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let code = match &error {
            FileError::NotFound => TINAJA_NOT_FOUND,
            FileError::Unknown(_) => TINAJA_UNKNOWN_HANDLE,
            FileError::Closed(_) => TINAJA_CLOSED_HANDLE,
            FileError::NotForReading(_) => TINAJA_NOT_FOR_READING,
            FileError::NotForWriting(_) => TINAJA_NOT_FOR_WRITING,
            FileError::BeyondEnd { .. } => TINAJA_OUTSIDE,
            FileError::LengthUnknown => TINAJA_LENGTH_UNKNOWN,
            FileError::Full(_) => TINAJA_FULL,
            FileError::NotStored(_) => TINAJA_NOT_STORED,
            // `Read`, and what comes to be added.
            _ => TINAJA_READ_FAILED,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<ExternalError> for Failure {
    fn from(error: ExternalError) -> Self {
        let code = match &error {
            ExternalError::Closed => TINAJA_CACHE_CLOSED,
            ExternalError::TooMany(_) => TINAJA_FULL,
            ExternalError::Length { .. } => TINAJA_WRONG_LENGTH,
            ExternalError::BeyondEnd { .. } => TINAJA_OUTSIDE,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Failure::new(TINAJA_OPEN_FAILED, error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = if error == StoreError::Closed { TINAJA_CACHE_CLOSED } else { TINAJA_DISK };
        Failure::new(code, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Remember what was wrong.
pub(crate) fn remember(message: &str) {
    let text: Vec<u8> = message.bytes().filter(|byte| *byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // A thread that ends remembers nothing.
    let _ = LAST.try_with(|last| last.replace(text));
}

/// What a code means, in a few words, also for a number that is no code. Never null; valid forever.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_strerror(code: i32) -> *const c_char {
    let text: &'static CStr = match code {
        TINAJA_OK.. => c"done",
        TINAJA_NULL => c"a required pointer is null",
        TINAJA_ARGUMENT => c"an argument is out of range, or a text is not UTF-8",
        TINAJA_NOT_FOUND => c"no such object is stored",
        TINAJA_UNKNOWN_HANDLE => c"no such handle was ever given out, or it is of another kind",
        TINAJA_CLOSED_HANDLE => c"the handle was closed already",
        TINAJA_NOT_FOR_READING => c"the file is being written",
        TINAJA_NOT_FOR_WRITING => c"the file was opened for reading",
        TINAJA_OUTSIDE => c"the offset is outside the file or object",
        TINAJA_LENGTH_UNKNOWN => c"the length is not known yet",
        TINAJA_FULL => c"too many handles are open",
        TINAJA_NOT_STORED => c"what was written is not stored",
        TINAJA_READ_FAILED => c"the rest of the object cannot be read",
        TINAJA_OPEN_FAILED => c"the cache cannot be opened",
        TINAJA_CACHE_CLOSED => c"the cache is closed",
        TINAJA_WRONG_LENGTH => c"the number of bytes handed in is not the number that was to be read",
        TINAJA_DISK => c"the disk failed",
        TINAJA_TOO_SMALL => c"the buffer is too small",
        TINAJA_PANIC => c"the library failed because of a bug in it",
        _ => c"this is not a code of Tinaja",
    };
    text.as_ptr()
}

/// What went wrong in this thread's last failed call, and what to do; empty if none has failed. Never null; valid until this
/// thread's next failed call, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn tinaja_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text_of_its_own() {
        let text = |code| {
            // SAFETY: it is never null, and ends in a zero.
            unsafe { CStr::from_ptr(tinaja_strerror(code)) }
        };
        let mut texts: Vec<_> = (TINAJA_PANIC..=0).map(text).collect();
        let all = texts.len();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), all);
        for code in [TINAJA_PANIC - 1, i32::MIN] {
            assert_eq!(text(code), c"this is not a code of Tinaja");
        }
    }

    #[test]
    fn the_last_error_is_each_threads_own() {
        let last = || {
            // SAFETY: it is never null, ends in a zero, and nothing fails meanwhile.
            unsafe { CStr::from_ptr(tinaja_last_error()) }.to_owned()
        };
        assert_eq!(last(), CString::default());
        remember("one\0 zero");
        std::thread::scope(|scope| scope.spawn(|| assert_eq!(last(), CString::default())).join()).unwrap();
        assert_eq!(last(), c"one zero".to_owned());
    }
}
