//! A node of a cluster as a part of a program: its thread, its connections, and what the program asks of it.
//!
//! The protocol runs on a thread of its own ([`crate::drive`]), and connections on one more. Calls from the program are handed to the first, and their answers
//! are futures that need no runtime.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use chitchat::ChitchatHandle;
use parking_lot::Mutex;
use tinaja_clock::Clock;
use tinaja_store::{Key, Store};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::answers::{Answers, Forget};
use crate::comers::Comers;
use crate::disks::{Disks, Known, Way};
use crate::drive::Driver;
use crate::error::JoinError;
use crate::gossip::{self, Card, View, node_id};
use crate::inbox::Inbox;
use crate::joining::Joining;
use crate::lent::{self, Lending, Lent};
use crate::limits::{MAX_CALLS_AT_ONCE, MAX_GOSSIP};
use crate::links::{Links, REMOVING, Work};
use crate::listings::{LISTED, Listing, Listings};
use crate::members::{NodeId, Role};
use crate::node::{Answer, Node, Options, Ticket};
use crate::over_both::{Near, OverBoth};
use crate::over_http2::OverHttp2;
use crate::packed;
use crate::pulse::Pulse;
use crate::slots::SlotKey;
use crate::status::{Peer, Status};
use crate::table::BUCKET_BYTES;
use crate::tls::Identity;

/// How long the thread sleeps where nothing happens at all.
const SLEEP: Duration = Duration::from_secs(1);
/// For so long some of the others may not know of this node yet, though it knows them.
const YOUNG: Duration = Duration::from_secs(10);
/// Nodes that have not forgotten something in time are asked again after so long.
const AGAIN: Duration = Duration::from_millis(100);
/// How long the others may take to be told that this node leaves.
const LEAVING: Duration = Duration::from_millis(500);

/// What the program wants of the node's thread.
enum Command {
    Fetch(SlotKey, oneshot::Sender<Answer>),
    Ticket(SlotKey, oneshot::Sender<Answer>),
    Invalidate(SlotKey, oneshot::Sender<Answer>),
    Validate(SlotKey, oneshot::Sender<Answer>),
    Page(u32, usize, oneshot::Sender<Page>),
    Pause(Instant, oneshot::Sender<()>),
    Forget(SlotKey, oneshot::Sender<()>),
    Store(SlotKey, Vec<u8>, Ticket, oneshot::Sender<bool>),
    View(View),
    Status(oneshot::Sender<Status>),
}

/// Some of the objects that a node holds, and the slot from which it goes on.
type Page = (Vec<Vec<u8>>, Option<u32>);

/// See the module. Dropped, it leaves.
pub struct Joined {
    joining: Joining,
    own: SocketAddr,
    inbox: Arc<Inbox<Command>>,
    links: Links,
    view: Arc<Mutex<View>>,
    /// This life of the node, and where objects lie.
    id: NodeId,
    known: Arc<Mutex<Arc<Known>>>,
    /// The secret that keys are hashed with.
    secret: [u8; 32],
    /// Milliseconds since 1970: what was stored before may have been removed without this node's hearing of it.
    distrusted: Arc<AtomicU64>,
    /// When the node's thread was last seen to go on.
    pulse: Arc<Pulse>,
    /// When others know it, if they ever will.
    grown_up: Instant,
    clock: Clock,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Connections and gossip, until this node leaves.
    running: Mutex<Option<(Runtime, ChitchatHandle)>>,
}

