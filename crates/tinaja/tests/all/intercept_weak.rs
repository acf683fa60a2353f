//! What is old or weak in TLS, by openssl, towards clients and towards origins: none of it is agreed to, and nothing is stored by it.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::ioctl_fionread;
use tempfile::TempDir;
use tinaja_testkit::client::Client;
use tinaja_testkit::nginx::{Certificates, make_certificates};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, run};
use tinaja_testkit::wait::eventually;

use super::intercept::{Home, answering, cache};

/// All that openssl itself can do, if it is let.
const ANY: &str = "ALL:COMPLEMENTOFALL:@SECLEVEL=0";

/// Versions and ciphers that nobody is to use any more.
const WEAK: [&[&str]; 6] = [
    &["-tls1", "-cipher", ANY],
    &["-tls1_1", "-cipher", ANY],
    // Without authentication of what is sent; without forward secrecy; without encryption.
    &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-SHA384:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "kRSA:kPSK:@SECLEVEL=0"],
    &["-tls1_2", "-cipher", "eNULL:aNULL:@SECLEVEL=0"],
];

const GOOD: [&[&str]; 2] = [&["-tls1_2"], &["-tls1_3"]];

fn asking(port: u16) -> String {
    format!("GET /page HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n")
}

/// openssl as a client of this port, by the proxy if there is one.
fn s_client(home: &Home, proxy: Option<SocketAddr>, port: u16, authority: &Path, more: &[&str]) -> Command {
    let mut openssl = client("openssl", home.dir.path());
    openssl.args(["s_client", "-connect", &format!("localhost:{port}"), "-servername", "localhost", "-CAfile"]);
    openssl.arg(authority).args(more);
    if let Some(proxy) = proxy {
        openssl.args(["-proxy", &proxy.to_string()]);
    }
    openssl
}

/// Asks for the page. Whether it came.
fn gets(mut openssl: Command, port: u16) -> bool {
    openssl.args(["-ign_eof", "-quiet", "-verify_return_error"]);
    let mut child = openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // It may have ended already.
    let _ = child.stdin.take().unwrap().write_all(asking(port).as_bytes());
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).contains(" 200 ")
}

/// Makes a second handshake in the first one's session, and asks for the page in that. Whether it came.
fn gets_after_a_second_handshake(mut openssl: Command, said: &Path, port: u16) -> bool {
    let stderr = fs::File::create(said).unwrap();
    let mut child = openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"R\n").unwrap();
    eventually("openssl asks for it", || fs::read_to_string(said).unwrap().contains("RENEGOTIATING"));
    let _ = input.write_all(asking(port).as_bytes());
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).contains(" 200 ")
}

/// openssl as an origin, with these arguments.
fn s_server(dir: &Path, port: u16, certificates: &Certificates, more: &[&str]) -> Command {
    let mut openssl = client("openssl", dir);
    openssl.args(["s_server", "-accept", &format!("127.0.0.1:{port}"), "-cert"]).arg(&certificates.certificate);
    openssl.arg("-key").arg(&certificates.key).args(more);
    openssl
}

fn serving(dir: &Path, port: u16, certificates: &Certificates, more: &[&str]) -> Process {
    let mut openssl = s_server(dir, port, certificates, &[&["-www"], more].concat());
    let mut process = Process::start("openssl", &mut openssl, &dir.join(format!("origin-{port}")));
    process.wait_until_listening(SocketAddr::from(([127, 0, 0, 1], port)));
    process
}

