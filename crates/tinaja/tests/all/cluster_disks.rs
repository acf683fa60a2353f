//! Objects on the disks of their homes: each once, or as often as there are to be copies, whichever node is asked; and nodes that die, stop, or are configured
//! another way.

use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tinaja_testkit::body::body;
use tinaja_testkit::client::{Client, get, get_with};
use tinaja_testkit::nginx::Certificates;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::tls::Secured;
use tinaja_testkit::tools::{client, run};
use tinaja_testkit::wait::{eventually, wait_for};

use crate::cluster::{SITE, Together, asked, check, under_load};
use crate::support::tinaja::binary;

/// How many objects a node has on its disk.
fn on_disk(together: &Together, n: usize) -> u64 {
    let (_, said) = together.tinaja(n, &["inspect", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
    said["live_objects"].as_u64().unwrap_or_default()
}

/// Wait until so many copies of objects are on all disks together.
fn lie_on_disks(together: &Together, copies: u64) {
    let began = Instant::now();
    loop {
        let here: Vec<u64> = (0..together.nodes.len()).map(|n| on_disk(together, n)).collect();
        if here.iter().sum::<u64>() == copies {
            return;
        }
        let logs = together.nodes.iter().map(|node| fs::read_to_string(node.dir.join("log")).unwrap_or_default());
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{here:?} copies on disks after a minute, and not {copies}; {}",
            logs.collect::<Vec<_>>().join("\n")
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// With `disk = "home"` the origin is asked once for each object, whichever nodes are asked for it and at the same time; each object lies on as many
/// disks as there are to be copies; and all nodes answer with the right bytes. Objects are larger than what the shared memory takes, and smaller.
/// (A home that was told late of what it had fetched itself once fetched it again: 49 copies for 48, in one of twenty crowded runs.)
#[test]
fn each_object_lies_on_the_disk_of_its_home() {
    for copies in [1, 2] {
        let origin = Origin::of_patterns();
        let together =
            Together::start_with(4, &origin, &format!("patience = \"2s\"\ndisk = \"home\"\ncopies = {copies}"));
        let paths: Vec<String> = (0..24).map(|n| format!("/{}/object-{n}", [3000, 150_000][n % 2])).collect();
        std::thread::scope(|scope| {
            for first in 0..4 {
                let (together, paths) = (&together, &paths);
                scope.spawn(move || {
                    for n in 0..paths.len() {
                        let path = &paths[(n + first * 6) % paths.len()];
                        let answer = together.get((first + n) % 4, path);
                        check(path, &answer);
                    }
                });
            }
        });
        for path in &paths {
            for n in 0..4 {
                let answer = together.get(n, path);
                assert_eq!(answer.status, 200);
            }
        }
        assert_eq!(asked(&origin), paths.len(), "one fetch does for all");
        let all = (paths.len() * copies) as u64;
        lie_on_disks(&together, all);
        let on_disks: Vec<u64> = (0..4).map(|n| on_disk(&together, n)).collect();
        // Which names have which homes is another thing with each authority: a node may have none of 24.
        assert!(on_disks.iter().all(|here| *here < all), "{on_disks:?}");
        let (code, table) = together.tinaja(0, &["cluster", "status"]);
        assert!(code == Some(0) && table.contains(&format!("home, copies {copies}")), "{table}");
    }
}

/// One of four nodes stops, as if its machine hung, or is killed, while clients ask the others. Each request is answered with the right bytes, in bounded time; and
/// nothing is fetched again, since each object lies on two disks. (A home that died in the middle of a short object once cut the client off, and one that stopped there
/// had it wait for a minute: nothing says of these objects that the rest is of the same. 4 of 44 crowded runs.)
#[test]
fn a_home_stops_or_dies_under_load() {
    let origin = Origin::of_patterns();
    let together = Together::start_with(4, &origin, "patience = \"2s\"\ndisk = \"home\"\ncopies = 2");
    let paths: Vec<String> = (0..40).map(|n| format!("/{}/object-{n}", [3000, 60_000][n % 2])).collect();
    for (n, path) in paths.iter().enumerate() {
        check(path, &together.get(n % 4, path));
    }
    lie_on_disks(&together, 80);
    for signal in [Signal::STOP, Signal::KILL] {
        let before = asked(&origin);
        let servers = [0, 1, 2].map(|n: usize| together.nodes[n].listen);
        under_load(&format!("{signal:?}"), &servers, &paths, |_| {
            together.nodes[3].process.signal(signal);
            together.know(&[0, 1, 2], 2);
        });
        assert_eq!(asked(&origin), before, "{signal:?}: fetched again");
        if signal == Signal::STOP {
            together.nodes[3].process.signal(Signal::CONT);
            together.know(&[0, 1, 2, 3], 3);
            // Any of them may have missed a removal: what they have is validated once.
            for n in 0..4 {
                paths.iter().for_each(|path| check(path, &together.get(n, path)));
            }
        }
    }
}

/// Parts, heads and conditions are answered by whoever has the object, and what is purged at one node is gone from all disks.
#[test]
fn a_node_without_the_object_answers_all_that_its_home_can() {
    let origin = Origin::of_patterns();
    let together = Together::start_with(3, &origin, "patience = \"2s\"\ndisk = \"home\"");
    for n in 0..6 {
        let path = format!("/100000/object-{n}");
        let url = format!("{SITE}{path}");
        let whole = body(&path, 100_000);
        check(&path, &together.get(0, &path));
        for node in &together.nodes {
            let part = get_with(node.listen, &url, "Range: bytes=1000-1999\r\n").unwrap();
            assert_eq!((part.status, &part.body[..]), (206, &whole[1000..2000]), "{path}");
            // Nobody but a neighbour can tell a node whom it fetches for, or that it has something.
            let forged = "Tinaja-Object: 00\r\nTinaja-Client: 10.0.0.1\r\nTinaja-Has: 1\r\n";
            let answer = get_with(node.listen, &url, forged).unwrap();
            check(&path, &answer);
            assert_eq!(answer.field("tinaja-fetched-from"), "", "{}", answer.head);
            assert_eq!(answer.field("tinaja-asked-at"), "", "{}", answer.head);
            let etag = answer.field("etag");
            if !etag.is_empty() {
                let same = get_with(node.listen, &url, &format!("If-None-Match: {etag}\r\n")).unwrap();
                assert_eq!(same.status, 304, "{path}");
            }
        }
        assert_eq!(asked(&origin), n + 1, "{path}");
    }
    lie_on_disks(&together, 6);
    for n in 0..6 {
        let url = format!("{SITE}/100000/object-{n}");
        assert_eq!(together.tinaja(n % 3, &["purge", &url]), (Some(0), format!("{url}: purged\n")));
        check(&format!("/100000/object-{n}"), &together.get((n + 1) % 3, &format!("/100000/object-{n}")));
        assert_eq!(asked(&origin), 7 + n);
    }
}

/// The nodes of a forward proxy share their disks as well. What the rules of a node deny it denies, whoever has it.
#[test]
fn forward_proxies_share_their_disks() {
    let origin = Origin::of_patterns();
    let mut together = Together::start_with(3, &origin, "patience = \"2s\"\ndisk = \"home\"");
    for n in 0..3 {
        let file = together.nodes[n].dir.join("tinaja.toml");
        let text = fs::read_to_string(&file).unwrap();
        let (before, _) = text.split_once("mode = \"reverse\"").unwrap();
        let allowed = if n < 2 { "[[listener.rule]]\naction = \"allow\"\ndestination = \"127.0.0.1\"\n" } else { "" };
        fs::write(&file, format!("{before}mode = \"forward\"\n{allowed}")).unwrap();
        together.nodes[n].process.terminate();
    }
    (0..3).for_each(|n| together.restart(n));
    together.know(&[0, 1, 2], 2);
    for n in 0..12 {
        let path = format!("/40000/object-{n}");
        for node in [0, 1, 0] {
            check(&path, &get(together.nodes[node].listen, &origin.url(&path)).unwrap());
        }
        let denied = get(together.nodes[2].listen, &origin.url(&path)).unwrap();
        assert_eq!(denied.status, 403, "{path}: {}", denied.cache_status());
    }
    let all = || (0..3).map(|n| on_disk(&together, n)).sum::<u64>();
    // Those whose home is the third were denied there, and fetched by whoever was asked.
    eventually("objects to be on disks", || (1..=12).contains(&all()));
}

/// What came in a tunnel that one node intercepts is stored and logged by its home as there: without Cookie on the home's disk, with it
/// on nobody's, and of its path no log says anything.
#[test]
fn what_came_in_a_tunnel_is_so_at_its_home_too() {
    let origin = Origin::of_patterns();
    let mut together = Together::start_with(2, &origin, "patience = \"2s\"\ndisk = \"home\"");
    let home = together.home.path().to_owned();
    let certificates = Certificates {
        authority: home.join("ca.pem"),
        certificate: home.join("server.pem"),
        key: home.join("server.key"),
    };
    let secured = Secured::before(origin.address, &certificates);
    let port = secured.address.port();
    run(binary(&together.home).args(["ca", "create"]).arg(home.join("ca")));
    for n in 0..2 {
        let dir = together.nodes[n].dir.clone();
        let text = fs::read_to_string(dir.join("tinaja.toml")).unwrap();
        let (before, _) = text.split_once("mode = \"reverse\"").unwrap();
        let top = format!(
            "access_log = \"{}/access.log\"\nlog = \"debug\"\nintercept_ca = \"{}/ca\"\n",
            dir.display(),
            home.display()
        );
        let forward =
            format!("mode = \"forward\"\nallow_destination = \"127.0.0.0/8\"\nallow_connect_port = [{port}]\n");
        let rule = "[[intercept]]\nhost = \"localhost\"\naction = \"cache\"\n";
        fs::write(dir.join("tinaja.toml"), [&top, before, &forward, rule].concat()).unwrap();
        together.nodes[n].process.terminate();
    }
    (0..2).for_each(|n| together.restart(n));
    together.know(&[0, 1], 1);
    let fetch = |path: &str, field: &str| {
        let mut curl = client("curl", &home);
        curl.args(["-sS", "--fail", "--noproxy", "", "--proxy", &format!("http://{}", together.nodes[0].listen)]);
        curl.arg("--cacert").arg(home.join("ca/ca.pem")).args(["-H", field, "-o"]).arg(home.join("got"));
        run(curl.arg(format!("https://localhost:{port}{path}")));
        assert!(fs::read(home.join("got")).unwrap() == body(path, 3000), "{path}");
    };
    for (field, times) in [("X: y", 1), ("Cookie: secret=1", 2)] {
        let before = asked(&origin);
        let paths: Vec<String> = (0..16).map(|n| format!("/3000/secret-{times}-{n}")).collect();
        for path in paths.iter().chain(&paths) {
            fetch(path, field);
        }
        assert_eq!(asked(&origin) - before, 16 * times, "{field}");
    }
    lie_on_disks(&together, 16);
    assert!((0..2).all(|n| on_disk(&together, n) > 0), "each is the home of some");
    for node in &mut together.nodes {
        node.process.terminate();
        let logs = ["access.log", "log"].map(|name| fs::read_to_string(node.dir.join(name)).unwrap_or_default());
        assert!(logs[0].contains(&format!("localhost:{port}")), "{}", logs[0]);
        assert!(logs.iter().all(|log| !log.contains("secret")), "{logs:?}");
    }
}

/// A node that was an object's home, and is not any more, has an older version on its disk, fresh by its own date. Whoever asks that node gets the newer one that the
/// present home has. It once got the older one, for as long as that was fresh. Where neither the present home nor the origin answers, the older one will do: it once
/// was an error then.
#[test]
fn a_former_home_asks_the_present_one() {
    let version = Arc::new(AtomicU64::new(1));
    let mut origin = {
        let version = version.clone();
        Origin::start(move |request, stream| {
            let body = format!("{} of {}", version.load(Relaxed), request.path).repeat(2000);
            reply(stream, request, 200, "Cache-Control: max-age=600\r\n", body.as_bytes());
            false
        })
    };
    let mut together = Together::start_with(3, &origin, "patience = \"2s\"\ndisk = \"home\"");
    together.nodes[2].process.terminate();
    together.know(&[0, 1], 1);
    let paths: Vec<String> = (0..30).map(|n| format!("/object-{n}")).collect();
    let one = |address, path: &str, fields: &str| -> Result<u64, u16> {
        let answer = get_with(address, &format!("{SITE}{path}"), fields).unwrap();
        if answer.status != 200 {
            return Err(answer.status);
        }
        Ok(answer.text().split(' ').next().unwrap().parse().unwrap())
    };
    let versions =
        |address, fields: &str| paths.iter().map(|path| one(address, path, fields).unwrap()).collect::<Vec<_>>();
    let listens = [0, 1, 2].map(|n: usize| together.nodes[n].listen);
    // Those that are young validate everything when they meet another, and everything would be new.
    eventually("both to be young no more", || (0..2).all(|n| together.status(n)["is_young"] == false));
    for listen in &listens[..2] {
        assert_eq!(versions(*listen, ""), [1; 30]);
    }
    lie_on_disks(&together, 30);
    let before = together.status(0)["distrusted_before"].as_u64();
    let process = together.run(&together.nodes[2].dir, listens[2], &[]);
    together.know(&[0, 1, 2], 2);
    version.store(2, Relaxed);
    // Whichever node is the home of an object now fetches it anew.
    assert_eq!(versions(listens[2], "Cache-Control: no-cache\r\n"), [2; 30]);
    for (n, listen) in listens.iter().enumerate() {
        assert_eq!(versions(*listen, ""), [2; 30], "node {n}");
    }
    assert_eq!(together.status(0)["distrusted_before"].as_u64(), before, "they validated everything");

    origin.stop();
    process.signal(Signal::STOP);
    // All at once: the others soon know that it is gone, and take its place.
    let answers: Vec<[Result<u64, u16>; 2]> = std::thread::scope(|scope| {
        let asked: Vec<_> = paths
            .iter()
            .map(|path| [listens[0], listens[1]].map(|listen| scope.spawn(move || one(listen, path, ""))))
            .collect();
        asked.into_iter().map(|both| both.map(|one| one.join().unwrap())).collect()
    });
    process.signal(Signal::CONT);
    // One of the two has it, as the home that it is or was.
    assert!(answers.iter().all(|both| both.iter().any(Result::is_ok)), "{answers:?}");
    assert!(answers.iter().flatten().any(|one| *one == Ok(1)), "{answers:?}");
    together.nodes[2].process = process;
}

/// A passive node beside the origin holds no share of the objects. Through it the origin's host removes an object from all nodes (PURGE), and has it fetched anew for all of
/// them (a GET with no-cache).
#[test]
fn a_passive_node_beside_the_origin_removes_and_updates() {
    let version = Arc::new(AtomicU64::new(1));
    let origin = {
        let version = version.clone();
        Origin::start(move |request, stream| {
            let bytes = if request.path.contains("long") { 2000 } else { 20 };
            let body = format!("{} of {}", version.load(Relaxed), request.path).repeat(bytes);
            reply(stream, request, 200, "Cache-Control: max-age=600\r\n", body.as_bytes())
        })
    };
    let mut together = Together::start_with(3, &origin, "patience = \"2s\"\ndisk = \"home\"");
    let file = together.nodes[2].dir.join("tinaja.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("[cluster]\n", "[cluster]\nrole = \"passive\"\n")).unwrap();
    together.nodes[2].process.terminate();
    together.restart(2);
    together.know(&[0, 1, 2], 2);
    let paths: Vec<String> = (0..12).map(|n| format!("/{}-{n}", ["long", "short"][n % 2])).collect();
    let versions = |n: usize| -> Vec<u64> {
        let answers = paths.iter().map(|path| together.get(n, path));
        answers.map(|answer| answer.text().split(' ').next().unwrap().parse().unwrap()).collect()
    };
    let through = |method: &str, fields: &str| {
        for path in &paths {
            let answer = Client::connect(together.nodes[2].listen).request(method, &format!("{SITE}{path}"), fields);
            assert_eq!(answer.status, 200, "{method}: {}", answer.head);
        }
    };
    assert_eq!([0, 1].map(versions), [[1; 12], [1; 12]]);
    lie_on_disks(&together, 12);
    assert_eq!(on_disk(&together, 2), 0);
    version.store(2, Relaxed);
    assert_eq!([0, 1].map(versions), [[1; 12], [1; 12]], "nobody has said that there is a new one");
    through("GET", "Cache-Control: no-cache\r\n");
    let fetched = asked(&origin);
    assert_eq!([0, 1].map(versions), [[2; 12], [2; 12]]);
    assert_eq!(asked(&origin), fetched, "one fetch does for all");
    version.store(3, Relaxed);
    through("PURGE", "");
    assert_eq!([0, 1].map(versions), [[3; 12], [3; 12]]);
}

/// A node whose listener leads to another origin is not one to ask: nothing is given for what it is not.
#[test]
fn a_node_that_leads_elsewhere_is_not_believed() {
    let (origin, other) = (Origin::of_patterns(), Origin::of_patterns());
    let mut together = Together::start_with(2, &origin, "patience = \"2s\"\ndisk = \"home\"");
    let file = together.nodes[1].dir.join("tinaja.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(&origin.url(""), &other.url(""))).unwrap();
    together.nodes[1].process.terminate();
    together.restart(1);
    together.know(&[0, 1], 1);
    for n in 0..16 {
        let path = format!("/40000/object-{n}");
        check(&path, &together.get(0, &path));
        check(&path, &together.get(1, &path));
    }
    assert!(asked(&origin) >= 16 && asked(&other) >= 16, "{} {}", asked(&origin), asked(&other));
}

/// A home asks the origin as the node would that the client asked: for that client, over the same scheme. The first mend of this took `X-Forwarded-Proto` away with
/// what clients may not say. Content that comes with a GET is for the origin alone: once it was lost on the way to a home.
#[test]
fn an_origin_hears_the_same_whoever_asks_it() {
    let origin = Origin::start(|request, stream| {
        let fields = "Cache-Control: max-age=600\r\nX-Request-Id: of-the-origin\r\n";
        reply(stream, request, 200, fields, &request.body)
    });
    let together = Together::start_with(3, &origin, "patience = \"2s\"\ndisk = \"home\"\ncopies = 2");
    for n in 0..12 {
        let said = "X-Forwarded-For: 10.9.9.9\r\nX-Forwarded-Proto: gopher\r\n";
        let url = format!("{SITE}/{n}");
        let first = get_with(together.nodes[n % 3].listen, &url, said).unwrap();
        let second = get_with(together.nodes[(n + 1) % 3].listen, &url, said).unwrap();
        assert_eq!((first.status, second.status), (200, 200));
    }
    let heard = origin.requests();
    assert_eq!(heard.len(), 12);
    for request in heard {
        assert_eq!(request.field("x-forwarded-for").as_deref(), Some("10.9.9.9, 127.0.0.1"), "{}", request.head);
        assert_eq!(request.field("x-forwarded-proto").as_deref(), Some("http"), "{}", request.head);
        assert!(!request.head.to_lowercase().contains("\ntinaja-"), "{}", request.head);
    }
    for node in &together.nodes {
        for n in 0..4 {
            let mut client = Client::connect(node.listen);
            client.send(format!("GET /with-{n} HTTP/1.1\r\nHost: cluster.test\r\nContent-Length: 5\r\n\r\nhello"));
            let answer = client.read("GET").unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
        }
    }
}

/// An object that its second home has fetched for a client of its own comes to the first one's disk as well, however long it is. What the first home was told of
/// was once given up for its length.
#[test]
fn long_objects_come_to_each_home() {
    let origin = Origin::of_patterns();
    let together = Together::start_with(3, &origin, "patience = \"2s\"\ndisk = \"home\"\ncopies = 2");
    let paths: Vec<String> = (0..9).map(|n| format!("/2500000/object-{n}")).collect();
    paths.iter().enumerate().for_each(|(n, path)| check(path, &together.get(n % 3, path)));
    lie_on_disks(&together, 18);
    assert_eq!(asked(&origin), 9);
}

/// An origin that fails is asked by the last home and by the node that the client asked, and not by each on the way: a client would wait for all of them. One that
/// says nothing was asked four times, as each node gave the next one up just before it heard of that.
#[test]
fn a_failing_origin_is_asked_twice() {
    let closes = Origin::start(|_, _| false);
    let hangs = Origin::start(|_, stream| {
        // Until whoever asked has given up.
        let _ = stream.read(&mut [0]);
        false
    });
    for (origin, status) in [(closes, 502), (hangs, 504)] {
        let more = "patience = \"2s\"\ndisk = \"home\"\ncopies = 3\n[limits]\norigin_stall = \"1s\"";
        let together = Together::start_with(4, &origin, more);
        for n in 0..8 {
            let before = asked(&origin);
            let answer = together.get(n % 4, &format!("/{n}"));
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(answer.field("tinaja-tried"), "", "{}", answer.head);
            let tries = asked(&origin) - before;
            assert!((1..=2).contains(&tries), "{tries} tries");
        }
    }
}

/// Clients of the first node, one for each path, for whom the system holds little that they do not read.
fn asking(together: &Together, paths: &[String]) -> Vec<Client> {
    let ask = |path: &String| {
        let mut client = Client::connect(together.nodes[0].listen);
        rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 65_536).unwrap();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: cluster.test\r\nConnection: close\r\n\r\n"));
        client
    };
    paths.iter().map(ask).collect()
}

/// A home dies while it sends long objects: the rest of each comes from the other home, and no client is cut off. They once were, whatever else had the object.
#[test]
fn what_a_home_does_not_send_to_the_end_another_one_does() {
    const BYTES: usize = 6_000_000;
    let origin = Origin::closing(|request, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"{}\"\r\n", request.path)?;
        write!(stream, "Content-Length: {BYTES}\r\nConnection: close\r\n\r\n")?;
        stream.write_all(&body(&request.path, BYTES))
    });
    let together = Together::start_with(4, &origin, "patience = \"2s\"\ndisk = \"home\"\ncopies = 2");
    let paths: Vec<String> = (0..10).map(|n| format!("/{BYTES}/object-{n}")).collect();
    paths.iter().for_each(|path| check(path, &together.get(0, path)));
    lie_on_disks(&together, 20);
    let mut clients = asking(&together, &paths);
    // They have begun to come, and nobody reads on.
    clients.iter().for_each(|client| {
        client.stream().peek(&mut [0]).unwrap();
    });
    together.nodes[3].process.signal(Signal::KILL);
    for (client, path) in clients.iter_mut().zip(&paths) {
        check(path, &client.read("GET").unwrap());
    }
    assert_eq!(asked(&origin), 10);
}

/// A home dies while it fetches objects whose length nobody said, and sends on what has come: the rest comes from the origin, from the byte on that
/// the client has. Such a client was cut off.
#[test]
fn what_a_home_does_not_fetch_to_the_end_comes_from_the_origin() {
    const BYTES: usize = 200_000;
    let (go_on, at) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let origin = {
        let (go_on, at) = (go_on.clone(), at.clone());
        Origin::closing(move |request, stream| {
            let all = body(&request.path, BYTES);
            // Every other one goes past the cache of the node that is asked, too.
            let control = if request.path.ends_with(['1', '3', '5', '7']) { "no-store" } else { "max-age=600" };
            write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nETag: \"{}\"\r\n", request.path)?;
            write!(stream, "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{:x}\r\n", BYTES / 2)?;
            stream.write_all(&all[..BYTES / 2])?;
            at.fetch_add(1, Relaxed);
            while !go_on.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            write!(stream, "\r\n{:x}\r\n", BYTES / 2)?;
            stream.write_all(&all[BYTES / 2..])?;
            write!(stream, "\r\n0\r\n\r\n")
        })
    };
    let together = Together::start_with(2, &origin, "patience = \"2s\"\ndisk = \"home\"");
    let paths: Vec<String> = (0..16).map(|n| format!("/{BYTES}/object-{n}")).collect();
    let mut clients = asking(&together, &paths);
    wait_for("half of each object to come", Duration::from_secs(60), || (at.load(Relaxed) == 16).then_some(()));
    clients.iter().for_each(|client| {
        client.stream().peek(&mut [0]).unwrap();
    });
    together.nodes[1].process.signal(Signal::KILL);
    go_on.store(true, Relaxed);
    for (client, path) in clients.iter_mut().zip(&paths) {
        check(path, &client.read("GET").unwrap());
    }
    let asked = asked(&origin);
    assert!((17..=32).contains(&asked), "{asked}: that node was the home of some");
}

