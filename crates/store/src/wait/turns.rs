//! A fixed number of turns, given in the order they were asked for.
//!
//! A turn that comes free is kept for whoever is first in the queue, who is woken. Some of those never come: their
//! future sleeps in a list that nobody polls. [`Turns::tick`] passes them by, so that nobody waits behind them.
//!
//! A turn may last until its owner has come for what it asked for ([`Turn::until_taken`]): answers that nobody has come for
//! yet take memory. That ends with the second tick at the latest, since such an owner may sleep too.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Lets so many pass at a time.
#[derive(Clone)]
pub struct Turns(Arc<Mutex<TurnsState>>);

struct TurnsState {
    free: usize,
    next_ticket: u64,
    /// In the order of their tickets.
    waiting: VecDeque<Waiter>,
    next_answer: u64,
    /// Turns whose owners have an answer to come for: the number of each, and the ticks that began since. In their order.
    answered: VecDeque<(u64, u8)>,
}

struct Waiter {
    ticket: u64,
    waker: Waker,
    /// Ticks that began since it was woken, plus one; 0 if it was not woken since it was last polled.
    told: u8,
}

/// [`Waiter::told`] of one that was woken at least a whole tick ago and has not come.
const ASLEEP: u8 = 3;

/// A turn; given back when dropped.
pub struct Turn {
    turns: Turns,
    /// Its number among those that have an answer to come for.
    answer: Option<u64>,
}

/// Waits for a turn.
pub struct Entering {
    turns: Turns,
    ticket: Option<u64>,
}

impl Turns {
    /// So many turns.
    pub fn new(turns: usize) -> Self {
        Turns(Arc::new(Mutex::new(TurnsState {
            free: turns,
            next_ticket: 0,
            waiting: VecDeque::new(),
            next_answer: 0,
            answered: VecDeque::new(),
        })))
    }

    /// A turn at once, unless somebody waits for it.
    pub fn try_enter(&self) -> Option<Turn> {
        let mut state = self.0.lock();
        let may = state.waiting.len() < state.free;
        state.free -= usize::from(may);
        may.then(|| self.turn())
    }

    fn turn(&self) -> Turn {
        Turn { turns: self.clone(), answer: None }
    }

    /// So many turns at once, if as many as `keep` are left for others after that, and nobody waits.
    pub fn try_enter_more(&self, turns: usize, keep: usize) -> Option<Vec<Turn>> {
        let mut state = self.0.lock();
        let may = state.waiting.is_empty() && state.free >= turns.saturating_add(keep);
        state.free -= if may { turns } else { 0 };
        may.then(|| (0..turns).map(|_| self.turn()).collect())
    }

    /// How many wait for a turn.
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// A turn, when it comes.
    pub fn enter(&self) -> Entering {
        Entering { turns: self.clone(), ticket: None }
    }
}

impl Future for Entering {
    type Output = Turn;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Turn> {
        let turns = self.turns.clone();
        let mut state = turns.0.lock();
        let ahead = self.ticket.map_or(state.waiting.len(), |ticket| state.ahead_of(ticket));
        let at = state.waiting.get(ahead).is_some_and(|waiter| Some(waiter.ticket) == self.ticket);
        // Free turns belong to the front of the queue.
        if ahead < state.free {
            state.free -= 1;
            if at {
                state.waiting.remove(ahead);
            }
            self.ticket = None;
            return Poll::Ready(turns.turn());
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            state.next_ticket += 1;
            state.next_ticket
        });
        match state.waiting.get_mut(ahead).filter(|_| at) {
            Some(waiter) => {
                waiter.waker.clone_from(cx.waker());
                waiter.told = 0;
            }
            // New, or passed by while it slept: then it has its old place again.
            None => state.waiting.insert(ahead, Waiter { ticket, waker: cx.waker().clone(), told: 0 }),
        }
        Poll::Pending
    }
}

impl TurnsState {
    fn ahead_of(&self, ticket: u64) -> usize {
        self.waiting.partition_point(|waiter| waiter.ticket < ticket)
    }

    /// Wakers of those at the front who may pass now.
    fn passing(&mut self) -> Vec<Waker> {
        self.tell(self.free)
    }

