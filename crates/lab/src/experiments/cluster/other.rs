//! The other process of an experiment: this program once more, told by its environment what to do. It ends with its input.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tinaja_cluster::Arena;
use tinaja_cluster::slots::{SlotKey, Slots};
use tinaja_store::Clock;
use tinaja_ucx::{Address, Context, Endpoint, Key, Memory, Options, Remote, Ucx, Worker};

use crate::error::LabError;
use crate::peers::of_process;

/// What tells a process that it is the other one, and what it is to do.
const ROLE: &str = "TINAJA_LAB_ROLE";
/// Bytes that it lends.
pub const LENT_BYTES: usize = 4 << 20;
/// Seeds the checksums of slots.
pub const SEED: u64 = 42;
/// The slots that are written over, and their payload.
pub const SLOTS: usize = 64;
pub const PAYLOAD_BYTES: usize = 1024;
/// Objects that take turns in each slot.
const OBJECTS: u64 = 3;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It lends memory, and sleeps until something happens.
    Sleeps,
    /// The same, and it looks all the time whether something has happened.
    Spins,
    /// It writes over one slot after the other, as fast as it can.
    Overwrites,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Sleeps => "sleeps",
            Role::Spins => "spins",
            Role::Overwrites => "overwrites",
        }
    }
}

/// Memory that is an arena.
pub struct Lent(Memory);

