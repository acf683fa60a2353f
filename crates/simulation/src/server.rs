//! The proxy over its store, as a machine that is switched on and off.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tempfile::TempDir;
use tinaja_clock::Clock;
use tinaja_proxy::{Action, Config, Limits, Listener, Mode, OriginUrl, Routes, Rule, Simulated, Upstream};
use tinaja_store::device::{Device, Medium};
use tinaja_store::engine::registry::{Ask, Opening};
use tinaja_store::layout::Stamp;
use tinaja_store::{Cache, Secret, Settings, Store};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::canary::Canary;
use crate::disk::{self, Disk};
use crate::house::House;
use crate::load::World;
use crate::machine::Machine;
use crate::network::Network;
use crate::plan::Plan;
use crate::random::Random;

/// Where records begin on the disk.
const RESERVED: u64 = 4096;
/// How long a cache may take to close.
const CLOSES: Duration = Duration::from_secs(600);
/// How often the program writes down how late it is.
const WRITES: Duration = Duration::from_secs(300);

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As on a signal.
    Stop,
    /// At once.
    PowerCut,
}

/// One machine, and what runs on it.
pub struct Server<'a> {
    plan: &'a Plan,
    machine: Arc<Machine>,
    world: &'a Arc<World>,
    medium: Medium,
    /// The time of day that was last written down: a file beside the cache, which does not fail here.
    latest: Arc<Mutex<Option<SystemTime>>>,
    /// Where purges are written down: real files, which do not fail.
    dir: TempDir,
    /// The file of purges as it was when the machine was switched on.
    purged: Option<Vec<u8>>,
    random: Random,
    running: Option<Running>,
}

struct Running {
    proxy: Arc<Simulated>,
    cache: Arc<dyn Store>,
    disk: Arc<Disk>,
    clock: Clock,
    writing: JoinHandle<()>,
}

