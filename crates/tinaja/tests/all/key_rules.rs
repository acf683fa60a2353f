//! Rules about names, in a configuration file: what is one object, what `explain` says of it, what purges take back, and rules and
//! lists of hosts that are exchanged while the server runs; in a cluster, and inside tunnels.

use std::fs;
use std::net::TcpListener;
use std::process::Output;

use rustix::process::Signal;

use crate::cluster::{Together, asked};
use crate::intercept::{Home as Intercepting, answering, cache};
use crate::support::home::Home;
use crate::support::tinaja::binary;
use tempfile::TempDir;
use tinaja_testkit::client::{Client, get, get_with};
use tinaja_testkit::nginx::make_certificates;
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
    home.listener = "[[key_rule]]\nhost = [\"127.0.0.2\", \"127.0.0.3\"]\npath = \"/a\"\npreset = \"tracking\"\nstore_id = \"cdn\"\n\
                     [[key_rule]]\npreset = \"tracking\"\nadd = \"header:X\"\n"
        .into();
    let purging = format!("{FORWARD}\n[[listener.rule]]\naction = \"allow\"\nmethod = \"PURGE\"");
    let server = home.start(&purging);
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
        "key rule  key rule 1 (line 13)\n",
        "20:cdn.store-id.invalid,",
        &format!("asked as  {}\n", url(3, "/a?b")),
        "a hit",
    ];
    says(&[&url(3, "/a?utm_y=1&b")], &first);
    says(&[&url(1, "/a?b&fbclid")], &["key rule 2 (line 18)", "variants  1", "a hit"]);
    says(&[&url(1, "/a?b"), "-H", "X: 1"], &["variants  1", "a miss"]);
    says(&["--json", &url(3, "/a")], &["\"key_rule\": \"key rule 1 (line 13)\"", "\"asked_as\": "]);

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
    // The same by PURGE, to a host and at a path that no rule is about.
    for fields in ["Tinaja-Purge: host\r\n", "Surrogate-Key: t\r\n", "Tinaja-Purge: prefix, soft\r\n"] {
        assert!(is_hit(3, "/a?b"));
        let purged = Client::connect(home.listen).request("PURGE", &url(2, "/"), fields);
        assert_eq!(purged.status, 200, "{purged:?}");
        assert!(!is_hit(2, "/a?b") && is_hit(1, "/a?b"), "{fields}");
    }
    drop(server);
}

