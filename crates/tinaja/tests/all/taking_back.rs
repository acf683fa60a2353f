//! Hand-overs that come to nothing: whoever should have taken over is of no use, or dies at each step. The server that runs
//! serves on, with its cache, and says what to do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::origin::Origin;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::output;
use tinaja_testkit::wait::wait_for;

const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who says to the server what a new process says.
struct Pretender(BufReader<UnixStream>);

impl Pretender {
    fn connect(setup: &Setup) -> Pretender {
        let stream = UnixStream::connect(setup.cache_dir().join("tinaja.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Pretender(BufReader::new(stream))
    }

    /// Asks for the sockets; what it is told.
    fn ask(&mut self, protocol: u32, cache: &Path) -> String {
        let ask = serde_json::json!({"ask": "hand_over", "protocol": protocol, "cache": [cache]});
        self.say(&ask.to_string());
        self.hear()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.0.get_mut(), "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }
}

/// An object that is stored, and a server that has it.
fn serving() -> (Setup, Origin, Tinaja) {
    let origin = Origin::of_patterns();
    let setup = Setup::forward();
    let tinaja = setup.start();
    tinaja.get(&origin.url("/5000/kept")).unwrap();
    assert!(tinaja.get(&origin.url("/5000/kept")).unwrap().is_hit());
    (setup, origin, tinaja)
}

/// It serves, finds what was stored, and stores more.
fn is_well(tinaja: &mut Tinaja, origin: &Origin, new: &str) {
    assert!(tinaja.process.is_running(), "{}", tinaja.process.output());
    assert!(tinaja.get(&origin.url("/5000/kept")).unwrap().is_hit());
    let url = origin.url(&format!("/6000/{new}"));
    assert!(!tinaja.get(&url).unwrap().is_hit());
    assert!(tinaja.get(&url).unwrap().is_hit());
}

/// Waits until a process has printed this.
fn said(process: &Process, what: &str) {
    wait_for(what, PATIENCE, || process.output().contains(what).then_some(()));
}

/// It ends, in vain, and says why.
fn fails(mut new: Process, why: &str) {
    let code = new.wait().code();
    assert!(code == Some(1) && new.output().contains(why), "{why}: {code:?} {}", new.output());
}

#[test]
fn who_is_of_no_use_takes_nothing_over() {
    let (setup, origin, mut tinaja) = serving();
    let cache = setup.cache_dir().canonicalize().unwrap();
    // Settings of no use, found before the server is asked.
    let config = setup.cache_dir().join("../bad.toml");
    std::fs::write(&config, "[limits]\nheads = \"1s\"\n").unwrap();
    fails(setup.successor("bad", &["--config", config.to_str().unwrap()]), "unknown field `heads`");
    // An address that is somebody else's.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(setup.successor("taken", &["--listen", &address]), "is in use by another program");
    said(&tinaja.process, "the new process did not take over; this one keeps serving");
    // Another cache: none that anybody serves from, or not the same directories.
    let other = Setup::forward();
    std::fs::create_dir_all(other.cache_dir()).unwrap();
    fails(other.successor("other", &[]), "no server runs on the cache in");
    fails(setup.successor("more", &["--cache", other.cache_dir().to_str().unwrap()]), "name the same ones");
    // Another version of the conversation.
    let said = Pretender::connect(&setup).ask(2, &cache);
    assert!(said.contains("failed") && said.contains("stop it, and then start the new one"), "{said}");
    // Two at once: the second is refused, and the first may go on.
    let mut first = Pretender::connect(&setup);
    assert!(first.ask(1, &cache).contains("handing_over"));
    fails(setup.successor("second", &[]), "handing over to another process already");
    // The first goes away, once with a reason.
    first.say(r#"{"step":"failed","why":"it was a test"}"#);
    wait_for("the reason", PATIENCE, || tinaja.process.output().contains("it was a test").then_some(()));
    let mut silent = Pretender::connect(&setup);
    wait_for("a place", PATIENCE, || silent.ask(1, &cache).contains("handing_over").then_some(()));
    drop(silent);
    is_well(&mut tinaja, &origin, "a");
    // What makes no sense is answered, and a stranger is not.
    for line in [r#"{"ask":"hand_over"}"#, r#"{"ask":"hand_over","protocol":-1,"cache":[]}"#, "\u{1}"] {
        let mut pretender = Pretender::connect(&setup);
        pretender.say(line);
        assert!(pretender.hear().contains("does not know the request"));
    }
    is_well(&mut tinaja, &origin, "b");
    assert!(tinaja.process.terminate().success(), "{}", tinaja.process.output());
}

#[test]
fn only_the_owner_takes_over() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not checked: only root may be somebody else for a moment");
        return;
    }
    let (setup, origin, mut tinaja) = serving();
    let socket = setup.cache_dir().join("tinaja.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    // Even where the socket is open to all, its user is asked for.
    for dir in setup.cache_dir().ancestors().take(2) {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Whatever it would have asked for: it is turned away before.
    let ask =
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(1000).decode())";
    let mut stranger = Command::new("setpriv");
    stranger.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", ask]).arg(&socket);
    let refused = output(&mut stranger);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("PermissionError"), "{refused:?}");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = output(&mut stranger);
    assert!(String::from_utf8_lossy(&refused.stdout).contains("another user's"), "{refused:?}");
    is_well(&mut tinaja, &origin, "a");
}

#[test]
fn what_was_left_to_one_that_dies_is_taken_back() {
    let (setup, origin, mut tinaja) = serving();
    let cache = setup.cache_dir().canonicalize().unwrap();
    // It dies when it serves; when it has been told that the cache is free; and with a reason.
    for (step, last) in [(1, ""), (2, ""), (3, r#"{"step":"failed","why":"it was a test"}"#)] {
        let mut heir = Pretender::connect(&setup);
        let begun = wait_for("a place", PATIENCE, || Some(heir.ask(1, &cache)).filter(|told| !told.is_empty()));
        assert!(begun.contains("handing_over"), "{begun}");
        heir.say(r#"{"step":"serving"}"#);
        if step > 1 {
            assert!(heir.hear().contains("released"));
        }
        if !last.is_empty() {
            heir.say(last);
        }
        drop(heir);
        let back = || tinaja.process.output().matches("this one resumes").count() >= step;
        wait_for("it to be taken back", PATIENCE, || back().then_some(()));
        is_well(&mut tinaja, &origin, &format!("after-{step}"));
    }
    // One that can serve, but not open the cache: it was made with another engine.
    fails(setup.successor("other", &["--engine", "hashcache-loglru"]), "was made with the engine");
    wait_for("it to be taken back", PATIENCE, || {
        (tinaja.process.output().matches("this one resumes").count() >= 4).then_some(())
    });
    is_well(&mut tinaja, &origin, "after-4");
    // And one that is of use.
    let new = setup.successor("good", &[]);
    said(&new, "took over");
    assert!(tinaja.process.wait().success(), "{}", tinaja.process.output());
    let mut new = Tinaja::of(new, setup.address());
    is_well(&mut new, &origin, "last");
    assert!(new.get(&origin.url("/6000/after-4")).unwrap().is_hit());
    assert!(setup.cache_dir().join("tinaja.sock").exists(), "the new one can be asked");
    assert!(new.process.terminate().success(), "{}", new.process.output());
    assert!(!setup.cache_dir().join("tinaja.sock").exists());
}

#[test]
fn one_that_is_killed_before_it_has_handed_over_leaves_nothing_in_the_way() {
    let (setup, origin, mut tinaja) = serving();
    // Halted, it answers nothing; killed, it leaves the lock.
    let cache = setup.cache_dir().canonicalize().unwrap();
    assert!(Pretender::connect(&setup).ask(1, &cache).contains("handing_over"));
    tinaja.process.signal(Signal::STOP);
    let mut new = setup.successor("new", &[]);
    tinaja.process.signal(Signal::KILL);
    tinaja.process.wait();
    let code = new.wait().code();
    let why = ["cannot ask the server", "no server runs on the cache"];
    assert!(code == Some(1) && why.iter().any(|why| new.output().contains(why)), "{}", new.output());
    // What was not yet written is lost with a killed process; nothing else is.
    let again = setup.start();
    again.get(&origin.url("/5000/kept")).unwrap();
    assert!(again.get(&origin.url("/5000/kept")).unwrap().is_hit());
}
