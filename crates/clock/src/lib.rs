//! Time and threads, in one value.
//!
//! Code that asks the system for the time, sleeps or starts threads can be tested only as fast as time goes by. So nothing in
//! Tinaja does that by itself: it is handed a [`Clock`]. In a program that is the system's ([`Clock::system`]); in a test it may
//! be one that moves when it is told to ([`ManualClock`]), or any other [`Source`].
//!
//! ```
//! use std::time::Duration;
//! use tinaja_clock::ManualClock;
//!
//! let hand = ManualClock::new();
//! let clock = hand.clock();
//! let began = clock.now();
//! hand.advance(Duration::from_secs(3600));
//! assert_eq!(clock.since(began), Duration::from_secs(3600));
//! ```

#![forbid(unsafe_code)]

mod behind;
mod clock;
mod manual;
mod source;
mod steps;
#[cfg(feature = "tokio")]
mod tasks;

pub use clock::Clock;
pub use manual::ManualClock;
pub use source::{Source, Work};
#[cfg(feature = "tokio")]
pub use tasks::{Timeout, Timer, TooLate};