impl Joined {
    /// Join, or begin, a cluster. What other nodes remove is removed from `below` too. Others are found in the background: a node that
    /// is alone serves alone. `comers` are who answers what else other nodes want.
    ///
    /// Errors: [`JoinError`].
    pub fn join(joining: Joining, below: Arc<dyn Store>, comers: Comers) -> Result<Joined, JoinError> {
        let clock = below.clock();
        let identity = Identity::read(&joining.files, &joining.cluster, &clock)?;
        let (lends, bytes) = joining.lends()?;
        let context = lent::open(&joining.one_sided)?;
        let arena = Arc::new(Lent::new(bytes, context.as_ref())?);
        let lending = context.is_some().then(Arc::<Lending>::default);
        let system = |cause: std::io::Error| JoinError::System(cause.to_string());
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("cluster")
            .enable_all()
            .build()
            .map_err(system)?;
        let _inside = runtime.enter();
        let listening = |cause: std::io::Error| JoinError::Listen { address: joining.listen, cause: cause.to_string() };
        let listener = std::net::TcpListener::bind(joining.listen).map_err(listening)?;
        listener.set_nonblocking(true).map_err(listening)?;
        let listener = TcpListener::from_std(listener).map_err(listening)?;
        let own = match joining.advertise {
            Some(address) => address,
            None => listener.local_addr().map_err(listening)?,
        };
        let generation = now(&clock);
        let [a, b, c, d, e, f, g, h, ..] = identity.secret;
        let seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let inbox = Arc::new(Inbox::new(clock.clone()));
        let links = Links::new(identity.client.clone(), own, clock.clone(), runtime.handle().clone());
        let (view, known): (Arc<Mutex<View>>, Arc<Mutex<Arc<Known>>>) = Default::default();
        let distrusted = Arc::new(AtomicU64::new(generation));
        let pulse = Arc::new(Pulse::new(clock.clone()));
        let options = Options { scheme: joining.scheme, seed, patience: joining.patience, ..Options::default() };
        let id = node_id(&joining.node, generation);
        let node = Node::new(id, &arena, &lends, options, 2 * generation);
        let network = OverHttp2::new(links.clone(), inbox.clone(), clock.clone(), joining.patience);
        let (from, to, since, by) = (inbox.clone(), links.clone(), distrusted.clone(), clock.clone());
        let most_bytes = (lends.slot_bytes as usize).max(BUCKET_BYTES);
        let (patience, (told, begun)) = (joining.patience, std::sync::mpsc::channel());
        let beating = pulse.clone();
        let (lent, lends_by_ucx) = (arena.clone(), lending.clone());
        let thread = clock.spawn("cluster node", move || {
            let _ending = Ending { inbox: &from, links: &to, arena: &lent };
            // UCX is for the thread that opens it.
            let near = match (&context, lends_by_ucx, lent.key()) {
                (Some(context), Some(lending), Ok(Some(key))) => {
                    let way = (to.clone(), from.clone());
                    Near::start((context, &key), lending, way, by.clone(), (patience, most_bytes)).map(Some)
                }
                (_, _, Err(why)) => Err(JoinError::System(why.to_string())),
                _ => Ok(None),
            };
            let near = match near {
                Ok(near) => near,
                Err(why) => {
                    from.end();
                    // It is waited for below.
                    return drop(told.send(Err(why)));
                }
            };
            let driver = Driver::new(node, OverBoth::new(network, near), by.clone(), seed);
            let _ = told.send(Ok(()));
            run(driver, &from, (&since, &beating), (&by, patience));
        });
        let thread = thread.map_err(system)?;
        begun.recv().unwrap_or_else(|_| Err(JoinError::System("the node's thread does not begin".to_owned())))?;
        // From now on others may ask.
        let (gossip, comes) = mpsc::channel(MAX_GOSSIP);
        let answers = Arc::new(Answers {
            arena: arena.clone(),
            lending: lending.clone(),
            most_bytes,
            inbox: inbox.clone(),
            gossip,
            below: below.clone(),
            forget: forgetting(inbox.clone(), identity.secret),
            comers,
            turns: Semaphore::new(MAX_CALLS_AT_ONCE),
            clock: clock.clone(),
        });
        clock.start(answers.serve(listener, identity.server.clone()));
        let grown_up = clock.now() + YOUNG;
        let seen = (view.clone(), known.clone());
        let changed = on_change(inbox.clone(), seen, distrusted.clone(), grown_up, clock.clone());
        let card = Card::of(&joining, &lends, &identity.secret);
        let gossiping = gossip::begin(&joining, own, generation, card, links.clone(), comes, changed);
        let gossiping = runtime.block_on(gossiping).inspect_err(|_| inbox.end())?;
        drop(_inside);
        Ok(Joined {
            joining,
            own,
            inbox,
            links,
            view,
            id,
            known,
            secret: identity.secret,
            distrusted,
            pulse,
            grown_up,
            clock,
            thread: Mutex::new(Some(thread)),
            running: Mutex::new(Some((runtime, gossiping))),
        })
    }

