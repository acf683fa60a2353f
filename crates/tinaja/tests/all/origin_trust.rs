//! `ca_file` and `crl_file`: whose signature on an origin's certificate counts, and what has been revoked; files of no use.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tinaja_testkit::client::get;
use tinaja_testkit::nginx::{Certificates, make_certificates, revoke};
use tinaja_testkit::origin::Origin;
use tinaja_testkit::process::Process;
use tinaja_testkit::tls::Secured;
use tinaja_testkit::tools::{output, run};
use tinaja_testkit::wait::eventually;

use crate::intercept::{Home, answering, cache};
use crate::support::tinaja::binary;

/// Two authorities with one name, as careless ones have; the system trusts the first.
struct Two {
    dir: TempDir,
    known: Certificates,
    more: Certificates,
}

impl Two {
    fn new() -> Two {
        let dir = TempDir::new().unwrap();
        let [known, more] = ["known", "more"].map(|name| {
            fs::create_dir(dir.path().join(name)).unwrap();
            make_certificates(&dir.path().join(name))
        });
        Two { dir, known, more }
    }

    fn origins(&self) -> [(Origin, Secured); 2] {
        [&self.known, &self.more].map(|made| answering("Cache-Control: max-age=600\r\n", made))
    }

    /// A file with these certificates or lists.
    fn together(&self, files: &[&Path]) -> PathBuf {
        let path = self.dir.path().join("together.pem");
        fs::write(&path, files.iter().map(|file| fs::read_to_string(file).unwrap()).collect::<String>()).unwrap();
        path
    }
}

fn setting(name: &str, file: &Path) -> String {
    format!("{name} = \"{}\"\n", file.display())
}

fn reload(home: &Home, rules: &str) {
    home.command(rules);
    run(binary(&home.dir).arg("reload").arg("--config").arg(home.path("tinaja.toml")));
}

/// 502 by both versions in a tunnel, with a page that says why; without one it says no more than ever, and the log says it.
fn assert_refused(home: &Home, process: &Process, url: &str, on_page: &str, in_log: &str) {
    for version in ["--http1.1", "--http2"] {
        let page = home.get(url, &[version]);
        assert_eq!(page.status, 502, "{page:?}");
        assert!(page.body.contains(on_page), "{on_page}: {page:?}");
    }
    let plain = get(home.listen, url).unwrap().text();
    assert!(plain.contains("cannot connect to the origin by TLS") && !plain.contains(on_page), "{plain}");
    eventually("it is logged", || process.output().contains(in_log));
}

