//! Other servers, each a process of its own on loopback, and what they make of the bytes that the proxy sends to origins.

mod configurations;
pub mod mutations;
mod sink;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tinaja_testkit::port::free_port;

use crate::script::message::Message;
use crate::script::wire::{Silence, Wire};
pub use sink::Sink;

/// What a server takes for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    pub method: String,
    pub target: String,
    pub host: String,
    pub body: Vec<u8>,
}

impl Parsed {
    pub fn of(request: &Message) -> Parsed {
        let mut words = request.first.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let host = request.values("host").next().unwrap_or_default();
        Parsed { method, target, host: String::from_utf8_lossy(host).into_owned(), body: request.body.clone() }
    }

    /// Whether a server may refuse it: a method of no standard, a `%` that escapes nothing, or a host of odd form. None of
    /// them says anything about where the request ends.
    pub fn is_odd(&self) -> bool {
        let known = matches!(self.method.as_str(), "GET" | "HEAD" | "POST" | "PUT" | "DELETE");
        let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        !known || !self.target.split('%').skip(1).all(is_escape) || !known_host(&self.host)
    }

    /// As the field X-Parsed says it.
    pub fn field(&self) -> String {
        let body: String = self.body.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {} {} {}:{body}", self.method, self.target, self.host, self.body.len())
    }
}

/// The one of the requests that are mutated: a name, or to a forward proxy the origin's address.
fn known_host(host: &str) -> bool {
    host == "www.example" || host.parse::<SocketAddr>().is_ok_and(|address| address.ip() == Ipv4Addr::LOCALHOST)
}

/// What became of some bytes at a server.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These requests, written as [`Parsed::field`] does, and nothing else before the connection was closed.
    Read(Vec<String>),
    /// It read some and refused the next one with this status, and closed.
    Refused(Vec<String>, u16),
}

/// A running server. It is stopped by its process id when dropped.
pub struct Parser {
    pub name: &'static str,
    address: SocketAddr,
    process: Child,
    _directory: TempDir,
}

impl Parser {
    /// Starts all five; those that are proxies themselves pass on what they read to `sink`.
    pub fn all(sink: &Sink) -> Vec<Parser> {
        configurations::COMMANDS.iter().map(|(name, command)| Parser::start(name, *command, sink.address)).collect()
    }

    fn start(name: &'static str, command: fn(&Path, SocketAddr, SocketAddr) -> Command, sink: SocketAddr) -> Parser {
        let directory = TempDir::new().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let output = std::fs::File::create(directory.path().join("output")).unwrap();
        let mut command = command(directory.path(), address, sink);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let process = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}; scripts/install-test-tools"));
        let mut parser = Parser { name, address, process, _directory: directory };
        parser.wait_until_listening();
        parser
    }

    fn wait_until_listening(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(self.address).is_err() {
            let ended = self.process.try_wait().unwrap();
            if ended.is_some() || Instant::now() > until {
                let output = std::fs::read_to_string(self._directory.path().join("output")).unwrap_or_default();
                panic!("{} does not listen: {ended:?} {output}", self.name);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the server makes of these bytes on a connection of their own, the last request of which closes it.
    ///
    /// Errors: an answer that is neither what was parsed nor a refusal, or none.
    pub fn read(&self, bytes: &[u8]) -> Result<Verdict, String> {
        let mut wire = Wire::new(TcpStream::connect(self.address).unwrap());
        wire.send(bytes.to_vec(), None);
        let mut found = Vec::new();
        loop {
            match answer(&mut wire) {
                Ok(None) => return Ok(Verdict::Read(found)),
                Ok(Some((_, Some(parsed)))) => found.push(parsed),
                // A page follows, which is no answer to anything.
                Ok(Some((status @ 400.., None))) => return Ok(Verdict::Refused(found, status)),
                other => return Err(format!("{other:?} after {found:?}")),
            }
        }
    }
}

/// The status of the next answer and its X-Parsed; nothing if the connection is closed before it. Answers with X-Parsed
/// have no body.
fn answer(wire: &mut Wire) -> Result<Option<(u16, Option<String>)>, Silence> {
    match wire.begins() {
        Ok(()) => {}
        Err(Silence::Closed) => return Ok(None),
        Err(silence) => return Err(silence),
    }
    let status_line = text(wire.line()?);
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut parsed = None;
    loop {
        let line = text(wire.line()?);
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("x-parsed") => parsed = Some(value.to_owned()),
            _ if line.is_empty() => return Ok(Some((status, parsed))),
            _ => {}
        }
    }
}

fn text(line: Vec<u8>) -> String {
    String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()
}

impl Drop for Parser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