    /// Where other nodes reach this one.
    pub fn address(&self) -> SocketAddr {
        self.own
    }

    /// What it was joined with.
    pub fn joining(&self) -> &Joining {
        &self.joining
    }

    /// By what key an object is known in the cluster. The secret keeps others from choosing names that all have one home.
    pub fn slot_key(&self, key: &Key) -> SlotKey {
        slot_key(&self.secret, key)
    }

    /// On whose disks an object lies. Takes a hash for each node.
    pub fn way(&self, key: &Key) -> Way {
        if self.joining.disks == Disks::Own || self.has_left() {
            return Way::ALONE;
        }
        let known = self.known.lock().clone();
        known.way((self.id, self.own), &self.slot_key(key), self.joining.disks)
    }

    /// Whether another node is a member at the moment.
    pub fn is_there(&self, address: SocketAddr) -> bool {
        self.known.lock().is_there(address)
    }

    /// Look for an object in the memory of all nodes.
    pub async fn fetch(&self, key: SlotKey) -> Answer {
        self.ask(|reply| Command::Fetch(key, reply)).await.unwrap_or_else(|| Answer::Absent(Ticket::default()))
    }

    /// What is needed to store an object that begins to come now. None if the node is too busy.
    pub fn ticket(&self, key: SlotKey) -> Option<oneshot::Receiver<Answer>> {
        let (reply, answer) = oneshot::channel();
        self.inbox.command(Command::Ticket(key, reply)).ok().map(|()| answer)
    }

    /// Keep an object in the cluster's memory. Whether its home says so to others, or it is not kept at all: if not, others may find an older one.
    pub async fn store(&self, key: SlotKey, payload: Vec<u8>, ticket: Ticket) -> bool {
        // A node that is too busy does without.
        let (reply, is_listed) = oneshot::channel();
        let sent = self.inbox.command(Command::Store(key, payload, ticket, reply)).is_ok();
        !sent || is_listed.await.unwrap_or(true)
    }

    /// The other nodes that belong to the cluster, each by this life of it and its name.
    pub fn others(&self) -> Vec<(NodeId, String)> {
        let view = self.view.lock();
        let others = view.members.iter().filter(|(node, _)| view.addresses.contains_key(node));
        others.map(|(node, member)| (*node, member.name.clone())).collect()
    }

    /// Whether this node has just started, and may not know all others, or they it.
    pub fn is_young(&self) -> bool {
        self.clock.now() < self.grown_up
    }

    /// Whether it has nobody to look for: its seeds are none, or itself.
    pub fn is_meant_to_be_alone(&self) -> bool {
        let own = [self.own.to_string(), self.joining.listen.to_string()];
        self.joining.seeds.iter().all(|seed| own.contains(seed))
    }

    /// Say something to another node's program; what that answers. Nothing if the node is none of the cluster, or does not answer within 10 s, or some seconds
    /// more where it has to be connected to.
    pub async fn call(&self, node: NodeId, said: Bytes) -> Option<Bytes> {
        let address = *self.view.lock().addresses.get(&node)?;
        let (reply, answer) = oneshot::channel();
        self.links.send(address, Work::Call(said, reply));
        answer.await.ok().flatten()
    }

