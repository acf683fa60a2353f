//! A cache over an engine that is open already.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use tinaja_clock::Clock;

use super::{Cache, Inner};
use crate::engine::Engine;
use crate::hot::HotObjects;
use crate::terms::Secret;
use crate::write::Objects;

impl Cache {
    /// A store over an engine of the caller's, with a budget of `memory_bytes` for hot objects. The secret must be the
    /// one with which the engine's records were written. Errors: the system has no more threads.
    #[cfg(feature = "unstable")]
    pub fn over(engine: Arc<dyn Engine>, secret: Secret, memory_bytes: u64) -> std::io::Result<Cache> {
        Cache::over_by(Clock::system(), engine, secret, memory_bytes)
    }

    /// [`Cache::over`] by a clock of the caller's. Errors as there.
    #[cfg(feature = "unstable")]
    pub fn over_by(clock: Clock, engine: Arc<dyn Engine>, secret: Secret, memory_bytes: u64) -> std::io::Result<Cache> {
        Self::over_hot(clock, engine, secret, (HotObjects::new(memory_bytes), memory_bytes))
    }

    pub(super) fn over_hot(
        clock: Clock,
        engine: Arc<dyn Engine>,
        secret: Secret,
        (hot, hot_budget_bytes): (HotObjects, u64),
    ) -> std::io::Result<Cache> {
        Ok(Cache(Arc::new(Inner {
            objects: Objects::over(engine, hot, clock)?,
            secret,
            hot_budget_bytes,
            handed_out: AtomicUsize::new(0),
            next_fill: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            closing: Default::default(),
        })))
    }
}
