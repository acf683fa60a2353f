//! One-sided reads beside two-sided ones: the same bytes by UCX from shared memory, by UCX over TCP, and by HTTP from a proxy.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tinaja_ucx::DEFAULT_TRANSPORTS;

use super::other::{LENT_BYTES, Other, Role, Started, play, processor_time, version, word};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::Request;
use crate::peers::{Clients, Origin, free_address, percentile};
use crate::progress::Progress;
use crate::report::{Cell, Plot, Report, Series, Table};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cluster-reads",
    shows: "one-sided reads beside two-sided ones and HTTP: times, rates, the other side's processor; its process stopped",
    paper: "Cooperative caching, section 3",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Ucx,
    run,
};

const SIZES: [usize; 4] = [64, 8 << 10, 64 << 10, 1 << 20];
/// For how long each is read.
const LASTS: (Duration, Duration) = (Duration::from_secs(3), Duration::from_millis(100));
const PATIENCE: Duration = Duration::from_secs(10);
/// A new object is stored, and in memory if it goes there, after so many requests.
const WARM_UP: usize = 1000;
/// How long a read of a stopped process may take, and how many are tried.
const STOPPED_PATIENCE: Duration = Duration::from_millis(100);
const STOPPED_READS: usize = 20;

/// A way to the bytes.
struct Way {
    name: &'static str,
    /// UCX's; HTTP has none.
    ucx: Option<(Role, &'static str)>,
}

const WAYS: [Way; 4] = [
    Way { name: "UCX get, shared memory", ucx: Some((Role::Sleeps, DEFAULT_TRANSPORTS)) },
    Way { name: "UCX get, TCP", ucx: Some((Role::Sleeps, "tcp,self")) },
    Way { name: "UCX get, TCP, the other side spins", ucx: Some((Role::Spins, "tcp,self")) },
    Way { name: "HTTP, a hit", ucx: None },
];

/// What was measured of a size.
struct Measured {
    bytes: usize,
    reads: usize,
    p50_ms: f64,
    p99_ms: f64,
    took: Duration,
    other_cpu: Duration,
    /// That the other side had read by its disk.
    other_disk_bytes: u64,
}

/// What was measured of a way.
struct Outcome {
    name: &'static str,
    sizes: Vec<Measured>,
    /// Of the other side's processor while nothing is asked of it.
    idle: f64,
    /// Reads that came to their end while it was stopped.
    stopped: usize,
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    play()?;
    let mut progress = Progress::of("ways", WAYS.len());
    let mut outcomes = Vec::new();
    for way in &WAYS {
        outcomes.push(match way.ucx {
            Some((role, transports)) => by_ucx(setup, way.name, role, transports)?,
            None => by_http(setup, way.name)?,
        });
        progress.step();
    }
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let tables = vec![times(&outcomes), without_help(&outcomes)];
    let groups = SIZES.map(in_words).into();
    let bars = |outcome: &Outcome| Series::bars(outcome.name, outcome.sizes.iter().map(|one| one.p50_ms * 1e3));
    let title = "Half of the reads are quicker than".to_owned();
    let plots =
        vec![Plot::Bars { title, y: "microseconds".to_owned(), groups, series: outcomes.iter().map(bars).collect() }];
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes()? })
}

/// What a read, a message and an answer cost on this machine, for whoever models them.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Bytes, and the microseconds that a read of shared memory takes of its reader's processor; and the same for answering a request by HTTP from memory.
    read_us: Vec<(f64, f64)>,
    serve_us: Vec<(f64, f64)>,
    /// A message, of its sender's processor and of its receiver's.
    pub send_us: f64,
    pub receive_us: f64,
}

/// Messages that are sent to find out what one costs, and their bytes.
const MESSAGES: (u32, u32) = (20_000, 200);
/// So many come before the other side may sleep again.
const MESSAGES_AT_ONCE: u32 = 10;
const MESSAGE: [u8; 100] = [7; 100];

