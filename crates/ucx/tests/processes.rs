//! Reads and messages between two processes: one that is stopped, one that is killed, one that answers. Needs Debian's libucx0.
//!
//! The other process is this program too: its one test that is left out else.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tinaja_clock::Clock;
use tinaja_ucx::{
    Address, Context, DEFAULT_TRANSPORTS, Endpoint, Error, Key, MAX_MESSAGE_BYTES, Memory, Options, Remote, Ucx, Worker,
};

/// Bytes of memory that the other process has: words that say where they are.
const BYTES: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

fn context(transports: &str) -> Context {
    Context::open(&Ucx::load().unwrap(), &Options { transports, devices: None }).unwrap()
}

fn word(at: usize) -> u64 {
    (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn expected(at: usize, bytes: usize) -> Vec<u8> {
    (at / 8..(at + bytes) / 8).flat_map(|n| word(n).to_ne_bytes()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect()
}

/// The other process. It serves its memory, sends each message back, and ends with its input.
#[test]
#[ignore = "what the other tests start"]
fn target() {
    let transports = std::env::var("TARGET_TRANSPORTS").unwrap();
    let context = context(&transports);
    let memory = Memory::allocate(&context, BYTES).unwrap();
    memory.words().iter().enumerate().for_each(|(n, to)| to.store(word(n), Relaxed));
    let worker = Worker::start(&context, Clock::system()).unwrap();
    let told = [worker.address().unwrap().to_bytes(), memory.key().unwrap().to_bytes()].map(|bytes| hex(&bytes));
    println!("\ntold {} {}", told[0], told[1]);
    std::io::stdout().flush().unwrap();
    // Whoever started it ends, one way or the other.
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(std::io::stdin().lines().next()));
    let mut back: Option<Endpoint> = None;
    while ended.try_recv().is_err() {
        worker.progress();
        worker.sleep(Duration::from_millis(5));
        while let Some(message) = worker.message() {
            match message.split_first() {
                Some((b'A', address)) => back = Some(worker.connect(&Address::from_bytes(address).unwrap()).unwrap()),
                _ => back.as_ref().unwrap().send(&message).unwrap().go(),
            }
        }
    }
}

/// The other process, and the way to it. Dropped, it ends.
struct Target {
    child: Child,
    worker: Worker,
    endpoint: Endpoint,
    remote: Remote,
}

impl Target {
    fn start(transports: &str) -> Target {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["target", "--exact", "--ignored", "--nocapture"]).env("TARGET_TRANSPORTS", transports);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines.map(Result::unwrap).find(|line| line.starts_with("told ")).unwrap();
        let told: Vec<_> = told.split(' ').skip(1).map(bytes_of).collect();
        let worker = Worker::start(&context(transports), Clock::system()).unwrap();
        let endpoint = worker.connect(&Address::from_bytes(&told[0]).unwrap()).unwrap();
        let remote = endpoint.remote(&Key::from_bytes(&told[1]).unwrap()).unwrap();
        Target { child, worker, endpoint, remote }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        if signal == Signal::STOP {
            // The signal is on its way when the call returns.
            let stat = format!("/proc/{}/stat", self.child.id());
            while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
                std::thread::yield_now();
            }
        }
    }

    fn read(&self, at: usize, bytes: usize, patience: Duration) -> Result<Vec<u8>, Error> {
        let read = self.endpoint.get(&self.remote, at as u64, bytes)?.wait(patience)?;
        Ok(read.into_vec())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn memory_is_read_by_every_transport() {
    for transports in [DEFAULT_TRANSPORTS, "tcp,self"] {
        let target = Target::start(transports);
        for (at, bytes) in [(0, 8), (4096, 8192), (64, 65_536), (0, BYTES), (BYTES - 8, 8), (16, 0)] {
            let read = target.read(at, bytes, PATIENCE).unwrap();
            assert!(read == expected(at, bytes), "{transports}: {bytes} bytes from {at}");
        }
        for (at, bytes) in [(BYTES as u64, 1), (u64::MAX, 8), (0, BYTES + 1)] {
            let refused = target.endpoint.get(&target.remote, at, bytes);
            assert!(matches!(refused, Err(Error::Outside { .. })), "{transports}: {bytes} bytes from {at}");
        }
    }
}

/// What makes a read one-sided: the other process need not do anything. By TCP it must; then the deadline ends the wait, and what UCX may still
/// write to is kept until it has.
#[test]
fn shared_memory_is_read_while_its_process_is_stopped() {
    let target = Target::start(DEFAULT_TRANSPORTS);
    target.read(0, 8, PATIENCE).unwrap();
    target.signal(Signal::STOP);
    for n in 0..100 {
        assert!(target.read(n * 8192, 8192, PATIENCE).unwrap() == expected(n * 8192, 8192));
    }
    target.signal(Signal::CONT);

    let target = Target::start("tcp,self");
    target.read(0, 8, PATIENCE).unwrap();
    target.signal(Signal::STOP);
    let began = Instant::now();
    let late = target.read(0, 8192, Duration::from_millis(100));
    assert!(matches!(late, Err(Error::TooLate)) && began.elapsed() < Duration::from_secs(5));
    assert_eq!(target.worker.quarantined_bytes(), 8192);
    drop(target.endpoint.get(&target.remote, 0, 4096).unwrap());
    assert_eq!(target.worker.quarantined_bytes(), 8192 + 4096, "dropped is given up as well");
    target.signal(Signal::CONT);
    assert!(target.read(8, 8, PATIENCE).unwrap() == expected(8, 8));
    let until = Instant::now() + PATIENCE;
    while target.worker.quarantined_bytes() > 0 && Instant::now() < until {
        target.worker.progress();
        target.worker.sleep(Duration::from_millis(10));
    }
    assert_eq!(target.worker.quarantined_bytes(), 0);
}

/// Of a process that was killed shared memory is still there, for whoever has it open; by TCP nothing comes, and nothing waits for ever.
#[test]
fn a_killed_process_delays_nobody_beyond_the_deadline() {
    for (transports, outlives) in [(DEFAULT_TRANSPORTS, true), ("tcp,self", false)] {
        let mut target = Target::start(transports);
        target.read(0, 8, PATIENCE).unwrap();
        target.child.kill().unwrap();
        target.child.wait().unwrap();
        let began = Instant::now();
        let read = target.read(8, 8, Duration::from_millis(300));
        assert!(began.elapsed() < Duration::from_secs(5), "{transports}");
        match read {
            Ok(read) => assert!(outlives && read == expected(8, 8), "{transports}"),
            Err(error) => assert!(!outlives, "{transports}: {error}"),
        }
        let began = Instant::now();
        drop(target);
        assert!(began.elapsed() < Duration::from_secs(5), "{transports}: nor does the end");
    }
}

#[test]
fn messages_come_whole_and_in_order() {
    for transports in [DEFAULT_TRANSPORTS, "tcp,self"] {
        let target = Target::start(transports);
        let own = [&b"A"[..], &target.worker.address().unwrap().to_bytes()].concat();
        target.endpoint.send(&own).unwrap().wait(PATIENCE).unwrap();
        let sizes = [1, 100, 8192, MAX_MESSAGE_BYTES, 2, 50_000];
        let message = |n: usize| vec![n as u8; sizes[n]];
        for n in 0..sizes.len() {
            target.endpoint.send(&message(n)).unwrap().go();
        }
        let until = Instant::now() + PATIENCE;
        let mut back = Vec::new();
        while back.len() < sizes.len() && Instant::now() < until {
            target.worker.progress();
            back.extend(std::iter::from_fn(|| target.worker.message()));
            target.worker.sleep(Duration::from_millis(1));
        }
        assert!(back == (0..sizes.len()).map(message).collect::<Vec<_>>(), "{transports}: {} came back", back.len());
        let long = target.endpoint.send(&vec![0; MAX_MESSAGE_BYTES + 1]);
        assert!(matches!(long, Err(Error::Outside { .. })));
        assert_eq!(target.worker.dropped_messages(), 0);
    }
}

/// Whoever does not take its messages keeps a bounded number of them.
#[test]
fn what_is_not_taken_is_dropped_and_counted() {
    let context = context("self");
    let worker = Worker::start(&context, Clock::system()).unwrap();
    let itself = worker.connect(&worker.address().unwrap()).unwrap();
    let message = vec![1; MAX_MESSAGE_BYTES];
    for _ in 0..300 {
        itself.send(&message).unwrap().wait(PATIENCE).unwrap();
        while worker.progress() > 0 {}
    }
    assert_eq!(worker.dropped_messages(), 300 - 256, "16 MiB are kept");
    assert_eq!(std::iter::from_fn(|| worker.message()).count(), 256);
    itself.send(b"again").unwrap().wait(PATIENCE).unwrap();
    while worker.progress() > 0 {}
    assert_eq!(worker.message().unwrap(), b"again");
}

/// UCX writes errors to the standard output: a program that writes JSON there had them in the middle of it.
#[test]
fn the_standard_output_is_the_programs_own() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["wrong_options_are_told", "--exact", "--nocapture"]).output().unwrap();
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("UCX"), "{output:?}");
}

