//! Real clients through interception, each twice and fresh: what the second costs the origin. And what leaves HTTP.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::intercept::{Home, answering, cache};
use crate::origin_certificates::expired;
use crate::support::tinaja::binary;
use crate::tunnels::{PYTHON, WHEEL, npm_registry, npm_view, wheel};
use tinaja_testkit::network::{Place, in_own_network};
use tinaja_testkit::nginx::{Logged, Nginx, date_back, make_certificates, make_certificates_for};
use tinaja_testkit::process::Process;
use tinaja_testkit::tls::Secured;
use tinaja_testkit::tools::{client, run};
use tinaja_testkit::wait::eventually;

/// What leaves HTTP, as WebSockets do, goes both ways without being looked at, to an origin whose certificate is good.
#[test]
fn an_upgrade_is_passed_on() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates_for(dir.path(), "DNS:localhost");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let secured = Secured::before(listener.local_addr().unwrap(), &certificates);
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n").unwrap();
        let mut frame = [0; 5];
        stream.read_exact(&mut frame).unwrap();
        stream.write_all(&frame).unwrap();
        String::from_utf8(head).unwrap()
    });
    let port = secured.address.port();
    let home = Home::new(&certificates.authority, &[port]);
    let process = home.start(&[cache("localhost"), cache("127.0.0.1")].concat());
    let asking = |host: &str, more: &str| {
        format!("GET /secret HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: x\r\n{more}\r\n")
    };
    let (local, address) = (format!("localhost:{port}"), format!("127.0.0.1:{port}"));
    for (connect, request, words) in [
        (&local, asking("victim.test", ""), "HTTP/1.1 421 "),
        (&local, asking(&local, "Content-Length: 1\r\n"), "HTTP/1.1 501 "),
        (&address, asking(&address, ""), "is for another name"),
    ] {
        let got = home.openssl(connect, None, &request);
        assert!(got.contains(words), "{words}: {got}");
    }
    let got = home.openssl(&local, Some("localhost"), &(asking(&local, "") + "frame"));
    assert!(got.starts_with("HTTP/1.1 101 ") && got.ends_with("\r\n\r\nframe"), "{got}");
    let head = echo.join().unwrap();
    assert!(head.starts_with("GET /secret HTTP/1.1\r\n") && head.contains("Upgrade: x\r\n"), "{head}");
    let logs = home.logs(process);
    assert!(logs.contains(&format!("\"{local}\"")) && !logs.contains("/secret"), "{logs}");
}

/// No 101 is taken that nobody has asked for by its name, and no request leaves HTTP that does not say so.
#[test]
fn an_upgrade_to_something_else_is_refused() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates_for(dir.path(), "DNS:localhost");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let secured = Secured::before(listener.local_addr().unwrap(), &certificates);
    let (come, heads) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut head, mut byte) = (stream.unwrap(), Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let _ =
                stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n");
            let _ = come.send(String::from_utf8(head).unwrap().to_ascii_lowercase());
        }
    });
    let port = secured.address.port();
    let home = Home::new(&certificates.authority, &[port]);
    let _process = home.start(&cache("localhost"));
    let local = format!("localhost:{port}");
    for (number, (fields, asked)) in [
        ("Connection: Upgrade, X-Own\r\nX-Own: 1\r\nUpgrade: h2c, websocket\r\n", Some("upgrade: websocket\r\n")),
        ("Connection: Upgrade, close\r\nUpgrade: h2c, h2c\r\n", None),
        ("Connection: close\r\nUpgrade: websocket\r\n", None),
    ]
    .into_iter()
    .enumerate()
    {
        let request = format!("GET /{number} HTTP/1.1\r\nHost: {local}\r\n{fields}\r\n");
        let got = home.openssl(&local, Some("localhost"), &request);
        assert!(got.starts_with("HTTP/1.1 502 "), "{fields}: {got}");
        let head = heads.recv().unwrap();
        assert!(head.starts_with(&format!("get /{number} ")), "{head}");
        let upgrade = head.lines().find(|line| line.starts_with("upgrade:"));
        assert_eq!(upgrade, asked.map(str::trim_end), "{fields}: {head}");
        assert!(!head.contains("x-own"), "{head}");
    }
}

/// A simple index (PEP 503) with one wheel, from nginx, for pip on machines of their own.
#[test]
fn pip_fetches_once_for_all() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let index = Nginx::start_tls(&certificates, |root| {
        let project = root.join("simple/tinaja-e2e");
        fs::create_dir_all(&project).unwrap();
        wheel(&project);
        fs::write(project.join("index.html"), format!("<!DOCTYPE html><a href=\"{WHEEL}\">{WHEEL}</a>")).unwrap();
    });
    let port = index.address().port();
    let home = Home::new(&certificates.authority, &[port]);
    let packages = "[[cache_rule]]\nhost = \"localhost\"\npreset = \"packages\"\n";
    let _process = home.start(&[packages, &cache("localhost")].concat());
    let download = || {
        let fresh = TempDir::new().unwrap();
        let mut pip = client(PYTHON, fresh.path());
        pip.env("PIP_CONFIG_FILE", "/dev/null").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        pip.env("https_proxy", format!("http://{}", home.listen));
        pip.args(["-m", "pip", "download", "--no-cache-dir", "--no-deps", "--retries", "0", "--dest", "."]);
        pip.arg("--cert").arg(home.ca()).args(["--index-url", &format!("https://localhost:{port}/simple/")]);
        run(pip.arg("tinaja-e2e"));
        fs::read(fresh.path().join(WHEEL)).unwrap()
    };
    let first = download();
    let asked = index.log().len();
    assert!(first.starts_with(b"PK") && first == download());
    let second = &index.log()[asked..];
    assert!(second.iter().all(|entry| (entry.status, entry.body_bytes) == (304, 0)), "validations alone: {second:?}");
    assert!(home.tunnels("intercepted") >= 2);
}

