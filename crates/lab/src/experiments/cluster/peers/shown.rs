//! What came out, as tables and pictures.

use super::{
    ALPHA, AT_ONCE, Case, DIE, FAR, FILL, KINDS, MEAN_BYTES, NODES, OBJECTS, PHASE, Phase, RATE, ROOM, TELL, WHEN,
};
use crate::experiment::Setup;
use crate::peers::{FASTER, Places, REBUILT_MINUTES, Told, percentile};
use crate::report::{Cell, Plot, Series, Table};

impl Phase {
    fn duplicate_bytes(&self) -> u64 {
        self.disks.values().map(|(copies, bytes)| (copies - 1) * bytes).sum()
    }

    fn all_bytes(&self) -> u64 {
        self.disks.values().map(|(copies, bytes)| copies * bytes).sum()
    }

    fn time(&self, percent: f64) -> Option<f64> {
        percentile(self.tally.hit_times.iter().chain(&self.tally.miss_times), percent)
    }
}

fn mb(bytes: u64) -> Cell {
    Cell::number(bytes as f64 / 1e6, 1)
}

pub fn tables(cases: &[Case]) -> Vec<Table> {
    let columns = [
        "cache",
        "phase",
        "requests",
        "possible hits %",
        "hits %",
        "bytes from the cache %",
        "fetches from the origin",
        "origin MB",
        "a hit, p50 ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "longest ms",
        "asked again",
        "not answered",
    ];
    let mut asked = Table::new("What clients and the origin saw", &columns);
    let mut disks = Table::new(
        "What lies on the disks of the nodes that run, at the end of each phase",
        &["cache", "phase", "objects", "copies of one", "MB", "duplicate MB", "duplicate %"],
    );
    let mut told = Table::new(
        "What the Squids that run at the end of each phase say of their siblings that run",
        &[
            "cache",
            "phase",
            "siblings of all",
            "their digests in use",
            "digests fetched since the start",
            "answered by a sibling that a digest named",
            "that ICP named",
        ],
    );
    let mut versions = Table::new("Versions", &["cache", "version"]);
    for Case { kind, phases } in cases {
        versions.row([kind.name().into(), kind.version().into()]);
        for phase in phases {
            let Phase { name, tally, known, given, again, .. } = phase;
            let all = tally.requests() + tally.failed;
            asked.row([
                kind.name().into(),
                (*name).into(),
                all.into(),
                Cell::percent(*known as f64 / all.max(1) as f64),
                Cell::percent(tally.hit_ratio()),
                Cell::percent(tally.byte_hit_ratio()),
                given.0.into(),
                mb(given.1),
                Cell::maybe(percentile(&tally.hit_times, 50.0), 2),
                Cell::maybe(phase.time(50.0), 2),
                Cell::maybe(phase.time(95.0), 1),
                Cell::maybe(phase.time(99.0), 1),
                Cell::maybe(phase.time(100.0), 0),
                (*again).into(),
                tally.failed.into(),
            ]);
            if !phase.told.is_empty() {
                let nodes = phase.told.len() as u64;
                let sum = |of: &dyn Fn(&(Told, Told)) -> u64| phase.told.values().map(of).sum::<u64>();
                told.row([
                    kind.name().into(),
                    (*name).into(),
                    (nodes * nodes.saturating_sub(1)).into(),
                    sum(&|(_, end)| end.usable).into(),
                    sum(&|(_, end)| end.fetched).into(),
                    sum(&|(begin, end)| end.by_digest.saturating_sub(begin.by_digest)).into(),
                    sum(&|(begin, end)| end.by_icp.saturating_sub(begin.by_icp)).into(),
                ]);
            }
            if !phase.disks.is_empty() {
                let copies: u64 = phase.disks.values().map(|(copies, _)| copies).sum();
                let (twice, all) = (phase.duplicate_bytes(), phase.all_bytes());
                disks.row([
                    kind.name().into(),
                    (*name).into(),
                    (phase.disks.len() as u64).into(),
                    Cell::number(copies as f64 / phase.disks.len() as f64, 2),
                    mb(all),
                    mb(twice),
                    Cell::percent(twice as f64 / all.max(1) as f64),
                ]);
            }
        }
    }
    vec![asked, disks, told, versions]
}

