//! One simulation, from its beginning to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::events::Events;
use crate::house::House;
use crate::load::World;
use crate::network::Net;
use crate::oracle::Oracle;
use crate::origin::{Origin, change_now_and_then};
use crate::panics::{Panics, hear};
use crate::plan::Plan;
use crate::random::Random;
use crate::server::{End, Server};
use crate::site::Resource;

/// What has become of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All that happened, to the last event.
    pub hash: u64,
    /// How much that was.
    pub events: u64,
    /// How long it took by its own clock.
    pub simulated: Duration,
    /// Requests of clients, those without a whole answer, and those that were hits.
    pub requests: u64,
    /// See there.
    pub failed: u64,
    /// See there.
    pub hits: u64,
    /// Whole answers over HTTP/2.
    pub over_http2: u64,
    /// Heads that the origin sent.
    pub asked: usize,
    /// What was not as it must be.
    pub faults: Vec<String>,
}

/// Runs one simulation to its end. `aloud` prints all that happens.
pub fn run(plan: &Plan, aloud: bool) -> Report {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let panics = Panics::default();
    hear(Some(panics.clone()));
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(simulate(plan, aloud, panics.clone()))));
    drop(runtime);
    hear(None);
    let mut report = ended.unwrap_or_default();
    report.faults.extend(panics.lock().drain(..));
    report
}

async fn simulate(plan: &Plan, aloud: bool, panics: Panics) -> Report {
    let (events, began) = (Events::new(aloud), Instant::now());
    let mut random = Random::new(plan.seed ^ 0x5EED);
    let house = House::new(events.clone(), random.fork(), panics);
    let net = Net::new(&events, plan.net, random.fork());
    let origin = Arc::new(Origin {
        oracle: Mutex::new(Oracle::new(Resource::all(&mut random))),
        events: events.clone(),
        clock: house.clock(),
        random: Mutex::new(random.fork()),
        manner: plan.origin,
        http2: plan.http2,
        well: AtomicBool::new(false),
        carried_out: Mutex::default(),
        twice: Mutex::default(),
    });
    let (answering, reading) = (origin.clone(), origin.clone());
    net.for_origins(
        Box::new(move |_, end| drop(tokio::spawn(answering.clone().answer(end)))),
        Box::new(move |tag| reading.oracle.lock().was_read(tag)),
    );
    let world = Arc::new(World {
        events: events.clone(),
        net: net.clone(),
        origin: origin.clone(),
        door: Mutex::default(),
        epoch: AtomicU64::new(0),
        excuses: plan.excuses(),
        disk_fails: plan.disk.fails(),
        faults: Mutex::default(),
        requests: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        once: AtomicU64::new(0),
        hits: AtomicU64::new(0),
        over_http2: AtomicU64::new(0),
    });
    let changing = tokio::spawn(change_now_and_then(origin.clone(), plan.change_ms));
    let mut server = Server::new(plan, &house, &world, random.fork());
    server.open(false);
    let mut clients = JoinSet::new();
    let mut ends = plan.ends.iter().peekable();
    for visit in 0..plan.visits {
        sleep(random.around(plan.pause_ms)).await;
        if plan.clock.set > 0 && random.per_mille(plan.clock.set) {
            server.set_clock();
        }
        let resource = random.below(origin.oracle.lock().resources.len() as u64) as usize;
        let together = if random.per_mille(150) { random.within(2..9) } else { 1 };
        for _ in 0..together {
            clients.spawn(world.clone().visit(resource, random.fork()));
        }
        while clients.try_join_next().is_some() {}
        if let Some((_, by_power)) = ends.next_if(|(at, _)| *at == visit) {
            server.end(if *by_power { End::PowerCut } else { End::Stop }).await;
            sleep(random.around(20_000)).await;
            server.open(false);
        }
    }
    if timeout(Duration::from_secs(7200), async { while clients.join_next().await.is_some() {} }).await.is_err() {
        world.fault(format!("{} clients have not ended", clients.len()));
    }
    changing.abort();
    net.heal();
    origin.well.store(true, SeqCst);
    afterwards(&world, &mut server, &mut random).await;
    let simulated = began.elapsed();
    all_ends(&world, &house, server).await;
    let (hash, count) = events.hash();
    let asked = origin.oracle.lock().answers();
    let mut faults = std::mem::take(&mut *world.faults.lock());
    faults.append(&mut origin.twice.lock());
    let counts = [&world.requests, &world.failed, &world.hits, &world.over_http2];
    let [requests, failed, hits, over_http2] = counts.map(|count| count.load(SeqCst));
    Report { hash, events: count, simulated, requests, failed, hits, over_http2, asked, faults }
}

/// After all faults are over everything must be right, and what may be stored must be.
async fn afterwards(world: &Arc<World>, server: &mut Server<'_>, random: &mut Random) {
    server.end(End::Stop).await;
    server.open(true);
    let resources = world.origin.oracle.lock().resources.clone();
    for (number, resource) in resources.iter().enumerate() {
        let (mut hits, mut broke_off) = (Vec::new(), false);
        for _ in 0..3 {
            let Some(mut client) = world.connect(random) else { return };
            match world.get(&mut client, number).await {
                // What the disk damaged before is found out by the first that reads it, and the origin may have another by now.
                Some(answer) if answer.status == 200 && !answer.is_whole && world.disk_fails && !broke_off => {
                    broke_off = true
                }
                Some(answer) if answer.status == 200 && answer.is_whole => {
                    hits.push(answer.field("cache-status").is_some_and(|said| said.contains("; hit")));
                }
                answer => world.fault(format!("{}: nothing fails, and yet: {answer:?}", resource.path)),
            }
            sleep(Duration::from_secs(5)).await;
        }
        let may_be_stored = resource.lifetime.is_some_and(|lifetime| lifetime.as_secs() >= 60);
        // One of them may have been evicted by what was stored between the two.
        if may_be_stored && hits.len() == 3 && !hits[1] && !hits[2] {
            world.fault(format!("{resource:?}: nothing fails, and it is not stored"));
        }
    }
}

/// Once nobody asks any more, everything must end.
async fn all_ends(world: &World, house: &House, mut server: Server<'_>) {
    server.end(End::Stop).await;
    drop(server);
    let tasks = || Handle::current().metrics().num_alive_tasks();
    for _ in 0..60 {
        if house.threads() == 0 && tasks() == 0 {
            return;
        }
        sleep(Duration::from_secs(20)).await;
    }
    world.fault(format!("after 20 minutes there are {} threads and {} tasks", house.threads(), tasks()));
}
