//! Rules about names, in a configuration file: what is one object, what `explain` says of it, what purges take back, and rules and
//! lists of hosts that are exchanged while the server runs.

use std::fs;
use std::net::TcpListener;
use std::process::Output;

use rustix::process::Signal;

use crate::support::home::Home;
use crate::support::tinaja::binary;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::tools::{output, run};
use tinaja_testkit::wait::eventually;

const FORWARD: &str = "allow_destination = \"127.0.0.0/8\"";

/// At all addresses of this machine: hosts without a name server. It says under which path and host it was asked.
fn origin() -> Origin {
    Origin::on(TcpListener::bind("0.0.0.0:0").unwrap(), |request, stream| {
        let fields = "Cache-Control: max-age=600\r\nSurrogate-Key: t\r\n";
        reply(stream, request, 200, fields, request.path.as_bytes())
    })
}

fn tinaja(home: &Home, words: &[&str]) -> (bool, String) {
    let Output { status, stdout, stderr } =
        output(binary(&home.dir).args(words).arg("--cache").arg(home.path("cache")));
    (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

#[test]
fn one_object_by_many_urls() {
    let (origin, mut home) = (origin(), Home::new());
    let port = origin.address.port();
    home.listener = "[[key_rule]]\nhost = [\"127.0.0.2\", \"127.0.0.3\"]\npreset = \"tracking\"\nstore_id = \"cdn\"\n\
                     [[key_rule]]\npreset = \"tracking\"\nadd = \"header:X\"\n"
        .into();
    let server = home.start(FORWARD);
    let url = |host: u8, path: &str| format!("http://127.0.0.{host}:{port}{path}");
    let is_hit = |host: u8, path: &str| get(home.listen, &url(host, path)).unwrap().is_hit();
    assert!(!is_hit(2, "/a?utm_source=x&b") && is_hit(3, "/a?b&gclid=1"));
    assert!(!is_hit(1, "/a?b&utm_x") && is_hit(1, "/a?b"));
    assert_eq!(origin.paths(), ["/a?b", "/a?b"]);

    let says = |words: &[&str], expected: &[&str]| {
        let (done, said) = tinaja(&home, &[&["explain"], words].concat());
        assert!(done && expected.iter().all(|part| said.contains(part)), "{expected:?} in {said}");
    };
    let first = [
        "key rule  key rule 1 (line 10)\n",
        "20:cdn.store-id.invalid,",
        &format!("asked as  {}\n", url(3, "/a?b")),
        "a hit",
    ];
    says(&[&url(3, "/a?utm_y=1&b")], &first);
    says(&[&url(1, "/a?b&fbclid")], &["key rule 2 (line 14)", "variants  1", "a hit"]);
    says(&[&url(1, "/a?b"), "-H", "X: 1"], &["variants  1", "a miss"]);
    says(&["--json", &url(3, "/a")], &["\"key_rule\": \"key rule 1 (line 10)\"", "\"asked_as\": "]);

    // What is stored for other hosts is taken back by what their clients ask for.
    let purges: [&[&str]; 7] = [
        &[&url(3, "/a?utm_z&b")],
        &["--soft", &url(3, "/a?utm_z&b")],
        &["--prefix", &url(2, "/a?")],
        &["--host", "127.0.0.3"],
        &["--host", "cdn.store-id.invalid"],
        &["--tag", "t", "--host", "127.0.0.2"],
        &["--suffix", "/a", "--host", "127.0.0.2"],
    ];
    for words in purges {
        assert!(is_hit(2, "/a?b"));
        let (done, said) = tinaja(&home, &[&["purge"], words].concat());
        assert!(done && said.contains(": purged"), "{words:?}: {said}");
        assert!(!is_hit(3, "/a?b"), "{words:?}");
        assert!(is_hit(1, "/a?b"), "{words:?}: another host's");
    }
    drop(server);
}

#[test]
fn rules_and_lists_are_exchanged_while_it_serves() {
    let (origin, mut home) = (origin(), Home::new());
    let port = origin.address.port();
    let list = home.path("hosts.txt");
    fs::write(&list, "# Ours.\n127.0.0.2\n").unwrap();
    home.listener = format!("[[key_rule]]\nhost_file = \"{}\"\nquery = \"drop\"\n", list.display());
    let server = home.start(FORWARD);
    let is_hit =
        |host: u8, path: &str| get(home.listen, &format!("http://127.0.0.{host}:{port}{path}")).unwrap().is_hit();
    assert!(!is_hit(2, "/?1") && is_hit(2, "/?2") && !is_hit(3, "/?1") && !is_hit(3, "/?2"));
    fs::write(&list, "127.0.0.3\n").unwrap();
    let reload = || tinaja(&home, &["reload"]);
    assert!(reload().1.contains("the new settings are in use"));
    assert!(!is_hit(3, "/?3") && is_hit(3, "/?4") && !is_hit(2, "/?3"));
    // A list of no use changes nothing.
    fs::write(&list, "127.0.0.3\n*\n").unwrap();
    let (done, said) = reload();
    assert!(!done && said.contains("hosts.txt, line 2: "), "{said}");
    assert!(is_hit(3, "/?5"));
    fs::write(&list, "127.0.0.3\n").unwrap();
    let mut check = home.command(FORWARD);
    let Output { status, stdout, .. } = output(check.arg("--check"));
    assert!(status.success() && String::from_utf8(stdout).unwrap().contains("names answers by 1 key rule,"));
    home.listener = "[[key_rule]]\nfold_host = \"a\"\n".into();
    let _ = home.command(FORWARD);
    server.signal(Signal::HUP);
    eventually("it is said", || server.output().contains("line 10: fold_host needs host"));
    let said = output(home.command(FORWARD).arg("--check"));
    let place = format!("{}, line 10: ", home.path("tinaja.toml").display());
    assert!(!said.status.success() && String::from_utf8_lossy(&said.stderr).contains(&place), "{said:?}");
    home.listener.clear();
    let _ = home.command(FORWARD);
    let reloaded = run(binary(&home.dir).args(["reload", "--cache"]).arg(home.path("cache")));
    assert!(reloaded.contains("the new settings are in use"), "{reloaded}");
    assert!(!is_hit(3, "/?6") && !is_hit(3, "/?7"));
}
