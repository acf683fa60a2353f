//! Eight machines with one cache, ours and others, while two of them die and one joins: what the origin sends, what lies on disks twice, hits, and times.

mod shown;

use std::collections::{HashMap, HashSet};
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::Request;
use crate::peers::{
    Answer, Clients, Crowd, Kind, Origin, Places, Room, Sharing, Tally, Told, allow_open_files, listed,
};
use crate::random::{Random, Zipf, mix};
use crate::report::Report;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    takes_requests: false,
    resumes: false,
    name: "cluster-peers",
    shows: "eight nodes as one cache beside Squids as siblings and nginx behind HAProxy, while two die and one joins",
    paper: "no paper: ours beside what is in use",
    replays_logs: false,
    needs: Needs::Time,
    run,
};

/// Each in its turn.
const KINDS: [Kind; 6] = [
    Kind::Tinaja { copies: 1 },
    Kind::Tinaja { copies: 2 },
    Kind::Squid(Sharing::Digests),
    Kind::Squid(Sharing::Icp),
    Kind::Squid(Sharing::IcpProxyOnly),
    Kind::Nginx,
];
/// What is measured in short.
const SHORT: [Kind; 4] =
    [Kind::Tinaja { copies: 1 }, Kind::Squid(Sharing::Digests), Kind::Squid(Sharing::Icp), Kind::Nginx];
/// Machines at first; those that die; the one that joins.
const NODES: u8 = 8;
const DIE: [u8; 2] = [2, 5];
const JOINS: u8 = NODES;
/// After which share of their phase they die, and another joins.
const WHEN: [f64; 2] = [0.1, 0.6];
/// Of each node.
const ROOM: Room = Room { disk_bytes: 64 << 20, memory_bytes: 16 << 20 };
/// Objects, and what they have in the mean; popular as the caches of the Web found it.
const OBJECTS: (u64, u64) = (15_000, 300);
const MEAN_BYTES: f64 = 20_000.0;
const MOST_BYTES: f64 = 500_000.0;
const ALPHA: f64 = 0.8;
/// Requests to fill the caches, and of each phase; how many a second.
const FILL: (usize, usize) = (24_000, 600);
const PHASE: (usize, usize) = (10_000, 240);
const RATE: f64 = 400.0;
/// Requests at once, at most, and how many clients they are of.
const AT_ONCE: usize = 64;
const FILLING: usize = 16;
const CLIENTS: u64 = 64;
/// How far away the origin is.
const FAR: Duration = Duration::from_millis(40);
/// For Squids to tell each other, before anything is measured: a digest is made every ten seconds, and each of eight siblings is asked for
/// its own every fifteen.
const TELL: Duration = Duration::from_secs(30);
/// How long what was stored may lie in buffers of ours; the others write files.
const BUFFERS: Duration = Duration::from_millis(1500);
/// Nodes that one request is put to, at most.
const TRIES: usize = 3;

/// What one phase came to.
struct Phase {
    name: &'static str,
    tally: Tally,
    /// Of the requests, those for what was asked for before.
    known: usize,
    /// Answers of the origin, and their bytes.
    given: (u64, u64),
    /// Requests that were put to another node, or once more.
    again: u64,
    /// Objects on disks by number: copies, and bytes of one.
    disks: HashMap<u64, (u64, u64)>,
    /// What each Squid that runs at the end says of its siblings: as before the phase, if it ran then, and as at the end.
    told: HashMap<u8, (Told, Told)>,
}

