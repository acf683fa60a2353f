//! Names of fields before real application servers: gunicorn, uWSGI and PHP-FPM.
//!
//! CGI, WSGI and FastCGI make environment variables of fields, and a dash and an underscore are one there: `X_Forwarded_Host` and
//! `X-Forwarded-Host` are both HTTP_X_FORWARDED_HOST. A small application prints what it is told. Asked without Tinaja, it is told what the
//! client says, in every spelling; asked through Tinaja, never.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::tinaja::Setup;
use tinaja_testkit::client::says_hit;
use tinaja_testkit::nginx::Nginx;
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, run};
use tinaja_testkit::wait::eventually;

/// What an application never gets from a client where its answer may be stored: it would answer for another URL.
const OVERRIDES: [&str; 22] = [
    "Front-End-Https",
    "X-Forwarded-Host",
    "X-Forwarded-Path",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Protocol",
    "X-Forwarded-Scheme",
    "X-Forwarded-Server",
    "X-Forwarded-Ssl",
    "X-Forwarded-Uri",
    "X-Host",
    "X-HTTP-Host-Override",
    "X-HTTP-Method",
    "X-HTTP-Method-Override",
    "X-Method-Override",
    "X-Middleware-Rewrite",
    "X-Middleware-Subrequest",
    "X-Original-Host",
    "X-Original-Uri",
    "X-Original-Url",
    "X-Rewrite-Url",
    "X-Url-Scheme",
];

/// What it never gets from a client, whatever the request.
const ALWAYS: [&str; 2] = ["Proxy", "X-Forwarded-Proto"];

/// Conditions, which the proxy judges itself. With underscores they are others to it, and the same to the application.
const CONDITIONS: [&str; 5] = ["If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since"];

/// Dashes in the longest of these names.
const MOST_DASHES: u32 = 3;

const EVIL: &str = "evil.example";

/// Prints the fields as variables, a line each, with the scheme that the server believes; and says that it may be stored.
const WSGI: &str = "
def application(environ, start_response):
    lines = [f'{name}={value}' for name, value in sorted(environ.items()) if name.startswith('HTTP_')]
    lines.append('scheme=' + environ['wsgi.url_scheme'])
    body = '\\n'.join(lines).encode()
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body))),
                              ('Vary', 'Accept-Language'), ('Cache-Control', 'max-age=60')])
    return [body]
";

const PHP: &str = "<?php
header('Content-Type: text/plain');
header('Vary: Accept-Language');
header('Cache-Control: max-age=60');
foreach ($_SERVER as $name => $value) if (str_starts_with($name, 'HTTP_')) echo \"$name=$value\\n\";
echo 'scheme=' . ($_SERVER['HTTPS'] ?? 'http');
";

/// An application server: a process that ends those that it has started, and nginx before it where it speaks FastCGI.
struct Server {
    process: Process,
    address: SocketAddr,
    _nginx: Option<Nginx>,
    _dir: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killed, it would leave its workers behind.
        if self.process.is_running() {
            self.process.terminate();
        }
    }
}

impl Server {
    fn of_python(program: &str, args: &[&str]) -> Server {
        let (dir, address) = (TempDir::new().unwrap(), SocketAddr::from(([127, 0, 0, 1], free_port())));
        fs::write(dir.path().join("app.py"), WSGI).unwrap();
        let mut command = client(program, dir.path());
        command.args(args.iter().map(|arg| arg.replace("ADDRESS", &address.to_string())));
        let mut process = Process::start(program, &mut command, &dir.path().join("output"));
        process.wait_until_listening(address);
        Server { process, address, _nginx: None, _dir: dir }
    }

    fn gunicorn() -> Server {
        // Of those that ask from this machine it believes by which scheme they were asked, which is its default.
        let args = ["--bind", "ADDRESS", "--workers", "1", "--timeout", "20", "app:application"];
        Server::of_python("gunicorn", &args)
    }

