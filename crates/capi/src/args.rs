//! Pointers from C, looked at before they are used.

use std::ffi::{CStr, c_char};
use std::{ptr, slice};

use crate::error::{Failure, TINAJA_ARGUMENT, TINAJA_NULL, TINAJA_TOO_SMALL};

fn null(what: &str) -> Failure {
    Failure::new(TINAJA_NULL, format!("{what} is null: give a pointer to it"))
}

fn check(pointer: *const u8, bytes: usize, what: &str) -> Result<bool, Failure> {
    if bytes == 0 {
        return Ok(false);
    }
    if pointer.is_null() {
        return Err(null(what));
    }
    if isize::try_from(bytes).is_err() {
        return Err(Failure::new(
            TINAJA_ARGUMENT,
            format!("{what} cannot have {bytes} bytes: no memory is that large"),
        ));
    }
    Ok(true)
}

/// Bytes to be read. None at all may be at null. Errors: [`TINAJA_NULL`], [`TINAJA_ARGUMENT`].
///
/// # Safety
/// If `pointer` is not null, `bytes` bytes may be read there, and nobody changes them until the call ends.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, bytes: usize, what: &str) -> Result<&'a [u8], Failure> {
    if !check(pointer, bytes, what)? {
        return Ok(&[]);
    }
    // SAFETY: not null, a length that fits, and the caller's word for the rest.
    Ok(unsafe { slice::from_raw_parts(pointer, bytes) })
}

/// Bytes to be written. None at all may be at null. Errors: as [`bytes()`].
///
/// # Safety
/// If `pointer` is not null, `bytes` bytes may be written there, and nobody else looks at them until the call ends.
pub(crate) unsafe fn room<'a>(pointer: *mut u8, bytes: usize, what: &str) -> Result<&'a mut [u8], Failure> {
    if !check(pointer, bytes, what)? {
        return Ok(&mut []);
    }
    // SAFETY: not null, a length that fits, and the caller's word for the rest.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, bytes) })
}

/// A text that ends in a zero; `None` at null. Errors: [`TINAJA_ARGUMENT`] if it is not UTF-8.
///
/// # Safety
/// If `pointer` is not null, a text that ends in a zero may be read there, and nobody changes it until the call ends.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller's word for the rest.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| Failure::new(TINAJA_ARGUMENT, format!("{what} is not UTF-8")))
}

/// The same, which must be there. Errors: [`TINAJA_NULL`] too.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn some_text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's word.
    unsafe { text(pointer, what) }?.ok_or_else(|| null(what))
}

/// A copy of a value; `None` at null.
///
/// # Safety
/// If `pointer` is not null, a value may be read there. It need not be aligned.
pub(crate) unsafe fn value<T: Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: not null, and the caller's word for the rest.
    (!pointer.is_null()).then(|| unsafe { ptr::read_unaligned(pointer) })
}

/// Where a result goes, which must be somewhere.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Errors: [`TINAJA_NULL`].
    ///
    /// # Safety
    /// If `pointer` is not null, a value may be written there until the call ends. It need not be aligned.
    pub(crate) unsafe fn to(pointer: *mut T, what: &str) -> Result<Self, Failure> {
        if pointer.is_null() { Err(null(what)) } else { Ok(Out(pointer)) }
    }

    pub(crate) fn put(&self, value: T) {
        // SAFETY: not null, and whoever made this gave his word for the rest.
        unsafe { ptr::write_unaligned(self.0, value) };
    }
}

/// Copy all of `from` to where there is room for so much. Errors: [`crate::TINAJA_TOO_SMALL`].
pub(crate) fn copy_all(from: &[u8], to: &mut [u8], what: &str) -> Result<u64, Failure> {
    let (needs, has) = (from.len(), to.len());
    let room = to.get_mut(..needs).ok_or_else(|| {
        let message = format!("{what} has {needs} bytes, but the buffer has room for {has}: use a larger buffer");
        Failure::new(TINAJA_TOO_SMALL, message)
    })?;
    room.copy_from_slice(from);
    Ok(needs as u64)
}
