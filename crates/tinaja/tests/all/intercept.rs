//! Tunnels that are looked into: what is stored and under which name, what is not, and what clients are told.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::support::tinaja::binary;
use tinaja_testkit::client::{Client, get, says_hit};
use tinaja_testkit::nginx::{Certificates, make_certificates, make_certificates_for};
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tls::Secured;
use tinaja_testkit::tools::{client, output, run};
use tinaja_testkit::wait::eventually;

/// A forward proxy with a CA of its own, and clients that trust it.
pub struct Home {
    pub dir: TempDir,
    pub listen: SocketAddr,
    metrics: SocketAddr,
    /// Whom the proxy trusts.
    trusted: PathBuf,
    /// Ports that tunnels may lead to.
    ports: Vec<u16>,
}

/// What a client got.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    cache_status: String,
    pub body: String,
}

impl Got {
    pub fn is_hit(&self) -> bool {
        says_hit(&self.cache_status)
    }
}

impl Home {
    pub fn new(trusted: &Path, ports: &[u16]) -> Home {
        let at = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (listen, metrics) = (at(), at());
        let home =
            Home { dir: TempDir::new().unwrap(), listen, metrics, trusted: trusted.to_owned(), ports: ports.to_vec() };
        run(binary(&home.dir).args(["ca", "create"]).arg(home.path("ca")));
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn ca(&self) -> PathBuf {
        self.path("ca/ca.pem")
    }

    /// Writes the settings, and says how the proxy is run by them.
    pub fn command(&self, rules: &str) -> Command {
        let text = format!(
            "cache = \"{dir}/cache\"\ndisk = \"64MiB\"\nmemory = \"8MiB\"\naccess_log = \"{dir}/access.log\"\n\
             access_log_format = \"json\"\nlog = \"debug\"\nmetrics = \"{metrics}\"\nintercept_ca = \"{dir}/ca\"\n{rules}\n\
             [[listener]]\naddress = \"{listen}\"\nallow_destination = \"127.0.0.0/8\"\nallow_connect_port = {ports:?}\n",
            dir = self.dir.path().display(),
            metrics = self.metrics,
            listen = self.listen,
            ports = self.ports,
        );
        fs::write(self.path("tinaja.toml"), text).unwrap();
        let mut command = binary(&self.dir);
        command.arg("serve").arg("--config").arg(self.path("tinaja.toml")).env("SSL_CERT_FILE", &self.trusted);
        command
    }

    pub fn start(&self, rules: &str) -> Process {
        let mut process = Process::start("tinaja", &mut self.command(rules), &self.path("output"));
        process.wait_until_listening(self.listen);
        process
    }

    /// curl through the proxy, which trusts this authority alone.
    fn curl(&self, authority: &Path, url: &str, more: &[&str]) -> Output {
        let mut curl = client("curl", self.dir.path());
        curl.args(["-sS", "--noproxy", "", "--proxy", &format!("http://{}", self.listen), "--max-time", "60"]);
        curl.args(["-w", "%{http_code} %header{cache-status}", "-o"]).arg(self.path("got"));
        output(curl.arg("--cacert").arg(authority).args(more).arg(url))
    }

    pub fn get(&self, url: &str, more: &[&str]) -> Got {
        let _ = fs::remove_file(self.path("got"));
        let Output { status, stdout, stderr } = self.curl(&self.ca(), url, more);
        assert!(status.success(), "{url} {more:?}: {}", String::from_utf8_lossy(&stderr));
        let said = String::from_utf8(stdout).unwrap();
        let (status, cache_status) = said.split_once(' ').unwrap();
        let body = fs::read_to_string(self.path("got")).unwrap_or_default();
        Got { status: status.parse().unwrap(), cache_status: cache_status.to_owned(), body }
    }

    /// One request in a tunnel, by openssl, which says each name that the test wants. What it got.
    pub fn openssl(&self, connect: &str, name: Option<&str>, request: &str) -> String {
        let mut openssl = client("openssl", self.dir.path());
        openssl.args(["s_client", "-quiet", "-ign_eof", "-verify_quiet", "-proxy", &self.listen.to_string()]);
        openssl.args(["-connect", connect, "-CAfile"]).arg(self.ca());
        match name {
            Some(name) => openssl.args(["-servername", name]),
            None => openssl.arg("-noservername"),
        };
        let mut child = openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It may have been refused, and be gone by then.
        let _ = child.stdin.take().unwrap().write_all(request.as_bytes());
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
    }

    /// Tunnels so far, by what became of them.
    pub fn tunnels(&self, outcome: &str) -> u64 {
        self.figure(&format!("tinaja_intercept_tunnels_total{{outcome=\"{outcome}\"}}"))
    }

    fn figure(&self, name: &str) -> u64 {
        let text = get(self.metrics, "/metrics").unwrap().text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// All that the proxy has logged, once it has ended.
    pub fn logs(&self, mut process: Process) -> String {
        assert!(process.terminate().success());
        ["access.log", "output"].map(|name| fs::read_to_string(self.path(name)).unwrap()).concat()
    }
}

fn rule(host: &str, more: &str) -> String {
    format!("[[intercept]]\nhost = \"{host}\"\n{more}\n")
}

pub fn cache(host: &str) -> String {
    rule(host, "action = \"cache\"")
}

/// An origin that answers with these fields and the path, and TLS before it.
pub fn answering(fields: &'static str, certificates: &Certificates) -> (Origin, Secured) {
    let origin = Origin::start(move |request, stream| {
        reply(stream, request, 200, fields, format!("answer to {}", request.path).as_bytes())
    });
    let secured = Secured::before(origin.address, certificates);
    (origin, secured)
}

#[test]
fn what_one_client_fetched_the_next_gets_from_the_cache() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let (origin, secured) = answering("Cache-Control: max-age=600\r\n", &certificates);
    let port = secured.address.port();
    let home = Home::new(&certificates.authority, &[port]);
    let process = home.start(&cache("localhost"));
    let url = format!("https://localhost:{port}/secret/path?token=abc");

    let first = home.get(&url, &["--http1.1", "--user-agent", "telltale", "--referer", "https://secret.example/from"]);
    assert_eq!((first.status, first.body.as_str()), (200, "answer to /secret/path?token=abc"));
    assert!(first.cache_status.contains("stored"), "{first:?}");
    for version in [&["--http1.1"][..], &["--http2"], &["--tlsv1.3"], &["--tls-max", "1.2"]] {
        let next = home.get(&url, version);
        assert!(next.is_hit() && next.body == first.body, "{version:?}: {next:?}");
    }
    // The same name as without a tunnel.
    let plain = get(home.listen, &url).unwrap();
    assert!(plain.is_hit() && plain.text() == first.body, "{}", plain.head);
    assert_eq!(origin.count(), 1);
    assert_eq!(home.tunnels("intercepted"), 5);
    assert_eq!(home.figure("tinaja_intercept_made_certificates_total"), 1);

    // Of what was in the tunnel no log has more than a tunnel shows, whatever became of it.
    for (more, status) in [
        (["--header", "Host: secret.example"], 421),
        (["--request", "PURGE"], 403),
        (["--header", "Cache-Control: only-if-cached"], 504),
    ] {
        let url = format!("https://localhost:{port}/secret/{status}");
        assert_eq!(home.get(&url, &[&["--http1.1"][..], &more].concat()).status, status, "{more:?}");
    }
    let logs = home.logs(process);
    let lines = logs.lines().filter(|line| line.contains(&format!("\"localhost:{port}\""))).count();
    assert_eq!(lines, 8, "one for each request: {logs}");
    for secret in ["secret", "token", "telltale", "text/", "application/"] {
        // The request that came without a tunnel is logged as such.
        let told = logs.lines().filter(|line| !line.contains(&url)).find(|line| line.contains(secret));
        assert_eq!(told, None, "{secret}");
    }
}

#[test]
fn three_names_that_differ() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates_for(dir.path(), "DNS:localhost");
    let (origin, secured) = answering("Cache-Control: max-age=600\r\n", &certificates);
    let port = secured.address.port();
    let home = Home::new(&certificates.authority, &[port]);
    let _process = home.start(&[cache("localhost"), cache("victim.test"), cache("127.0.0.1")].concat());
    let (address, local) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
    let asking = |host: &str| format!("GET /page HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");