/// All phases of one.
struct Case {
    kind: Kind,
    phases: Vec<Phase>,
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    allow_open_files()?;
    let places = Places::make(NODES + 1)?;
    let (mut cases, mut left_out) = (Vec::new(), Vec::new());
    for kind in KINDS.into_iter().filter(|kind| !setup.quick || SHORT.contains(kind)) {
        let missing = kind.missing();
        if missing.is_empty() {
            eprintln!("{}", kind.name());
            cases.push(measure(setup, kind, &places)?);
        } else {
            let why = format!("{}: not installed (apt-get install {})", kind.name(), missing.join(" "));
            tracing::warn!("left out: {why}");
            left_out.push(why);
        }
    }
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let (tables, plots) = (shown::tables(&cases), shown::plots(&cases));
    let notes = shown::notes(setup, &places, &left_out);
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

/// The requests of all phases, the same for each kind.
fn requests(setup: &Setup) -> Vec<Vec<Request>> {
    let objects = setup.choose(OBJECTS.0, OBJECTS.1);
    let (zipf, mut random) = (Zipf::with(objects as usize, ALPHA), Random::new(setup.seed));
    let mut some = |count: usize| -> Vec<Request> {
        let mut one = || {
            let object = mix(setup.seed ^ mix(zipf.rank(&mut random) as u64));
            // The size is the object's own.
            let bytes = Random::new(object).exponential(MEAN_BYTES).clamp(100.0, MOST_BYTES) as u64;
            let (time, client) = (Duration::ZERO, random.below(CLIENTS));
            Request {
                time,
                object,
                bytes,
                sent_bytes: bytes,
                client,
                referer: None,
                host: 0,
                stream: 2,
                cachable: true,
            }
        };
        (0..count).map(|_| one()).collect()
    };
    let (fill, phase) = (setup.choose(FILL.0, FILL.1), setup.choose(PHASE.0, PHASE.1));
    [fill, phase, phase, phase].map(&mut some).to_vec()
}

fn measure(setup: &Setup, kind: Kind, places: &Places) -> Result<Case, LabError> {
    let origin = Origin::at(places.here(), FAR)?;
    let mut crowd = Crowd::start(kind, places, (NODES, JOINS + 1), ROOM, origin.address(), &setup.scratch)?;
    let doors = Doors::of(&crowd, &origin);
    let lists = requests(setup);
    let (mut seen, mut phases, mut before) = (HashSet::new(), Vec::new(), HashMap::new());
    let lasts = Duration::from_secs_f64(setup.choose(PHASE.0, PHASE.1) as f64 / RATE);
    for (name, list) in ["fill", "before", "during", "after"].into_iter().zip(&lists) {
        let (given, again) = (origin.given(), doors.again.load(Relaxed));
        let known = list.iter().filter(|request| !seen.insert(request.object)).count();
        let is_filling = name == "fill";
        let (rate, at_once) = if is_filling { (None, FILLING) } else { (Some(RATE), AT_ONCE) };
        let tally = std::thread::scope(|scope| {
            let load = scope.spawn(|| listed(|request| doors.ask(request), list, rate, at_once));
            if name == "during" {
                die_and_join(&mut crowd, &doors, lasts)?;
            }
            load.join().unwrap_or_else(|_| Err(LabError::failed("asking a cluster", "the load broke off")))
        })?;
        if is_filling && kind == Kind::Squid(Sharing::Digests) && !setup.quick {
            std::thread::sleep(TELL);
        }
        let now = origin.given();
        let given = (now.0 - given.0, now.1 - given.1);
        let disks = if is_filling {
            HashMap::new()
        } else {
            if matches!(kind, Kind::Tinaja { .. }) {
                std::thread::sleep(BUFFERS);
            }
            crowd.on_disks()?
        };
        let at_end = crowd.told();
        let told = at_end.iter().map(|(n, end)| (*n, (before.get(n).copied().unwrap_or_default(), *end))).collect();
        before = at_end;
        phases.push(Phase { name, tally, known, given, again: doors.again.load(Relaxed) - again, disks, told });
    }
    Ok(Case { kind, phases })
}

fn die_and_join(crowd: &mut Crowd<'_>, doors: &Doors, lasts: Duration) -> Result<(), LabError> {
    let [die, join] = WHEN.map(|share| lasts.mul_f64(share));
    std::thread::sleep(die);
    DIE.into_iter().for_each(|n| crowd.kill(n));
    std::thread::sleep(join - die);
    crowd.add(JOINS)?;
    doors.open(JOINS);
    Ok(())
}

/// Where clients ask. One that finds a node gone asks another from then on, as those do that are told of several proxies.
struct Doors {
    clients: Vec<(Clients, Option<u8>)>,
    is_open: Vec<AtomicBool>,
    again: AtomicU64,
}

impl Doors {
    fn of(crowd: &Crowd<'_>, origin: &Origin) -> Doors {
        let doors = crowd.doors();
        let is_open = doors.iter().map(|(_, node)| AtomicBool::new(*node != Some(JOINS))).collect();
        let clients =
            doors.into_iter().map(|(door, node)| (Clients::new(CLIENTS, door, origin.address()), node)).collect();
        Doors { clients, is_open, again: AtomicU64::new(0) }
    }

    fn open(&self, node: u8) {
        let all = self.clients.iter().zip(&self.is_open);
        all.filter(|((_, own), _)| *own == Some(node)).for_each(|(_, is_open)| is_open.store(true, Relaxed));
    }

    /// Ask a node, and where it has gone or breaks off the next one.
    fn ask(&self, request: &Request) -> Result<Answer, Error> {
        let all = self.clients.iter().zip(&self.is_open);
        let open: Vec<_> = all.filter(|(_, is_open)| is_open.load(Relaxed)).collect();
        let mut last = Error::other("every node is gone");
        for ((clients, node), is_open) in
            open.iter().cycle().skip(request.client as usize % open.len().max(1)).take(TRIES)
        {
            match clients.ask(request) {
                Err(why) if why.kind() != ErrorKind::InvalidData => {
                    self.again.fetch_add(1, Relaxed);
                    if why.kind() == ErrorKind::ConnectionRefused && node.is_some() {
                        is_open.store(false, Relaxed);
                    }
                    last = why;
                }
                answer => return answer,
            }
        }
        Err(last)
    }
}
