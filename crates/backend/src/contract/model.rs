//! Random histories of a backend beside a map in memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tinaja_store::contract::bytes_of;

use super::*;

/// One step of a history. Handles are named by their number, modulo those open.
#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Open(u8),
    Write { handle: usize, stream: usize, offset: u64, bytes: usize, truncate: bool },
    Read { handle: usize, stream: usize, offset: u64, most: usize },
    Doom(usize),
    Close(usize),
    Drop(usize),
    Flush,
    Reopen,
}

fn steps(long: usize) -> impl Strategy<Value = Vec<Step>> {
    let key = 0..6_u8;
    let at = prop_oneof![3 => Just(0_u64), 5 => 0..5000_u64, 1 => 0..long as u64 / 2];
    let len = prop_oneof![1 => Just(0_usize), 8 => 1..6000_usize, 1 => 0..long / 2];
    let (handle, stream) = (0..6_usize, 0..STREAMS);
    let step = prop_oneof![
        4 => key.clone().prop_map(Step::Create),
        5 => key.prop_map(Step::Open),
        8 => (handle.clone(), stream.clone(), at.clone(), len.clone(), any::<bool>())
            .prop_map(|(handle, stream, offset, bytes, truncate)| Step::Write { handle, stream, offset, bytes, truncate }),
        6 => (handle.clone(), stream, at, len)
            .prop_map(|(handle, stream, offset, most)| Step::Read { handle, stream, offset, most }),
        1 => handle.clone().prop_map(Step::Doom),
        5 => handle.clone().prop_map(Step::Close),
        1 => handle.prop_map(Step::Drop),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..80)
}

#[derive(Default)]
struct Model {
    streams: [Vec<u8>; STREAMS],
    doomed: bool,
}

/// Somebody who has an entry open, here and in the map.
struct Opened {
    key: u8,
    entry: Arc<dyn Entry>,
    model: Rc<RefCell<Model>>,
}

struct Run<'a> {
    subject: &'a mut dyn BackendSubject,
    there: HashMap<u8, Rc<RefCell<Model>>>,
    open: Vec<Opened>,
    writes: u64,
    reads: &'a mut u64,
}

impl Run<'_> {
    fn step(&mut self, step: Step) {
        match step {
            Step::Create(key) if self.open.len() < 6 => {
                let made = block_on(self.subject.backend().create_entry(&[key]));
                match (made, self.there.get(&key)) {
                    (Ok(entry), None) => {
                        let model = Rc::<RefCell<Model>>::default();
                        self.there.insert(key, model.clone());
                        self.open.push(Opened { key, entry, model });
                    }
                    (Err(BackendError::Exists), Some(_)) => {}
                    (made, model) => panic!("{key}: {:?}, there already: {}", made.err(), model.is_some()),
                }
            }
            Step::Open(key) if self.open.len() < 6 => {
                match (block_on(self.subject.backend().open_entry(&[key])), self.there.get(&key)) {
                    (Ok(entry), Some(model)) => self.open.push(Opened { key, entry, model: model.clone() }),
                    (Err(BackendError::NotFound), None) => {}
                    (found, model) => panic!("{key}: {:?}, expected {}", found.err(), model.is_some()),
                }
            }
            Step::Create(_) | Step::Open(_) => {}
            Step::Write { handle, stream, offset, bytes, truncate } => {
                self.write(handle, stream, offset, bytes, truncate)
            }
            Step::Read { handle, stream, offset, most } => {
                let Some(Opened { entry, model, .. }) = pick(&self.open, handle) else { return };
                let read = block_on(entry.read_data(stream, offset, most)).unwrap();
                let model = &model.borrow().streams[stream];
                let start = model.len().min(offset as usize);
                assert!(read == model[start..model.len().min(start + most)], "stream {stream} at {offset}");
                *self.reads += 1;
            }
            Step::Doom(handle) => {
                let Some(Opened { key, entry, model }) = pick(&self.open, handle) else { return };
                entry.doom();
                if !std::mem::replace(&mut model.borrow_mut().doomed, true) {
                    self.there.remove(key);
                }
            }
            Step::Close(_) | Step::Drop(_) if self.open.is_empty() => {}
            Step::Close(handle) => close(self.open.swap_remove(handle % self.open.len()).entry),
            Step::Drop(handle) => drop(self.open.swap_remove(handle % self.open.len())),
            Step::Flush => block_on(self.subject.backend().flush()).unwrap(),
            Step::Reopen => {
                self.open.drain(..).for_each(|open| close(open.entry));
                if !self.subject.reopen() {
                    return;
                }
                self.look();
            }
        }
    }

    fn write(&mut self, handle: usize, stream: usize, offset: u64, bytes: usize, truncate: bool) {
        let Some(Opened { entry, model, .. }) = pick(&self.open, handle) else { return };
        self.writes += 1;
        let data = bytes_of(self.writes, bytes);
        let written = block_on(entry.write_data(stream, offset, data.clone(), truncate));
        let model = &mut *model.borrow_mut();
        if model.doomed {
            return assert_eq!(written, Err(BackendError::Doomed));
        }
        written.unwrap();
        let (stream, start, end) = (&mut model.streams[stream], offset as usize, offset as usize + bytes);
        if truncate || (bytes > 0 && stream.len() < end) {
            let before = stream.len();
            stream.resize(if truncate { end } else { end.max(before) }, 0);
        }
        if bytes > 0 {
            stream[start..end].copy_from_slice(&data);
        }
    }

    /// Every entry that there should be is there, and every byte of it.
    fn look(&mut self) {
        let backend = self.subject.backend();
        for key in 0..6_u8 {
            let Some(model) = self.there.get(&key) else {
                assert!(is_absent(&*backend, &[key]));
                continue;
            };
            let entry = open(&*backend, &[key]);
            let model = model.borrow();
            (0..STREAMS).for_each(|n| assert!(read(&entry, n) == model.streams[n], "stream {n} of {key}"));
            close(entry);
            *self.reads += 1;
        }
    }
}

fn pick<T>(all: &[T], number: usize) -> Option<&T> {
    all.get(number % all.len().max(1))
}

/// Random histories of the backend and of a map side by side, with restarts.
pub fn random_histories_match_a_map(harness: &dyn BackendHarness) {
    let reads = RefCell::new(0);
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&steps(harness.long_bytes()), |steps| {
        let mut subject = harness.fresh();
        let reads = &mut *reads.borrow_mut();
        let mut run = Run { subject: &mut *subject, there: HashMap::new(), open: Vec::new(), writes: 0, reads };
        steps.into_iter().for_each(|step| run.step(step));
        run.open.clear();
        run.look();
        run.step(Step::Reopen);
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    assert!(reads.into_inner() > 100);
}
