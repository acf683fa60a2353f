//! The time of day that is known to have passed: a small file in the cache's first directory, by which a machine whose clock starts in the
//! past still knows how old what it has stored is at least.
//!
//! # Decisions
//!
//! - What is written is what the clock says, and not the latest that it has ever said: where it was too late once, and was then put right,
//!   the wrong time is gone with the next writing.
//! - A cache is written to all day and this file hardly ever: at most every [`EVERY`] where objects were stored since, and every [`IDLE`]
//!   otherwise, but for a clock that is behind; and at an orderly end. Not before a process has run for [`EVERY`], but for an orderly end by a
//!   clock that is not behind: a clock that starts wrong is put right in that time, and a server that starts again and again adds nothing.
//! - One wrong reading must not count for ever. A clock that somebody sets counts, and a time of more than ten years ahead is none.
//! - It is written in its place: its 32 bytes are part of one sector. One that was torn all the same is no bound, and no harm.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Buf;
use prometheus::proto::MetricFamily;
use rustix::fs::OFlags;
use tinaja_clock::Clock;
use tinaja_http::dates;
use tinaja_store::Store as _;

use crate::metrics::gauge;
use crate::storage::Switch;

/// The file's name in the cache's directory.
const NAME: &str = "tinaja.clock";
const MAGIC: [u8; 8] = *b"tinaclok";
const VERSION: u32 = 1;
const FILE_BYTES: usize = 32;
/// The end of the year 9999: later times cannot be written in HTTP, and no clock says them.
const LAST_SECOND: u64 = 253_402_300_799;
/// A time that is so much later than the clock's was never: ten years.
const TOO_FAR: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How often it is written at most, and how long a process runs before it writes it: a clock that starts wrong may be set by then.
const EVERY: Duration = Duration::from_secs(5 * 60);
/// How often it is written where nothing was stored.
const IDLE: Duration = Duration::from_secs(3600);

/// Why a file says nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Damage {
    #[error("it is damaged")]
    Damaged,
    #[error("it is of version {0} of its format, which this version of Tinaja does not know")]
    Version(u32),
}

/// A clock for the cache with this first directory: `clock`, but no earlier than the time that was last written down there. Where that is
/// later, the log says so. A cache on a whole device has no such file. It notes when it is set ([`Clock::noting`]).
pub fn known_clock(dir: &Path, clock: Clock) -> Clock {
    let Some(said) = said_of(dir, clock.wall()) else { return clock.noting(None) };
    let clock = no_earlier(dir, clock, said);
    // A clock that is behind may be put right, and the time that was written down may be the wrong one.
    let before = if clock.behind().is_zero() { said.checked_add(EVERY) } else { None };
    clock.noting(before)
}

/// What was last written down, if it counts by a clock that says this now.
fn said_of(dir: &Path, own: SystemTime) -> Option<SystemTime> {
    if !dir.is_dir() {
        return None;
    }
    let path = path(dir);
    let said = match read(&path) {
        Ok(said) => said,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), "the time of the last writing cannot be read: {error}");
            return None;
        }
    };
    if Clock::may_be(own) && said.duration_since(own).is_ok_and(|ahead| ahead > TOO_FAR) {
        tracing::warn!(
            path = %path.display(),
            "the system's clock says {}, and by this file it was {} before, more than ten years ahead: the file does not count; if the clock \
             is right, delete the file",
            dates::format(own), dates::format(said)
        );
        return None;
    }
    Some(said)
}

fn no_earlier(dir: &Path, clock: Clock, said: SystemTime) -> Clock {
    let (path, own) = (path(dir), clock.wall());
    let known = clock.no_earlier_than(said);
    if !known.behind().is_zero() {
        tracing::warn!(
            path = %path.display(),
            "the system's clock says {}, and this cache was written to at {}: it is taken to be {} now, and later as time goes by, until \
             the clock says more or is set; if that time is wrong, stop this server, delete the file, and start it again",
            dates::format(own), dates::format(said), dates::format(said)
        );
    }
    known
}

/// What is known of the clock.
pub(crate) fn families(clock: &Clock) -> Vec<MetricFamily> {
    let help = "Seconds that the system's clock is behind the time at which the cache was written to, and which counts instead.";
    let put_back = "Seconds that the time of day was put back since the program was started, in all; what was stored before is that much older.";
    vec![
        gauge("tinaja_clock_behind_seconds", help, clock.behind().as_secs_f64()),
        gauge("tinaja_clock_put_back_seconds", put_back, clock.put_back().as_secs_f64()),
    ]
}