    // All three differ, or two of them: nothing is asked, and nothing stored.
    let victim = format!("victim.test:{port}");
    for (connect, name, host) in [
        (&address, Some("localhost"), &*victim),
        (&address, Some("localhost"), &*address),
        (&local, Some("localhost"), &*victim),
        (&local, Some("localhost"), "localhost"),
        (&local, None, &*victim),
        (&local, None, &*address),
    ] {
        let got = home.openssl(connect, name, &asking(host));
        assert!(got.starts_with("HTTP/1.1 421 "), "{connect} {name:?} {host}: {got}");
    }
    // In the target, too.
    for target in [format!("https://{victim}/page"), format!("http://{local}/page")] {
        let request = asking(&local)
            .replace("/page", &target)
            .replace(&format!("Host: {local}"), &format!("Host: {}", target.split('/').nth(2).unwrap()));
        let got = home.openssl(&local, Some("localhost"), &request);
        assert!(got.starts_with("HTTP/1.1 421 "), "{target}: {got}");
    }
    // The tunnel's end has no certificate for the name inside: it is not asked in that name, whose own server there is none of.
    let got = home.openssl(&address, Some("victim.test"), &asking(&victim));
    assert!(got.starts_with("HTTP/1.1 50") && !got.contains("answer to"), "{got}");
    assert_eq!(origin.count(), 0);
    for url in [format!("https://{victim}/page"), format!("https://{address}/page")] {
        let stored = Client::connect(home.listen).request("GET", &url, "Cache-Control: only-if-cached\r\n");
        assert_eq!(stored.status, 504, "{url}: {}", stored.text());
    }
    // A client that asks for an address and, inside, for a name gets the name's answer, from the name's own server.
    let got = home.openssl(&address, Some("localhost"), &asking(&local));
    assert!(got.starts_with("HTTP/1.1 200 ") && got.contains("answer to /page"), "{got}");
    // One that says no name has the tunnel's, whose certificate here is for another.
    let got = home.openssl(&address, None, &asking(&address));
    assert!(got.starts_with("HTTP/1.1 502 ") && got.contains("is for another name"), "{got}");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_client_that_does_not_trust_the_ca() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let (origin, secured) = answering("Cache-Control: max-age=600\r\n", &certificates);
    let port = secured.address.port();
    let home = Home::new(&certificates.authority, &[port]);
    let process =
        home.start(&[rule("localhost", "action = \"cache\"\non_reject = \"tunnel\""), cache("127.0.0.1")].concat());
    let (named, other) = (format!("https://localhost:{port}/x"), format!("https://127.0.0.1:{port}/x"));
    let fails = |url: &str| {
        let status = home.curl(&certificates.authority, url, &[]).status.code();
        assert_eq!(status, Some(60), "curl's certificate error for {url}");
    };
    // It fails each time where nothing else is allowed.
    (0..2).for_each(|_| fails(&other));
    eventually("both are counted", || home.tunnels("rejected-by-client") == 2);
    // Or once, and is tunnelled to that host from then on.
    fails(&named);
    eventually("it is remembered", || home.tunnels("rejected-by-client") == 3);
    assert_eq!(origin.count(), 0);
    for _ in 0..2 {
        assert!(home.curl(&certificates.authority, &named, &[]).status.success());
    }
    assert_eq!((origin.count(), home.tunnels("tunnelled-after-rejection")), (2, 2));
    fails(&other);
    let logs = home.logs(process);
    assert!(logs.contains("does not accept the certificate of this proxy's CA") && logs.contains("leave its tunnels"));
}

