//! What happens by the clock: syncs come due, and who waits for a disk that takes nothing is told.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use tinaja_clock::Clock;

use super::Inner;
use crate::device::worker;

/// How often it is looked.
const TICK: Duration = Duration::from_millis(100);

/// Start the thread. It ends when the engine is closed or dropped. Errors: the system has no more threads.
pub(super) fn start(engine: &Arc<Inner>) -> std::io::Result<()> {
    let weak = Arc::downgrade(engine);
    worker::spawn("tinaja-table", &engine.log.device, move |clock| work(clock, &weak))
}

fn work(clock: &Clock, engine: &Weak<Inner>) {
    let mut synced = clock.now();
    while let Some(engine) = engine.upgrade() {
        let waiting = {
            let mut state = engine.table.lock();
            if state.is_closed() {
                return;
            }
            state.give_up_waiting(clock.now())
        };
        waiting.into_iter().chain(engine.give_up_learning()).for_each(Waker::wake);
        if engine.options.flush_every.is_some_and(|every| clock.since(synced) >= every) {
            synced = clock.now();
            engine.table.sync_by_clock();
        }
        drop(engine);
        clock.sleep(TICK);
    }
}
