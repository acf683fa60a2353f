//! Wrappers: a device over any other, which counts, slows down or fails. They compose in any order.
//!
//! ```
//! use std::sync::Arc;
//! use tinaja_store::device::wrap::{Counted, Faulty, Limited, Model, Time};
//! use tinaja_store::device::{Device, Medium, Memory};
//!
//! let disk: Arc<dyn Device> = Arc::new(Memory::over(&Medium::zeroed(1 << 20)));
//! let slow: Arc<dyn Device> = Arc::new(Limited::new(disk, Model::sata_7200(), Time::Virtual)?);
//! let failing: Arc<dyn Device> = Arc::new(Faulty::new(slow, |_, _| None));
//! let counted = Counted::new(failing);
//! assert_eq!(counted.detail().reads.requests, 0);
//! # Ok::<(), std::io::Error>(())
//! ```

mod counted;
mod faulty;
mod limited;
mod model;
mod rules;

pub use counted::{Counted, Detail, KindCounters, SIZES};
pub use faulty::{Fault, Faulty, Tear};
pub use limited::{Limited, Time};
pub use model::Model;
pub use rules::{Rule, Rules};
