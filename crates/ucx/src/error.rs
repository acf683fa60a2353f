//! What goes wrong.

use std::ffi::CStr;

use crate::bindings::{Functions, ucs_status_t};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no UCX on this machine.
    #[error("UCX is not there ({0}): install it (on Debian: apt-get install libucx0)")]
    Missing(String),
    /// It is there, and cannot serve.
    #[error("UCX {0} does not serve: 1.13 or later is needed, built for several threads")]
    Unfit(String),
    /// UCX says no.
    #[error("UCX cannot {what}: {why}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// What it says.
        why: String,
    },
    /// The machine has not so much memory to spare.
    #[error("{bytes} bytes of memory for peers cannot be had: the machine can spare {available}")]
    TooMuch {
        /// How much was asked for.
        bytes: usize,
        /// How much there is.
        available: u64,
    },
    /// What a peer told is not what a peer of this version tells.
    #[error("the peer's {what} {why}")]
    Foreign {
        /// Its address, or the key of its memory.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// More than the peer has, or than a message may have.
    #[error("{bytes} bytes from {at} on are not within the {most} there are")]
    Outside {
        /// From which byte on.
        at: u64,
        /// How many.
        bytes: usize,
        /// How many there are.
        most: u64,
    },
    /// The deadline has passed.
    #[error("the peer took too long")]
    TooLate,
    /// Too much waits for peers that do not answer.
    #[error("{0} bytes wait for peers that have not answered: nothing more is begun until they do")]
    Quarantined(usize),
}

impl Error {
    pub(crate) fn failed(functions: &Functions, what: &'static str, status: i32) -> Error {
        let status = ucs_status_t::try_from(status).unwrap_or(ucs_status_t::MIN);
        // SAFETY: the function takes any number, and returns a string that is never freed.
        let why = unsafe { CStr::from_ptr(functions.ucs_status_string(status)) };
        Error::Failed { what, why: why.to_string_lossy().into_owned() }
    }
}
