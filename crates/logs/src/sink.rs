//! A log file that never holds up a request.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use tinaja_clock::Clock;

/// Lines that wait for the disk at most; further ones are dropped and counted. At about 200 bytes a line this is
/// 3 MB; whoever sends longer lines bounds them.
pub const LINES_QUEUED: usize = 16 * 1024;

/// The longest a line waits before it is in the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
const BUFFER_BYTES: usize = 64 * 1024;

/// A file that lines are appended to, on a thread of its own.
///
/// Lines are in the file within a second, and all of them once the sink is dropped. When the disk is slower than
/// the requests, lines are dropped, and the program's own log says how many.
#[derive(Debug)]
pub struct Sink {
    lines: Option<SyncSender<String>>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

/// What became of lines.
#[derive(Debug, Default)]
struct Counts {
    queued: AtomicU64,
    taken: AtomicU64,
    dropped: AtomicU64,
    /// The file is to be opened anew by its name.
    reopen: AtomicBool,
}

impl Sink {
    /// Opens `path` for appending, creates it if it is not there.
    ///
    /// Errors: what the system says when the file cannot be opened or the thread cannot be started.
    pub fn open(path: &Path, clock: &Clock) -> io::Result<Sink> {
        let file = open_log(path)?;
        let (lines, queue) = sync_channel(LINES_QUEUED);
        let counts = Arc::new(Counts::default());
        let task = Task { file: BufWriter::with_capacity(BUFFER_BYTES, file), path: path.into(), failing: false };
        let of_task = counts.clone();
        let of_thread = clock.clone();
        let thread = clock.spawn("access-log", move || task.run(&of_thread, &queue, &of_task))?;
        Ok(Sink { lines: Some(lines), counts, thread: Some(thread) })
    }

    /// Queues one line, newline included. Never blocks: a line that finds the queue full is dropped and counted.
    pub fn send(&self, line: String) {
        let sent = self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
        let count = if sent { &self.counts.queued } else { &self.counts.dropped };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Has the file opened anew by its name, and made if it is not there, after a rotation has renamed it. Lines that were
    /// sent before may go to either, and none is lost. If the file cannot be opened, that is reported, and the one from
    /// before is written on: a full or missing directory must not end logging.
    pub fn reopen(&self) {
        self.counts.reopen.store(true, Ordering::Release);
        // Wakes the thread. Where the queue is full it is awake.
        let woken = self.lines.as_ref().is_some_and(|lines| lines.try_send(String::new()).is_ok());
        if woken {
            self.counts.queued.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that wait to be written. Of lines that are just being sent, some may be missing.
    pub fn waiting(&self) -> u64 {
        let taken = self.counts.taken.load(Ordering::Relaxed);
        self.counts.queued.load(Ordering::Relaxed).saturating_sub(taken)
    }

    /// Lines that were dropped since the sink was opened.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Closing the queue ends the thread once it has written what is left.
        self.lines = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the access log's thread failed; lines are missing");
        }
    }
}

struct Task {
    file: BufWriter<File>,
    path: PathBuf,
    failing: bool,
}

impl Task {
    fn run(mut self, clock: &Clock, queue: &Receiver<String>, counts: &Counts) {
        let mut said = 0;
        let mut flush_at = clock.now() + FLUSH_EVERY;
        loop {
            let ended = match queue.recv_timeout(clock.patience(flush_at)) {
                Ok(line) => {
                    counts.taken.fetch_add(1, Ordering::Relaxed);
                    let written = self.file.write_all(line.as_bytes());
                    self.note(written);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            if counts.reopen.swap(false, Ordering::AcqRel) {
                self.reopen();
            }
            if ended || clock.now() >= flush_at {
                let flushed = self.file.flush();
                self.note(flushed);
                report_dropped(counts.dropped.load(Ordering::Relaxed), &mut said);
                flush_at = clock.now() + FLUSH_EVERY;
            }
            if ended {
                return;
            }
        }
    }

    /// Opens the file anew, or keeps the one that is open.
    fn reopen(&mut self) {
        let flushed = self.file.flush();
        self.note(flushed);
        match open_log(&self.path) {
            Ok(file) => {
                self.file = BufWriter::with_capacity(BUFFER_BYTES, file);
                tracing::info!(path = %self.path.display(), "the access log was opened anew");
            }
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "the access log cannot be opened anew, and is written on where it was");
            }
        }
    }

    /// Says once that the log fails, and once that it works again.
    fn note(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) if self.failing => tracing::info!(path = %self.path.display(), "the access log is written again"),
            Err(error) if !self.failing => {
                tracing::error!(path = %self.path.display(), %error, "the access log cannot be written, lines are lost");
                self.failing = true;
                return;
            }
            Err(_) => return,
            Ok(()) => {}
        }
        self.failing = false;
    }
}

/// A log to append to; a new one is for its owner and its group to read. Errors: the system's; it is a named pipe that nobody reads,
/// which would hold up whoever opens it until somebody does.
pub fn open_log(path: &Path) -> io::Result<File> {
    let is_pipe = fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo());
    // Kept open until the log is: whoever reads must not see it come and go.
    let _held = is_pipe.then(|| open_at_once(path)).transpose()?;
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

/// A named pipe, without waiting for somebody who reads it.
fn open_at_once(path: &Path) -> io::Result<File> {
    let pipe = OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    pipe.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::NXIO.raw_os_error() => {
            let what = "it is a named pipe that nobody reads: start what reads it first, or name a file";
            io::Error::new(io::ErrorKind::InvalidInput, what)
        }
        _ => error,
    })
}

/// Says how many were dropped since it last said so.
fn report_dropped(dropped: u64, said: &mut u64) {
    let count = dropped - *said;
    *said = dropped;
    if count > 0 {
        tracing::warn!(count, "access log lines were dropped: the disk is slower than the requests");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn until(what: impl Fn() -> bool) {
        let began = Instant::now();
        while !what() {
            assert!(began.elapsed() < Duration::from_secs(60), "not in time");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn others_cannot_read_a_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        open_log(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7137, 0, "as 0640, or less by the umask");
    }

    /// The start hung for ever, and a signal to stop did not end it.
    #[test]
    fn a_named_pipe_that_nobody_reads_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = Sink::open(&path, &Clock::system()).unwrap_err().to_string();
        assert!(error.contains("named pipe"), "{error}");
    }

    #[test]
    fn a_renamed_file_is_left_and_one_that_cannot_be_opened_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (log, old) = (dir.path().join("log"), dir.path().join("old"));
        let sink = Sink::open(&log, &Clock::system()).unwrap();
        sink.send("1\n".into());
        fs::rename(&log, &old).unwrap();
        sink.reopen();
        until(|| log.exists());
        sink.send("2\n".into());
        until(|| sink.waiting() == 0);
        // A directory in its place: the file from before is kept.
        let kept = dir.path().join("kept");
        fs::rename(&log, &kept).unwrap();
        fs::create_dir(&log).unwrap();
        sink.reopen();
        sink.send("3\n".into());
        drop(sink);
        assert_eq!(fs::read_to_string(&old).unwrap(), "1\n");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "2\n3\n");
    }
}
