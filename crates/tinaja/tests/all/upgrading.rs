//! What is under way when a new process takes over: downloads, tunnels, connections that wait. And `tinaja upgrade`, which has the
//! server start that process.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Output;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::support::home::{Home, reverse, telling};
use crate::support::tinaja::{Setup, Tinaja, binary};
use tinaja_testkit::body::Pattern;
use tinaja_testkit::halting::Halting;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::output;
use tinaja_testkit::wait::wait_for;

const PATIENCE: Duration = Duration::from_secs(60);
/// More than all buffers between a server and a client that does not read hold.
const LARGE: usize = 48 << 20;

/// One client's connection, which reads when it is told to.
struct Reader(BufReader<TcpStream>);

impl Reader {
    /// Sends a request, and reads its answer's head.
    fn ask(address: SocketAddr, request: &str) -> (Reader, String) {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = Reader(BufReader::with_capacity(4096, stream));
        let head = reader.again(request);
        (reader, head)
    }

    fn again(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "closed behind {head:?}");
        }
        head
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }
}

fn get(url: &str) -> String {
    let host = url.split('/').nth(2).unwrap();
    format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// Has a second process take over.
fn take_over(setup: &Setup, name: &str) -> Process {
    let new = setup.successor(name, &[]);
    wait_for("a process to take over", PATIENCE, || new.output().contains("took over").then_some(()));
    new
}

#[test]
fn what_is_under_way_goes_on() {
    let mut origin = Origin::of_patterns();
    let halting = Halting::start(8_000_000);
    let setup = Setup::forward();
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = echo.local_addr().unwrap().port().to_string();
    let setup = setup.flags(&["--allow-connect-port", &port]);
    let mut old = setup.start();
    let (large, small) = (format!("/{LARGE}/large"), origin.url("/9/small"));
    for url in [&origin.url(&large), &small] {
        old.get(url).unwrap();
        assert!(old.get(url).unwrap().is_hit());
    }
    // From the disk, by a client that has only begun to read; and a miss that its origin has half sent.
    let (mut hit, head) = Reader::ask(setup.address(), &get(&origin.url(&large)));
    assert!(head.contains("hit") && head.contains("keep-alive"), "{head}");
    origin.stop();
    let missed = halting.origin.url("/x");
    let (mut miss, _) = Reader::ask(setup.address(), &get(&missed));
    // One that waits for its next request, and one that never has one.
    let (mut idle, head) = Reader::ask(setup.address(), &get(&small));
    assert!(head.contains("Connection: keep-alive"), "{head}");
    idle.bytes(9);
    let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let (mut tunnel, head) = Reader::ask(setup.address(), &connect);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (mut far, _) = echo.accept().unwrap();
    let mut new = Tinaja::of(take_over(&setup, "new"), setup.address());
    assert!(old.process.is_running());
    assert!(new.get(&small).unwrap().is_hit());
    // The old one's cache is the new one's, and the origin is gone: what it had found it reads to the end all the same.
    assert!(Pattern::of(&large).matches(&hit.bytes(LARGE)), "the bytes of another object");
    halting.go_on();
    assert!(Pattern::of("/x").matches(&miss.bytes(8_000_000)), "other bytes");
    tunnel.0.get_mut().write_all(b"ping").unwrap();
    far.read_exact(&mut [0; 4]).unwrap();
    far.write_all(b"pong").unwrap();
    assert_eq!(tunnel.bytes(4), b"pong");
    // At its next answer, which passes by the cache, each connection hears that it is the last.
    let head = idle.again(&get(&halting.origin.url("/y")));
    assert!(head.contains("Connection: close") && head.contains("fwd=bypass"), "{head}");
    let head = hit.again(&get(&halting.origin.url("/z")));
    assert!(head.contains("Connection: close"), "{head}");
    drop((idle, hit, miss, tunnel, far));
    assert!(old.process.wait().success(), "{}", old.process.output());
    assert!(new.process.terminate().success(), "{}", new.process.output());
}

#[test]
fn connections_that_never_end_are_cut_off_in_time() {
    let origin = telling();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test");
    let mut old = home.start(&reverse(&origin));
    let text = fs::read_to_string(home.path("tinaja.toml")).unwrap();
    // As long as the old process says, not the new one.
    old.terminate();
    fs::write(home.path("tinaja.toml"), text.replace("head = \"10s\"", "head = \"30s\"\ndrain = \"300ms\"")).unwrap();
    let start = |flags: &[&str], name: &str| {
        let mut command = binary(&home.dir);
        command.arg("serve").arg("--config").arg(home.path("tinaja.toml")).args(flags);
        Process::start("tinaja", &mut command, &home.path(name))
    };
    let mut old = start(&[], "old");
    old.wait_until_listening(home.listen);
    assert_eq!(home.curl(&www.authority, "www.test", "/", &[]).0, 200);
    let mut stuck = TcpStream::connect(home.listen).unwrap();
    // Accepted for certain: the next one is answered behind it.
    assert_eq!(home.curl(&www.authority, "www.test", "/", &[]).0, 200);
    let new = start(&["--take-over"], "new");
    wait_for("a process to take over", PATIENCE, || new.output().contains("took over").then_some(()));
    assert!(old.wait().success(), "{}", old.output());
    assert!(old.output().contains("did not end within limits.drain"), "{}", old.output());
    stuck.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(stuck.read(&mut [0; 16]), Ok(0) | Err(_)));
    assert!(home.curl(&www.authority, "www.test", "/", &[]).2, "a hit");
}