/// Why clients with cookies get no hit, and what to do about it.
#[test]
fn explain_names_the_setting_that_is_missing_where_an_origin_varies_by_cookie() {
    let origin = Origin::start(|request, stream| {
        let lang = request.field("cookie").unwrap_or_default();
        reply(stream, request, 200, "Cache-Control: max-age=6000\r\nVary: Cookie\r\n", lang.as_bytes())
    });
    let mut home = Home::new();
    let server = home.start(FORWARD);
    let url = origin.url("/");
    let is_hit = |cookie: &str| Client::connect(home.listen).request("GET", &url, cookie).is_hit();
    let explained = |home: &Home, cookie: &str| {
        let (done, said) = tinaja(home, &["explain", &url, "-H", cookie]);
        assert!(done, "{said}");
        said
    };
    let missing = "a GET now a miss: the response varies by Cookie, the request has one, and no key rule names the cookies that count: \
                   set vary_cookies\n";
    // Before anything is stored, and though nobody knows by what the origin varies.
    let unnamed = "cookies   no key rule names those that count: a response to this request that varies by Cookie is not stored; set vary_cookies\n";
    let said = explained(&home, "Cookie: lang=de; s=1");
    assert!(said.contains(unnamed) && said.contains("nothing is stored under this name"), "{said}");
    assert!(!explained(&home, "X: 1").contains("cookies"));
    assert!(!is_hit("") && is_hit(""));
    assert!(!is_hit("Cookie: lang=de; s=1\r\n") && !is_hit("Cookie: lang=de; s=1\r\n"));
    let said = explained(&home, "Cookie: lang=de; s=1");
    assert!(said.ends_with(missing) && said.contains("variants  1\n") && said.contains(unnamed), "{said}");
    assert!(explained(&home, "X: 1").contains("a GET now a hit"));
    home.listener = "[[key_rule]]\nvary_cookies = \"lang\"\n".into();
    let _ = home.command(FORWARD);
    let (done, said) = tinaja(&home, &["reload"]);
    assert!(done, "{said}");
    let said = explained(&home, "Cookie: lang=de; s=1");
    assert!(said.contains("variants are stored, but none for such a request"), "{said}");
    let named = "cookies   lang (vary_cookies): the origin gets no others, and no others count where its response varies by Cookie\n";
    assert!(said.contains(named) && explained(&home, "X: 1").contains(named), "{said}");
    assert!(!is_hit("Cookie: lang=de; s=1\r\n") && is_hit("Cookie: s=2; lang=de\r\n"));
    assert!(explained(&home, "Cookie: lang=de; s=3").contains("a GET now a hit"));
    home.listener = "[[cache_rule]]\nstore = \"shared\"\n".into();
    let _ = home.command(FORWARD);
    assert!(tinaja(&home, &["reload"]).0);
    let said = explained(&home, "Cookie: lang=de; s=1");
    assert!(said.contains("cookies   all, each Cookie as a whole, where the response varies by it"), "{said}");
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

/// Nodes ask each other for what one of them has changed: all of them come to the same name, and the origin is asked once for each object.
#[test]
fn nodes_of_a_cluster_share_what_rules_make_one() {
    let origin = Origin::of_patterns();
    let more = "patience = \"2s\"\ndisk = \"home\"\n[[key_rule]]\nhost = \"www.cluster.test\"\nfold_host = \"cluster.test\"\n\
                preset = \"tracking\"\nsort_query = true\nadd = \"header:X\"\n\
                normalize = { User-Agent = [[\"phone\", \"phone\"], [\"\", \"other\"]] }\n";
    let together = Together::start_with(3, &origin, more);
    for number in 0..6 {
        let urls =
            ["http://cluster.test", "http://www.cluster.test"].map(|site| format!("{site}/1000/{number}?b&utm_x=1&a"));
        for (node, url) in together.nodes.iter().flat_map(|node| urls.each_ref().map(|url| (node, url))) {
            for fields in ["", "X: 1\r\nUser-Agent: a phone\r\n"] {
                let answer = get_with(node.listen, url, fields).unwrap();
                assert!(answer.status == 200 && answer.body.len() == 1000 && answer.whole, "{}", answer.head);
            }
        }
    }
    let mut paths = origin.paths();
    paths.sort();
    let expected: Vec<_> =
        (0..6).flat_map(|number| [format!("/1000/{number}?a&b"), format!("/1000/{number}?a&b")]).collect();
    assert_eq!((asked(&origin), paths), (12, expected), "once for each value of the field");
    let requests = origin.requests();
    assert!(requests.iter().all(|one| one.field("host").as_deref() == Some("cluster.test")), "{requests:?}");
    let agents = ["other", "phone"]
        .map(|word| requests.iter().filter(|one| one.field("user-agent").as_deref() == Some(word)).count());
    assert_eq!(agents, [6, 6], "words stay what they are on their way");
}

/// Rules are changed on one node after the other. A node took from another what that had fetched by another rule: without the field by which the
/// node that asked tells variants apart.
#[test]
fn nodes_with_other_rules_take_nothing_from_each_other() {
    let origin = Origin::start(|request, stream| {
        let told = request.field("x").unwrap_or("none".into());
        reply(stream, request, 200, "Cache-Control: max-age=600\r\n", told.as_bytes())
    });
    let before = "add = \"header:X\"";
    let more = format!("patience = \"2s\"\ndisk = \"home\"\n[[key_rule]]\nhost = \"cluster.test\"\n{before}\n");
    let together = Together::start_with(2, &origin, &more);
    let changed = &together.nodes[1].dir;
    let file = changed.join("tinaja.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(before));
    fs::write(&file, text.replace(before, "drop_field = \"X\"")).unwrap();
    let said = run(binary(&together.home).args(["reload", "--cache"]).arg(changed.join("cache")));
    assert!(said.contains("the new settings are in use"), "{said}");
    for number in 0..8 {
        let url = format!("http://cluster.test/{number}");
        for (node, fields, told) in
            [(0, "X: 1\r\n", "1"), (1, "X: 1\r\n", "none"), (0, "X: 2\r\n", "2"), (1, "", "none"), (0, "X: 1\r\n", "1")]
        {
            let answer = get_with(together.nodes[node].listen, &url, fields).unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, told), "{number} {node} {fields}");
        }
    }
}

/// What is in a tunnel has the same names, and the logs show no more of it than before.
#[test]
fn rules_hold_inside_tunnels() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let (origin, secured) = answering("Cache-Control: max-age=600\r\n", &certificates);
    let port = secured.address.port();
    let home = Intercepting::new(&certificates.authority, &[port]);
    let rules = format!("{}[[key_rule]]\npreset = \"tracking\"\n", cache("localhost"));
    let process = home.start(&rules);
    for path in ["/secret?utm_source=1&a", "/secret?a&gclid=2"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
        let answer = home.openssl(&format!("localhost:{port}"), Some("localhost"), &request);
        assert!(answer.contains("answer to /secret?a"), "{answer}");
    }
    assert_eq!(origin.paths(), ["/secret?a"]);
    let logs = home.logs(process);
    assert!(!logs.contains("secret") && !logs.contains("gclid"), "{logs}");
}