pub fn plots(cases: &[Case]) -> Vec<Plot> {
    let bars = |title: &str, y: &str, of: &dyn Fn(&Phase) -> f64| {
        let measured = |case: &Case| case.phases.iter().skip(1).map(of).collect::<Vec<_>>();
        Plot::Bars {
            title: title.to_owned(),
            y: y.to_owned(),
            groups: ["before", "two die, one joins", "after"].map(str::to_owned).to_vec(),
            series: cases.iter().map(|case| Series::bars(case.kind.name(), measured(case))).collect(),
        }
    };
    vec![
        bars("Hits", "% of requests", &|phase| phase.tally.hit_ratio() * 100.0),
        bars("Bytes of the origin", "MB", &|phase| phase.given.1 as f64 / 1e6),
        bars("Duplicates on disks", "MB", &|phase| phase.duplicate_bytes() as f64 / 1e6),
        bars("Time of a request, 95 of 100 are faster", "ms", &|phase| phase.time(95.0).unwrap_or_default()),
    ]
}

pub fn notes(setup: &Setup, places: &Places, left_out: &[String]) -> Vec<String> {
    let apart = if places.are_apart() {
        "Each node is a process in a network namespace of its own, on a bridge with the others, the clients and the origin"
    } else {
        "Without root there are no network namespaces: each node is a process with an address of its own on loopback"
    };
    let [die, join] = WHEN.map(|share| share * setup.choose(PHASE.0, PHASE.1) as f64 / RATE);
    let mut notes = vec![
        format!(
            "{apart}. {NODES} nodes with {} MiB of disk and {} MiB of memory for objects each; one thread or process serves on each. \
             {} objects of {:.0} kB in the mean, asked for by Zipf's law with alpha {ALPHA}; {} requests fill the caches, then there are {} in each phase, {RATE} a second, {AT_ONCE} \
             at once at most. All caches get the same requests. The origin answers {} ms after it is asked. Every byte of every answer is compared with what it should be; one wrong byte ends the experiment. All share this \
             machine's processors, so times compare these caches with each other, not with ones on eight machines.",
            ROOM.disk_bytes >> 20,
            ROOM.memory_bytes >> 20,
            setup.choose(OBJECTS.0, OBJECTS.1),
            MEAN_BYTES / 1e3,
            setup.choose(FILL.0, FILL.1),
            setup.choose(PHASE.0, PHASE.1),
            FAR.as_millis(),
        ),
        format!(
            "During: {} nodes are killed (SIGKILL) {die:.1} s after the phase begins, and a ninth with an empty disk joins after {join:.1} s. Clients of ours and of the Squids know all nodes. One that is refused a connection asks others from then on, until it is told of \
             the new node; an answer that breaks off is asked for again. With HAProxy there is one place to ask, which does not die here.",
            DIE.len()
        ),
        "A hit is an answer that the origin gave to an earlier request. Possible hits are requests for what had been asked for before. The disks are read after each phase: of Squid and nginx their files, of ours a copy of each node's, as a start after a \
         power cut would find it. Bytes on disks include heads."
            .to_owned(),
        "Ours: `disk = \"home\"` with one copy and with two, half of the memory shared, the engine by default. All settings name the ninth Squid and the ninth nginx from the start, and ours are told of it by itself. nginx: `proxy_cache` with a lock, \
         one worker; HAProxy: `balance uri`, `hash-type consistent`, a check every 500 ms, a node that refuses a connection is passed by at once, and a request whose node broke off before it answered goes to another."
            .to_owned(),
        format!(
            "Squid: `aufs`, each a sibling of all others. With digests: no ICP; digests are made anew every {REBUILT_MINUTES} minutes of its clock, which goes {FASTER} times faster (faketime), since Squid fetches no more than one digest a minute and the same one each five; {}. With ICP: no digests, its clock is the machine's, and what is not here is asked of all siblings; with `proxy-only` what a sibling has given is not stored a second time. Squid asks no sibling for what is on an origin that it takes for nearer than 400 ms or five hops, as this one is: \
             `minimum_direct_rtt 0` and `minimum_direct_hops 0` change that. What each says of its siblings is from its cache manager (`peer_select`). Some packages of Squid take in only a part of a long digest (`scripts/squid-digests` shows it); then this row shows what the package does, not what digests can do.",
            if setup.quick {
                "in short they get no time to exchange them after the fill".to_owned()
            } else {
                format!("they have {} s after the fill to exchange them", TELL.as_secs())
            }
        ),
    ];
    if setup.quick {
        notes.push(
            "In short: nodes that are younger than ten seconds validate what they have whenever another joins."
                .to_owned(),
        );
    }
    if !left_out.is_empty() {
        notes.push(format!("Left out of {}: {}.", KINDS.len(), left_out.join("; ")));
    }
    notes
}