#[test]
fn npm_fetches_once_for_all() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let registry = Nginx::start_tls(&certificates, |root| {
        npm_registry(root);
        date_back(root, 30);
    });
    let port = registry.address().port();
    let home = Home::new(&certificates.authority, &[port]);
    let _process = home.start(&cache("localhost"));
    let url = format!("https://localhost:{port}/");
    let view = || npm_view(&url, &home.ca(), Some(&format!("http://{}", home.listen)));
    let first = view();
    let asked = registry.log().len();
    assert!(first.contains("1.2.3") && first == view());
    let second = &registry.log()[asked..];
    assert!(second.iter().all(|entry| (entry.status, entry.body_bytes) == (304, 0)), "validations alone: {second:?}");
    assert!(home.tunnels("intercepted") >= 2);
}

/// Chromium on a machine of its own, which was given the CA by the commands that `install-hints` prints. It has opened a page, and runs.
///
/// What a page looks like is told by the page itself, to its site: asked to print it, the browser once printed nothing and ended well,
/// before its first answer had come.
fn chromium(home: &Home, url: &str) -> (Process, TempDir) {
    let (mut chromium, fresh) = machine_with_chromium(home);
    chromium.arg("--remote-debugging-port=0");
    (Process::start("chromium", chromium.arg(url), &fresh.path().join("output")), fresh)
}

fn machine_with_chromium(home: &Home) -> (Command, TempDir) {
    let fresh = TempDir::new().unwrap();
    let hints = run(binary(&home.dir).args(["ca", "install-hints"]).arg(home.path("ca")));
    let is_for_it = |line: &&str| line.contains("$HOME/.pki/nssdb");
    let commands: Vec<&str> = hints.lines().filter(is_for_it).collect();
    assert_eq!(commands.len(), 3, "{hints}");
    run(client("sh", fresh.path()).arg("-ec").arg(commands.join("\n")));
    let mut chromium = client("chromium", fresh.path());
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    chromium.args(["--disable-dev-shm-usage", "--disable-extensions"]);
    chromium.arg(format!("--user-data-dir={}", fresh.path().join("profile").display()));
    chromium.arg(format!("--proxy-server=http://{}", home.listen)).arg("--proxy-bypass-list=<-loopback>");
    (chromium, fresh)
}

/// Has a browser that was never used show a page, and takes its picture into `docs/interception`, if the run is told to write pictures.
fn picture(home: &Home, url: &str, name: &str) {
    if std::env::var_os("TINAJA_SCREENSHOTS").is_none_or(|what| what != "write") {
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interception").join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let (mut chromium, _fresh) = machine_with_chromium(home);
    run(chromium.args([&format!("--screenshot={}", file.display()), "--window-size=760,300", url]));
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"), "{}", file.display());
}

/// In a network of its own where one can be made. The browser watches the machine's: while other tests made bridges, and so addresses, it
/// broke off what it was loading (`ERR_NETWORK_CHANGED`), and the page came without its script.
#[test]
fn chromium_trusts_the_ca_and_its_second_user_costs_no_body() {
    if let Place::Passed = in_own_network("intercept_clients::chromium_trusts_the_ca_and_its_second_user_costs_no_body")
    {
        return;
    }
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let site = Nginx::start_tls(&certificates, |root| {
        let page = "<!DOCTYPE html><title>loading</title><link rel=icon href=data:,><h1>A page by HTTPS</h1>
            <p>It came through Tinaja, which has looked into it.</p><img src=a.svg><script src=b.js></script>
            <script>onload = () => new Image().src = `/told-${document.images[0].naturalWidth}-${window.ran}`</script>";
        fs::write(root.join("page.html"), page).unwrap();
        fs::write(root.join("a.svg"), "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"10\"></svg>")
            .unwrap();
        fs::write(root.join("b.js"), "window.ran = 'ran'").unwrap();
        date_back(root, 30);
    });
    fs::create_dir(dir.path().join("old")).unwrap();
    let old = expired(&dir.path().join("old"));
    let (_origin, secured) = answering("", &old);
    let ports = [site.address().port(), secured.address.port()];
    let home = Home::new(&certificates.authority, &ports);
    let _process = home.start(&cache("localhost"));
    let url = format!("https://localhost:{}/page.html", ports[0]);
    let visit = || {
        let before = site.log().len();
        let (mut browser, _fresh) = chromium(&home, &url);
        eventually("the page is complete", || site.log()[before..].iter().any(|entry| entry.target == "/told-10-ran"));
        browser.terminate();
        let rest = |entry: &Logged| !entry.target.starts_with("/told");
        site.log().into_iter().skip(before).filter(rest).map(|entry| entry.status).collect::<Vec<_>>()
    };
    assert_eq!(visit(), [200; 3]);
    let second = visit();
    assert!(second.iter().all(|status| *status == 304), "{second:?}");
    // It takes the proxy's page for that of a site whose certificate is bad, over a connection that it trusts.
    let (mut browser, _fresh) = chromium(&home, &format!("https://localhost:{}/", ports[1]));
    let is_page = |line: &str| line.contains(&format!("localhost:{}", ports[1])) && line.contains("502");
    eventually("the proxy's page", || {
        fs::read_to_string(home.path("access.log")).unwrap_or_default().lines().any(is_page)
    });
    browser.terminate();
    picture(&home, &url, "page.png");
    picture(&home, &format!("https://localhost:{}/", ports[1]), "expired.png");
}
