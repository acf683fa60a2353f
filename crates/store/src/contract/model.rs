//! Random histories, run on the store under test and on the reference side by side.

use std::collections::HashMap;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::reference::Reference;
use crate::store::{Cursor, Judge, Writer};

/// One step of a history. Writers and followers are named by their number, modulo those open.
#[derive(Clone, Debug)]
enum Step {
    Begin {
        key: u64,
        head: usize,
        announced: bool,
        size: usize,
    },
    Write {
        writer: usize,
        share: u8,
    },
    Commit {
        writer: usize,
    },
    Abort {
        writer: usize,
    },
    /// Ends it with what has come.
    Cut {
        writer: usize,
        head: usize,
    },
    Follow {
        key: u64,
    },
    Look {
        key: u64,
    },
    Seek {
        key: u64,
        from: u8,
        to: u8,
    },
    Remove {
        key: u64,
    },
    Update {
        key: u64,
        head: usize,
    },
    /// Forgets it by a sweep.
    Sweep {
        key: u64,
    },
    Flush,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..12_u64;
    let size = prop_oneof![6 => 0..20_000_usize, 2 => 200_000..400_000_usize, 1 => 1_500_000..2_500_000_usize];
    let step = prop_oneof![
        6 => (key.clone(), 0..600_usize, any::<bool>(), size)
            .prop_map(|(key, head, announced, size)| Step::Begin { key, head, announced, size }),
        6 => (0..8_usize, any::<u8>()).prop_map(|(writer, share)| Step::Write { writer, share }),
        6 => (0..8_usize).prop_map(|writer| Step::Commit { writer }),
        1 => (0..8_usize).prop_map(|writer| Step::Abort { writer }),
        2 => (0..8_usize, 0..600_usize).prop_map(|(writer, head)| Step::Cut { writer, head }),
        2 => key.clone().prop_map(|key| Step::Follow { key }),
        6 => key.clone().prop_map(|key| Step::Look { key }),
        2 => (key.clone(), any::<u8>(), any::<u8>()).prop_map(|(key, from, to)| Step::Seek { key, from, to }),
        1 => key.clone().prop_map(|key| Step::Remove { key }),
        1 => (key, 0..600_usize).prop_map(|(key, head)| Step::Update { key, head }),
        1 => (0..12_u64).prop_map(|key| Step::Sweep { key }),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..60)
}

/// The same write in both stores.
struct Pair {
    key: u64,
    tested: Writer,
    reference: Writer,
    body: Bytes,
    wrote: usize,
}

struct Run<'a> {
    subject: &'a mut dyn Subject,
    reference: Reference,
    open: Vec<Pair>,
    followers: Vec<(u64, Hit, Hit)>,
    version: u64,
    /// What was forgotten by sweeps, and whether the store was opened anew since: then it may be back.
    swept: HashMap<u64, bool>,
    present: &'a mut u64,
    hits: &'a mut u64,
}