/// A process that is nobody's child here. Dropped, it is ended. It is held by a descriptor: by its number another process could be
/// meant once it has ended by itself, as the first of two successors does.
struct Stray(Pid, OwnedFd);

impl Stray {
    fn of(pid: i32) -> Stray {
        let pid = Pid::from_raw(pid).unwrap();
        Stray(pid, pidfd_open(pid, PidfdFlags::empty()).unwrap())
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.1, Signal::TERM);
        let mut ended = [PollFd::new(&self.1, PollFlags::IN)];
        let patience = Timespec::try_from(PATIENCE).unwrap();
        assert_eq!(poll(&mut ended, Some(&patience)).unwrap(), 1, "a process does not end");
    }
}

#[test]
fn a_server_starts_its_own_successor() {
    let origin = telling();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test");
    let manager = UnixDatagram::bind(home.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut line = [0; 1024];
        let length = manager.recv(&mut line).unwrap();
        String::from_utf8_lossy(&line[..length]).into_owned()
    };
    let mut command = home.command(&reverse(&origin));
    let mut old = Process::start("tinaja", command.env("NOTIFY_SOCKET", home.path("notify")), &home.path("output"));
    old.wait_until_listening(home.listen);
    assert!(told().starts_with("READY=1"));
    assert_eq!(home.curl(&www.authority, "www.test", "/", &[]).0, 200);
    let upgrade = || {
        let mut upgrade = binary(&home.dir);
        let Output { status, stdout, stderr } = output(upgrade.args(["upgrade", "--cache"]).arg(home.path("cache")));
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    };
    // Settings of no use, and one that only opening the cache finds.
    let good = fs::read_to_string(home.path("tinaja.toml")).unwrap();
    for (bad, why) in [
        (good.replace("mode = ", "mood = "), "unknown field `mood`"),
        (good.replace("memory", "engine = \"hashcache-loglru\"\nmemory"), "was made with the engine"),
    ] {
        fs::write(home.path("tinaja.toml"), bad).unwrap();
        let (code, said) = upgrade();
        assert!(code == Some(1) && said.contains(why), "{why}: {code:?} {said}");
        assert!(home.curl(&www.authority, "www.test", "/", &[]).2, "it serves on");
    }
    // More memory and another limit, which only a start heeds.
    fs::write(
        home.path("tinaja.toml"),
        good.replace("\"8MiB\"", "\"9MiB\"").replace("head = \"10s\"", "head = \"11s\""),
    )
    .unwrap();
    let (code, said) = upgrade();
    let process = said.split(' ').nth(1).and_then(|process| process.parse().ok());
    let new = Stray::of(process.unwrap_or_else(|| panic!("{code:?} {said}")));
    assert!(code == Some(0) && said.contains("serves from now on"), "{said}");
    // The one that failed to open the cache had said that it was ready, as the good one has.
    let main = wait_for("the new main process", PATIENCE, || Some(told()).filter(|line| line.starts_with("MAINPID")));
    assert_eq!(main, format!("MAINPID={}", new.0.as_raw_nonzero()));
    assert!(old.wait().success(), "{}", old.output());
    assert!(home.curl(&www.authority, "www.test", "/", &[]).2, "a hit");
    // And once more, by the one that was itself started so.
    let (code, said) = upgrade();
    let process = said.split(' ').nth(1).and_then(|process| process.parse().ok());
    let newer = Stray::of(process.unwrap_or_else(|| panic!("{code:?} {said}")));
    assert!(home.curl(&www.authority, "www.test", "/", &[]).2, "a hit");
    assert_eq!(origin.paths().iter().filter(|path| *path == "/").count(), 1, "asked once in all");
    drop((new, newer));
    let (code, said) = upgrade();
    assert!(code == Some(1) && said.contains("no server runs on this cache"), "{said}");
}
