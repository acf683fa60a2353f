//! The memory that a node lends: the process's own, or UCX's, which peers can read without this node's help, and what they have to know for that.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Release};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use tinaja_ucx::{Address, Context, DEFAULT_TRANSPORTS, Key, Memory, Options, Ucx};

use crate::arena::Arena;
use crate::error::JoinError;

/// The way by which nodes on one machine read each other's memory.
pub const SHARED_MEMORY: &str = "memory";
/// What UCX uses on interfaces for RDMA.
const RDMA: &str = "rc_verbs,ud_verbs";
/// And between processes of one machine.
const ON_ONE_MACHINE: &str = "posix,cma,self";

/// For so long a node leaves UCX alone when another one wants to know whether its memory is read without its help.
pub const STILL: Duration = Duration::from_millis(200);
/// And for so long it looks after UCX often, when another one makes a connection.
const AWAKE: Duration = Duration::from_secs(5);

/// Open UCX for these ways: [`SHARED_MEMORY`], and interfaces for RDMA, as `ucx_info -d` names them. None for none.
///
/// Errors: [`JoinError::Ucx`].
pub fn open(ways: &[String]) -> Result<Option<Context>, JoinError> {
    if ways.is_empty() {
        return Ok(None);
    }
    let interfaces: Vec<&str> = ways.iter().map(String::as_str).filter(|way| *way != SHARED_MEMORY).collect();
    let is_local = interfaces.len() < ways.len();
    let (transports, devices) = match (interfaces.is_empty(), is_local) {
        (true, _) => (DEFAULT_TRANSPORTS.to_owned(), "lo".to_owned()),
        (false, true) => (format!("{ON_ONE_MACHINE},{RDMA}"), interfaces.join(",")),
        (false, false) => (format!("self,{RDMA}"), interfaces.join(",")),
    };
    // UCX passes over a name that it does not know as long as there is any other way.
    if let Some(unknown) = interfaces.iter().find(|interface| !is_there(interface)) {
        let why = format!("this machine has no interface {unknown:?} for RDMA (ls /sys/class/infiniband)");
        return Err(JoinError::Ucx { ways: ways.join(", "), why });
    }
    let opened =
        Ucx::load().and_then(|ucx| Context::open(&ucx, &Options { transports: &transports, devices: Some(&devices) }));
    opened.map(Some).map_err(|why| JoinError::Ucx { ways: ways.join(", "), why: why.to_string() })
}

/// Whether the machine has an interface for RDMA of this name, which ends with the number of a port.
fn is_there(interface: &str) -> bool {
    let (name, port) = interface.split_once(':').unwrap_or((interface, "1"));
    let is_name = !name.is_empty() && !name.contains(['/', '.']) && port.bytes().all(|byte| byte.is_ascii_digit());
    is_name && Path::new("/sys/class/infiniband").join(name).join("ports").join(port).exists()
}

/// The memory. Its bytes are taken at once.
pub enum Lent {
    /// The process's own: others read it with this node's help.
    Own(Vec<AtomicU64>),
    /// UCX's.
    Ucx(Memory),
}

impl Lent {
    /// So many bytes, of UCX's if it is open.
    ///
    /// Errors: [`JoinError::Memory`].
    pub fn new(bytes: u64, context: Option<&Context>) -> Result<Lent, JoinError> {
        let too_much = || JoinError::Memory(format!("there are no {bytes} bytes of memory: make memory smaller"));
        let bytes_here = usize::try_from(bytes).map_err(|_| too_much())?;
        if let Some(context) = context {
            return Memory::allocate(context, bytes_here)
                .map(Lent::Ucx)
                .map_err(|why| JoinError::Memory(format!("{why}: make memory smaller, or leave one_sided out")));
        }
        let mut words: Vec<AtomicU64> = Vec::new();
        words.try_reserve_exact(bytes_here / 8).map_err(|_| too_much())?;
        words.resize_with(bytes_here / 8, AtomicU64::default);
        Ok(Lent::Own(words))
    }

    /// What peers need to read it without help. Errors: as [`Memory::key`].
    pub fn key(&self) -> Result<Option<Key>, tinaja_ucx::Error> {
        match self {
            Lent::Own(_) => Ok(None),
            Lent::Ucx(memory) => memory.key().map(Some),
        }
    }

