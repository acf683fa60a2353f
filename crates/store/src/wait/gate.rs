//! A fixed number of turns, given in the order they were asked for.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Lets so many pass at a time.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Mutex<State>>);

struct State {
    free: usize,
    next_ticket: u64,
    waiting: VecDeque<(u64, Waker)>,
}

/// A turn; given back when dropped.
pub(crate) struct Turn(Gate);

/// Waits for a turn.
pub(crate) struct Entering {
    gate: Gate,
    ticket: Option<u64>,
}

impl Gate {
    pub(crate) fn new(turns: usize) -> Self {
        Gate(Arc::new(Mutex::new(State { free: turns, next_ticket: 0, waiting: VecDeque::new() })))
    }

    pub(crate) fn enter(&self) -> Entering {
        Entering { gate: self.clone(), ticket: None }
    }
}

impl Future for Entering {
    type Output = Turn;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Turn> {
        let gate = self.gate.clone();
        let mut state = gate.0.lock();
        let at = self.ticket.and_then(|ticket| state.waiting.iter().position(|(other, _)| *other == ticket));
        // Free turns belong to the front of the queue.
        let ahead = at.unwrap_or(state.waiting.len());
        if ahead < state.free {
            state.free -= 1;
            if let Some(at) = at {
                state.waiting.remove(at);
            }
            self.ticket = None;
            return Poll::Ready(Turn(gate.clone()));
        }
        match at.and_then(|at| state.waiting.get_mut(at)) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => {
                let ticket = state.next_ticket;
                state.next_ticket += 1;
                state.waiting.push_back((ticket, cx.waker().clone()));
                self.ticket = Some(ticket);
            }
        }
        Poll::Pending
    }
}

impl State {
    /// Wakers of those at the front who may pass now.
    fn passing(&self) -> Vec<Waker> {
        self.waiting.iter().take(self.free).map(|(_, waker)| waker.clone()).collect()
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.gate.0.lock();
        state.waiting.retain(|(other, _)| *other != ticket);
        let passing = state.passing();
        drop(state);
        passing.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.free += 1;
        let passing = state.passing();
        drop(state);
        passing.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn never_more_than_the_turns_and_nobody_waits_for_ever() {
        let (gate, inside) = (Gate::new(3), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..16)
            .map(|n| {
                let (gate, inside) = (gate.clone(), inside.clone());
                thread::spawn(move || {
                    for round in 0..500 {
                        if (n + round) % 7 == 0 {
                            // Given up while waiting.
                            let mut entering = Box::pin(gate.enter());
                            let _ = entering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        }
                        let turn = block_on(gate.enter());
                        assert!(inside.fetch_add(1, SeqCst) < 3);
                        inside.fetch_sub(1, SeqCst);
                        drop(turn);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(gate.0.lock().free, 3);
    }
}
