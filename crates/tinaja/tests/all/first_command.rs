//! The first command of the README, as a new user runs it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::tinaja::binary;
use tinaja_testkit::body::body;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::port::{free_port, hold};
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output};
use tinaja_testkit::wait::wait_for;

const DEFAULT: &str = "127.0.0.1:3128";

/// `tinaja serve` and nothing else but `more`, with a home of its own.
fn serve(home: &TempDir, more: &[&str]) -> Process {
    let mut command = binary(home);
    command.env("XDG_CACHE_HOME", home.path().join("caches")).arg("serve").args(more);
    Process::start("tinaja", &mut command, &home.path().join("output"))
}

fn assert_welcomes(proxy: &Process, address: SocketAddr, cache: &Path) {
    // It listens a moment before it says so.
    let said = || Some(proxy.output()).filter(|said| said.contains("Ctrl-C"));
    let said = wait_for("the welcome", Duration::from_secs(10), said);
    let cache = cache.display();
    for wanted in [
        format!("forward proxy on http://{address}\n"),
        format!("curl --proxy http://{address} "),
        format!("Acquire::http::Proxy \"http://{address}\";"),
        format!("export http_proxy=http://{address} https_proxy=http://{address}\n"),
        format!("{cache}: "),
        "64.0 MiB of memory".to_owned(),
    ] {
        assert!(said.contains(&wanted), "{wanted:?} in {said}");
    }
}

#[test]
fn serve_without_a_flag() {
    let home = TempDir::new().unwrap();
    let address: SocketAddr = DEFAULT.parse().unwrap();
    // There is one such port: of four runs of this program at once one took it between the other's look and its start.
    let _turn = wait_for("the port's turn", Duration::from_secs(120), || hold("tinaja-test-port-3128"));
    // Somebody's Squid may have the port on the machine that runs this; then the command must say so and end.
    let taken = TcpStream::connect(address).is_ok();
    let mut proxy = serve(&home, &[]);
    if taken {
        assert_eq!(proxy.wait().code(), Some(1));
        assert!(proxy.output().contains("127.0.0.1:3128") && proxy.output().contains("in use"), "{}", proxy.output());
        return;
    }
    proxy.wait_until_listening(address);
    assert_welcomes(&proxy, address, &home.path().join("caches/tinaja"));

    // A forward proxy without flags reaches no address of this machine's: it answers, and says no.
    let origin = Origin::of_patterns();
    let mut curl = client("curl", home.path());
    curl.args(["-sS", "--proxy", &format!("http://{DEFAULT}"), "--noproxy", "", "-w", "\n%{http_code}"]);
    let answer = String::from_utf8(output(curl.arg(origin.url("/10/x"))).stdout).unwrap();
    assert!(answer.ends_with("\n403"), "{answer}");
    assert_eq!(origin.paths().len(), 0);
    assert_eq!(proxy.terminate().code(), Some(0));
}

#[test]
fn serve_on_another_port_fetches_and_keeps() {
    let home = TempDir::new().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let flags = ["--listen", &address.to_string(), "--allow-destination", "127.0.0.1/32"];
    let mut origin = Origin::of_patterns();

    let mut proxy = serve(&home, &flags);
    proxy.wait_until_listening(address);
    let cache = home.path().join("caches/tinaja");
    assert_welcomes(&proxy, address, &cache);
    assert_eq!(get(address, &origin.url("/1000/x")).unwrap().body, body("/1000/x", 1000));
    assert_eq!(proxy.terminate().code(), Some(0), "{}", proxy.output());

    // The second start takes the cache as it is, whatever is free on the disk by now.
    origin.stop();
    let mut proxy = serve(&home, &flags);
    proxy.wait_until_listening(address);
    let again = get(address, &origin.url("/1000/x")).unwrap();
    assert!(again.is_hit() && again.body == body("/1000/x", 1000), "{:?}", again.head);
    // Ctrl-C is as good an end as a service manager's SIGTERM.
    proxy.signal(Signal::INT);
    assert_eq!(proxy.wait().code(), Some(0), "{}", proxy.output());
    assert!(fs::read_dir(&cache).unwrap().count() > 0);
}

#[test]
fn inspect_says_what_is_there() {
    let home = TempDir::new().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let flags = ["--listen", &address.to_string(), "--allow-destination", "127.0.0.1/32", "--disk", "256MiB"];
    let origin = Origin::of_patterns();
    let mut proxy = serve(&home, &flags);
    proxy.wait_until_listening(address);
    for n in 0..100 {
        assert_eq!(get(address, &origin.url(&format!("/5000/{n}"))).unwrap().status, 200);
    }
    assert_eq!(proxy.terminate().code(), Some(0), "{}", proxy.output());

    let inspect = |more: &[&str]| {
        let mut command = binary(&home);
        let output = output(command.env("XDG_CACHE_HOME", home.path().join("caches")).arg("inspect").args(more));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let figures: serde_json::Value = serde_json::from_str(&inspect(&["--json"])).unwrap();
    assert_eq!(figures["live_objects"], 100);
    let bits = figures["bits_per_slot"].as_f64().unwrap();
    assert!(bits > 40.0 && bits <= 47.5, "{figures}");
    let table = inspect(&[]);
    assert!(table.contains("live objects          100\n"), "{table}");
}