    fn tell(&mut self, first: usize) -> Vec<Waker> {
        let told = self.waiting.iter_mut().take(first).filter(|waiter| waiter.told == 0);
        told.map(|waiter| {
            waiter.told = 1;
            waiter.waker.clone()
        })
        .collect()
    }
}

impl Turns {
    /// To be called now and then: whoever was woken and has not come for a whole tick loses the turn that was kept for
    /// it, and its place until it comes; everybody else is woken, since there is no telling how many more sleep. A turn
    /// whose owner has not come for its answer for a whole tick is given back.
    pub fn tick(&self) {
        self.pass_by();
        let mut state = self.0.lock();
        state.answered.iter_mut().for_each(|(_, ticks)| *ticks += 1);
        let asleep = state.answered.iter().take_while(|(_, ticks)| *ticks > 1).count();
        state.answered.drain(..asleep);
        state.free += asleep;
        let passing = state.passing();
        drop(state);
        passing.into_iter().for_each(Waker::wake);
    }

    /// Passes by who was woken and has not come.
    fn pass_by(&self) {
        let mut state = self.0.lock();
        let free = state.free;
        if free == 0 || state.waiting.is_empty() {
            return;
        }
        state
            .waiting
            .iter_mut()
            .filter(|waiter| waiter.told > 0)
            .for_each(|waiter| waiter.told = waiter.told.saturating_add(1));
        let asleep = state.waiting.iter().take(free).any(|waiter| waiter.told >= ASLEEP);
        if !asleep {
            return;
        }
        state.waiting.retain(|waiter| waiter.told < ASLEEP);
        let everybody = state.waiting.len();
        let woken = state.tell(everybody);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.turns.0.lock();
        state.waiting.retain(|waiter| waiter.ticket != ticket);
        let passing = state.passing();
        drop(state);
        passing.into_iter().for_each(Waker::wake);
    }
}

impl Turn {
    /// The turn of one that has its answer, to be dropped when that is taken. It is given back then, or by the second
    /// [`Turns::tick`] from now.
    pub fn until_taken(mut self) -> Turn {
        let mut state = self.turns.0.lock();
        let number = state.next_answer;
        state.next_answer += 1;
        state.answered.push_back((number, 0));
        drop(state);
        self.answer = Some(number);
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.0.lock();
        if let Some(number) = self.answer {
            // Given back already?
            let Ok(at) = state.answered.binary_search_by_key(&number, |(number, _)| *number) else { return };
            state.answered.remove(at);
        }
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
        let (turns, inside) = (Turns::new(3), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..16)
            .map(|n| {
                let (turns, inside) = (turns.clone(), inside.clone());
                thread::spawn(move || {
                    for round in 0..500 {
                        if (n + round) % 7 == 0 {
                            // Given up while waiting.
                            let mut entering = Box::pin(turns.enter());
                            let _ = entering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        }
                        let turn = block_on(turns.enter());
                        assert!(inside.fetch_add(1, SeqCst) < 3);
                        inside.fetch_sub(1, SeqCst);
                        drop(turn);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(turns.0.lock().free, 3);
    }

    #[test]
    fn a_turn_lasts_until_its_answer_is_taken_or_its_owner_has_slept() {
        let turns = Turns::new(2);
        let [first, second] = [(); 2].map(|()| turns.try_enter().unwrap().until_taken());
        assert!(turns.try_enter().is_none());
        turns.tick();
        drop(second);
        let third = turns.try_enter().unwrap().until_taken();
        assert!(turns.try_enter().is_none(), "the first is still out");
        let mut waits = Box::pin(turns.enter());
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The second tick for the first, and the first for the third.
        turns.tick();
        let fourth = block_on(waits);
        drop(first);
        assert!(turns.try_enter().is_none(), "it was given back once");
        drop((third, fourth));
        let state = turns.0.lock();
        assert_eq!((state.free, state.answered.len()), (2, 0));
    }

    #[test]
    fn several_turns_are_given_only_where_there_are_plenty() {
        let turns = Turns::new(10);
        let four = turns.try_enter_more(4, 5).unwrap();
        assert!(four.len() == 4 && turns.try_enter_more(2, 5).is_none());
        let others: Vec<_> = (0..6).map(|_| turns.try_enter().unwrap()).collect();
        assert!(turns.try_enter().is_none() && turns.try_enter_more(1, 0).is_none());
        drop((four, others));
        assert_eq!(turns.0.lock().free, 10);
    }
}
