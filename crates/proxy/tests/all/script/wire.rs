//! One connection, of which the script decides when it is read.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything that a script expects may take.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// What the other side does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It has closed the connection.
    Closed,
    /// It sends nothing, and the script has waited long enough.
    Waiting,
}

/// A connection. What is written waits in a thread, so that a script never stands still because its peer does not read.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    at: usize,
    closed: bool,
    /// How long anything may take.
    pub patience: Duration,
    /// Everything that has come, if it is kept.
    kept: Option<Vec<u8>>,
    jobs: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

enum Job {
    Write(Vec<u8>, Option<Duration>),
    End,
}

impl Wire {
    pub fn new(stream: TcpStream) -> Wire {
        stream.set_nonblocking(false).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut out = stream.try_clone().unwrap();
        let (jobs, work) = channel();
        let writer = std::thread::spawn(move || {
            for job in work {
                let done = match job {
                    Job::Write(bytes, None) => out.write_all(&bytes),
                    Job::Write(bytes, Some(pause)) => bytes.iter().try_for_each(|byte| {
                        std::thread::sleep(pause);
                        out.write_all(&[*byte])
                    }),
                    Job::End => out.shutdown(Shutdown::Write),
                };
                // The other side may have closed already; what it answered tells.
                if done.is_err() {
                    return;
                }
            }
        });
        let (jobs, writer) = (Some(jobs), Some(writer));
        Wire { stream, buffer: Vec::new(), at: 0, closed: false, patience: PATIENCE, kept: None, jobs, writer }
    }

    /// Keeps what comes, for [`Wire::taken`], and waits no longer than `patience`.
    pub fn keeping(mut self, patience: Duration) -> Wire {
        self.kept = Some(Vec::new());
        self.patience = patience;
        self
    }

    /// The bytes that were read since this was last asked.
    pub fn taken(&mut self) -> Vec<u8> {
        let unread = self.unread().to_vec();
        let mut kept = self.kept.replace(unread.clone()).unwrap_or_default();
        kept.truncate(kept.len() - unread.len());
        kept
    }

    /// Whether the other side has closed, as far as [`Wire::fill`] has seen.
    pub fn is_over(&self) -> bool {
        self.closed
    }

    pub fn send(&self, bytes: Vec<u8>, pause: Option<Duration>) {
        self.job(Job::Write(bytes, pause));
    }

    /// Sends nothing more.
    pub fn end(&self) {
        self.job(Job::End);
    }

    fn job(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    /// Closes the connection, once everything is written.
    pub fn leave(mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }

    /// What has come and is not read.
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Takes what the other side has sent by now; waits a millisecond if that is nothing.
    pub fn fill(&mut self) {
        if self.closed {
            std::thread::sleep(Duration::from_millis(1));
            return;
        }
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
        }
        let mut space = [0; 64 * 1024];
        match self.stream.read(&mut space) {
            Ok(0) => self.closed = true,
            Ok(count) => {
                self.buffer.extend_from_slice(&space[..count]);
                if let Some(kept) = &mut self.kept {
                    kept.extend_from_slice(&space[..count]);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.closed = true,
        }
    }

    /// Waits for a first byte, and leaves it unread.
    pub fn begins(&mut self) -> Result<(), Silence> {
        if self.unread().is_empty() { self.more(Instant::now() + self.patience) } else { Ok(()) }
    }

    fn more(&mut self, until: Instant) -> Result<(), Silence> {
        let before = self.buffer.len() - self.at;
        loop {
            self.fill();
            match () {
                () if self.buffer.len() - self.at > before => return Ok(()),
                () if self.closed => return Err(Silence::Closed),
                () if Instant::now() > until => return Err(Silence::Waiting),
                () => {}
            }
        }
    }

    /// The next line, without its LF.
    pub fn line(&mut self) -> Result<Vec<u8>, Silence> {
        let until = Instant::now() + self.patience;
        let mut seen = 0;
        loop {
            if let Some(end) = self.unread()[seen..].iter().position(|byte| *byte == b'\n') {
                let line = self.unread()[..seen + end].to_vec();
                self.at += seen + end + 1;
                return Ok(line);
            }
            seen = self.unread().len();
            self.more(until)?;
        }
    }

    /// Adds exactly `count` bytes to `bytes`; those that came even if the rest does not come.
    pub fn exactly(&mut self, count: u64, bytes: &mut Vec<u8>) -> Result<(), Silence> {
        let mut left = count;
        loop {
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(self.unread().len());
            bytes.extend_from_slice(&self.buffer[self.at..self.at + now]);
            self.at += now;
            left -= now as u64;
            if left == 0 {
                return Ok(());
            }
            self.more(Instant::now() + self.patience)?;
        }
    }

    /// Whether the other side closes, after whatever it has sent, which is dropped.
    pub fn is_closed_behind_more(&mut self) -> Result<(), String> {
        loop {
            self.at = self.buffer.len();
            match self.more(Instant::now() + self.patience) {
                Ok(()) => {}
                Err(Silence::Closed) => return Ok(()),
                Err(Silence::Waiting) => return Err("the connection stays open".into()),
            }
        }
    }

    /// Whether the other side closes now, with nothing further sent.
    pub fn is_closed(&mut self) -> Result<(), String> {
        match self.more(Instant::now() + self.patience) {
            Err(Silence::Closed) if self.unread().is_empty() => Ok(()),
            Err(Silence::Waiting) if self.unread().is_empty() => Err("the connection stays open".into()),
            _ => Err(format!("not closed, but sent: {}", shown(self.unread()))),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // A writer that waits for the other side to read must not outlive the case.
        if self.writer.is_some() {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Bytes for people: escaped, and not too many of them.
pub fn shown(bytes: &[u8]) -> String {
    let some = &bytes[..bytes.len().min(1500)];
    let more = if some.len() < bytes.len() { format!(" ... ({} bytes)", bytes.len()) } else { String::new() };
    format!("{}{more}", some.escape_ascii().to_string().replace("\\r\\n", "\n    "))
}
