//! One proxy on the limited disk: filled, limited, driven as fast as it can, then at four fifths of that.

use std::time::Duration;

use tinaja_store::Clock;
use tinaja_store::tune::DiskSpeed;

use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::{Embedded, PolyMix, PolyMixOptions};
use crate::peers::{
    Bench, BenchOptions, Clients, FileSystem, Origin, Peer, Phase, Server, Share, Tally, fill, flat_out, timed,
};

/// Reads a second that the disk takes, and writes a second: the kernel counts each for itself.
pub const LIMIT: u64 = 70;
/// Bytes of memory for hot objects.
pub const HOT_BYTES: u64 = 8 << 20;
/// Requests that are always under way when a proxy is driven as fast as it can.
pub const AT_ONCE: usize = 32;
/// At a rate, so many may wait at most.
const WAITING: usize = 128;
/// Of the peak, the rate at which times are measured.
pub const SHARE_OF_PEAK: f64 = 0.8;

/// What was measured of one proxy.
pub struct Ran {
    pub peer: Peer,
    /// Under which load.
    pub embedded: Embedded,
    pub version: String,
    /// Requests with which it was filled.
    pub filled: Tally,
    /// Memory when it had just started, and once it was filled.
    pub empty_bytes: u64,
    pub full_bytes: u64,
    /// See [`Server::index_bytes`].
    pub index_bytes: Option<u64>,
    pub peak: Phase,
    /// The rate that was asked for, and what came of it.
    pub rate: f64,
    pub timed: Phase,
}

/// Bytes of disk for objects.
pub fn disk_bytes(setup: &Setup) -> u64 {
    setup.choose(2 << 30, 256 << 20)
}

/// Bytes of memory for everything, the page cache included.
pub const MEMORY_BYTES: u64 = 192 << 20;

/// The load: its working set fills three tenths of the disk, as 18 GB of 60 GB did (section 5.2).
fn options(embedded: Embedded, setup: &Setup) -> PolyMixOptions {
    let options = PolyMixOptions::new(embedded, 100.0, 1);
    let working_set = 0.3 * disk_bytes(setup) as f64 / options.stored_bytes_a_view();
    PolyMixOptions { working_set: working_set as u64, ..options }
}

/// How long it is warmed up and measured; longer than the kernel keeps back writes, which is half a minute.
pub fn lengths(setup: &Setup) -> (Duration, Duration, Duration) {
    let seconds = setup.choose([35, 60, 30], [1, 2, 2]);
    seconds.map(Duration::from_secs).into()
}

/// What the limited disk itself does, by the size of a read: Table 6, and the `t` of Table 4. Errors: it cannot be made.
pub fn disk_speed(setup: &Setup) -> Result<DiskSpeed, LabError> {
    let (scratch, disk_bytes) = (setup.scratch.clone(), 512 << 20);
    let bench =
        Bench::make(&BenchOptions { scratch, disk_bytes, memory_bytes: MEMORY_BYTES, files: FileSystem::Ext4 })?;
    bench.limit(LIMIT)?;
    let budget = Duration::from_secs(setup.choose(60, 4));
    // In the second version of control groups the limit is the group's and not the disk's.
    let measured = bench.within(|| DiskSpeed::measure(&Clock::system(), &bench.mounted(), budget))?;
    measured.map_err(|why| LabError::failed("measuring the limited disk", why))
}

/// Run it. Errors: it cannot be started, an answer is wrong, or most have none.
pub fn run(peer: Peer, embedded: Embedded, setup: &Setup, origin: &Origin) -> Result<Ran, LabError> {
    tracing::info!("{}, {} objects a page", peer.name(), embedded.a_page());
    let share = Share { disk_bytes: disk_bytes(setup), hot_bytes: HOT_BYTES };
    let bench = Bench::make(&BenchOptions {
        scratch: setup.scratch.clone(),
        // A file system takes its share, and files of whole blocks are longer than their objects.
        disk_bytes: share.disk_bytes / 4 * 5,
        memory_bytes: MEMORY_BYTES,
        files: FileSystem::Ext4,
    })?;
    let mut server = Server::start(peer, &bench, &share)?;
    let ran = drive((peer, embedded), setup, origin, &bench, &server);
    // Why it ended says more than that nobody answered.
    server.still_runs()?;
    match bench.ended_for_memory() {
        0 => ran,
        // What begins anew has no cache for a while, and passes on whatever it is asked for at the rate of the origin.
        ended => Err(LabError::failed(
            "running a proxy",
            format!(
                "{ended} of its processes were ended for want of memory: it does not fit {} MiB",
                MEMORY_BYTES >> 20
            ),
        )),
    }
}

fn drive(
    (peer, embedded): (Peer, Embedded),
    setup: &Setup,
    origin: &Origin,
    bench: &Bench,
    server: &Server,
) -> Result<Ran, LabError> {
    let empty_bytes = bench.processes().resident_bytes;
    let options = options(embedded, setup);
    let clients = Clients::new(options.clients, server.address(), origin.address());
    let mut mix = PolyMix::new(options, setup.seed);
    let requests = options.working_set as f64 * options.requests_a_view() / options.share_of_new_views();
    let filled = fill(&clients, &mut mix, requests as usize, 16)?;
    let full_bytes = bench.processes().resident_bytes;
    tracing::info!("filled with {} objects, {:.0} a second", filled.requests(), filled.rate());

    bench.limit(LIMIT)?;
    let (warm_up, peak, at_rate) = lengths(setup);
    flat_out(&clients, &mut mix, warm_up, AT_ONCE)?;
    let peak = Phase::of(bench, || flat_out(&clients, &mut mix, peak, AT_ONCE))?;
    let rate = peak.tally.rate() * SHARE_OF_PEAK;
    tracing::info!("{:.1} a second, {:.1} % hits", peak.tally.rate(), peak.tally.hit_ratio() * 100.0);
    // What the peak left to be written or waited for is not of this rate.
    timed(&clients, &mut mix, rate, at_rate / 4, WAITING)?;
    let timed = Phase::of(bench, || timed(&clients, &mut mix, rate, at_rate, WAITING))?;
    let index_bytes = server.index_bytes();
    let version = peer.version();
    Ok(Ran { peer, embedded, version, filled, empty_bytes, full_bytes, index_bytes, peak, rate, timed })
}
