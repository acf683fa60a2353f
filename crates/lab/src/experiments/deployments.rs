//! Section 7 of the HashCache paper: its two deployments, in the memory that they were given.

use tinaja_store::{EngineRef, Settings, Stats, Store, engines};

use super::table3::formula::bits_a_slot;
use super::table3::{name as policy, usual};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::{Drive, Embedded, PolyMix, PolyMixOptions, drive};
use crate::paper::hashcache::OTHERS_BITS;
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::rig::memory::{MemoryLimit, forget_peak, resident_bytes};
use crate::rig::{Rig, Spec};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hashcache-deployments",
    shows: "the memory of the two deployments: 50 GB with Log in 300 MB, 20 GB with Set in 128 MB",
    paper: "HashCache, section 7",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// What was deployed where.
struct Deployment {
    place: &'static str,
    engine: EngineRef,
    disk_bytes: u64,
    /// What the cache, or the whole machine, may take.
    memory_bytes: u64,
    /// What of it is for hot objects.
    hot_bytes: u64,
    settings: Settings,
}

/// What was measured.
struct Measured {
    stats: Stats,
    hit_ratio: f64,
    stored: u64,
    before_bytes: u64,
    peak_bytes: u64,
    /// The most that the limited group was charged with, if there was one.
    charged_bytes: Option<u64>,
}

fn deployments() -> [Deployment; 2] {
    // All policies but LogN prefetch from section 3.5 on, and so did these two.
    let settings = usual(true);
    let (university, router) = ("Obafemi Awolowo University", "Kokrobitey Institute");
    [
        Deployment {
            place: router,
            engine: engines::HASHCACHE_SET,
            disk_bytes: 20_000_000_000,
            memory_bytes: 128_000_000,
            hot_bytes: 16 << 20,
            settings: settings.clone(),
        },
        Deployment {
            place: university,
            engine: engines::HASHCACHE_LOG,
            disk_bytes: 50_000_000_000,
            memory_bytes: 300_000_000,
            hot_bytes: 128 << 20,
            settings,
        },
    ]
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let columns = [
        "deployment",
        "policy",
        "disk GB",
        "limit MB",
        "enforced",
        "index MB",
        "formula MB",
        "hot MB",
        "before MB",
        "process MB",
        "charged MB",
        "stored",
        "hits %",
    ];
    let mut table = Table::new("Two deployments in their memory", &columns);
    let (mut places, mut bars) = (Vec::new(), [const { Vec::new() }; BARS.len()]);
    for deployment in deployments() {
        let measured = measure(&deployment, setup)?;
        let megabytes = |bytes: u64| Cell::number(bytes as f64 / 1e6, 1);
        let slots = measured.stats.slots;
        places.push(format!("{}, {} GB", deployment.place, deployment.disk_bytes / 1_000_000_000));
        let charged = measured.charged_bytes.unwrap_or_default();
        let heights =
            [deployment.memory_bytes, measured.peak_bytes, charged, deployment.hot_bytes, measured.stats.index_bytes];
        bars.iter_mut().zip(heights).for_each(|(bars, bytes)| bars.push(bytes as f64 / 1e6));
        let formula = bits_a_slot(deployment.engine, &deployment.settings, slots) * slots as f64 / 8.0;
        table.row([
            deployment.place.into(),
            policy(deployment.engine, &deployment.settings).into(),
            Cell::number(deployment.disk_bytes as f64 / 1e9, 0),
            megabytes(deployment.memory_bytes),
            if measured.charged_bytes.is_some() { "yes" } else { "no" }.into(),
            megabytes(measured.stats.index_bytes),
            megabytes(formula as u64),
            megabytes(deployment.hot_bytes),
            megabytes(measured.before_bytes),
            megabytes(measured.peak_bytes),
            measured.charged_bytes.map_or(Cell::Nothing, megabytes),
            measured.stored.into(),
            Cell::percent(measured.hit_ratio),
        ]);
    }
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let (quick, seed, tables) = (setup.quick, setup.seed, vec![table, others()]);
    let plots = vec![plot(places, bars)];
    Ok(Report { name, shows, paper, quick, seed, tables, plots, notes: notes() })
}