impl Costs {
    /// Measure them. Errors: as the experiment's.
    pub fn measure(setup: &Setup) -> Result<Costs, LabError> {
        let by_memory = by_ucx(setup, "shared memory", Role::Sleeps, DEFAULT_TRANSPORTS)?;
        let by_http = by_http(setup, "HTTP")?;
        let of = |outcome: &Outcome, us: fn(&Measured) -> f64| {
            // A MiB comes from a proxy's disk.
            outcome.sizes.iter().filter(|one| one.bytes < 1 << 20).map(|one| (one.bytes as f64, us(one))).collect()
        };
        let read_us = of(&by_memory, |one| one.p50_ms * 1e3);
        let serve_us = of(&by_http, |one| micros(one.other_cpu) / one.reads as f64);
        let other = Other::start(EXPERIMENT.name, Role::Sleeps, DEFAULT_TRANSPORTS)?;
        let count = setup.choose(MESSAGES.0, MESSAGES.1);
        let (before, began) = (other.process().cpu(), processor_time());
        for number in 0..count {
            let sent = other.endpoint.send(&MESSAGE).and_then(|sending| sending.wait(PATIENCE));
            sent.map_err(|why| LabError::failed("sending a message", why))?;
            // So that the other side sleeps now and then, as one that is not always busy does, and has read what came.
            if number % MESSAGES_AT_ONCE == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let send_us = micros(processor_time() - began) / f64::from(count);
        std::thread::sleep(Duration::from_millis(10));
        let receive_us = micros(other.process().cpu() - before) / f64::from(count);
        Ok(Costs { read_us, serve_us, send_us, receive_us })
    }

    /// A read of so many bytes, in microseconds.
    pub fn read_us(&self, bytes: usize) -> f64 {
        between(&self.read_us, bytes as f64)
    }

    /// An answer of so many bytes, in microseconds.
    pub fn serve_us(&self, bytes: usize) -> f64 {
        between(&self.serve_us, bytes as f64)
    }
}

/// What lies on the straight lines between points, and on the outermost ones beyond them.
fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let line = points.windows(2).find(|line| line.last().is_some_and(|(x, _)| at <= *x)).or(points.windows(2).last());
    match line {
        Some(&[(x0, y0), (x1, y1)]) if x1 > x0 => y0 + (y1 - y0) * (at - x0) / (x1 - x0),
        _ => points.first().map_or(0.0, |(_, y)| *y),
    }
}

fn by_ucx(setup: &Setup, name: &'static str, role: Role, transports: &str) -> Result<Outcome, LabError> {
    let other = Other::start(EXPERIMENT.name, role, transports)?;
    let read = |at: usize, bytes: usize, patience: Duration| {
        let read = other.endpoint.get(&other.remote, at as u64, bytes).and_then(|get| get.wait(patience));
        read.map_err(|why| LabError::failed("reading another process's memory", why))
    };
    let mut sizes = Vec::new();
    for bytes in SIZES {
        let mut at = 0;
        sizes.push(measure(setup, bytes, other.process(), || {
            at = (at + bytes) % (LENT_BYTES - bytes);
            let began = Instant::now();
            let got = read(at / 8 * 8, bytes, PATIENCE)?;
            let took = began.elapsed();
            let is_right = got.chunks_exact(8).zip(at / 8..).all(|(bytes, at)| bytes == word(at).to_le_bytes());
            if is_right { Ok(took) } else { Err(LabError::failed("reading another process's memory", "other bytes")) }
        })?);
    }
    let idle = idle(setup, other.process());
    other.process().stop(true)?;
    let stopped = (0..STOPPED_READS).filter(|n| read(n * 8192, 8192, STOPPED_PATIENCE).is_ok()).count();
    other.process().stop(false)?;
    Ok(Outcome { name, sizes, idle, stopped })
}