impl Arena for Lent {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// A word of lent memory.
pub fn word(at: usize) -> u64 {
    (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The key of an object that takes its turn in a slot.
fn key(slot: u64, object: u64) -> SlotKey {
    let halves = [word(slot as usize + 1), word(object as usize + 1000)];
    let mut key = [0; 16];
    key.iter_mut().zip(halves.iter().flat_map(|half| half.to_le_bytes())).for_each(|(to, from)| *to = from);
    key
}

/// A word of the payload that a key has in a generation.
pub fn payload_word(key: &SlotKey, generation: u64, at: usize) -> u64 {
    let all =
        key.iter().fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3));
    all ^ generation.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ word(at)
}

/// If this process is the other one: do what it is told, and end. Errors: UCX's, and what it was told.
pub fn play() -> Result<(), LabError> {
    let Ok(told) = env::var(ROLE) else { return Ok(()) };
    let failed = |why: String| LabError::failed("playing the other process", why);
    let (name, transports) = told.split_once(' ').ok_or_else(|| failed(told.clone()))?;
    let role = [Role::Sleeps, Role::Spins, Role::Overwrites].into_iter().find(|role| role.name() == name);
    serve(role.ok_or_else(|| failed(told.clone()))?, transports)?;
    std::process::exit(0);
}

fn serve(role: Role, transports: &str) -> Result<(), LabError> {
    let failed = |why: tinaja_ucx::Error| LabError::failed("lending memory by UCX", why);
    let context = context(transports)?;
    let memory = Arc::new(Lent(Memory::allocate(&context, LENT_BYTES).map_err(failed)?));
    memory.words().iter().enumerate().for_each(|(at, to)| to.store(word(at), Relaxed));
    let worker = Worker::start(&context, Clock::system()).map_err(failed)?;
    let told = [worker.address().map_err(failed)?.to_bytes(), memory.0.key().map_err(failed)?.to_bytes()];
    let ended = Arc::new(AtomicBool::new(false));
    let writer = (role == Role::Overwrites).then(|| overwrite(memory.clone(), ended.clone()));
    let [address, key] = told.map(|bytes| hex(&bytes));
    // Whoever started it may be gone already.
    let _ = writeln!(stdout(), "told {address} {key}").and_then(|()| stdout().flush());
    let end = ended.clone();
    thread::spawn(move || {
        let _ = stdin().lines().next();
        end.store(true, Relaxed);
    });
    while !ended.load(Relaxed) {
        worker.progress();
        // Read, as whoever has a use for them would.
        while worker.message().is_some() {}
        if role != Role::Spins {
            worker.sleep(Duration::from_millis(200));
        }
    }
    writer.into_iter().for_each(|writer| drop(writer.join()));
    Ok(())
}

fn overwrite(memory: Arc<Lent>, ended: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let slots = Slots::over(memory, PAYLOAD_BYTES, SEED, 0);
    let taken: Vec<_> = (0..SLOTS).map_while(|_| slots.take()).collect();
    thread::spawn(move || {
        let mut generation = 0_u64;
        let mut payload = vec![0; PAYLOAD_BYTES];
        let mut turn = 0_u64;
        while !ended.load(Relaxed) {
            for slot in &taken {
                let key = key(slot.number().into(), turn % OBJECTS);
                generation += 2;
                for (at, to) in payload.chunks_exact_mut(8).enumerate() {
                    to.copy_from_slice(&payload_word(&key, generation, at).to_le_bytes());
                }
                if slots.put(slot, &key, &payload) != Some(generation) {
                    return;
                }
            }
            turn += 1;
        }
    })
}

pub fn context(transports: &str) -> Result<Context, LabError> {
    let opened = Ucx::load().and_then(|ucx| Context::open(&ucx, &Options { transports, devices: None }));
    opened.map_err(|why| LabError::failed("opening UCX", why))
}

/// The version of UCX.
pub fn version() -> Result<String, LabError> {
    Ucx::load().map(|ucx| ucx.version_string()).map_err(|why| LabError::failed("opening UCX", why))
}

/// The other process, and the way to it. Dropped, it ends.
pub struct Other {
    process: Started,
    /// Endpoints need it, and it waits for what they have given up.
    _worker: Worker,
    pub endpoint: Endpoint,
    pub remote: Remote,
}

/// A process that is started by this one, and ended with it.
pub struct Started(pub Child);

impl Other {
    /// Start it. Errors: it does not, with why.
    pub fn start(experiment: &str, role: Role, transports: &str) -> Result<Other, LabError> {
        let failed = |why: String| LabError::failed("starting the other process", why);
        let program = env::current_exe().map_err(|why| failed(why.to_string()))?;
        let mut command = Command::new(program);
        command.args(["lab", experiment]).env(ROLE, format!("{} {transports}", role.name()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Started(command.spawn().map_err(|why| failed(why.to_string()))?);
        let output = process.0.stdout.take().ok_or_else(|| failed("it has no output".into()))?;
        let told = BufReader::new(output).lines().map_while(Result::ok).find(|line| line.starts_with("told "));
        let told = told.ok_or_else(|| failed("it ended before it said where it is".into()))?;
        let mut parts = told.split(' ').skip(1).map(bytes_of);
        let (address, key) = parts.next().zip(parts.next()).ok_or_else(|| failed(told.clone()))?;
        let own = context(transports)?;
        let connect = || {
            let worker = Worker::start(&own, Clock::system())?;
            let endpoint = worker.connect(&Address::from_bytes(&address)?)?;
            let remote = endpoint.remote(&Key::from_bytes(&key)?)?;
            Ok((worker, endpoint, remote))
        };
        let (worker, endpoint, remote) = connect().map_err(|why: tinaja_ucx::Error| failed(why.to_string()))?;
        Ok(Other { process, _worker: worker, endpoint, remote })
    }

    /// The process.
    pub fn process(&self) -> &Started {
        &self.process
    }
}

impl Started {
    /// Time that its threads have had of the processors.
    pub fn cpu(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).into_iter().flatten().filter_map(Result::ok);
        let ran = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(ran.sum())
    }

    /// Bytes that disks have read for it.
    pub fn disk_bytes_read(&self) -> u64 {
        of_process(self.0.id()).read_bytes
    }

    /// Stop it, and return once it is; or let it go on.
    pub fn stop(&self, stopped: bool) -> Result<(), LabError> {
        let signal = if stopped { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.0), signal)
            .map_err(|why| LabError::failed("stopping the other process", why))?;
        let all_stand = || {
            let threads =
                fs::read_dir(format!("/proc/{}/task", self.0.id())).into_iter().flatten().filter_map(Result::ok);
            let mut states = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
            states.all(|state| state.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T')))
        };
        while stopped && !all_stand() {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

/// What this thread has had of a processor.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
