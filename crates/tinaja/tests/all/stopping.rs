//! SIGTERM with several listeners: nobody new is let in, everybody's request ends, and those that do not end in time are
//! cut off. What was stored is there after.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::tinaja::binary;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::wait::wait_for;

/// An origin whose answers take so long to begin and may be kept.
fn slow(delay: Duration) -> Origin {
    Origin::closing(move |_, stream| {
        sleep(delay);
        stream.write_all(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nlate")
    })
}

struct Run {
    home: TempDir,
    listen: [SocketAddr; 3],
}

impl Run {
    /// A forward proxy and two reverse proxies, with so long to stop.
    fn new(origin: &Origin, stop: &str) -> Run {
        let home = TempDir::new().unwrap();
        let listen = [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let mut text = format!(
            "cache = \"{}\"\ndisk = \"64MiB\"\n[limits]\nstop = \"{stop}\"\n[[listener]]\naddress = \"{}\"\n\
             allow_destination = \"127.0.0.1\"\n",
            home.path().join("cache").display(),
            listen[0]
        );
        for address in &listen[1..] {
            let url = origin.url("");
            text += &format!("[[listener]]\naddress = \"{address}\"\nmode = \"reverse\"\norigin = \"{url}\"\n");
        }
        fs::write(home.path().join("tinaja.toml"), text).unwrap();
        Run { home, listen }
    }

    fn start(&self) -> Process {
        let mut command = binary(&self.home);
        command.arg("serve").arg("--config").arg("tinaja.toml");
        let mut process = Process::start("tinaja", &mut command, &self.home.path().join("output"));
        process.wait_until_listening(self.listen[2]);
        process
    }

    /// One request at each listener, each for an object of its own.
    fn ask(&self, origin: &Origin) -> Vec<JoinHandle<Option<Vec<u8>>>> {
        let targets = [origin.url("/0"), "/1".to_owned(), "/2".to_owned()];
        let ask = |(address, target): (SocketAddr, String)| {
            std::thread::spawn(move || get(address, &target).ok().map(|answer| answer.body))
        };
        let asked = self.listen.into_iter().zip(targets).map(ask).collect();
        wait_for("all three at the origin", Duration::from_secs(20), || (origin.paths().len() == 3).then_some(()));
        asked
    }

    fn assert_nobody_listens(&self) {
        for address in self.listen {
            assert!(TcpStream::connect(address).is_err(), "{address}");
        }
    }
}

#[test]
fn requests_at_every_listener_end_before_the_process_does() {
    let origin = slow(Duration::from_millis(1500));
    let run = Run::new(&origin, "30s");
    let mut process = run.start();
    let idle: Vec<_> = run.listen.iter().map(|address| TcpStream::connect(address).unwrap()).collect();
    let asked = run.ask(&origin);
    assert_eq!(process.terminate().code(), Some(0));
    for answer in asked {
        assert_eq!(answer.join().unwrap().as_deref(), Some(&b"late"[..]));
    }
    run.assert_nobody_listens();
    assert!(!run.home.path().join("cache/tinaja.sock").exists());
    drop(idle);
    // All three were stored.
    let _again = run.start();
    for (address, target) in run.listen.into_iter().zip([origin.url("/0"), "/1".to_owned(), "/2".to_owned()]) {
        assert!(get(address, &target).unwrap().is_hit(), "{target}");
    }
    assert_eq!(origin.paths().len(), 3);
}

#[test]
fn who_takes_too_long_is_cut_off_as_by_a_second_signal() {
    for (stop, second) in [("300ms", false), ("60s", true)] {
        let origin = slow(Duration::from_secs(40));
        let run = Run::new(&origin, stop);
        let mut process = run.start();
        let asked = run.ask(&origin);
        let began = Instant::now();
        process.signal(Signal::TERM);
        if second {
            wait_for("the first signal", Duration::from_secs(20), || {
                TcpStream::connect(run.listen[0]).is_err().then_some(())
            });
            process.signal(Signal::INT);
        }
        assert_eq!(process.wait().code(), Some(0));
        assert!(began.elapsed() < Duration::from_secs(35), "it waited for the origin");
        assert!(asked.into_iter().all(|answer| answer.join().unwrap().is_none()), "an answer from nowhere");
        run.assert_nobody_listens();
    }
}