    fn uwsgi() -> Server {
        let speaks = ["--plugin", "python3", "--http-socket", "ADDRESS", "--buffer-size", "32768"];
        Server::of_python("uwsgi", &[&speaks[..], &["--wsgi-file", "app.py", "--need-app", "--die-on-term"]].concat())
    }

    fn php_fpm() -> Server {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("app.php"), PHP).unwrap();
        let user = run(client("id", dir.path()).arg("-un"));
        let (socket, log) = (path("fpm.sock"), path("log"));
        let pool = format!(
            "[global]\nerror_log = {}\n[www]\nuser = {}\nlisten = {}\npm = static\npm.max_children = 1\n",
            log.display(),
            user.trim(),
            socket.display()
        );
        fs::write(path("fpm.conf"), pool).unwrap();
        let mut command = client(&php_fpm().display().to_string(), dir.path());
        command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"]).arg(path("fpm.conf"));
        let process = Process::start("php-fpm", &mut command, &path("output"));
        eventually("PHP-FPM listens", || socket.exists());
        let nginx = Nginx::start_fastcgi(&socket, &path("app.php"));
        Server { process, address: nginx.address(), _nginx: Some(nginx), _dir: dir }
    }
}

/// Its command has its version in its name.
fn php_fpm() -> PathBuf {
    let found = fs::read_dir("/usr/sbin").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let mut found =
        found.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm")));
    found.next().expect("PHP-FPM: scripts/install-test-tools installs it")
}

/// A name with those of its dashes as underscores whose bit is set.
fn spelt(name: &str, underscores: u32) -> String {
    let mut dashes = 0..;
    let other = |c| if c == '-' && underscores >> dashes.next().unwrap() & 1 == 1 { '_' } else { c };
    name.chars().map(other).collect()
}

fn variable(name: &str) -> String {
    format!("HTTP_{}", name.to_uppercase().replace('-', "_"))
}

/// What curl gets: whether it was a hit, and the body. `head` becomes the request's fields.
fn ask(home: &Path, url: &str, head: &[(String, &str)], args: &[&str]) -> (bool, String) {
    let lines: String = head.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    fs::write(home.join("head"), lines).unwrap();
    let mut curl = client("curl", home);
    curl.args(["-sS", "--fail", "--noproxy", "", "-m", "20", "-o", "got", "-w", "%header{cache-status}"]);
    let status = run(curl.args(["-H", "@head"]).args(args).arg(url));
    (says_hit(&status), fs::read_to_string(home.join("got")).unwrap())
}

