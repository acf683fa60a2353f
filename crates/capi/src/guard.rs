//! The boundary: results become numbers, and no panic crosses.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Failure, TINAJA_PANIC, remember};

/// A count from 0 up, or a code below 0 and a message to be asked for.
pub(crate) fn count(work: impl FnOnce() -> Result<u64, Failure>) -> i64 {
    // What a panic leaves behind is the store's, which locks without poisoning and verifies what it reads.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)));
    match result {
        Ok(count) => i64::try_from(count).unwrap_or(i64::MAX),
        Err(failure) => {
            remember(&failure.message);
            failure.code.into()
        }
    }
}

/// 0, or a code below 0 and a message to be asked for.
pub(crate) fn code(work: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // Codes fit: they are this small.
    count(|| work().map(|()| 0)) as i32
}

fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("nothing more is known");
    Failure::new(TINAJA_PANIC, format!("Tinaja failed because of a bug, please report it: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{TINAJA_FULL, tinaja_last_error};
    use std::ffi::CStr;

    #[test]
    fn no_panic_crosses() {
        assert_eq!(count(|| panic!("a bug")), TINAJA_PANIC.into());
        // SAFETY: it is never null, and ends in a zero.
        let last = unsafe { CStr::from_ptr(tinaja_last_error()) };
        assert!(last.to_str().unwrap().ends_with("a bug"));
        assert_eq!(code(|| Err(Failure::new(TINAJA_FULL, "full"))), TINAJA_FULL);
        assert_eq!((count(|| Ok(7)), count(|| Ok(u64::MAX)), code(|| Ok(()))), (7, i64::MAX, 0));
    }
}
