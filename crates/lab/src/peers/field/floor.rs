//! The least that a server does which works request by request: one thread that waits, reads a request, looks its path up and writes the answer, in one call each. What it does not have it
//! asks an origin for, passes on in one piece, and appends to a file.
//!
//! It understands nothing of HTTP but where a request and an answer end: no field, no freshness, no limit, no deadline, no wrong client. What it takes of the
//! processor is the kernel's, mostly.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::epoll;
use rustix::thread::{CpuSet, gettid, sched_setaffinity};

use super::cores::Cores;
use crate::error::LabError;

/// Answers that it keeps in memory; the others are in its file alone, where it does not look for them.
const MOST_KEPT: usize = 1000;
/// What it appends to its file at once.
const BATCH_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 64 << 10;
const LISTENER: u64 = 0;
const END: &[u8] = b"\r\n\r\n";
const LENGTH: &[u8] = b"\r\nContent-Length: ";

/// See the module. Dropped, it ends.
pub struct Floor {
    address: SocketAddrV4,
    stopping: Arc<AtomicBool>,
    /// Where the kernel says what its thread has taken.
    taken: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Floor {
    /// Begin to serve, on the servers' core, before this origin and with this file. Errors: what the system says.
    pub fn begin(cores: &Cores, origin: SocketAddrV4, file: &Path) -> Result<Floor, LabError> {
        let failed = |why: std::io::Error| LabError::failed("starting a loop of reads and writes", why);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let SocketAddr::V4(address) = listener.local_addr().map_err(failed)? else {
            return Err(LabError::failed("starting a loop of reads and writes", "an address of another kind"));
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|why| failed(why.into()))?;
        let file = File::create(file).map_err(failed)?;
        let (served, stopping) = (cores.served(), Arc::new(AtomicBool::new(false)));
        let (stop, (tell, told)) = (stopping.clone(), sync_channel(1));
        let thread = thread::spawn(move || {
            let is_there = served.is_none_or(|core| {
                let mut only = CpuSet::new();
                only.set(core);
                sched_setaffinity(None, &only).is_ok()
            });
            let _ = tell.send(Some(gettid()).filter(|_| is_there));
            let conversations = HashMap::new();
            let answers = HashMap::new();
            let batch = Vec::with_capacity(BATCH_BYTES * 2);
            Loop { epoll, listener, origin, conversations, next: 1, answers, batch, file }.run(&stop);
        });
        let task = told.recv().ok().flatten();
        let task = task.ok_or_else(|| failed(std::io::Error::other("the servers' core is not to be had")))?;
        let taken = PathBuf::from(format!("/proc/self/task/{}/schedstat", task.as_raw_nonzero()));
        Ok(Floor { address, stopping, taken, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Processor time that it has taken so far. Errors: the kernel does not say.
    pub fn cpu(&self) -> Result<Duration, LabError> {
        let failed = |why: String| LabError::failed("reading what a thread has taken", why);
        let text = fs::read_to_string(&self.taken).map_err(|why| failed(why.to_string()))?;
        let first = text.split_ascii_whitespace().next().and_then(|first| first.parse().ok());
        first.map(Duration::from_nanos).ok_or_else(|| failed(text))
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.stopping.store(true, Relaxed);
        // It wakes up by one more connection.
        if TcpStream::connect_timeout(&self.address.into(), Duration::from_secs(5)).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

struct Loop {
    epoll: OwnedFd,
    listener: TcpListener,
    origin: SocketAddrV4,
    /// By number, from 1 on.
    conversations: HashMap<u64, Conversation>,
    next: u64,
    /// By path.
    answers: HashMap<Vec<u8>, Vec<u8>>,
    batch: Vec<u8>,
    file: File,
}

/// A client, and its own connection to the origin once it has asked for what is not there.
struct Conversation {
    client: TcpStream,
    origin: Option<TcpStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// Of the answer, head and body; 0 until that is known.
    length: usize,
}

impl Loop {
    /// Until it is told to stop, and somebody connects.
    fn run(mut self, stop: &AtomicBool) {
        let mut events = Vec::with_capacity(1024);
        let mut room = vec![0; READ_BYTES];
        if self.watch(&self.listener, LISTENER).is_err() {
            return;
        }
        while !stop.load(Relaxed) {
            events.clear();
            if epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None).is_err() {
                continue;
            }
            for event in events.drain(..) {
                let number = event.data.u64() / 2;
                let goes_on = match event.data.u64() {
                    LISTENER => self.accept(),
                    data if data % 2 == 0 => self.client(number, &mut room),
                    _ => self.origin(number, &mut room),
                };
                if goes_on.is_none() {
                    // Closed, it is watched no more.
                    self.conversations.remove(&number);
                }
            }
        }
    }

    fn watch(&self, what: impl AsFd, data: u64) -> std::io::Result<()> {
        Ok(epoll::add(&self.epoll, what, epoll::EventData::new_u64(data), epoll::EventFlags::IN)?)
    }

    fn accept(&mut self) -> Option<()> {
        let (client, _) = self.listener.accept().ok()?;
        client.set_nodelay(true).ok()?;
        self.watch(&client, self.next * 2).ok()?;
        let (origin, request, answer) = (None, Vec::new(), Vec::new());
        self.conversations.insert(self.next, Conversation { client, origin, request, answer, length: 0 });
        self.next += 1;
        Some(())
    }

    /// A client has sent something. `None` if it has gone.
    fn client(&mut self, number: u64, room: &mut [u8]) -> Option<()> {
        let conversation = self.conversations.get_mut(&number)?;
        let read = conversation.client.read(room).ok().filter(|read| *read > 0)?;
        let came = room.get(..read)?;
        // Mostly it is whole, and copied nowhere.
        let is_whole = conversation.request.is_empty() && came.ends_with(END);
        if !is_whole {
            conversation.request.extend_from_slice(came);
            if !conversation.request.ends_with(END) {
                return Some(());
            }
        }
        let request = if is_whole { came } else { &conversation.request };
        let answer = request.split(|byte| *byte == b' ').nth(1).and_then(|path| self.answers.get(path));
        if let Some(answer) = answer {
            conversation.client.write_all(answer).ok()?;
            conversation.request.clear();
            return Some(());
        }
        if is_whole {
            conversation.request.extend_from_slice(came);
        }
        if conversation.origin.is_none() {
            let origin = TcpStream::connect(self.origin).ok()?;
            origin.set_nodelay(true).ok()?;
            epoll::add(&self.epoll, &origin, epoll::EventData::new_u64(number * 2 + 1), epoll::EventFlags::IN).ok()?;
            conversation.origin = Some(origin);
        }
        conversation.origin.as_mut()?.write_all(&conversation.request).ok()
    }

    /// An origin has sent something. `None` if it has gone.
    fn origin(&mut self, number: u64, room: &mut [u8]) -> Option<()> {
        let conversation = self.conversations.get_mut(&number)?;
        let read = conversation.origin.as_mut()?.read(room).ok().filter(|read| *read > 0)?;
        conversation.answer.extend_from_slice(room.get(..read)?);
        if conversation.length == 0 {
            conversation.length = length_of(&conversation.answer).unwrap_or(0);
        }
        if conversation.length == 0 || conversation.answer.len() < conversation.length {
            return Some(());
        }
        conversation.client.write_all(&conversation.answer).ok()?;
        self.batch.extend_from_slice(&conversation.answer);
        if self.batch.len() >= BATCH_BYTES {
            self.file.write_all(&self.batch).ok()?;
            self.batch.clear();
        }
        if self.answers.len() < MOST_KEPT
            && let Some(path) = conversation.request.split(|byte| *byte == b' ').nth(1)
        {
            self.answers.insert(path.to_vec(), conversation.answer.clone());
        }
        conversation.request.clear();
        conversation.answer.clear();
        conversation.length = 0;
        Some(())
    }
}

/// Bytes of an answer, once its head is whole.
fn length_of(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(END.len()).position(|window| window == END)? + END.len();
    let head = answer.get(..end)?;
    let field = head.windows(LENGTH.len()).position(|window| window == LENGTH)? + LENGTH.len();
    let digits = head.get(field..)?.iter().take_while(|byte| byte.is_ascii_digit());
    let length =
        digits.fold(0_usize, |length, digit| length.saturating_mul(10).saturating_add(usize::from(digit - b'0')));
    Some(end + length)
}

#[cfg(test)]
mod tests {
    use super::super::{Connections, Pace, Wanted};
    use super::*;
    use crate::peers::Origin;

    #[test]
    fn it_gives_what_the_origin_has_once_and_then_what_it_has() {
        let scratch = tempfile::tempdir().unwrap();
        let (origin, cores) = (Origin::begin().unwrap(), Cores::split());
        let floor = Floor::begin(&cores, origin.address(), &scratch.path().join("file")).unwrap();
        let objects: Vec<_> = (1..400).map(|object| Wanted { object, bytes: 8192 }).collect();
        let mut connections = Connections::open_by(floor.address(), 5, None).unwrap();
        let first = connections.run(objects.iter().copied(), Pace::Closed).unwrap();
        assert_eq!((first.miss_times.len(), first.failed, origin.given().0), (399, 0, 399));
        let again = connections.run(objects.iter().copied(), Pace::Closed).unwrap();
        assert_eq!((again.hit_times.len(), again.failed, origin.given().0), (399, 0, 399));
        let large = connections.run([Wanted { object: 1 << 40, bytes: 300_000 }], Pace::Closed).unwrap();
        assert_eq!((large.miss_times.len(), large.failed), (1, 0));
        assert!(floor.cpu().unwrap() > Duration::ZERO);
        drop(floor);
        assert!(fs::metadata(scratch.path().join("file")).unwrap().len() >= 3 << 20, "what came is in its file");
    }
}
