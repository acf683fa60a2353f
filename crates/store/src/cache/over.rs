//! A cache over an engine that is open already.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use super::{Cache, Counters, Gate, Held, Inner, groups};
use crate::engine::Engine;
use crate::limits;
use crate::memory::HotObjects;
use crate::terms::Secret;
use crate::wait::Alarm;
use crate::write::Fills;

impl Cache {
    /// A store over an engine of the caller's, with a budget of `memory_bytes` for hot objects. The secret must be the
    /// one with which the engine's records were written. Errors: the system has no more threads.
    pub fn over(engine: Arc<dyn Engine>, secret: Secret, memory_bytes: u64) -> std::io::Result<Cache> {
        Self::over_hot(engine, secret, (HotObjects::new(memory_bytes), memory_bytes))
    }

    pub(super) fn over_hot(
        engine: Arc<dyn Engine>,
        secret: Secret,
        (hot, hot_budget_bytes): (HotObjects, u64),
    ) -> std::io::Result<Cache> {
        let gates: Arc<[Gate]> = (0..engine.disks()).map(|_| Gate::new(limits::reads())).collect();
        let turns = gates.clone();
        let gathers = groups::gathers(&*engine);
        let store = Arc::new(Inner {
            limits: engine.limits(),
            engine,
            hot,
            fills: Fills::default(),
            alarm: Alarm::start(move || turns.iter().for_each(Gate::tick))?,
            counters: Counters::default(),
            secret,
            hot_budget_bytes,
            gates,
            held: Held::default(),
            written: Held::default(),
            handed_out: AtomicUsize::new(0),
            gathers,
            stripes: [const { parking_lot::Mutex::new(()) }; 64],
            next_fill: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            closing: Default::default(),
        });
        groups::start(&store)?;
        Ok(Cache(store))
    }
}
