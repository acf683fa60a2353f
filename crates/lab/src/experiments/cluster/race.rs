//! Readers beside a writer: what a peer reads of a slot that is given to another object meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tinaja_cluster::slots::{HEADER_BYTES, Rejected, SlotKey, bytes_for, verified};
use tinaja_ucx::DEFAULT_TRANSPORTS;

use super::other::{Other, PAYLOAD_BYTES, Role, SEED, SLOTS, payload_word, play};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::progress::Progress;
use crate::random::Random;
use crate::report::{Cell, Report, Table};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cluster-race",
    shows: "one-sided reads of slots that another process writes over: no mixed object is accepted",
    paper: "Cooperative caching, section 3.1",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Ucx,
    run,
};

const READS: (u64, u64) = (10_000_000, 100_000);
const PATIENCE: Duration = Duration::from_secs(10);

fn run(setup: &Setup) -> Result<Report, LabError> {
    play()?;
    let other = Other::start(EXPERIMENT.name, Role::Overwrites, DEFAULT_TRANSPORTS)?;
    let count = setup.choose(READS.0, READS.1);
    let mut random = Random::new(setup.seed);
    let mut rejected = BTreeMap::<Rejected, u64>::new();
    let (mut accepted, mut mixed) = (0_u64, 0_u64);
    let (began, mut progress) = (Instant::now(), Progress::of("reads", 1000));
    let slot_bytes = bytes_for(PAYLOAD_BYTES);
    let read = |at: usize, bytes: usize| {
        let read = other.endpoint.get(&other.remote, at as u64, bytes).and_then(|get| get.wait(PATIENCE));
        read.map_err(|why| LabError::failed("reading a slot", why))
    };
    for number in 0..count {
        if number % (count / 1000).max(1) == 0 {
            progress.step();
        }
        let at = random.below(SLOTS as u64) as usize * slot_bytes;
        // What the key-table says: a key and a generation that were there a moment ago.
        let (key, generation) = told(&read(at, HEADER_BYTES)?);
        let copy = read(at, slot_bytes)?;
        match verified(&copy, &key, generation & !1, SEED) {
            Ok(payload) => {
                accepted += 1;
                mixed += u64::from(!is_one(payload, &key, generation));
            }
            Err(why) => *rejected.entry(why).or_default() += 1,
        }
    }
    let took = began.elapsed();
    if mixed > 0 {
        return Err(LabError::failed("reading slots", format!("{mixed} mixed objects of {accepted} were accepted")));
    }
    let mut table = Table::new("Reads of slots that are written over", &["outcome", "reads", "%"]);
    let mut row = |what: String, reads: u64| {
        table.row([what.into(), Cell::Count(reads), Cell::percent(reads as f64 / count as f64)]);
    };
    row("all".into(), count);
    row("accepted".into(), accepted);
    row("accepted, and mixed of two objects or versions".into(), mixed);
    rejected.iter().for_each(|(why, reads)| row(format!("rejected: {why}"), *reads));
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let notes = vec![
        format!(
            "A process writes {SLOTS} slots of {PAYLOAD_BYTES} bytes over, one after the other, as fast as it can, with three objects that take turns \
             in each. Another reads by UCX from shared memory: the header first, as what the key-table says, then the slot. {} seconds.",
            took.as_secs()
        ),
        "Each word of a payload follows from the key, the generation and its place. What the slot's own check accepted is looked through word by word by \
         this rule, which knows nothing of checksums. What tests the checksum are the copies that a change fell into: those that were rejected as changed while \
         they were read."
            .to_owned(),
    ];
    Ok(Report {
        name,
        shows,
        paper,
        quick: setup.quick,
        seed: setup.seed,
        tables: vec![table],
        plots: Vec::new(),
        notes,
    })
}

/// What the header of a slot says.
fn told(header: &[u8]) -> (SlotKey, u64) {
    let mut key = [0; 16];
    key.iter_mut().zip(header.get(8..24).unwrap_or_default()).for_each(|(to, from)| *to = *from);
    let generation = header.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    (key, generation)
}

fn is_one(payload: &[u8], key: &SlotKey, generation: u64) -> bool {
    let words = payload.chunks_exact(8).filter_map(|bytes| bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)));
    payload.len() == PAYLOAD_BYTES && words.enumerate().all(|(at, word)| word == payload_word(key, generation & !1, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_foreign_word_is_noticed() {
        let key = [7; 16];
        let payload: Vec<u8> = (0..PAYLOAD_BYTES / 8).flat_map(|at| payload_word(&key, 40, at).to_le_bytes()).collect();
        assert!(is_one(&payload, &key, 40) && is_one(&payload, &key, 41));
        assert!(!is_one(&payload, &key, 42) && !is_one(&payload, &[8; 16], 40) && !is_one(&payload[8..], &key, 40));
        for at in 0..PAYLOAD_BYTES / 8 {
            let mut mixed = payload.clone();
            mixed[at * 8..][..8].copy_from_slice(&payload_word(&key, 38, at).to_le_bytes());
            assert!(!is_one(&mixed, &key, 40), "word {at}");
        }
    }
}
