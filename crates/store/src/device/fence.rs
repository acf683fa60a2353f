//! Writes that outlive their process.
//!
//! A process that is killed leaves requests of io_uring behind that nobody takes back: they reach the disk a moment later, when
//! the next process may have looked at what they change, and written over it. Each such request holds the open file that it goes
//! to, and with it a lock on that open file. So whoever opens the file next takes that lock too, and thereby waits for them.
//!
//! The lock that says who has the file is another one, on an open file of its own: a process that lives is told apart from one
//! that has ended at once.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::fstatfs;
use tinaja_clock::Clock;

use super::file::{Access, OpenDiskError};

/// How long writes of a process that has ended may take: beside a file system that was busy with its journal, over half a minute.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(2);

/// Held by an open file and by all requests that go to it.
pub(super) struct Fence(File);

impl Fence {
    /// Put one up for an open file, once no writes of a process that has ended are on their way to the same file. Where the file system
    /// has no such locks, or has one kind of lock only, there is no fence. Errors: they have not arrived after two minutes.
    pub(super) fn put_up(
        file: &File,
        access: Access,
        path: &Path,
        clock: &Clock,
    ) -> Result<Option<Fence>, OpenDiskError> {
        if is_of_network(file) {
            return Ok(None);
        }
        let kind = if access == Access::Alone { libc::F_WRLCK } else { libc::F_RDLCK };
        let until = clock.now() + PATIENCE;
        let mut said = false;
        loop {
            match set(file, kind) {
                Ok(()) => break,
                Err(error) if !is_taken(&error) => return Ok(None),
                Err(_) if clock.now() >= until => return Err(OpenDiskError::OnTheirWay(path.to_path_buf())),
                Err(_) => {}
            }
            if !said {
                tracing::info!("{}: waiting for the last writes of a process that has ended", path.display());
                said = true;
            }
            clock.sleep(PAUSE);
        }
        Ok(file.try_clone().ok().map(Fence))
    }

    /// Take it down, although the file is still open: nothing is written to it any more.
    pub(super) fn take_down(self) {
        let _ = set(&self.0, libc::F_UNLCK);
    }
}

/// There the other lock would be of the same kind, and in the way.
fn is_of_network(file: &File) -> bool {
    const NFS: i64 = 0x6969;
    const CIFS: i64 = 0xFF53_4D42;
    const SMB2: i64 = 0xFE53_4D42;
    fstatfs(file).is_ok_and(|system| [NFS, CIFS, SMB2].contains(&system.f_type))
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

/// Lock all of an open file, whoever has it open, or unlock it. Errors: the system's; [`is_taken`] knows those of a lock.
fn set(file: &File, kind: i32) -> io::Result<()> {
    let lock = libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 };
    // SAFETY: a plain system call on an open file descriptor, which reads `lock` while it runs.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tempfile::NamedTempFile;
    use tinaja_clock::ManualClock;

    use super::*;
    use crate::device::Device;
    use crate::device::engine::{Io, IoEngine};
    use crate::device::file::Disk;

    /// A file, and an open file of it that a request holds whose process has ended.
    fn with_writes_on_their_way() -> (NamedTempFile, File) {
        let file = NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/../../target").unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let held = File::options().read(true).write(true).open(file.path()).unwrap();
        set(&held, libc::F_WRLCK).unwrap();
        (file, held)
    }

    fn io(clock: Clock) -> Io {
        Io { clock, ..Io::new(IoEngine::Threads, 1) }
    }

    /// `scripts/test flaky store-processes` found it: of 180 runs of twelve kills each, one process found an object that the process before
    /// it had looked for in vain. The write had been on its way when the writer was killed, two processes earlier, and nothing
    /// kept the next one from reading, or writing, before it arrived.
    #[test]
    fn opening_waits_for_writes_of_a_process_that_has_ended() {
        for access in [Access::Alone, Access::ReadOnly] {
            let (file, held) = with_writes_on_their_way();
            let hands = ManualClock::new();
            let (is_open, clock) = (Arc::new(AtomicBool::new(false)), hands.clock());
            let (path, opened) = (file.path().to_path_buf(), is_open.clone());
            let (begins, has_begun) = std::sync::mpsc::channel();
            let opening = std::thread::spawn(move || {
                begins.send(()).unwrap();
                let disk = Disk::open(&path, access, &io(clock));
                opened.store(true, Ordering::Release);
                disk
            });
            has_begun.recv().unwrap();
            // Without a fence it is open within this.
            for _ in 0..100 {
                hands.advance(PAUSE);
                std::thread::sleep(Duration::from_millis(1));
                assert!(!is_open.load(Ordering::Acquire), "{access:?}: writes are on their way");
            }
            drop(held);
            while !opening.is_finished() {
                hands.advance(PAUSE);
                std::thread::yield_now();
            }
            opening.join().unwrap().unwrap();
        }
    }

    #[test]
    fn writes_that_never_arrive_are_said() {
        let (file, _held) = with_writes_on_their_way();
        let hands = ManualClock::new();
        let (path, clock) = (file.path().to_path_buf(), hands.clock());
        let opening = std::thread::spawn(move || Disk::open(&path, Access::Alone, &io(clock)).map(drop));
        while !opening.is_finished() {
            hands.advance(PATIENCE / 10);
            std::thread::yield_now();
        }
        let why = opening.join().unwrap().unwrap_err().to_string();
        assert!(why.contains("on their way"), "{why}");
    }

    #[test]
    fn a_disk_that_was_released_is_open_to_the_next_one_at_once() {
        let file = NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/../../target").unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let open = || Disk::open(file.path(), Access::Alone, &io(ManualClock::new().clock()));
        let first = open().unwrap();
        assert!(matches!(open(), Err(OpenDiskError::InUse(_))), "it lives, and nobody waits for it");
        first.release();
        open().unwrap();
    }
}