    /// Forget an object in the memory and on the disks of all other nodes; whether one of the disks had it. Errors: whoever has not done
    /// so, or may not have.
    pub async fn remove(&self, key: &Key) -> Result<bool, String> {
        let body = Bytes::from(packed::key_to_bytes(key));
        let others: Vec<(String, SocketAddr)> = {
            let view = self.view.lock();
            let name = |node| view.members.get(node).map(|member| member.name.clone()).unwrap_or_default();
            view.addresses.iter().map(|(node, address)| (name(node), *address)).collect()
        };
        let asked: Vec<(String, oneshot::Receiver<Option<bool>>)> = others
            .into_iter()
            .map(|(name, address)| {
                let (reply, answer) = oneshot::channel();
                self.links.send(address, Work::Remove(body.clone(), reply));
                (name, answer)
            })
            .collect();
        let until = self.clock.now() + REMOVING;
        let (mut not, mut was_there) = (Vec::new(), false);
        for (name, answer) in asked {
            // Its end comes by itself: each request has a deadline.
            match answer.await.ok().flatten() {
                Some(there) => was_there |= there,
                None => not.push(name),
            }
        }
        if self.clock.now() > until {
            tracing::warn!("a removal took {} s on other nodes of the cluster", REMOVING.as_secs());
        }
        // Last, so that nothing can come back from a disk into memory.
        let slot_key = self.slot_key(key);
        // A node that is slow, but has answered before, is asked again; another one is named already.
        let mut forgotten = self.invalidate(slot_key).await;
        while !forgotten && not.is_empty() && self.clock.now() < until && self.pause(AGAIN).await {
            forgotten = self.invalidate(slot_key).await;
        }
        if !forgotten && not.is_empty() {
            not.push("one that has not answered".to_owned());
        }
        if not.is_empty() { Ok(was_there) } else { Err(not.join(", ")) }
    }

    /// Forget an object in the memory of all nodes; whether all have answered.
    pub async fn invalidate(&self, key: SlotKey) -> bool {
        self.ask(|reply| Command::Invalidate(key, reply)).await == Some(Answer::Invalidated(true))
    }

    /// Whether what this node holds of a key still counts.
    pub async fn is_valid(&self, key: SlotKey) -> bool {
        self.ask(|reply| Command::Validate(key, reply)).await == Some(Answer::Valid(true))
    }

    /// Objects that this node holds, from a slot on, so many at most; and the slot from which it goes on.
    pub async fn page(&self, from: u32, most: usize) -> (Vec<Vec<u8>>, Option<u32>) {
        let (reply, page) = oneshot::channel();
        match self.inbox.command(Command::Page(from, most, reply)) {
            Ok(()) => page.await.unwrap_or_default(),
            // A node that is too busy, or has left, lists nothing.
            Err(_) => Default::default(),
        }
    }

    /// Whether this node has left.
    pub fn has_left(&self) -> bool {
        self.inbox.has_ended()
    }

    /// What was stored before this may have been removed without this node's hearing of it.
    pub fn distrusted_before(&self) -> SystemTime {
        if !self.has_left() && self.pulse.stands_still() {
            // Stopped: the others may have taken it for gone since.
            return self.clock.wall();
        }
        UNIX_EPOCH + Duration::from_millis(self.distrusted.load(Relaxed))
    }

    /// How things are; none while the node is too busy, or has left.
    pub async fn status(&self) -> Option<Status> {
        let (reply, answer) = oneshot::channel();
        self.inbox.command(Command::Status(reply)).ok()?;
        let mut status = answer.await.ok()?;
        let view = self.view.lock();
        status.cluster = self.joining.cluster.clone();
        status.node = self.joining.node.clone();
        status.address = self.own;
        status.scheme = format!("{:?}", self.joining.scheme).to_lowercase();
        status.disks = self.joining.disks.to_string();
        status.distrusted_before = self.distrusted.load(Relaxed) / 1000;
        status.is_young = self.is_young();
        status.lost = self.links.lost();
        status.peers = view
            .members
            .iter()
            .filter_map(|(node, member)| {
                let address = *view.addresses.get(node)?;
                let (is_up, role) = (self.links.is_up(address), member.role);
                let homes = status.homes.get(&node.0).copied().unwrap_or_default();
                let by_http2 = || ("HTTP/2 over mutual TLS".to_owned(), false);
                let (transport, one_sided) = status.ways.get(&node.0).cloned().unwrap_or_else(by_http2);
                let is_passive = role == Role::Passive;
                Some(Peer { name: member.name.clone(), address, is_up, is_passive, homes, transport, one_sided })
            })
            .collect();
        status.refused = view.refused.clone();
        Some(status)
    }

    /// Wait, by the node's thread: whoever uses a store may have no timers. Whether the node is still there.
    async fn pause(&self, time: Duration) -> bool {
        let (reply, over) = oneshot::channel();
        let sent = self.inbox.command(Command::Pause(self.clock.now() + time, reply));
        sent.is_ok() && over.await.is_ok()
    }

