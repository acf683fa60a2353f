//! The conversation with the old process, as the new one has it.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tinaja_clock::Clock;
use tinaja_store::{OpenDiskError, OpenError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::sockets::{Sockets, line_with};
use super::words::{PROTOCOL, Step, Told};
use crate::admin::socket;
use crate::admin::words::Ask;
use crate::bans::Bans;
use crate::errors::TakeOverError;
use crate::storage::Switch;
use crate::storage::{Opener, Storage};

/// The old process must answer within this.
const PATIENCE: Duration = Duration::from_secs(30);
/// Without the cache for longer than this, something is wrong: it is logged.
const SOON: Duration = Duration::from_secs(2);
/// An old process that is gone, or going, keeps the cache's lock for so long at most.
const LOCKED: Duration = Duration::from_secs(90);
/// How often the lock is tried meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(20);
/// The longest line, in bytes.
const MOST_LINE_BYTES: u64 = 64 * 1024;

/// The process that is taken over from. Dropped, it serves on, or takes back what it has left.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
    sockets: Sockets,
}

impl Predecessor {
    /// Asks the server that runs on the cache in these directories to hand over, and gets its sockets. Nothing has changed
    /// for it or its clients yet.
    ///
    /// Errors: [`TakeOverError`].
    pub fn ask(dirs: &[PathBuf]) -> Result<Predecessor, TakeOverError> {
        let dir = dirs.first().filter(|dir| dir.is_dir()).ok_or(TakeOverError::NoDirectory)?;
        let unreachable = |cause| TakeOverError::Unreachable { path: dir.clone(), cause };
        let connected = socket::connect(dir).map_err(unreachable)?;
        let mut stream = connected.ok_or_else(|| TakeOverError::NoServer(dir.clone()))?;
        check_user(&stream).map_err(unreachable)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(unreachable)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(unreachable)?;
        let ask = Ask::HandOver { protocol: PROTOCOL, cache: canonical(dirs) };
        let mut line = serde_json::to_vec(&ask).map_err(|error| unreachable(error.into()))?;
        line.push(b'\n');
        stream.write_all(&line).map_err(unreachable)?;
        let (line, fds) = line_with(&stream).map_err(|cause| match cause.kind() {
            ErrorKind::WouldBlock => unreachable(io::Error::new(ErrorKind::TimedOut, "it gives no answer in time")),
            _ => unreachable(cause),
        })?;
        match serde_json::from_slice(&line) {
            Ok(Told::HandingOver { listeners, metrics, control }) => {
                let sockets = Sockets::of(&listeners, metrics, control, fds);
                let sockets = sockets.map_err(|why| TakeOverError::OtherVersion(why.into()))?;
                Ok(Predecessor { stream, sockets })
            }
            Ok(Told::Failed { why }) => Err(TakeOverError::Refused(why)),
            Ok(Told::Released) => Err(TakeOverError::OtherVersion("it has left the cache already".into())),
            Err(error) => Err(TakeOverError::OtherVersion(error.to_string())),
        }
    }

    /// The sockets, once.
    pub(crate) fn sockets(&mut self) -> Sockets {
        std::mem::take(&mut self.sockets)
    }

    /// The conversation, where there is a runtime.
    pub(crate) fn talk(self, clock: Clock) -> io::Result<Talk> {
        self.stream.set_nonblocking(true)?;
        Ok(Talk { stream: BufReader::new(tokio::net::UnixStream::from_std(self.stream)?), clock })
    }
}

/// The conversation from when this process serves.
pub(crate) struct Talk {
    stream: BufReader<tokio::net::UnixStream>,
    clock: Clock,
}

