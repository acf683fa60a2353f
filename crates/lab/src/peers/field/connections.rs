//! The load: many connections that one thread asks over, in a closed loop or at a rate, every byte compared.
//!
//! The clients of the other experiments have a thread for each request under way. Where a server answers a hundred thousand requests a second, or
//! has a thousand connections, that would measure the threads.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustls::ClientConfig;

use super::exchange::{Came, Exchange};
use super::wire::Wire;
use crate::error::LabError;
use crate::peers::load::Tally;

/// A server that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of requests without an answer, so many and a hundredth of all end a run.
const MOST_FAILURES: u64 = 50;
/// What is read from a connection at once.
const READ_BYTES: usize = 256 << 10;
/// A wait that is shorter than this is not slept: a timer of the kernel may come a millisecond late.
const NO_SLEEP: Duration = Duration::from_millis(3);

/// What is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which object.
    pub object: u64,
    /// Bytes of its body.
    pub bytes: u64,
}

/// When requests are put.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Each connection asks for the next as soon as it has one.
    Closed,
    /// So many a second, answered in time or not; times are from when each was due.
    Open(f64),
}

/// Connections to one server, kept from run to run.
pub struct Connections {
    server: SocketAddrV4,
    tls: Option<Arc<ClientConfig>>,
    epoll: OwnedFd,
    all: Vec<Connection>,
    scratch: Vec<u8>,
}

struct Connection {
    stream: Wire,
    under_way: Option<Exchange>,
    /// It has had an answer: closed before the next one, it is opened anew.
    is_used: bool,
    /// Its server said that it closes it.
    is_over: bool,
}

impl Connections {
    /// Open so many, 1 at least, in the clear. Memory: some 300 KiB, and 2 KiB for each. Errors: the server takes none.
    pub fn open(server: SocketAddrV4, count: usize) -> Result<Connections, LabError> {
        Connections::open_by(server, count, None)
    }

    /// The same, by TLS if a client's side of it is given. Memory: 20 KiB more for each. Errors: the server takes none, or no TLS.
    pub fn open_by(
        server: SocketAddrV4,
        count: usize,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Connections, LabError> {
        let failed = |why: Error| LabError::failed("connecting to a server", why);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|why| failed(why.into()))?;
        let mut connections =
            Connections { server, tls: tls.cloned(), epoll, all: Vec::new(), scratch: vec![0; READ_BYTES] };
        for at in 0..count.max(1) {
            let stream = connections.connect(at).map_err(failed)?;
            connections.all.push(Connection { stream, under_way: None, is_used: false, is_over: false });
        }
        Ok(connections)
    }

    /// A connection whose events have this number.
    fn connect(&self, at: usize) -> Result<Wire, Error> {
        let stream = Wire::connect(self.server, self.tls.as_ref(), PATIENCE)?;
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        Ok(stream)
    }

    /// Ask for all of these at this pace. Requests without an answer are counted. Errors: wrong bytes, more than a hundredth without an answer,
    /// or no answer for half a minute.
    pub fn run(&mut self, wanted: impl IntoIterator<Item = Wanted>, pace: Pace) -> Result<Tally, LabError> {
        let (mut wanted, begin) = (wanted.into_iter().enumerate().peekable(), Instant::now());
        let mut run = Run { tally: Tally::default(), first_failure: None };
        let (mut idle, mut last): (VecDeque<usize>, _) = ((0..self.all.len()).collect(), begin);
        loop {
            // Whatever is due goes out while there is a connection for it.
            let mut wait = Duration::from_secs(1);
            while let Some((number, _)) = wanted.peek() {
                let now = Instant::now();
                let due = match pace {
                    Pace::Closed => now,
                    Pace::Open(rate) => begin + Duration::from_secs_f64(*number as f64 / rate),
                };
                if due > now {
                    let left = due - now;
                    wait = if left < NO_SLEEP { Duration::ZERO } else { left - NO_SLEEP / 2 };
                    break;
                }
                let Some(at) = idle.pop_front() else { break };
                let Some((_, one)) = wanted.next() else { break };
                let exchange = Exchange::of(one, due);
                if let Err(error) = self.begin(at, exchange) {
                    run.failed(error)?;
                    self.all.iter_mut().skip(at).take(1).for_each(|connection| connection.is_over = true);
                    idle.push_back(at);
                }
            }
            if idle.len() == self.all.len() && wanted.peek().is_none() {
                run.tally.span = begin.elapsed();
                return Ok(run.tally);
            }
            let came = self.answers(wait, &mut run, &mut idle)?;
            if came || idle.len() == self.all.len() {
                last = Instant::now();
            } else if last.elapsed() > PATIENCE {
                return Err(LabError::failed("asking a server", format!("no answer for {} s", PATIENCE.as_secs())));
            }
        }
    }

