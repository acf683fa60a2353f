//! Certificates between the proxy and its origins: an authority of the route's own, what is shown to origins that ask,
//! and what is refused, with the reason in the answer and in the log.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::home::Home;
use tinaja_testkit::body::body;
use tinaja_testkit::client::{Response, get};
use tinaja_testkit::nginx::{Certificates, Nginx, make_certificates, make_certificates_for};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{output, run};
use tinaja_testkit::wait::eventually;

const LEN: usize = 10_000;

fn nginx(certificates: &Certificates) -> Nginx {
    Nginx::start_tls(certificates, |root| fs::write(root.join("file"), body("file", LEN)).unwrap())
}

fn reverse(port: u16, more: &str) -> String {
    format!("mode = \"reverse\"\norigins = [\"https://localhost:{port}\"]\n[listener.upstream]\n{more}\n")
}

fn authority(certificates: &Certificates) -> String {
    format!("authority = \"{}\"", certificates.authority.display())
}

/// 502, with the reason in the log under the id that the page gives, and in the log of origins; the page itself says no more than
/// that it went wrong.
fn assert_refused(home: &Home, tinaja: &Process, why: &str) {
    for n in 0..3 {
        let response = get(home.listen, &format!("/file?{n}")).unwrap();
        let (status, page, id) = (response.status, response.text(), response.request_id());
        assert!(matches!(status, 502 | 503) && !page.contains(why), "{why} in {status} {page}");
        assert!(!id.is_empty(), "{page}");
        let is_it = |line: &str| line.contains(&id) && line.contains(why);
        eventually("it is logged by its id", || tinaja.output().lines().any(is_it));
    }
    eventually("it is logged", || tinaja.output().contains(why));
}

/// A server's certificate from long ago.
pub fn expired(dir: &Path) -> Certificates {
    let (key, certificate) = (dir.join("old.key"), dir.join("old.pem"));
    let mut openssl = Command::new("faketime");
    openssl.args(["10 days ago", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]);
    openssl.args(["ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]);
    run(openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate));
    Certificates { authority: certificate.clone(), certificate, key }
}

#[test]
fn wrong_expired_and_missing_certificates_are_refused_with_the_reason() {
    let dir = TempDir::new().unwrap();
    let sub = |name: &str| {
        fs::create_dir(dir.path().join(name)).unwrap();
        dir.path().join(name)
    };
    let good = make_certificates(&sub("good"));
    let other = make_certificates(&sub("other"));
    let misnamed = make_certificates_for(&sub("misnamed"), "DNS:example.test");
    let old = expired(&sub("old"));
    let plain = Nginx::start(|_| ());
    // Checked, so that the log says why they are out.
    let check = "check = \"/file\"\ncheck_interval = \"100ms\"\nfails = 1\n";
    for (origin, trusted, why) in [
        (nginx(&good), &other, "and not its signature"),
        (nginx(&misnamed), &misnamed, "its certificate is for another name"),
        (nginx(&old), &old, "its certificate has expired"),
        (plain, &good, "what it says is not TLS"),
    ] {
        let home = Home::new();
        let settings = format!("{check}{}", authority(trusted));
        let tinaja = home.start(&reverse(origin.address().port(), &settings));
        assert_refused(&home, &tinaja, why);
        assert!(origin.log().iter().all(|line| line.status == 400), "{why}: a request went to an impostor");
    }
}

#[test]
fn origins_that_ask_who_is_there_are_shown_a_certificate() {
    let dir = TempDir::new().unwrap();
    let sub = |name: &str| {
        fs::create_dir(dir.path().join(name)).unwrap();
        dir.path().join(name)
    };
    let (server, client) = (make_certificates(&sub("server")), make_certificates(&sub("client")));
    let port = free_port();
    let mut openssl = Command::new("openssl");
    openssl.args(["s_server", "-www", "-quiet", "-Verify", "1", "-verify_return_error", "-accept"]);
    openssl.arg(port.to_string()).arg("-cert").arg(&server.certificate).arg("-key").arg(&server.key);
    openssl.arg("-CAfile").arg(&client.authority);
    let mut asking = Process::start("openssl", &mut openssl, &dir.path().join("output"));
    asking.wait_until_listening(([127, 0, 0, 1], port).into());
    let shown = |files: &Certificates| {
        format!("\ncertificate = \"{}\"\nkey = \"{}\"", files.certificate.display(), files.key.display())
    };
    for (more, good) in [(shown(&client), true), (shown(&server), false), (String::new(), false)] {
        let home = Home::new();
        let _tinaja = home.start(&reverse(port, &format!("{}{more}", authority(&server))));
        let Response { status, body, .. } = get(home.listen, "/").unwrap();
        let page = String::from_utf8_lossy(&body).into_owned();
        // In TLS 1.3 it says so last of all, and may have closed the connection before that is read.
        assert_eq!(status, if good { 200 } else { 502 }, "{page}");
        assert!(good || page.contains("The origin failed"), "{page}");
    }
    // Files of no use are refused at the start.
    let home = Home::new();
    let old = expired(&sub("old"));
    for (settings, said) in [
        (format!("{}{}", authority(&server), shown(&old)), "old.pem has expired"),
        (format!("authority = \"{}\"", server.key.display()), "holds no certificate in PEM"),
        ("authority = \"/no/such/file\"".into(), "cannot read /no/such/file"),
    ] {
        let checked = output(home.command(&reverse(port, &settings)).arg("--check"));
        let text = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
        assert!(!checked.status.success() && text.contains(said) && text.contains("the route *"), "{said}: {text}");
    }
}