fn value<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Every spelling straight at the server, and through Tinaja over both versions of HTTP. `Proxy` is taken away by some servers too.
fn no_spelling_reaches(server: &Server, takes_proxy_away: bool) {
    let home = TempDir::new().unwrap();
    let tinaja = Setup::reverse(server.address).start();
    let ask = |url: &str, head: &[(String, &str)], args: &[&str]| ask(home.path(), url, head, args);
    for underscores in 0..1 << MOST_DASHES {
        let all = OVERRIDES.iter().chain(&ALWAYS);
        let mut head: Vec<_> = all.clone().map(|name| (spelt(name, underscores), EVIL)).collect();
        head.push(("X-Kept".into(), "kept"));
        let straight = ask(&format!("http://{}/{underscores}", server.address), &head, &[]).1;
        for name in all.clone() {
            let expected = (*name != "Proxy" || !takes_proxy_away).then_some(EVIL);
            assert_eq!(value(&straight, &variable(name)), expected, "{name}, {underscores:b}: {straight}");
        }
        // Nothing of it where the answer may be stored; and where it may not, nothing of what is never a client's to say.
        for (version, args) in
            [("1.1", &["--http1.1"][..]), ("2", &["--http2-prior-knowledge"]), ("1.1", &["-X", "POST", "-d", ""])]
        {
            let url = format!("{}/{underscores}/{version}", tinaja.url());
            let stored = !args.contains(&"POST");
            let (hit, body) = ask(&url, &head, args);
            assert!(!hit && value(&body, "HTTP_X_KEPT") == Some("kept"), "{body}");
            for name in all.clone().filter(|name| stored || ALWAYS.contains(name)) {
                let expected = (*name == "X-Forwarded-Proto").then_some("http");
                assert_eq!(value(&body, &variable(name)), expected, "{name}, {underscores:b}, {args:?}: {body}");
            }
            assert!(!stored || !body.contains(EVIL), "{body}");
            // What others get is what was stored.
            assert!(!stored || ask(&url, &[], args) == (true, body), "{url}");
        }
    }
    // Whoever has sent the request is said by the proxy alone, but for the list that it adds to.
    for underscores in 1..4 {
        let head = [(spelt("X-Forwarded-For", underscores), EVIL)];
        let straight = ask(&format!("http://{}/for", server.address), &head, &[]).1;
        assert_eq!(value(&straight, "HTTP_X_FORWARDED_FOR"), Some(EVIL), "{straight}");
        let body = ask(&format!("{}/for/{underscores}", tinaja.url()), &head, &[]).1;
        assert_eq!(value(&body, "HTTP_X_FORWARDED_FOR"), Some("127.0.0.1"), "{body}");
    }
    for underscores in [1, 3] {
        let head: Vec<_> = CONDITIONS.iter().map(|name| (spelt(name, underscores), EVIL)).collect();
        let straight = ask(&format!("http://{}/if", server.address), &head, &[]).1;
        assert!(CONDITIONS.iter().all(|name| value(&straight, &variable(name)) == Some(EVIL)), "{straight}");
        let body = ask(&format!("{}/if/{underscores}", tinaja.url()), &head, &[]).1;
        assert!(!body.contains(EVIL), "{underscores:b}: {body}");
    }
    // A field that an answer varies by, in a spelling that names no variant: nobody else gets it.
    let (url, german) = (format!("{}/vary", tinaja.url()), ("Accept_Language".to_owned(), "de"));
    let (_, of_one) = ask(&url, std::slice::from_ref(&german), &[]);
    assert_eq!(value(&of_one, "HTTP_ACCEPT_LANGUAGE"), Some("de"), "{of_one}");
    let (hit, of_others) = ask(&url, &[], &[]);
    assert!(!hit && value(&of_others, "HTTP_ACCEPT_LANGUAGE").is_none(), "{of_others}");
    assert_eq!(ask(&url, &[german], &[]), (true, of_one));
}

#[test]
fn gunicorn_is_told_nothing_by_clients_in_any_spelling() {
    let server = Server::gunicorn();
    no_spelling_reaches(&server, false);
    // It believes these of whoever asks from its own machine, where a cache stands before it.
    let (home, tinaja) = (TempDir::new().unwrap(), Setup::reverse(server.address).start());
    for (name, secure) in [("X-Forwarded-Ssl", "on"), ("X-Forwarded-Protocol", "ssl"), ("X-Forwarded-Proto", "https")] {
        let head = [(name.to_owned(), secure)];
        let straight = ask(home.path(), &format!("http://{}/", server.address), &head, &[]).1;
        assert_eq!(value(&straight, "scheme"), Some("https"), "{name}: {straight}");
        let body = ask(home.path(), &format!("{}/{name}", tinaja.url()), &head, &[]).1;
        assert_eq!(value(&body, "scheme"), Some("http"), "{name}: {body}");
    }
}

#[test]
fn uwsgi_is_told_nothing_by_clients_in_any_spelling() {
    no_spelling_reaches(&Server::uwsgi(), false);
}

#[test]
fn php_fpm_is_told_nothing_by_clients_in_any_spelling() {
    no_spelling_reaches(&Server::php_fpm(), true);
}