#[test]
fn more_authorities_count_beside_the_systems_wherever_origins_are_asked() {
    let two = Two::new();
    let [(_known, known), (origin, more)] = two.origins();
    let ports = [known.address.port(), more.address.port()];
    let home = Home::new(&two.known.authority, &ports);
    let mirror = format!(
        "[[mirror]]\npath = \"/more/\"\norigin = \"https://localhost:{}/\"\n[[mirror]]\npath = \"/own/\"\n\
         origin = \"https://localhost:{}/\"\n[mirror.upstream]\nauthority = \"{}\"\n",
        ports[1],
        ports[1],
        two.known.authority.display()
    );
    let rules = [cache("localhost"), mirror].concat();
    let process = home.start(&rules);
    let url = |n: usize, path: &str| format!("https://localhost:{}{path}", ports[n]);
    assert_eq!(home.get(&url(0, "/a"), &[]).status, 200);
    assert_refused(&home, &process, &url(1, "/a"), "from no authority", "and not its signature");
    assert_eq!((get(home.listen, "/more/b").unwrap().status, origin.count()), (502, 0));

    let with = setting("ca_file", &two.more.authority) + &rules;
    reload(&home, &with);
    assert_eq!(home.get(&url(1, "/a"), &["--http1.1"]).status, 200);
    assert_eq!(home.get(&url(0, "/c"), &[]).status, 200, "the system's count still");
    assert_eq!(get(home.listen, "/more/b").unwrap().status, 200);
    // One name for what both ways bring: who vouches for it is the same.
    assert!(home.get(&url(1, "/b"), &[]).is_hit());
    assert_eq!(get(home.listen, "/own/d").unwrap().status, 502, "an upstream's own authority counts alone");
    assert_eq!(origin.count(), 2);

    // Taken back, though a connection is there that was opened by it.
    reload(&home, &rules);
    assert_refused(&home, &process, &url(1, "/new"), "from no authority", "and not its signature");
    assert!(home.get(&url(1, "/a"), &[]).is_hit(), "what was stored is kept");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_revoked_origin_is_refused_and_a_connection_to_it_is_not_used_again() {
    let two = Two::new();
    let [(origin, known), _] = two.origins();
    let home = Home::new(&two.known.authority, &[known.address.port()]);
    let process = home.start(&cache("localhost"));
    let url = |path: &str| format!("https://localhost:{}{path}", known.address.port());
    let with_list = |list: &Path| reload(&home, &(setting("crl_file", list) + &cache("localhost")));
    assert_eq!(home.get(&url("/a"), &[]).status, 200);

    let revoked = revoke(&two.known, &[&two.known.certificate], None);
    let none = revoke(&two.known, &[], None);
    with_list(&revoked);
    assert_refused(&home, &process, &url("/b"), "has been revoked", "has been revoked");
    // The list of an authority with the same name is no list of this one, which might have revoked anything.
    let (page, log) = ("out of date or no use", "is not from that authority");
    with_list(&revoke(&two.more, &[], None));
    assert_refused(&home, &process, &url("/b"), page, log);
    assert_eq!(origin.count(), 1);

    // An empty list, and nobody is refused; an older one beside it, which had it revoked, does not count.
    with_list(&none);
    assert_eq!(home.get(&url("/c"), &[]).status, 200);
    let old = revoke(&two.known, &[&two.known.certificate], Some("20200201000000Z"));
    with_list(&two.together(&[&old, &none]));
    assert_eq!(home.get(&url("/d"), &[]).status, 200);
    assert!(!process.output().contains("has expired"), "{}", process.output());
}

#[test]
fn an_expired_list_is_said_and_its_authoritys_origins_are_refused() {
    let two = Two::new();
    let [(origin, known), _] = two.origins();
    let home = Home::new(&two.known.authority, &[known.address.port()]);
    let old = revoke(&two.known, &[], Some("20200201000000Z"));
    let rules = setting("crl_file", &old) + &cache("localhost");
    let checked = run(home.command(&rules).arg("--check"));
    let said = format!("CN=Test authority in {} has expired", old.display());
    assert!(checked.contains("would warn") && checked.contains(&said), "{checked}");
    let process = home.start(&rules);
    eventually("it is said", || process.output().contains(&said));
    let url = format!("https://localhost:{}/a", known.address.port());
    assert_refused(&home, &process, &url, "out of date or no use", "list of revoked certificates has expired");
    assert_eq!(origin.count(), 0);
    reload(&home, &(setting("crl_file", &revoke(&two.known, &[], None)) + &cache("localhost")));
    assert_eq!(home.get(&url, &[]).status, 200);
}

/// Whoever goes on from a TLS session shows no certificate again: a list that had expired since was not looked at.
#[test]
fn with_a_list_no_session_goes_on_from_one_before() {
    let two = Two::new();
    let (origin, known) = answering("Connection: close\r\nCache-Control: no-store\r\n", &two.known);
    let home = Home::new(&two.known.authority, &[known.address.port()]);
    let _process = home.start(&cache("localhost"));
    let ask = || {
        for n in 0..4 {
            assert_eq!(home.get(&format!("https://localhost:{}/{n}", known.address.port()), &[]).status, 200);
        }
    };
    ask();
    let before = known.resumed();
    assert!(before > 0, "without a list they do");
    reload(&home, &(setting("crl_file", &revoke(&two.known, &[], None)) + &cache("localhost")));
    ask();
    assert_eq!((known.resumed(), origin.count()), (before, 8));
}

#[test]
fn files_of_no_use_are_refused_with_the_line_at_the_start_and_at_a_reload() {
    let two = Two::new();
    let [(_origin, known), _] = two.origins();
    let home = Home::new(&two.known.authority, &[known.address.port()]);
    let list = revoke(&two.known, &[], None);
    let file = |name: &str, bytes: &[u8]| {
        let path = two.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let (authority, list_text) = (fs::read(&two.more.authority).unwrap(), fs::read(&list).unwrap());
    let der = two.dir.path().join("list.der");
    run(std::process::Command::new("openssl").args(["crl", "-outform", "DER", "-in"]).arg(&list).arg("-out").arg(&der));
    let long = file("long.pem", b"");
    fs::File::options().write(true).open(&long).unwrap().set_len(17 << 20).unwrap();
    let garbled = |text: &[u8]| text.iter().map(|byte| if *byte == b'\n' { *byte } else { b'A' }).collect::<Vec<u8>>();
    let wrapped = |kind: &str, text: &[u8]| {
        [format!("-----BEGIN {kind}-----\n").as_bytes(), text, format!("-----END {kind}-----\n").as_bytes()].concat()
    };
    let cases = [
        ("ca_file", "/no/such/file".into(), "cannot read /no/such/file"),
        ("ca_file", two.dir.path().to_owned(), "it is not a file"),
        ("ca_file", file("empty.pem", b""), "there is none in it"),
        ("ca_file", file("text.pem", b"an authority\n"), "there is none in it"),
        ("ca_file", two.known.key.clone(), "there is none in it"),
        ("ca_file", list.clone(), "there is none in it"),
        ("ca_file", file("half.pem", &authority[..authority.len() / 2]), "half.pem holds no authority's certificate"),
        ("ca_file", file("garbled.pem", &wrapped("CERTIFICATE", b"QUJD\n")), "garbled.pem holds no authority"),
        ("ca_file", file("noise.pem", &wrapped("CERTIFICATE", b"%%%%\n")), "noise.pem holds no authority"),
        ("ca_file", long.clone(), "at most 16 MiB"),
        ("crl_file", "/no/such/file".into(), "cannot read /no/such/file"),
        ("crl_file", file("none.pem", b""), "there is none in it"),
        ("crl_file", der, "openssl crl -inform DER"),
        ("crl_file", two.more.authority.clone(), "there is none in it"),
        ("crl_file", file("half.crl", &list_text[..list_text.len() / 2]), "half.crl holds no list of revoked"),
        ("crl_file", file("bad.crl", &wrapped("X509 CRL", b"QUJD\n")), "bad.crl holds no list of revoked"),
        ("crl_file", file("a.crl", &garbled(&list_text)), "a.crl holds no list of revoked"),
        ("crl_file", long, "at most 16 MiB"),
    ];
    let good = cache("localhost");
    let process = home.start(&good);
    for (name, path, why) in cases {
        // The home's own settings come first.
        let settings = format!(
            "{name} = [\"{}\", \"{}\"]\n",
            if name == "ca_file" { &two.known.authority } else { &list }.display(),
            path.display()
        );
        let mut command = home.command(&(settings + &good));
        let line =
            fs::read_to_string(home.path("tinaja.toml")).unwrap().lines().position(|line| line.starts_with(name));
        let place = format!("tinaja.toml, line {}: ", line.unwrap() + 1);
        let checked = output(command.arg("--check"));
        let text = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
        assert!(!checked.status.success() && text.contains(&place) && text.contains(why), "{why}: {text}");
        let reloaded = output(binary(&home.dir).arg("reload").arg("--config").arg(home.path("tinaja.toml")));
        let text = String::from_utf8([reloaded.stdout, reloaded.stderr].concat()).unwrap();
        assert!(!reloaded.status.success() && text.contains(&place) && text.contains(why), "{why}: {text}");
    }
    let started = output(&mut home.command(&(setting("ca_file", Path::new("/no/such/file")) + &good)));
    assert!(!started.status.success());
    assert_eq!(home.get(&format!("https://localhost:{}/a", known.address.port()), &[]).status, 200);
    home.logs(process);
}
