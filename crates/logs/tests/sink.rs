//! The log file: everything arrives, soon, and nobody waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::time::{Duration, Instant};

use tinaja_clock::Clock;
use tinaja_logs::{LINES_QUEUED, Sink};

#[test]
fn lines_are_there_after_a_second_and_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let sink = Sink::open(&path, &Clock::system()).unwrap();
    sink.send("one\n".into());
    let began = Instant::now();
    while std::fs::read_to_string(&path).unwrap() != "one\n" {
        assert!(began.elapsed() < Duration::from_secs(5), "not flushed");
        std::thread::sleep(Duration::from_millis(20));
    }
    for line in 0..LINES_QUEUED / 2 {
        sink.send(format!("{line}\n"));
    }
    drop(sink);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1 + LINES_QUEUED / 2);
    drop(Sink::open(&path, &Clock::system()).unwrap());
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("one\n"), "appended to, not truncated");
}

#[test]
fn a_stuck_disk_blocks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    // A pipe that nobody empties: the writer's thread is stuck after 64 KiB.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let sink = Sink::open(&path, &Clock::system()).unwrap();
    let line = format!("{}\n", "x".repeat(99));
    let began = Instant::now();
    for _ in 0..3 * LINES_QUEUED {
        sink.send(line.clone());
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    // Let it go, so that the sink can be dropped: read until the last line.
    let emptier = std::thread::spawn(move || {
        use std::io::Read;
        let mut reader = reader;
        let mut buffer = [0u8; 65536];
        let mut ended = false;
        while !ended {
            let read = reader.read(&mut buffer).unwrap();
            ended = buffer[..read].windows(3).any(|window| window == b"end");
        }
    });
    while sink.waiting() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    sink.send("end\n".into());
    drop(sink);
    emptier.join().unwrap();
}

#[test]
fn a_path_that_cannot_be_opened_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Sink::open(&dir.path().join("no/such/dir.log"), &Clock::system()).is_err());
}
