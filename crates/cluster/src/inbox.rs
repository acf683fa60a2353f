//! What has come for a node's thread, from its neighbours and from its owner, and what wakes it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tinaja_clock::Clock;

use crate::limits::{MAX_COMMANDS, MAX_WAITING_MESSAGES};

/// What a neighbour's connection has brought.
#[derive(Debug)]
pub enum Came {
    /// A message, as it came.
    Message(Vec<u8>),
    /// A read has come to its end: its number, and what it brought.
    Read(u64, Option<Box<[u8]>>),
}

/// See the module. `C` is what the owner wants. Memory: [`MAX_WAITING_MESSAGES`] and [`MAX_COMMANDS`], and a read for each that was begun.
pub struct Inbox<C> {
    state: Mutex<State<C>>,
    changed: Condvar,
    clock: Clock,
    has_ended: AtomicBool,
}

struct State<C> {
    reads: Vec<(u64, Option<Box<[u8]>>)>,
    messages: Vec<Vec<u8>>,
    commands: VecDeque<C>,
    /// The node's thread is to look after something else.
    is_woken: bool,
}

impl<C> Inbox<C> {
    /// An empty one.
    pub fn new(clock: Clock) -> Inbox<C> {
        let state = State { reads: Vec::new(), messages: Vec::new(), commands: VecDeque::new(), is_woken: false };
        Inbox { state: Mutex::new(state), changed: Condvar::new(), clock, has_ended: AtomicBool::new(false) }
    }

    /// Something has come. Given back: a message for which there is no room at the moment.
    pub fn put(&self, came: Came) -> Result<(), Vec<u8>> {
        let mut state = self.state.lock();
        match came {
            Came::Message(message) if state.messages.len() >= MAX_WAITING_MESSAGES => return Err(message),
            Came::Message(message) => state.messages.push(message),
            Came::Read(number, bytes) => state.reads.push((number, bytes)),
        }
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// The owner wants something. Given back if there is no room, or nobody to do it any more.
    pub fn command(&self, command: C) -> Result<(), C> {
        let mut state = self.state.lock();
        if self.has_ended() || state.commands.len() >= MAX_COMMANDS {
            return Err(command);
        }
        state.commands.push_back(command);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// What has come so far.
    pub fn take(&self, came: &mut Vec<Came>) {
        let mut state = self.state.lock();
        came.extend(state.messages.drain(..).map(Came::Message));
        came.extend(state.reads.drain(..).map(|(number, bytes)| Came::Read(number, bytes)));
    }

    /// What the owner wants next.
    pub fn next(&self) -> Option<C> {
        self.state.lock().commands.pop_front()
    }

    /// Nobody takes anything from now on: what the owner wants is given back, and what it has wanted is dropped.
    pub fn end(&self) {
        let mut state = self.state.lock();
        self.has_ended.store(true, Release);
        state.commands.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Whether [`Inbox::end`] was called.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Acquire)
    }

    /// Wake who waits, or will wait next, though nothing is in here for it.
    pub fn wake(&self) {
        self.state.lock().is_woken = true;
        self.changed.notify_one();
    }

    /// Wait until there is something, and no longer than that.
    pub fn wait(&self, at_most: Duration) {
        let mut state = self.state.lock();
        let is_empty = state.reads.is_empty() && state.messages.is_empty() && state.commands.is_empty();
        if is_empty && !state.is_woken && !self.has_ended() {
            self.clock.wait_for(&self.changed, &mut state, at_most);
        }
        state.is_woken = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn it_is_bounded_and_wakes_who_waits() {
        let inbox: Arc<Inbox<u32>> = Arc::new(Inbox::new(Clock::system()));
        for _ in 0..MAX_WAITING_MESSAGES {
            inbox.put(Came::Message(vec![1])).unwrap();
        }
        assert_eq!(inbox.put(Came::Message(vec![2])), Err(vec![2]));
        let mut came = Vec::new();
        inbox.take(&mut came);
        assert_eq!(came.len(), MAX_WAITING_MESSAGES);
        for n in 0..MAX_COMMANDS as u32 {
            inbox.command(n).unwrap();
        }
        assert_eq!(inbox.command(7), Err(7));
        while inbox.next().is_some() {}
        let waker = inbox.clone();
        let waking = std::thread::spawn(move || waker.put(Came::Read(1, None)));
        inbox.wait(Duration::from_secs(60));
        waking.join().unwrap().unwrap();
        inbox.end();
        assert_eq!(inbox.command(8), Err(8));
        inbox.wait(Duration::from_secs(60));
    }
}