/// The plot's bars for each deployment, in this order.
const BARS: [&str; 5] = ["limit", "process, at its most", "charged to the group", "for hot objects", "index"];

/// Memory against its limit.
fn plot(groups: Vec<String>, bars: [Vec<f64>; BARS.len()]) -> Plot {
    let series = BARS.into_iter().zip(bars).map(|(name, heights)| Series::bars(name, heights)).collect();
    Plot::Bars { title: "Two deployments in their memory".to_owned(), y: "MB".to_owned(), groups, series }
}

/// What the index alone of other caches takes on such disks.
fn others() -> Table {
    let mut table = Table::new("Index of other caches for the same disks, MB", &["system", "50 GB", "20 GB"]);
    for (name, least, most) in OTHERS_BITS {
        let index = |disk: f64, bits: f64| disk / 8192.0 * bits / 8.0 / 1e6;
        let range = |disk| format!("{:.0} to {:.0}", index(disk, least), index(disk, most));
        table.row([name.into(), range(50e9).into(), range(20e9).into()]);
    }
    table
}

fn measure(deployment: &Deployment, setup: &Setup) -> Result<Measured, LabError> {
    tracing::info!("{}: {} on {} bytes", deployment.place, deployment.engine, deployment.disk_bytes);
    let failed = |error: std::io::Error| LabError::failed("making a directory", error);
    let dir = tempfile::Builder::new().prefix("tinaja-lab-").tempdir_in(&setup.scratch).map_err(failed)?;
    let spec = Spec {
        hot_bytes: deployment.hot_bytes,
        settings: deployment.settings.clone(),
        ..Spec::new(deployment.engine, deployment.disk_bytes >> 12 << 12)
    };
    let before_bytes = resident_bytes().0;
    forget_peak();
    let limit = MemoryLimit::enter(deployment.memory_bytes);
    let rig = Rig::on_file(&spec, &dir.path().join("disk"))?;
    let options = PolyMixOptions::new(Embedded::TenToTwenty, 50.0, setup.choose(20_000, 300));
    let warm_up = setup.choose(200_000, 2000);
    let requests = PolyMix::new(options, setup.seed).take(warm_up + setup.choose(100_000, 1000));
    let outcome = drive(&rig, requests, &Drive { warm_up, ..Drive::default() })?;
    Ok(Measured {
        stats: rig.store.stats(),
        hit_ratio: outcome.hit_ratio(),
        stored: rig.store.stats().stored,
        before_bytes,
        peak_bytes: resident_bytes().1,
        charged_bytes: limit.as_ref().and_then(MemoryLimit::peak_bytes),
    })
}

fn notes() -> Vec<String> {
    [
        "Both prefetch, like all policies but LogN from section 3.5 on. This costs Log eight more bits per position, \
         55 per slot, and Set nothing, since it keeps lengths in its bins.",
        "Only the engine and its store run here, in the laboratory's own process. A proxy would also need memory for \
         its connections.",
        "Each engine runs over a sparse file as long as the deployment's disk, bypassing the page cache, under a \
         PolyMix-like load. Its index is fully allocated from the start, so its memory does not grow with the number \
         of stored objects.",
        "`process` is the most memory that the whole process held during the run (VmHWM): this program's code, the \
         index, the buffers for reads and batches, hot objects, and what the process held before the engine was opened \
         (`before`), whose heap may have been reused. `charged` is what a memory cgroup with the limit was charged \
         with. Without root no cgroup can be created, and the limit is only compared, not enforced.",
        "The smaller deployment runs first, so the larger one reuses the memory that it frees. The limit is for the \
         cache at the university, and for the whole machine at the institute, which wanted to use as little as \
         possible. Squid's index alone would have filled either.",
    ]
    .map(str::to_owned)
    .to_vec()
}