/// When it was last written down, and how often the store had written by then.
#[derive(Debug, Default)]
struct Last(Option<(Instant, u64)>);

impl Last {
    /// Whether it is to be written down now, which is then the last time.
    fn is_due(&mut self, now: Instant, writes: u64) -> bool {
        let is_early = self.0.is_some_and(|(at, before)| before == writes && now.saturating_duration_since(at) < IDLE);
        if !is_early {
            self.0 = Some((now, writes));
        }
        !is_early
    }
}

/// Writes the time down while a cache is served from.
#[derive(Debug)]
pub(crate) struct Latest {
    path: PathBuf,
    clock: Clock,
    began: Instant,
}

impl Latest {
    /// For the cache with this first directory.
    pub fn new(dir: &Path, clock: &Clock) -> Latest {
        Latest { path: path(dir), clock: clock.clone(), began: clock.now() }
    }

    /// Writes it down now and then, for ever.
    pub async fn keep(&self, switch: &Switch) {
        let (mut last, mut was_behind) = (Last::default(), !self.clock.behind().is_zero());
        let mut put_back = self.clock.put_back();
        loop {
            self.clock.timer(EVERY).await;
            // While the clock is wrong this is all that the next process knows, and so is what has gone by.
            let is_behind = !self.clock.behind().is_zero();
            if !switch.is_away() && (last.is_due(self.clock.now(), switch.stats().writes) || is_behind) {
                self.write().await;
            }
            if was_behind && !is_behind {
                let now = dates::format(self.clock.wall());
                tracing::warn!(path = %self.path.display(), "the system's clock was set, or says more than this file did: it counts, and says {now}");
            }
            was_behind = is_behind;
            let before = std::mem::replace(&mut put_back, self.clock.put_back());
            if put_back > before {
                let (by, now) = ((put_back - before).as_secs_f64(), dates::format(self.clock.wall()));
                tracing::warn!(
                    "the system's clock was put back by {by:.0} s and says {now}: what was stored before is taken to be that much older"
                );
            }
        }
    }

    /// Writes it down at an orderly end, if what the clock says is worth it.
    pub async fn end(&self) {
        if self.clock.behind().is_zero() || self.clock.since(self.began) >= EVERY {
            self.write().await;
        }
    }

    /// Writes it down now. A failure is logged: what is lost is a bound, and the next is written in some minutes.
    async fn write(&self) {
        let (path, time) = (self.path.clone(), self.clock.wall());
        let written = self.clock.block(move || write(&path, time)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(path = %self.path.display(), "the time could not be written down: {error}");
        }
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

fn write(path: &Path, time: SystemTime) -> io::Result<()> {
    let mut file = options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.write_all(&bytes_of(time))?;
    // One that is longer is damaged, and would be so for ever.
    file.set_len(FILE_BYTES as u64)?;
    file.sync_data()
}

fn read(path: &Path) -> io::Result<SystemTime> {
    let file: File = options().read(true).open(path)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    time_of(&bytes).map_err(|damage| io::Error::new(ErrorKind::InvalidData, damage))
}

/// No link is followed, and nothing is waited for that is no file.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

/// The file. `docs/formats/clock.md` draws it.
fn bytes_of(time: SystemTime) -> [u8; FILE_BYTES] {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut bytes = [0; FILE_BYTES];
    let (said, check) = bytes.split_at_mut(24);
    said.copy_from_slice(&[&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4], &seconds.to_le_bytes()].concat());
    check.copy_from_slice(&check_of(said));
    bytes
}

fn time_of(bytes: &[u8]) -> Result<SystemTime, Damage> {
    let (mut said, check) = bytes.split_at_checked(24).ok_or(Damage::Damaged)?;
    if said.get(..8) != Some(&MAGIC[..]) || check != check_of(said) {
        return Err(Damage::Damaged);
    }
    said.advance(8);
    match said.get_u32_le() {
        VERSION => {
            said.advance(4);
            let seconds = Some(said.get_u64_le()).filter(|seconds| *seconds <= LAST_SECOND);
            Ok(UNIX_EPOCH + Duration::from_secs(seconds.ok_or(Damage::Damaged)?))
        }
        version => Err(Damage::Version(version)),
    }
}

fn check_of(said: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    check.iter_mut().zip(blake3::hash(said).as_bytes()).for_each(|(to, from)| *to = *from);
    check
}

#[cfg(test)]
#[path = "latest_tests.rs"]
mod tests;
