//! How the log was replayed.

use super::load::Load;
use crate::experiment::Setup;

pub fn notes(load: &Load, setup: &Setup) -> Vec<String> {
    let mut notes = Vec::new();
    if load.cut {
        let more = if setup.quick { ", or leave out --quick" } else { "" };
        notes.push(format!(
            "The log goes on: its first {} requests were replayed. Give --requests N for more{more}.",
            load.requests.len()
        ));
    }
    if load.unreadable.0 > 0 {
        notes
            .push(format!("{} lines could not be read, the first of them {:?}.", load.unreadable.0, load.unreadable.1));
    }
    let memory = match setup.replay.memory_bytes {
        0 => "nothing else is kept in memory. --memory SIZE gives engines memory for hot objects".to_owned(),
        bytes => format!(
            "and it has {:.1} MB of memory for hot objects besides, which policies do not have: the rows of engines and of policies do \
             not compare at equal bytes",
            bytes as f64 / 1e6
        ),
    };
    notes.extend([
        format!(
            "Each cache begins empty, so all first requests are misses. Policies keep whole objects, with name and head, in as many \
             bytes as the disk has. An engine has headers, padding and snapshots within these bytes, and its index in memory; {memory}."
        ),
        format!(
            "Engines are those that ship, over a disk in memory: each hit is read and compared. Their disks are cut for objects of \
             {} bytes (--object-size of serve).",
            load.mean_object_bytes
        ),
        "Bytes found are of those that were sent. An object has the largest size that the log ever says. Policies are exact and \
         repeat to the last digit; engines have threads, and on a busy machine differ by some tenths of a point."
            .to_owned(),
        "Written / stored is bytes written to the disk for each byte of heads and bodies stored. Engines write batches by the \
         machine's own clock, while the disk and its times go by the log's: batches are those of a fast run, not those of a server at the pace of the log. \
         Index bits are the memory of the index for each object that is there at the end. On a small disk most of it is a fixed cost, so the figure \
         says nothing of a large one. '-' means that the engine does not know how many objects there are. damelo has a pool of pages in memory besides: what it finds there is not read."
            .to_owned(),
        "p50 and p99 are times of hits on a modelled hard disk of 7200 rpm (76 random reads a second), by the log's own times: a hit \
         waits for what was asked of the disk before it. Hits in memory take no time. In a log with whole seconds, requests of a second are spread over it."
            .to_owned(),
        "'Belady, sizes' knows the future. It is a good cache, not a bound.".to_owned(),
    ]);
    notes
}