#[test]
fn clients_get_nothing_by_it() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let (origin, secured) = answering("Cache-Control: max-age=600\r\n", &certificates);
    let port = secured.address.port();
    let home = Home::new(&certificates.authority, &[port]);
    // So long a client that hangs in a second handshake is waited for.
    let _process = home.start(&format!("{}[limits]\nhead = \"5s\"\nidle = \"5s\"\n", cache("localhost")));
    let by_proxy = |more: &[&str]| s_client(&home, Some(home.listen), port, &home.ca(), more);
    for weak in WEAK {
        assert!(!gets(by_proxy(weak), port), "{weak:?}");
    }
    // A client that says it was made to take an older version (RFC 7507).
    assert!(!gets(by_proxy(&["-tls1_2", "-fallback_scsv"]), port));
    assert!(!gets_after_a_second_handshake(by_proxy(&["-tls1_2"]), &home.path("said"), port));
    assert_eq!(origin.count(), 0);
    for good in GOOD {
        assert!(gets(by_proxy(good), port), "{good:?}");
    }
    assert_eq!(origin.count(), 1);

    // A server that does agree shows that it was asked for.
    let port = free_port();
    let lenient = ["-client_renegotiation", "-cipher", ANY];
    let _server = serving(dir.path(), port, &certificates, &lenient);
    let direct = |more: &[&str]| s_client(&home, None, port, &certificates.authority, more);
    assert!(gets_after_a_second_handshake(direct(&["-tls1_2"]), &home.path("said"), port));
    assert_eq!(WEAK.map(|weak| gets(direct(weak), port)), [true, true, true, true, false, true]);
}

/// A certificate that vouches for itself.
fn signed_by_itself(dir: &Path) -> Certificates {
    let path = |name: &str| -> PathBuf { dir.join(name) };
    let (certificate, key) = (path("own.pem"), path("own.key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]).arg(&key).arg("-out").arg(&certificate);
    run(&mut openssl);
    Certificates { authority: certificate.clone(), certificate, key }
}

#[test]
fn origins_get_nothing_by_it() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let own = signed_by_itself(dir.path());
    let ports: Vec<u16> = (0..WEAK.len() + GOOD.len() + 1).map(|_| free_port()).collect();
    let home = Home::new(&certificates.authority, &ports);
    let _process = home.start(&cache("localhost"));
    let cases = WEAK.map(|weak| (weak, &certificates, 502)).into_iter();
    let cases = cases.chain(GOOD.map(|good| (good, &certificates, 200))).chain([(&["-tls1_3"][..], &own, 502)]);
    for (port, (more, certificates, status)) in ports.into_iter().zip(cases) {
        let _server = serving(dir.path(), port, certificates, more);
        let url = format!("https://localhost:{port}/");
        let got = home.get(&url, &["--http1.1"]);
        assert_eq!(got.status, status, "{more:?}: {}", got.body);
        let stored = Client::connect(home.listen).request("GET", &url, "Cache-Control: only-if-cached\r\n");
        assert_eq!(stored.status, 504, "{more:?}");
    }
}

/// It has shown its certificate once; there is no other in the same session.
#[test]
fn an_origin_that_wants_a_second_handshake_is_not_given_one() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let port = free_port();
    let home = Home::new(&certificates.authority, &[port]);
    let _process = home.start(&cache("localhost"));
    let mut openssl = s_server(dir.path(), port, &certificates, &["-tls1_2"]);
    let (mut server, mut input) = Process::start_with_input("openssl", &mut openssl, &dir.path().join("origin"));
    eventually("it listens", || server.output().contains("ACCEPT"));
    let url = format!("https://localhost:{port}/page");
    let got = std::thread::scope(|scope| {
        let got = scope.spawn(|| home.get(&url, &["--http1.1"]));
        eventually("it is asked", || server.output().contains("GET /page"));
        input.write_all(b"r\n").unwrap();
        // What is read along with a command is dropped.
        eventually("it wants another", || ioctl_fionread(&input).unwrap() == 0);
        input.write_all(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        got.join().unwrap()
    });
    assert_eq!((got.status, got.body.as_str()), (200, "hello"));
    input.write_all(b"Q\n").unwrap();
    assert!(server.wait().success());
    for counted in ["1 server renegotiates", "1 server accepts that finished"] {
        assert!(server.output().contains(counted), "{}", server.output());
    }
    assert!(home.get(&url, &[]).is_hit());
}