impl Talk {
    /// Says that this process serves, waits until the cache is there, and opens it. How long it was served without.
    ///
    /// Errors: [`TakeOverError`]; whoever gets one stops accepting, and then calls [`Talk::give_up`].
    pub async fn take_cache(
        &mut self,
        switch: &Arc<Switch>,
        bans: &Bans,
        open: &Opener,
    ) -> Result<Duration, TakeOverError> {
        let began = self.clock.now();
        // If it has gone, the cache will be free soon.
        let _ = self.say(&Step::Serving).await;
        let told = match self.clock.clone().timeout(SOON, self.told()).await {
            Ok(told) => told,
            Err(_) => {
                let seconds = SOON.as_secs();
                tracing::warn!(
                    "the previous process has not released the cache within {seconds} s; requests bypass the cache until it does"
                );
                self.told().await
            }
        };
        match told {
            Ok(Told::Released) => {}
            Ok(Told::Failed { why }) => return Err(TakeOverError::Refused(why)),
            Ok(Told::HandingOver { .. }) => return Err(TakeOverError::OtherVersion("it hands over twice".into())),
            Err(error) => tracing::warn!(%error, "the previous process ended during the hand-over; opening its cache"),
        }
        let opened = open_unlocked(open, &self.clock).await;
        let cache = opened.map_err(|error| TakeOverError::Cache(Box::new(error)))?;
        bans.take(self.clock.wall(), cache.saved_epoch());
        switch.take_in(cache);
        let without = self.clock.since(began);
        // Nobody to be told is nobody who takes anything back.
        let _ = self.say(&Step::Done).await;
        Ok(without)
    }

    /// Says that this process goes no further.
    pub async fn give_up(mut self, why: String) {
        let _ = self.say(&Step::Failed { why }).await;
    }

    async fn say(&mut self, step: &Step) -> io::Result<()> {
        let mut line = serde_json::to_vec(step)?;
        line.push(b'\n');
        self.clock.timeout(PATIENCE, self.stream.get_mut().write_all(&line)).await?
    }

    async fn told(&mut self) -> io::Result<Told> {
        let mut line = String::new();
        (&mut self.stream).take(MOST_LINE_BYTES).read_line(&mut line).await?;
        if line.is_empty() {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}

/// Opens a cache that another process is about to leave.
///
/// Errors: [`OpenError`]; also that the other process has not left it within 90 s.
pub(crate) async fn open_unlocked(open: &Opener, clock: &Clock) -> Result<Storage, OpenError> {
    let until = clock.now() + LOCKED;
    loop {
        let open = open.clone();
        let opened = match clock.block(move || open()).await {
            Ok(opened) => opened,
            Err(error) => Err(OpenError::Setting(format!("opening it was ended: {error}"))),
        };
        match opened {
            Err(OpenError::Disk(OpenDiskError::InUse(_) | OpenDiskError::Claimed(_))) if clock.now() < until => {
                clock.timer(TRY_EVERY).await;
            }
            opened => return opened,
        }
    }
}

/// Directories as the system knows them, so that two names of one are the same.
pub(crate) fn canonical(dirs: &[PathBuf]) -> Vec<PathBuf> {
    dirs.iter().map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.clone())).collect()
}

/// Only one's own server is taken over from; root may take over from anybody's.
fn check_user(stream: &UnixStream) -> io::Result<()> {
    let other = rustix::net::sockopt::socket_peercred(stream)?.uid;
    let own = rustix::process::geteuid();
    match other == own || own.is_root() {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::PermissionDenied, "it is another user's: do this as that user")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn nobody_to_take_over_from() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().to_path_buf();
        let said = |dirs: &[PathBuf]| Predecessor::ask(dirs).unwrap_err().to_string();
        assert!(said(&[]).contains("must be a directory"));
        assert!(said(&[dir.join("none")]).contains("must be a directory"));
        let none = said(std::slice::from_ref(&dir));
        assert!(none.contains("no server runs") && none.contains(dir.to_str().unwrap()), "{none}");
        assert_eq!(canonical(&[dir.join("."), Path::new("/no/such").into()]), [dir, "/no/such".into()]);
    }
}
