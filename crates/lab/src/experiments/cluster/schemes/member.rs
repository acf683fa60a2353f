//! One node of the cluster, as a process of its own: this program once more, told by its environment which. It ends with its input.
//!
//! What it is told, a line each: `member ID NAME ROLE ADDRESS KEY` for each node, `go`, `run REQUESTS` and `counts`. It answers with `told ADDRESS KEY`, `ended`
//! and `counts`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::env;
use std::io::{Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use tinaja_cluster::Arena;
use tinaja_cluster::drive::Driver;
use tinaja_cluster::members::{Lends, Member, Members, NodeId, Role};
use tinaja_cluster::node::{Answer, Node, Options, Ticket};
use tinaja_cluster::over_ucx::OverUcx;
use tinaja_cluster::scheme::{Scheme, Small};
use tinaja_cluster::slots::SlotKey;
use tinaja_store::Clock;
use tinaja_ucx::{Address, DEFAULT_TRANSPORTS, Key, Memory, Worker};

use super::super::other::{bytes_of, context, hex};
use crate::error::LabError;
use crate::random::{Random, mix};

/// What tells a process that it is a node, and which.
pub const MEMBER: &str = "TINAJA_LAB_MEMBER";
/// The cluster's secret.
const SEED: u64 = 42;
/// How long a node that has nothing to do sleeps before it looks for orders.
const SLEEP: Duration = Duration::from_millis(2);
/// How long an origin takes.
pub const ORIGIN: Duration = Duration::from_micros(500);
const PATIENCE: Duration = Duration::from_secs(2);

/// What a node is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub id: u64,
    pub role: Role,
    pub scheme: Scheme,
    /// Objects that it has room for, and their bytes.
    pub objects: u32,
    pub bytes: u32,
    /// Objects whose home it is.
    pub listed: u32,
    /// Objects that are asked for, all as often.
    pub working_set: u64,
    /// Requests under way at once.
    pub at_once: usize,
    pub seed: u64,
}