    /// Nothing in it is valid any more. Who reads it without help would not notice that its node has left.
    pub fn wipe(&self) {
        if let Lent::Ucx(memory) = self {
            memory.words().iter().for_each(|word| word.store(0, Release));
        }
    }
}

impl Arena for Lent {
    fn words(&self) -> &[AtomicU64] {
        match self {
            Lent::Own(words) => words,
            Lent::Ucx(memory) => memory.words(),
        }
    }
}

/// What other nodes are told of the memory, and what they ask of the node's thread meanwhile.
#[derive(Debug, Default)]
pub struct Lending {
    told: OnceLock<Bytes>,
    still_until: Mutex<Option<Instant>>,
    awake_until: Mutex<Option<Instant>>,
}

impl Lending {
    /// What others are told from now on.
    pub fn tell(&self, address: &Address, key: &Key) {
        let (address, key) = (address.to_bytes(), key.to_bytes());
        let mut told = BytesMut::with_capacity(4 + address.len() + key.len());
        told.put_u32_le(u32::try_from(address.len()).unwrap_or_default());
        told.extend_from_slice(&address);
        told.extend_from_slice(&key);
        // Once is enough.
        let _ = self.told.set(told.freeze());
    }

    /// The same, for one that asks. It connects now.
    pub fn told(&self, now: Instant) -> Option<Bytes> {
        *self.awake_until.lock() = Some(now + AWAKE);
        self.told.get().cloned()
    }

    /// What another node told.
    pub fn heard(told: &[u8]) -> Option<(Address, Key)> {
        let (bytes, rest) = told.split_first_chunk::<4>()?;
        let (address, key) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
        Address::from_bytes(address).ok().zip(Key::from_bytes(key).ok())
    }

    /// Leave UCX alone for [`STILL`]. Nothing of it is being done any more when this returns.
    pub fn be_still(&self, now: Instant) {
        *self.still_until.lock() = Some(now + STILL);
    }

    /// Do this, unless UCX is to be left alone.
    pub fn unless_still(&self, now: Instant, progress: impl FnOnce()) {
        let mut until = self.still_until.lock();
        if until.is_none_or(|until| now >= until) {
            *until = None;
            progress();
        }
    }

    /// Whether another node makes a connection.
    pub fn is_awake(&self, now: Instant) -> bool {
        self.awake_until.lock().is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_had_or_it_is_said_why_not() {
        let own = Lent::new(4096, None).unwrap();
        assert_eq!((own.words().len(), own.key().unwrap()), (512, None));
        assert!(matches!(Lent::new(u64::MAX, None), Err(JoinError::Memory(_))));
        let why = open(&["no-such-interface".to_owned()]).err().unwrap().to_string();
        assert!(why.contains("one_sided = no-such-interface: this machine has no interface"), "{why}");
    }

    #[test]
    fn what_is_lent_is_told_and_heard() {
        let context = open(&[SHARED_MEMORY.to_owned()]).unwrap().unwrap();
        let lent = Lent::new(4096, Some(&context)).unwrap();
        let worker = tinaja_ucx::Worker::start(&context, tinaja_clock::Clock::system()).unwrap();
        let (lending, now) = (Lending::default(), Instant::now());
        assert_eq!(lending.told(now), None);
        let (address, key) = (worker.address().unwrap(), lent.key().unwrap().unwrap());
        lending.tell(&address, &key);
        let told = lending.told(now).unwrap();
        assert_eq!(Lending::heard(&told), Some((address, key)));
        assert!((0..told.len()).all(|end| Lending::heard(&told[..end]).is_none()));
        assert!(lending.is_awake(now) && !lending.is_awake(now + AWAKE));
    }

    #[test]
    fn a_node_is_still_for_a_while() {
        let (lending, now) = (Lending::default(), Instant::now());
        let done = |at| {
            let mut done = false;
            lending.unless_still(at, || done = true);
            done
        };
        assert!(done(now));
        lending.be_still(now);
        assert!(!done(now) && !done(now + STILL / 2) && done(now + STILL) && done(now));
    }
}