#[test]
fn what_rules_leave_alone_or_refuse() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let (origin, secured) = answering("Cache-Control: max-age=600\r\n", &certificates);
    let port = secured.address.port();
    let home = Home::new(&certificates.authority, &[port, origin.address.port()]);
    let named = format!("https://localhost:{port}/x");
    let (preset, all) = ("[[intercept]]\npreset = \"private\"\n", "[[intercept]]\naction = \"cache\"\n");
    let elsewhere = "[[intercept]]\nclient = \"192.0.2.0/24\"\naction = \"cache\"\n";
    let tunnelled = || home.curl(&certificates.authority, &named, &[]).status.success();
    let mut process = home.start(elsewhere);
    assert!(tunnelled(), "no rule is about this client");

    let reload = |rules: &str| {
        home.command(rules);
        run(binary(&home.dir).arg("reload").arg("--config").arg(home.path("tinaja.toml")));
    };
    reload(&[&rule("localhost", "action = \"tunnel\""), all].concat());
    assert!(tunnelled());
    assert_eq!((home.tunnels("tunnelled"), home.tunnels("intercepted")), (1, 0));
    reload(&[preset, &rule("localhost", "action = \"refuse\""), all].concat());
    let refused = home.curl(&home.ca(), &named, &["-w", "%{http_connect}"]);
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "403");
    // The name inside, too, after an address that is no matter of rules.
    let (address, local) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
    let got = home.openssl(&address, Some("localhost"), &format!("GET / HTTP/1.1\r\nHost: {local}\r\n\r\n"));
    assert_eq!((got.as_str(), home.tunnels("refused")), ("", 2));
    reload(all);
    assert_eq!(home.get(&named, &[]).status, 200);
    assert_eq!(home.tunnels("intercepted"), 1);

    // No TLS: it goes through as it is.
    let plain = format!("http://127.0.0.1:{}/plain", origin.address.port());
    assert_eq!(home.get(&plain, &["--proxytunnel"]).body, "answer to /plain");
    assert_eq!(home.tunnels("not-https"), 1);
    // TLS for another protocol: its client sees the origin's own certificate.
    let mut openssl = client("openssl", home.dir.path());
    openssl.args(["s_client", "-proxy", &home.listen.to_string(), "-connect", &local, "-alpn", "imap"]);
    let seen = output(&mut openssl);
    assert!(String::from_utf8_lossy(&seen.stdout).contains("issuer=CN = Test authority"), "{seen:?}");
    assert_eq!(home.tunnels("not-https"), 2);
    // A second CONNECT, inside.
    let got = home.openssl(&local, Some("localhost"), &format!("CONNECT {local} HTTP/1.1\r\nHost: {local}\r\n\r\n"));
    assert!(got.starts_with("HTTP/1.1 501 "), "{got}");
    assert!(process.terminate().success());
}