    /// Wait for answers and take them; whether anything came.
    fn answers(&mut self, wait: Duration, run: &mut Run, idle: &mut VecDeque<usize>) -> Result<bool, LabError> {
        let mut events = Vec::with_capacity(256);
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(LabError::failed("waiting for answers", why)),
        }
        for event in &events {
            let data = event.data;
            let at = data.u64() as usize;
            match self.read(at) {
                Ok(None) => {}
                Ok(Some(exchange)) => {
                    run.answered(&exchange);
                    idle.push_back(at);
                }
                Err(error) => {
                    run.failed(error)?;
                    self.reopen(at).map_err(|why| LabError::failed("connecting to a server", why))?;
                    idle.push_back(at);
                }
            }
        }
        Ok(!events.is_empty())
    }

    /// Ask over a connection that has nothing under way.
    fn begin(&mut self, at: usize, exchange: Exchange) -> Result<(), Error> {
        if self.all.get(at).is_some_and(|connection| connection.is_over) {
            self.reopen(at)?;
        }
        let connection = self.all.get_mut(at).ok_or(ErrorKind::NotFound)?;
        let sent = connection.stream.write_all(exchange.request().as_bytes());
        match sent {
            Err(error) if connection.is_used && crate::peers::client::is_stale(&error) => {
                self.reopen(at)?;
                self.begin(at, exchange)
            }
            Err(error) => Err(error),
            Ok(()) => {
                connection.under_way = Some(exchange);
                Ok(())
            }
        }
    }

    fn reopen(&mut self, at: usize) -> Result<(), Error> {
        // Closed, the old one is no longer waited for.
        let stream = self.connect(at)?;
        let connection = self.all.get_mut(at).ok_or(ErrorKind::NotFound)?;
        *connection = Connection { stream, under_way: None, is_used: false, is_over: false };
        Ok(())
    }

    /// Take what has come; the exchange, if that is all of it. Errors: it is wrong, or ends early.
    fn read(&mut self, at: usize) -> Result<Option<Exchange>, Error> {
        loop {
            let connection = self.all.get_mut(at).ok_or(ErrorKind::NotFound)?;
            let read = match connection.stream.read(&mut self.scratch) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read,
            };
            let is_dry = connection.stream.is_dry();
            let Some(exchange) = &mut connection.under_way else {
                // Closed while nobody asks: it is opened anew when somebody does. It must not wake us again and again.
                connection.is_over = true;
                return epoll::delete(&self.epoll, &connection.stream).map(|()| None).map_err(Error::from);
            };
            let bytes = match read {
                Ok(0) => Err(Error::from(ErrorKind::ConnectionReset)),
                Ok(count) => Ok(self.scratch.get(..count).unwrap_or_default()),
                Err(error) => Err(error),
            };
            let bytes = match bytes {
                Ok(bytes) => bytes,
                // It may close a connection that it has kept, at the moment when it is used again.
                Err(_) if connection.is_used && exchange.is_unanswered() => {
                    let Some(exchange) = connection.under_way.take() else { return Ok(None) };
                    self.reopen(at)?;
                    self.begin(at, exchange)?;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let is_less = is_dry && bytes.len() < READ_BYTES;
            if let Came::Whole { closes } = exchange.take(bytes)? {
                (connection.is_used, connection.is_over) = (true, closes);
                return Ok(connection.under_way.take());
            }
            if is_less {
                return Ok(None);
            }
        }
    }
}

/// What has come of a run so far.
struct Run {
    tally: Tally,
    first_failure: Option<String>,
}

impl Run {
    fn answered(&mut self, exchange: &Exchange) {
        let bytes = exchange.wanted().bytes;
        self.tally.bytes += bytes;
        let times = if exchange.is_hit() {
            self.tally.hit_bytes += bytes;
            &mut self.tally.hit_times
        } else {
            self.tally.cachable_misses += 1;
            &mut self.tally.miss_times
        };
        times.push(exchange.since().elapsed());
    }

    /// Errors: it was wrong bytes, or one too many.
    fn failed(&mut self, error: Error) -> Result<(), LabError> {
        self.tally.failed += 1;
        let is_wrong = error.kind() == ErrorKind::InvalidData;
        let first = self.first_failure.get_or_insert_with(|| error.to_string());
        if is_wrong {
            return Err(LabError::failed("asking a server", error));
        }
        if self.tally.failed > MOST_FAILURES + self.tally.requests() / 100 {
            let failed = self.tally.failed;
            return Err(LabError::failed(
                "asking a server",
                format!("{failed} requests without an answer, the first: {first}"),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