    async fn ask(&self, command: impl FnOnce(oneshot::Sender<Answer>) -> Command) -> Option<Answer> {
        let (reply, answer) = oneshot::channel();
        self.inbox.command(command(reply)).ok()?;
        answer.await.ok()
    }

    /// Leave the cluster. Others find out by themselves. Blocks for half a second, and as long as it takes to write over memory that others read by UCX.
    pub fn leave(&self) {
        self.inbox.end();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
        self.links.end();
        if let Some((runtime, gossiping)) = self.running.lock().take() {
            gossiping.abort();
            runtime.shutdown_timeout(LEAVING);
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // Nothing is waited for: this may be on a thread that runs futures.
        self.inbox.end();
        self.links.end();
        if let Some((runtime, gossiping)) = self.running.lock().take() {
            gossiping.abort();
            runtime.shutdown_background();
        }
    }
}

/// Milliseconds since 1970.
fn now(clock: &Clock) -> u64 {
    let since = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn slot_key(secret: &[u8; 32], key: &Key) -> SlotKey {
    let mut hash = blake3::Hasher::new_keyed(secret);
    hash.update(key.digest());
    hash.update(key.name());
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = *hash.finalize().as_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// What has the node forget a key that another one removes.
fn forgetting(inbox: Arc<Inbox<Command>>, secret: [u8; 32]) -> Forget {
    Box::new(move |key| {
        let (reply, done) = oneshot::channel();
        // A node that has left holds nothing.
        let _ = inbox.command(Command::Forget(slot_key(&secret, key), reply));
        Box::pin(async move { drop(done.await) })
    })
}

/// Whatever ends the node's thread, nobody waits for it, and nobody reads its memory for what it was.
struct Ending<'a> {
    inbox: &'a Inbox<Command>,
    links: &'a Links,
    arena: &'a Lent,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.inbox.has_ended() {
            tracing::error!("the node of the cluster has ended by itself: this server is alone until its next start");
        }
        self.inbox.end();
        self.links.end();
        self.arena.wipe();
    }
}

/// What is done when somebody comes or goes.
fn on_change(
    inbox: Arc<Inbox<Command>>,
    (shown, known): (Arc<Mutex<View>>, Arc<Mutex<Arc<Known>>>),
    distrusted: Arc<AtomicU64>,
    grown_up: Instant,
    clock: Clock,
) -> impl FnMut(View) + Send + 'static {
    // Lives of nodes that were members at some time, and are none at the moment.
    let mut gone: Vec<NodeId> = Vec::new();
    let mut was_alone = true;
    move |view: View| {
        // The node hears of it before anybody is shown it.
        if inbox.command(Command::View(view.clone())).is_err() && !inbox.has_ended() {
            tracing::error!("a change of the cluster's members was not heeded: the node is too busy");
        }
        let before = shown.lock().clone();
        for (node, member) in before.members.iter().filter(|(node, _)| !view.members.contains_key(node)) {
            tracing::warn!(node = member.name, "a node of the cluster is gone");
            gone.push(*node);
        }
        for (node, member) in view.members.iter().filter(|(node, _)| !before.members.contains_key(node)) {
            if view.addresses.contains_key(node) {
                tracing::info!(node = member.name, "a node has joined the cluster");
            }
        }
        for (name, address, why) in view.refused.iter().filter(|refused| !before.refused.contains(refused)) {
            tracing::error!(node = name, %address, why, "a node is there that is not of this cluster");
        }
        let comes_back = gone.iter().any(|node| view.members.contains_key(node));
        gone.retain(|node| !view.members.contains_key(node));
        gone.drain(..gone.len().saturating_sub(crate::limits::MAX_LINKS));
        let is_alone = view.addresses.is_empty();
        // Either of the two was away, and may have missed what the other one was told to remove.
        let meets = view.members.keys().any(|node| !before.members.contains_key(node));
        let is_young = clock.now() < grown_up;
        if comes_back || (was_alone && !is_alone) || (is_young && meets) {
            distrusted.store(now(&clock), Relaxed);
        }
        was_alone = is_alone;
        // Whoever is seen to be there has been taken into account.
        *known.lock() = Arc::new(Known::new(view.with_homes(), view.addresses.clone()));
        *shown.lock() = view;
    }
}