#[test]
fn wrong_options_are_told() {
    let ucx = Ucx::load().unwrap();
    for (transports, devices) in [("carrier-pigeon", None), ("tcp", Some("no-such-interface0"))] {
        let opened = Context::open(&ucx, &Options { transports, devices });
        let error = opened.and_then(|context| Worker::start(&context, Clock::system())).err();
        assert!(matches!(error, Some(Error::Failed { .. })), "{transports} on {devices:?}: {error:?}");
    }
    // UCX would fill the machine's memory before it fails: this did, and the system killed others.
    for bytes in [usize::MAX, usize::MAX / 4, 1 << 45] {
        let refused = Memory::allocate(&context(DEFAULT_TRANSPORTS), bytes);
        assert!(matches!(refused, Err(Error::TooMuch { .. })), "{bytes}");
    }
}

/// Memory is shared by threads, and written by words.
#[test]
fn memory_is_written_by_words() {
    let memory = Memory::allocate(&context(DEFAULT_TRANSPORTS), 100).unwrap();
    assert_eq!((memory.words().len(), memory.key().unwrap().memory_bytes()), (13, 104));
    assert!(memory.words().iter().all(|word| word.load(Relaxed) == 0));
    assert!(memory.write(11, b"twelve bytes") && !memory.write(12, b"nine bytes") && !memory.write(usize::MAX, b"x"));
    let words: Vec<u8> = memory.words()[11..].iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
    assert_eq!(words, b"twelve bytes\0\0\0\0");
    std::thread::scope(|scope| drop(scope.spawn(|| memory.words()[0].store(1, Relaxed)).join()));
    assert_eq!(memory.words()[0].load(Relaxed), 1);
}
