//! The conversation with the new process, as the old one has it.

use std::io;
use std::time::Duration;

use tinaja_clock::Clock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::sockets::{Sockets, send_with};
use super::words::{Step, Told};

/// Where processes that are to take over are brought to.
pub(crate) type Heirs = mpsc::Sender<Heir>;

/// The new process must serve on the sockets so long after it got them.
const PREPARING: Duration = Duration::from_secs(60);
/// A line must be taken, or come once it has begun, within this.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line, in bytes.
const MOST_LINE_BYTES: u64 = 64 * 1024;

/// A process that is to take over. There is one at a time.
pub(crate) struct Heir {
    stream: BufReader<UnixStream>,
    _only: OwnedSemaphorePermit,
    clock: Clock,
}

impl Heir {
    /// Whoever has asked for it through this connection.
    pub fn new(stream: UnixStream, only: OwnedSemaphorePermit, clock: Clock) -> Heir {
        Heir { stream: BufReader::new(stream), _only: only, clock }
    }

    /// Its id, as the system has it; 0 if it does not say.
    pub fn process(&self) -> u32 {
        let id = self.stream.get_ref().peer_cred().ok().and_then(|peer| peer.pid());
        id.and_then(|id| u32::try_from(id).ok()).unwrap_or_default()
    }

    /// Gives it the sockets, and waits until it serves on them.
    ///
    /// Errors: why it does not.
    pub async fn equip(&mut self, sockets: &Sockets) -> Result<(), String> {
        match self.clock.clone().timeout(PATIENCE, self.give(sockets)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let why = format!("the sockets cannot be handed over: {error}");
                let _ = self.say(&Told::Failed { why: why.clone() }).await;
                return Err(why);
            }
            Err(_) => return Err("it does not take the sockets".into()),
        }
        match self.clock.clone().timeout(PREPARING, self.step()).await {
            Ok(Ok(Step::Serving)) => Ok(()),
            Ok(Ok(Step::Failed { why })) => Err(why),
            Ok(Ok(Step::Done)) => Err("it says that it is done before it has begun".into()),
            Ok(Err(error)) => Err(format!("it ended before it served; what it printed says why ({error})")),
            Err(_) => Err(format!("it did not serve within {} s", PREPARING.as_secs())),
        }
    }

    async fn give(&mut self, sockets: &Sockets) -> io::Result<()> {
        let (told, fds) = sockets.told()?;
        let line = line_of(&told)?;
        let stream = self.stream.get_mut();
        let sent = stream.async_io(Interest::WRITABLE, || send_with(&*stream, &line, &fds)).await?;
        stream.write_all(line.get(sent..).unwrap_or_default()).await
    }

    /// Tells it that the cache is there to be opened. If it has gone, [`Heir::settled`] says so.
    pub async fn release(&mut self) {
        let _ = self.say(&Told::Released).await;
    }

    /// Waits until it has opened the cache, however long that takes. Dropped before, it may have lost what was said.
    ///
    /// Errors: why it does not; it accepts no more connections then, or is gone.
    pub async fn settled(&mut self) -> Result<(), String> {
        match self.step().await {
            Ok(Step::Done) => Ok(()),
            Ok(Step::Failed { why }) => Err(why),
            Ok(Step::Serving) => Err("it says twice that it serves".into()),
            Err(error) => Err(format!("it ended before it had opened the cache; what it printed says why ({error})")),
        }
    }

    async fn say(&mut self, told: &Told) -> io::Result<()> {
        let line = line_of(told)?;
        self.clock.timeout(PATIENCE, self.stream.get_mut().write_all(&line)).await?
    }

    async fn step(&mut self) -> io::Result<Step> {
        let mut line = String::new();
        (&mut self.stream).take(MOST_LINE_BYTES).read_line(&mut line).await?;
        if line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}

fn line_of(told: &Told) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    Ok(line)
}