/// All that can be tried, by name.
pub fn schemes(small_bytes: u32) -> [(&'static str, Scheme); 6] {
    let hybrid = |small| Scheme::Hybcc { small_bytes, small };
    [
        ("AC", Scheme::Ac),
        ("BCC", Scheme::Bcc),
        ("CCWR", Scheme::Ccwr),
        ("MTACC", Scheme::Mtacc),
        ("HYBCC, small as BCC", hybrid(Small::AsBcc)),
        ("HYBCC, small as CCWR", hybrid(Small::AsCcwr)),
    ]
}

impl Part {
    /// As text, for [`MEMBER`].
    pub fn to_text(self) -> String {
        let Part { id, role, scheme, objects, bytes, listed, working_set, at_once, seed } = self;
        let (scheme, small_bytes) = match scheme {
            Scheme::Ac => (0, 0),
            Scheme::Bcc => (1, 0),
            Scheme::Ccwr => (2, 0),
            Scheme::Mtacc => (3, 0),
            Scheme::Hybcc { small_bytes, small } => (if small == Small::AsBcc { 4 } else { 5 }, small_bytes),
        };
        let is_proxy = u8::from(role == Role::Proxy);
        format!("{id} {is_proxy} {scheme} {small_bytes} {objects} {bytes} {listed} {working_set} {at_once} {seed}")
    }

    fn from_text(text: &str) -> Option<Part> {
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (id, is_proxy, scheme, small_bytes) = (next()?, next()?, next()?, u32::try_from(next()?).ok()?);
        let scheme = schemes(small_bytes).get(usize::try_from(scheme).ok()?)?.1;
        let role = if is_proxy == 1 { Role::Proxy } else { Role::Passive };
        let mut short = || u32::try_from(next()?).ok();
        let (objects, bytes, listed) = (short()?, short()?, short()?);
        let (working_set, at_once, seed) = (next()?, usize::try_from(next()?).ok()?, next()?);
        Some(Part { id, role, scheme, objects, bytes, listed, working_set, at_once, seed })
    }

    /// How its memory is cut.
    pub fn lends(&self) -> (Lends, u64) {
        Lends::cut(self.objects, self.bytes, if self.role == Role::Proxy { self.listed } else { 0 })
    }
}

/// Memory that is an arena.
#[derive(Clone)]
struct Lent(Arc<Memory>);

impl Arena for Lent {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// If this process is a node: be it, and end.
pub fn play() -> Result<(), LabError> {
    let Ok(told) = env::var(MEMBER) else { return Ok(()) };
    let part = Part::from_text(&told).ok_or_else(|| LabError::failed("being a node of a cluster", told))?;
    be(part)?;
    std::process::exit(0);
}

fn orders() -> Receiver<String> {
    let (sender, orders) = channel();
    thread::spawn(move || stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    orders
}

fn say(line: &str) {
    // Whoever started it may be gone already.
    let _ = writeln!(stdout(), "{line}").and_then(|()| stdout().flush());
}

fn be(part: Part) -> Result<(), LabError> {
    let failed = |why: tinaja_ucx::Error| LabError::failed("being a node of a cluster", why);
    let context = context(DEFAULT_TRANSPORTS)?;
    let (lends, bytes) = part.lends();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let memory = Lent(Arc::new(Memory::allocate(&context, bytes).map_err(failed)?));
    let worker = Worker::start(&context, Clock::system()).map_err(failed)?;
    let address = worker.address().map_err(failed)?;
    let key = memory.0.key().map_err(failed)?;
    let options = Options { scheme: part.scheme, seed: SEED, patience: PATIENCE, ..Options::default() };
    let node = Node::new(NodeId(part.id), &memory, &lends, options, 2);
    let network = OverUcx::new(worker, Clock::system(), PATIENCE);
    let mut one = One {
        part,
        driver: Driver::new(node, network, Clock::system(), SEED),
        members: BTreeMap::new(),
        random: Random::new(part.seed ^ mix(part.id)),
        fetches: HashMap::new(),
        missed: VecDeque::new(),
        left: 0,
        is_running: false,
        wrong: 0,
    };
    say(&format!("told {} {}", hex(&address.to_bytes()), hex(&key.to_bytes())));
    let orders = orders();
    loop {
        loop {
            match orders.try_recv() {
                Ok(order) => one.heed(&order)?,
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(()),
            }
        }
        if !one.turn() {
            let origin = one.missed.front().map(|(until, _, _)| until.saturating_duration_since(Instant::now()));
            one.driver.sleep(origin.map_or(SLEEP, |origin| origin.min(SLEEP)));
        }
    }
}

struct One {
    part: Part,
    driver: Driver<Lent, OverUcx>,
    members: BTreeMap<NodeId, Member>,
    random: Random,
    /// Objects that are being fetched.
    fetches: HashMap<u64, u64>,
    /// Objects that are fetched from an origin, until when.
    missed: VecDeque<(Instant, u64, Ticket)>,
    left: u64,
    is_running: bool,
    wrong: u64,
}

impl One {
    fn heed(&mut self, order: &str) -> Result<(), LabError> {
        let failed = |why: String| LabError::failed("being a node of a cluster", why);
        let words: Vec<&str> = order.split(' ').collect();
        match *words.as_slice() {
            ["member", id, role, address, key] => {
                let id = NodeId(id.parse().map_err(|_| failed(order.to_owned()))?);
                let role = if role == "proxy" { Role::Proxy } else { Role::Passive };
                let lends = Part { role, ..self.part }.lends().0;
                self.members.insert(id, Member { name: format!("node {}", id.0), role, lends });
                if id.0 != self.part.id {
                    let reached = Address::from_bytes(&bytes_of(address))
                        .and_then(|address| Ok((address, Key::from_bytes(&bytes_of(key))?)))
                        .and_then(|(address, key)| self.driver.network().reach(id, &address, &key));
                    reached.map_err(|why| failed(why.to_string()))?;
                }
            }
            ["go"] => {
                let members = Members::new(self.members.clone());
                self.driver.node().set_members(members);
            }
            ["run", requests] => {
                self.left = requests.parse().map_err(|_| failed(order.to_owned()))?;
                self.is_running = true;
            }
            ["counts"] => {
                let wrong = [("wrong", self.wrong), ("unsent", self.driver.network().unsent())];
                let node = self.driver.node();
                let (listed, duplicates) = node.listed();
                let own = [("listed", listed), ("duplicate bytes", duplicates)];
                let all = node.counts().all().into_iter().chain(own).chain(wrong);
                let all: Vec<String> = all.map(|(name, count)| format!("{name}={count}")).collect();
                say(&format!("counts {}", all.join(";")));
            }
            _ => return Err(failed(order.to_owned())),
        }
        Ok(())
    }

    fn under_way(&mut self) -> usize {
        self.fetches.len() + self.missed.len() + self.driver.node().moves()
    }

    /// Do what is to be done; whether there was anything.
    fn turn(&mut self) -> bool {
        let answers = self.driver.turn();
        let mut was_busy = !answers.is_empty();
        for (call, answer) in answers {
            let Some(object) = self.fetches.remove(&call) else { continue };
            match answer {
                Answer::Found { payload, .. } => self.wrong += u64::from(payload != content(object, self.part.bytes)),
                Answer::Absent(ticket) => self.missed.push_back((Instant::now() + ORIGIN, object, ticket)),
                Answer::Older(_) | Answer::Valid(_) | Answer::Invalidated(_) => {}
            }
        }
        while let Some((_, object, ticket)) = self.missed.pop_front_if(|(until, _, _)| *until <= Instant::now()) {
            let (key, payload) = (key(object), content(object, self.part.bytes));
            self.driver.node().store(&key, &payload, ticket);
            was_busy = true;
        }
        // The next one begins when the last one's object has found its place.
        while self.left > 0 && self.under_way() < self.part.at_once {
            let object = self.random.below(self.part.working_set);
            let call = self.driver.node().fetch(&key(object));
            self.fetches.insert(call, object);
            self.left -= 1;
            was_busy = true;
        }
        if self.is_running && self.left == 0 && self.under_way() == 0 {
            self.is_running = false;
            say("ended");
        }
        was_busy
    }
}

/// What an object is known by.
pub fn key(object: u64) -> SlotKey {
    let mut key = [0; 16];
    let halves = [mix(object + 1), mix(object ^ 0x5555_5555_5555)];
    key.iter_mut().zip(halves.iter().flat_map(|half| half.to_le_bytes())).for_each(|(to, from)| *to = from);
    key
}

/// The bytes of an object: words that say which they are.
pub fn content(object: u64, bytes: u32) -> Vec<u8> {
    let first = mix(object);
    let mut content = Vec::with_capacity(bytes as usize);
    for at in 0..u64::from(bytes) / 8 {
        content.extend_from_slice(&(first ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes());
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_is_told_is_what_it_is_to_be() {
        for (n, (_, scheme)) in schemes(8192).into_iter().enumerate() {
            let role = if n % 2 == 0 { Role::Proxy } else { Role::Passive };
            let part = Part {
                id: n as u64,
                role,
                scheme,
                objects: 1,
                bytes: 2,
                listed: 3,
                working_set: 4,
                at_once: 5,
                seed: u64::MAX,
            };
            assert_eq!(Part::from_text(&part.to_text()), Some(part));
        }
        assert_eq!(Part::from_text("1 2 3"), None);
    }
}
