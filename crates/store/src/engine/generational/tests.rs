//! What an engine knows after a stop, and after it was killed.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::{Generational, GenerationalOptions, snapshot};
use crate::device::{Medium, Memory};
use crate::engine::Engine;
use crate::engine::segments::Choices;
use crate::layout::Stamp;
use crate::replace::generations::Log;

const DISK: u64 = 16 << 20;

fn open(medium: &Medium, choices: Choices) -> Generational {
    let options = GenerationalOptions::plan(DISK, 4096, 4096, Stamp { seed: 7 }, choices).unwrap();
    Generational::open(Arc::new(Memory::over(medium)), &options).unwrap()
}

fn close(engine: &Generational) {
    let (tell, told) = sync_channel(1);
    engine.close(Box::new(move |result| drop(tell.send(result))));
    told.recv().unwrap().unwrap();
}

/// It takes a lap to learn, and on a large disk that takes weeks: each restart cost hits for as long.
#[test]
fn what_was_learned_is_there_after_a_stop_and_after_a_crash() {
    let medium = Medium::zeroed(DISK as usize);
    let first = open(&medium, Choices::Two);
    let nothing = first.0.policy.save();
    (0..100).for_each(|_| first.0.policy.hit(Log(1), 0));
    first.0.policy.learn([].into_iter());
    first.0.policy.stored_in(Log(first.0.policy.logs() as u8 - 1), 5 << 20);
    let learned = first.0.policy.save();
    assert_ne!(learned, nothing);
    close(&first);
    let second = open(&medium, Choices::Two);
    assert_eq!(second.0.policy.save(), learned, "after a stop");
    assert!(snapshot::take(&second.0, false));
    let third = open(&medium.copy(), Choices::Two);
    assert_eq!(third.0.policy.save(), learned, "after a crash");
}

/// A cache from before has pages for what it had to say then. What has no room is left out, and nothing is damaged by it.
#[test]
fn a_cache_from_before_is_stopped_and_opened_with_what_has_room() {
    let medium = Medium::zeroed(DISK as usize);
    for _ in 0..3 {
        let engine = open(&medium, Choices::One);
        engine.0.policy.hit(Log(1), 0);
        engine.0.policy.learn([].into_iter());
        close(&engine);
        assert_eq!(engine.stats().damaged_at_open, 0);
    }
}