/// A node is upgraded while another reads from it, slowly: what is being read comes whole from the old process. It came over connections that ended when the old
/// process left the cluster.
#[test]
fn an_upgrade_cuts_nobody_off() {
    const BYTES: usize = 200_000;
    let (go_on, at) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let origin = {
        let (go_on, at) = (go_on.clone(), at.clone());
        Origin::closing(move |request, stream| {
            let all = body(&request.path, BYTES);
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n"
            )?;
            stream.write_all(&all[..BYTES / 2])?;
            at.fetch_add(1, Relaxed);
            while !go_on.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            stream.write_all(&all[BYTES / 2..])
        })
    };
    let mut together = Together::start_with(2, &origin, "patience = \"2s\"\ndisk = \"home\"");
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8)
            .map(|n| {
                let address = together.nodes[0].listen;
                let path = format!("/{BYTES}/object-{n}");
                scope.spawn(move || check(&path, &get(address, &format!("{SITE}{path}")).unwrap()))
            })
            .collect();
        wait_for("half of each object to come", Duration::from_secs(60), || (at.load(Relaxed) == 8).then_some(()));
        let new = together.run(&together.nodes[1].dir, together.nodes[1].listen, &["--take-over"]);
        wait_for("a process to take over", Duration::from_secs(60), || {
            new.output().contains("taken over from").then_some(())
        });
        go_on.store(true, Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
        together.nodes[1].process.wait();
        together.nodes[1].process = new;
    });
    assert_eq!(asked(&origin), 8);
    together.know(&[0, 1], 1);
}