#[test]
fn clients_are_told_what_is_wrong_with_an_origins_certificate() {
    let dir = TempDir::new().unwrap();
    let sub = |name: &str| {
        fs::create_dir(dir.path().join(name)).unwrap();
        dir.path().join(name)
    };
    let (good, strange) = (make_certificates(&sub("good")), make_certificates(&sub("strange")));
    let misnamed = make_certificates_for(&sub("misnamed"), "DNS:example.test");
    let old = crate::origin_certificates::expired(&sub("old"));
    let trusted = dir.path().join("trusted.pem");
    let authorities = [&good, &misnamed, &old].map(|made| fs::read_to_string(&made.authority).unwrap());
    fs::write(&trusted, authorities.concat()).unwrap();
    let behind = |certificates| answering("Cache-Control: max-age=600\r\n", certificates);
    let origins = [behind(&good), behind(&misnamed), behind(&old), behind(&strange)];
    let ports = [0, 1, 2, 3].map(|n: usize| origins[n].1.address.port());
    let home = Home::new(&trusted, &ports);
    let process = home.start(&cache("localhost"));
    let url = |n: usize| format!("https://localhost:{}/x", ports[n]);
    assert_eq!(home.get(&url(0), &[]).body, "answer to /x");
    let whys = ["is for another name", "has expired", "from no authority that the proxy trusts"];
    for (n, why) in (1..).zip(whys) {
        for version in ["--http1.1", "--http2"] {
            let page = home.get(&url(n), &[version]);
            assert_eq!(page.status, 502, "{page:?}");
            assert!(page.body.contains(why) && page.body.contains("Request id: "), "{why}: {page:?}");
            // Whoever comes without a tunnel is told no more than ever.
            let plain = get(home.listen, &url(n)).unwrap().text();
            assert!(plain.contains("cannot connect to the origin by TLS") && !plain.contains(why), "{plain}");
        }
        assert_eq!(origins[n].0.count(), 0, "a request went to an impostor");
    }
    home.logs(process);
}