impl Run<'_> {
    fn step(&mut self, step: Step) {
        match step {
            Step::Begin { key: name, head, announced, size } if self.open.len() < 8 => {
                self.version += 1;
                let (head, body) = (bytes_of(self.version, head), bytes_of(self.version + 7_000, size));
                let group = (name % 2 == 0).then_some(self.version / 8);
                let hint = Hint { expected_bytes: announced.then_some(size as u64), group, ..Hint::default() };
                let tested = self.subject.store().put(&key(name), head.clone(), hint);
                let reference = self.reference.put(&key(name), head, hint);
                self.open.push(Pair { key: name, tested, reference, body, wrote: 0 });
            }
            Step::Begin { .. } => {}
            Step::Write { writer, share } => {
                let Some(pair) = pick(&mut self.open, writer) else {
                    return;
                };
                let piece =
                    pair.body.slice(pair.wrote..pair.wrote + (pair.body.len() - pair.wrote) * share as usize / 255);
                pair.wrote += piece.len();
                block_on(pair.tested.write(piece.clone()));
                block_on(pair.reference.write(piece));
            }
            Step::Commit { writer } => {
                let Some(at) = index(self.open.len(), writer) else {
                    return;
                };
                let mut pair = self.open.remove(at);
                let rest = pair.body.slice(pair.wrote..);
                block_on(pair.tested.write(rest.clone()));
                block_on(pair.reference.write(rest));
                let (tested, reference) = (block_on(pair.tested.commit()), block_on(pair.reference.commit()));
                assert_eq!(tested, reference);
                self.stored(pair.key, &tested);
            }
            Step::Abort { writer } => {
                if let Some(at) = index(self.open.len(), writer) {
                    self.open.remove(at);
                }
            }
            Step::Cut { writer, head } => {
                let Some(at) = index(self.open.len(), writer) else {
                    return;
                };
                let Pair { key, tested, reference, .. } = self.open.remove(at);
                self.version += 1;
                let head = bytes_of(self.version, head);
                let ends =
                    (block_on(tested.commit_beginning(head.clone())), block_on(reference.commit_beginning(head)));
                assert_eq!(ends.0, ends.1);
                self.stored(key, &ends.0);
            }
            Step::Follow { key: name } => {
                let both = (block_on(self.subject.store().find(&key(name))), block_on(self.reference.find(&key(name))));
                if let (Some(tested), Some(reference)) = both {
                    self.followers.push((name, tested, reference));
                }
            }
            Step::Look { key } => self.look(key, None),
            Step::Seek { key, from, to } => self.look(key, Some((from, to))),
            Step::Remove { key: name } => {
                // A write that is removed waits for its readers, up to a lease, and these read only at the end.
                self.followers.retain(|(followed, ..)| *followed != name);
                block_on(self.subject.store().remove(&key(name))).unwrap();
                block_on(self.reference.remove(&key(name))).unwrap();
            }
            Step::Update { key: name, head } => {
                self.version += 1;
                let head = bytes_of(self.version, head);
                let new = head.clone();
                let updated = block_on(self.subject.store().update_head(&key(name), Box::new(move |_| Some(new))));
                if updated == Ok(crate::store::Updated::Done) {
                    let edited = block_on(self.reference.update_head(&key(name), Box::new(move |_| Some(head))));
                    assert_eq!(edited, Ok(crate::store::Updated::Done), "an object that should be gone was updated");
                }
            }
            Step::Sweep { key: name } => self.sweep(name),
            Step::Flush => block_on(self.subject.store().flush()).unwrap(),
            Step::Reopen => self.reopen(),
        }
    }

    fn stored(&mut self, name: u64, commit: &Commit) {
        if matches!(commit, Commit::Stored { .. }) {
            self.swept.remove(&name);
        }
    }

    /// The reference keeps what the other may find again once it is opened anew.
    fn sweep(&mut self, name: u64) {
        let judge: Judge = Arc::new(move |shown, _| shown == key(name).name());
        let (mut cursor, mut is_complete) = (Some(Cursor::default()), true);
        while let Some(at) = cursor {
            let swept = block_on(self.subject.store().sweep(at, 64, judge.clone())).unwrap();
            is_complete &= swept.is_complete;
            cursor = swept.next;
        }
        if is_complete {
            self.swept.insert(name, false);
        }
    }

    /// Rules 1 and 2: what is found is what the reference has; unfinished writes are always found.
    fn look(&mut self, name: u64, range: Option<(u8, u8)>) {
        let tested = block_on(self.subject.store().find(&key(name)));
        let reference = block_on(self.reference.find(&key(name)));
        let Some(mut reference) = reference else {
            assert!(tested.is_none(), "object {name} was removed or never stored, and is found");
            return;
        };
        if reference.state == State::Filling {
            let tested = tested.expect("an unfinished write is found");
            assert_eq!((tested.state, tested.head), (State::Filling, reference.head));
            return;
        }
        match self.swept.get(&name) {
            Some(false) => return assert!(tested.is_none(), "object {name} was forgotten by a sweep, and is found"),
            Some(true) => {}
            None => {
                *self.present += 1;
                *self.hits += u64::from(tested.is_some());
            }
        }
        let Some(mut tested) = tested else { return };
        assert!(tested.state == State::Whole && tested.head == reference.head, "the head of object {name}");
        if let Some((from, to)) = range {
            let len = reference.body.len().unwrap();
            let (from, to) = (from.min(to) as u64 * len / 255, from.max(to) as u64 * len / 255);
            tested.body.seek(from..to).unwrap();
            reference.body.seek(from..to).unwrap();
        }
        assert!(read_all(&mut tested).unwrap() == read_all(&mut reference).unwrap(), "the body of object {name}");
    }

    fn reopen(&mut self) {
        self.open.clear();
        self.check_followers();
        block_on(self.subject.store().flush()).unwrap();
        self.subject.reopen();
        self.swept.values_mut().for_each(|is_opened_anew| *is_opened_anew = true);
    }

    /// Followers end alike, once every writer has.
    fn check_followers(&mut self) {
        for (_, mut tested, mut reference) in self.followers.drain(..) {
            assert!(read_all(&mut tested) == read_all(&mut reference), "a follower's end");
        }
    }
}

fn index(len: usize, number: usize) -> Option<usize> {
    (len > 0).then(|| number % len)
}

fn pick(open: &mut [Pair], number: usize) -> Option<&mut Pair> {
    index(open.len(), number).map(|at| &mut open[at])
}

/// Random histories: whatever the store says, the reference says too. It may forget, but not most of what fits.
pub fn random_histories_match_the_reference(harness: &dyn Harness) {
    let (mut present, mut hits) = (0, 0);
    let config = Config { cases: 60, failure_persistence: None, max_shrink_time: 30_000, ..Config::default() };
    let counts = std::cell::RefCell::new((&mut present, &mut hits));
    TestRunner::new(config)
        .run(&steps(), |steps| {
            let mut subject = harness.fresh(Size::Ample);
            let mut counts = counts.borrow_mut();
            let (present, hits) = &mut *counts;
            let mut run = Run {
                subject: &mut *subject,
                reference: Reference::new(),
                open: Vec::new(),
                followers: Vec::new(),
                version: 0,
                swept: HashMap::new(),
                present,
                hits,
            };
            steps.into_iter().for_each(|step| run.step(step));
            run.open.clear();
            run.check_followers();
            Ok(())
        })
        .unwrap();
    assert!(hits * 100 >= present * 95, "{hits} hits of {present} objects that should be there");
}