/// How siblings ask each other in a hierarchy of proxies: a request for an object that the other one has in memory, on a connection that is kept.
fn by_http(setup: &Setup, name: &'static str) -> Result<Outcome, LabError> {
    let failed = |why: std::io::Error| LabError::failed("starting a proxy", why);
    let dir = tempfile::tempdir_in(&setup.scratch).map_err(failed)?;
    let address = free_address()?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args([
        "serve",
        "--log",
        "warn",
        "--workers",
        "1",
        "--allow-destination",
        "127.0.0.0/8",
        "--memory",
        "256MiB",
    ]);
    command.args(["--disk", "64MiB", "--listen", &address.to_string(), "--cache"]).arg(dir.path().join("cache"));
    let output = File::create(dir.path().join("output")).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
    let proxy = Started(command.spawn().map_err(failed)?);
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        if Instant::now() > until {
            return Err(LabError::failed("starting a proxy", "it takes no connections"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let origin = Origin::begin()?;
    let clients = Clients::new(1, address, origin.address());
    let mut sizes = Vec::new();
    for bytes in SIZES {
        let request = Request {
            time: Duration::ZERO,
            object: bytes as u64,
            bytes: bytes as u64,
            sent_bytes: bytes as u64,
            client: 0,
            referer: None,
            host: 0,
            stream: 0,
            cachable: true,
        };
        let ask = || clients.ask(&request).map_err(|why| LabError::failed("asking a proxy", why));
        for tries in 0.. {
            if ask()?.is_hit {
                break;
            }
            if tries == WARM_UP {
                return Err(LabError::failed("asking a proxy", format!("{bytes} bytes are never stored")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        sizes.push(measure(setup, bytes, &proxy, || {
            let began = Instant::now();
            let answer = ask()?;
            let took = began.elapsed();
            if answer.is_hit { Ok(took) } else { Err(LabError::failed("asking a proxy", "a miss of what it has")) }
        })?);
    }
    let idle = idle(setup, &proxy);
    let stopped = stopped_over_http(&proxy, address, origin.address()).map_err(failed);
    proxy.stop(false)?;
    Ok(Outcome { name, sizes, idle, stopped: stopped? })
}

/// Of requests to a proxy that is stopped, those that are answered.
fn stopped_over_http(proxy: &Started, address: SocketAddrV4, origin: SocketAddrV4) -> std::io::Result<usize> {
    let mut connection = TcpStream::connect(address)?;
    proxy.stop(true).map_err(std::io::Error::other)?;
    connection.set_read_timeout(Some(STOPPED_PATIENCE))?;
    let mut answered = 0;
    for _ in 0..STOPPED_READS {
        write!(connection, "GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\n\r\n")?;
        answered += usize::from(connection.read(&mut [0; 1]).is_ok_and(|bytes| bytes > 0));
    }
    Ok(answered)
}

fn measure(
    setup: &Setup,
    bytes: usize,
    other: &Started,
    mut read: impl FnMut() -> Result<Duration, LabError>,
) -> Result<Measured, LabError> {
    let lasts = setup.choose(LASTS.0, LASTS.1);
    (0..10).try_for_each(|_| read().map(drop))?;
    let (before, disk_before, began) = (other.cpu(), other.disk_bytes_read(), Instant::now());
    let mut times = Vec::new();
    while began.elapsed() < lasts || times.is_empty() {
        times.push(read()?);
    }
    let (other_cpu, other_disk_bytes) = (other.cpu() - before, other.disk_bytes_read() - disk_before);
    let took = times.iter().sum();
    let [p50_ms, p99_ms] = [50.0, 99.0].map(|percent| percentile(&times, percent).unwrap_or_default());
    Ok(Measured { bytes, reads: times.len(), p50_ms, p99_ms, took, other_cpu, other_disk_bytes })
}

/// The share of a processor that a process takes while nothing is asked of it.
fn idle(setup: &Setup, other: &Started) -> f64 {
    let before = other.cpu();
    let began = Instant::now();
    std::thread::sleep(setup.choose(LASTS.0, LASTS.1));
    (other.cpu() - before).as_secs_f64() / began.elapsed().as_secs_f64()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn in_words(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn times(outcomes: &[Outcome]) -> Table {
    let columns = [
        "way",
        "size",
        "reads",
        "p50 us",
        "p99 us",
        "reads/s",
        "MB/s",
        "other side's CPU us per read",
        "its disk bytes per read",
    ];
    let mut table = Table::new("The same bytes, by way and size", &columns);
    for outcome in outcomes {
        for one in &outcome.sizes {
            let rate = one.reads as f64 / one.took.as_secs_f64();
            table.row([
                outcome.name.into(),
                in_words(one.bytes).into(),
                Cell::Count(one.reads as u64),
                Cell::number(one.p50_ms * 1e3, 2),
                Cell::number(one.p99_ms * 1e3, 2),
                Cell::number(rate, 0),
                Cell::number(rate * one.bytes as f64 / 1e6, 0),
                Cell::number(micros(one.other_cpu) / one.reads as f64, 3),
                Cell::Count(one.other_disk_bytes / one.reads as u64),
            ]);
        }
    }
    table
}

fn without_help(outcomes: &[Outcome]) -> Table {
    let stopped = format!("of {STOPPED_READS} reads done while its process is stopped");
    let columns = ["way", &stopped, "one-sided", "CPU % of the other side, idle"];
    let mut table = Table::new("What the other side does for it", &columns);
    for Outcome { name, idle, stopped, .. } in outcomes {
        let is_one_sided = if *stopped == STOPPED_READS { "yes" } else { "no" };
        table.row([(*name).into(), Cell::Count(*stopped as u64), is_one_sided.into(), Cell::percent(*idle)]);
    }
    table
}

fn notes() -> Result<Vec<String>, LabError> {
    Ok(vec![
        format!(
            "UCX {}, two processes on one machine with {} processors, one read after the other; every byte is checked outside the measured time (over HTTP \
             within it). Rates are those of one reader that does nothing else.",
            version()?,
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
        "The paper reads by InfiniBand's RDMA: no such hardware here. Shared memory stands for it as the other way whose reads the target does not notice; its \
         times say nothing of a network's. By TCP UCX carries out a get with the other side's help, whether that sleeps until something comes or looks all \
         the time."
            .to_owned(),
        "HTTP is how sibling proxies ask each other: `tinaja serve` on a connection that is kept. It keeps in memory what one read of its disk brings; a MiB takes more, and comes from the disk \
         each time, past the page cache."
            .to_owned(),
        "The other side's processor time is what its threads have had (schedstat) during the reads, with what it does when nobody asks: one that spins takes all of a processor, whatever is asked of it. A read's time has a \
         buffer's allocation in it, and two looks at the clock.".to_owned(),
    ])
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn costs_lie_on_the_lines_between_what_was_measured() {
        let points = [(0.0, 1.0), (10.0, 2.0), (20.0, 6.0)];
        let costs = [0.0, 5.0, 10.0, 15.0, 30.0].map(|at| between(&points, at));
        assert_eq!(costs, [1.0, 1.5, 2.0, 4.0, 10.0]);
        assert_eq!((between(&points[..1], 7.0), between(&[], 7.0)), (1.0, 0.0));
    }
}