#[test]
fn what_is_one_clients_own_is_not_stored_unless_it_is_said_to_be_for_all() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let origin = Origin::start(|request, stream| {
        let fields = match request.path.split('?').next().unwrap() {
            "/plain" => "Cache-Control: max-age=600\r\n",
            "/public" => "Cache-Control: public, max-age=600\r\n",
            "/shared" => "Cache-Control: s-maxage=600\r\n",
            "/must" => "Cache-Control: max-age=600, must-revalidate\r\n",
            "/set" => "Cache-Control: max-age=600\r\nSet-Cookie: id=1\r\n",
            "/set-public" => "Cache-Control: public, max-age=600\r\nSet-Cookie: id=1\r\n",
            _ => "Cache-Control: s-maxage=600\r\nSet-Cookie: id=1\r\n",
        };
        reply(stream, request, 200, fields, b"answer")
    });
    let secured = Secured::before(origin.address, &certificates);
    let port = secured.address.port();
    let home = Home::new(&certificates.authority, &[port]);
    // No order about storing changes it.
    let orders = "[[cache_rule]]\nhost = \"localhost\"\nstore = \"shared\"\nignore = \"set-cookie\"\noverride = \"authorization\"\n";
    let _process = home.start(&[orders, &cache("localhost")].concat());
    let (cookie, login) = ("Cookie: id=7", "Authorization: Basic eDp5");
    for (n, (path, field, stored)) in (1..).zip([
        ("/plain", "X: y", true),
        ("/plain", cookie, false),
        ("/plain", login, false),
        ("/must", login, false),
        ("/public", cookie, true),
        ("/shared", login, true),
        ("/set", "X: y", false),
        ("/set-public", "X: y", true),
        ("/set-shared", cookie, true),
    ]) {
        let url = format!("https://localhost:{port}{path}?{n}");
        let with_head = home.path("head");
        let dump = ["--dump-header", with_head.to_str().unwrap()];
        assert_eq!(home.get(&url, &[&["-H", field][..], &dump].concat()).status, 200);
        let first = fs::read_to_string(&with_head).unwrap().to_ascii_lowercase();
        let next = home.get(&url, &[&["-H", field][..], &dump].concat());
        assert_eq!(next.is_hit(), stored, "{path} {field}: {next:?}");
        // Whoever asked first has the cookie, and nobody else.
        let second = fs::read_to_string(&with_head).unwrap().to_ascii_lowercase();
        let sets = path.starts_with("/set");
        assert_eq!((first.contains("set-cookie"), second.contains("set-cookie")), (sets, sets && !stored), "{path}");
    }
}