impl<'a> Server<'a> {
    pub fn new(plan: &'a Plan, house: &'a Arc<House>, world: &'a Arc<World>, random: Random) -> Server<'a> {
        let medium = Medium::zeroed(plan.disk_bytes);
        let (machine, latest) = (Machine::new(house), Arc::default());
        let dir = tempfile::tempdir().expect("a directory");
        Server { plan, machine, world, medium, latest, dir, purged: None, random, running: None }
    }

    /// Switches it on: the cache opens with what is on the disk, which does not fail where it is `well`.
    pub fn open(&mut self, well: bool) {
        let manner = if well { disk::Manner::default() } else { self.plan.disk };
        let clock = self.clock(well);
        let disk = Disk::over(&self.medium, &clock, manner, &self.world.events, self.random.fork());
        let secret = Secret::from_bytes([7; 32]);
        let ask = Ask {
            bytes: self.plan.disk_bytes as u64,
            reserved: RESERVED,
            mean_object_bytes: 4096,
            stamp: Stamp { seed: secret.seed() },
            settings: &Settings::new(),
        };
        let cut = self.plan.engine.cut(&ask).expect("the disk is large enough");
        let opening = Opening { flush_every: self.plan.flush_every, ..Opening::of(disk.clone()) };
        let engine = cut.open(opening).expect("the disk does not fail while the cache opens");
        let cache = Cache::over_by(clock.clone(), engine, secret, self.plan.hot_bytes).expect("threads");
        let cache: Arc<dyn Store> = Arc::new(cache);
        let store = self.plan.canary.map_or_else(|| cache.clone(), |canary| canary.over(cache.clone()));
        self.purged = std::fs::read(self.purges()).ok();
        let network = Arc::new(Network(self.world.net.clone()));
        let proxy = Simulated::new(config(self.plan, self.dir.path()), store, network).expect("a proxy");
        let proxy = Arc::new(proxy);
        *self.world.door.lock() = Some(proxy.clone());
        disk.be_prompt(well);
        self.world.events.note("open", &[]);
        let writing = tokio::spawn(write_down(clock.clone(), self.latest.clone()));
        self.running = Some(Running { proxy, cache, disk, clock, writing });
    }

    /// The clock of a machine that is switched on. Where all is well it is right, and nobody has written down another time.
    fn clock(&mut self, well: bool) -> Clock {
        if well {
            self.machine.set_right();
            self.latest.lock().take();
        } else if self.plan.clock.set_while_off > 0 && self.random.per_mille(self.plan.clock.set_while_off) {
            self.machine.set(&mut self.random);
        }
        let (clock, latest) = (self.machine.clock(), *self.latest.lock());
        let clock = latest.map_or(clock.clone(), |latest| clock.no_earlier_than(latest));
        let before = latest.filter(|_| clock.behind().is_zero()).map(|latest| latest + WRITES);
        self.world.origin.oracle.lock().opened(self.machine.ahead_ms(clock.wall()));
        if self.plan.canary == Some(Canary::UnnotedStep) { clock } else { clock.noting(before) }
    }

    /// Somebody sets the clock while the machine runs.
    pub fn set_clock(&mut self) {
        self.machine.set(&mut self.random);
        if let Some(Running { clock, .. }) = &self.running {
            let ahead_ms = self.machine.ahead_ms(clock.wall());
            self.world.events.note("clock set", &[ahead_ms.cast_unsigned()]);
            self.world.origin.oracle.lock().clock_is_ahead(ahead_ms);
        }
    }

    /// The file of purges.
    fn purges(&self) -> PathBuf {
        self.dir.path().join("tinaja.bans")
    }

    /// Switches it off.
    pub async fn end(&mut self, end: End) {
        let Some(Running { proxy, cache, disk, clock, writing }) = self.running.take() else { return };
        self.world.events.note("ends", &[u64::from(end == End::PowerCut)]);
        self.world.door.lock().take();
        writing.abort();
        if end == End::Stop && clock.behind().is_zero() {
            *self.latest.lock() = Some(clock.wall());
        }
        // Whoever is connected may be cut off from now on.
        self.world.epoch.fetch_add(1, SeqCst);
        if end == End::Stop {
            proxy.stop(Duration::from_secs(5)).await;
        }
        if self.world.disk_fails {
            self.world.origin.oracle.lock().forget_changes();
        }
        self.world.net.reset_all();
        drop(proxy);
        // A thread of the store's that waits for the disk may hold what its end needs.
        if end == End::PowerCut {
            disk.cut();
            if let (Some(Canary::LostPurge), Some(purged)) = (self.plan.canary, &self.purged) {
                assert!(self.purges().is_file(), "purges are written down elsewhere by now");
                std::fs::write(self.purges(), purged).expect("a file");
            }
        } else {
            disk.be_prompt(true);
        }
        sleep(Duration::from_secs(1)).await;
        match timeout(CLOSES, cache.close()).await {
            Err(_) => {
                self.world.fault(format!("the cache has not closed after {CLOSES:?}"));
                std::mem::forget(cache);
            }
            Ok(Err(error)) if end == End::Stop && disk.failed() == 0 => {
                self.world.fault(format!("the cache has not closed well, though nothing failed: {error}"));
            }
            Ok(_) => {}
        }
        disk.stop();
    }
}

/// As the program does it that runs.
async fn write_down(clock: Clock, latest: Arc<Mutex<Option<SystemTime>>>) {
    loop {
        sleep(WRITES).await;
        *latest.lock() = Some(clock.wall());
    }
}

fn config(plan: &Plan, dir: &Path) -> Config {
    let here: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let origins: Vec<OriginUrl> =
        (1..=plan.origins).map(|last| format!("http://192.0.2.{last}:80").parse().expect("a URL")).collect();
    let upstream = Upstream { http2: plan.http2, balance: plan.balance, ..Upstream::from(origins[0].clone()) };
    let routes = Routes::new(Vec::new(), Some(Upstream { origins, ..upstream })).expect("a route");
    let mut listener = Listener { mode: Mode::Reverse(routes), ..Listener::forward(here) };
    listener.rules.push(Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) });
    let limits = Limits { client_memory: 64 << 20, ..Limits::default() };
    Config {
        listeners: vec![listener],
        name: Some("simulated".into()),
        limits,
        control: Some(dir.to_owned()),
        workers: 1,
        ..Config::default()
    }
}