/// The node's thread.
fn run(
    mut driver: Driver<Arc<Lent>, OverBoth<Command>>,
    inbox: &Inbox<Command>,
    (distrusted, pulse): (&AtomicU64, &Pulse),
    (clock, patience): (&Clock, Duration),
) {
    let mut waiting: HashMap<u64, oneshot::Sender<Answer>> = HashMap::new();
    let mut homes: HashMap<u64, u64> = HashMap::new();
    let mut listings = Listings::default();
    let mut pauses: Vec<(Instant, oneshot::Sender<()>)> = Vec::new();
    let mut clears = 0;
    while !inbox.has_ended() {
        if driver.node().clears() != clears || pulse.stands_still() {
            // It was away, though it may not have noticed.
            clears = driver.node().clears();
            distrusted.store(now(clock), Relaxed);
        }
        // Afterwards: what is from before is distrusted without a gap.
        pulse.beat();
        while let Some(command) = inbox.next() {
            match command {
                Command::Fetch(key, reply) => drop(waiting.insert(driver.node().fetch(&key), reply)),
                Command::Ticket(key, reply) => drop(waiting.insert(driver.node().ticket(&key), reply)),
                Command::Invalidate(key, reply) => drop(waiting.insert(driver.node().invalidate(&key), reply)),
                Command::Validate(key, reply) => drop(waiting.insert(driver.node().validate(&key), reply)),
                Command::Pause(until, reply) => pauses.push((until, reply)),
                Command::Page(from, most, reply) => drop(reply.send(driver.node().page(from, most))),
                Command::Forget(key, reply) => {
                    driver.node().forget_here(&key);
                    let _ = reply.send(());
                }
                Command::Store(key, payload, ticket, reply) => {
                    let now = clock.now();
                    match driver.node().store(&key, &payload, ticket) {
                        Some(version) => {
                            listings.begin(Listing { key, version, reply, pause: LISTED, until: now + patience }, now)
                        }
                        // Nobody finds anything of it.
                        None => drop(reply.send(true)),
                    }
                }
                Command::View(view) => {
                    let members = view.with_homes();
                    homes = members.homes().fold(HashMap::new(), |mut homes, node| {
                        *homes.entry(node.0).or_default() += 1;
                        homes
                    });
                    driver.network().reach(view.addresses);
                    driver.node().set_members(members);
                }
                Command::Status(reply) => drop(reply.send(status(&mut driver, &homes))),
            }
        }
        listings.look(driver.node(), clock.now());
        for (call, answer) in driver.turn() {
            if let Some(reply) = waiting.remove(&call) {
                // Whoever asked may have gone.
                let _ = reply.send(answer);
            } else {
                listings.looked(call, &answer, driver.node(), clock.now());
            }
        }
        let now = clock.now();
        for (_, reply) in pauses.extract_if(.., |(until, _)| *until <= now) {
            let _ = reply.send(());
        }
        let pause = pauses.iter().map(|(until, _)| until.saturating_duration_since(now)).min().unwrap_or(SLEEP);
        driver.sleep(SLEEP.min(pause).min(listings.patience(now)));
    }
}

fn status(driver: &mut Driver<Arc<Lent>, OverBoth<Command>>, homes: &HashMap<u64, u64>) -> Status {
    let ways = driver.network().ways().into_iter().map(|(node, way)| (node.0, way)).collect();
    let one_sided_reads = ("one-sided reads".to_owned(), driver.network().one_sided_reads());
    let node = driver.node();
    let (listed, duplicate_bytes) = node.listed();
    let held = node.held().map(|(_, held)| u64::from(held.at.bytes));
    let (objects, bytes) = held.fold((0, 0), |(objects, all), bytes| (objects + 1, all + bytes));
    let room = node.room();
    let counts = node.counts().all().into_iter().map(|(name, count)| (name.to_owned(), count));
    Status {
        free: room.free,
        redundant: room.redundant,
        others: room.others,
        known_by: node.known_by() as u64,
        own_homes: homes.get(&node.id().0).copied().unwrap_or_default(),
        objects,
        bytes,
        listed,
        duplicate_bytes,
        counts: counts.chain([one_sided_reads]).collect(),
        ways,
        homes: homes.clone(),
        ..Status::default()
    }
}
