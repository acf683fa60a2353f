//! `tinaja lab`: experiments are listed, run and shown, and what cannot be is refused with what to do.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tinaja")).arg("lab").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn alone_it_lists_the_experiments() {
    let list = said(&lab(&[]));
    assert!(list.contains("hashcache-table3") && list.contains("HashCache, Figure 8"), "{list}");
    assert!(list.contains("(needs root; only run by name)"), "{list}");
}

#[test]
fn a_report_is_a_table_or_json_or_a_page_with_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let text = said(&lab(&["hashcache-index", "--quick", "--seed", "77", "--plot", &path("a.svg")]));
    assert!(text.contains("hashcache-setmem") && text.contains("quick, seed 77") && text.contains("Traffic Server"));
    assert!(std::fs::read_to_string(path("a.svg")).unwrap().contains("2 GB of memory"));

    let json = said(&lab(&["hashcache-index", "--quick", "--json", "--docs", &path("docs")]));
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["name"], "hashcache-index");
    assert!(report["tables"][0]["rows"][6][2].as_f64().unwrap() > 47.0, "a number is a number");
    let page = std::fs::read_to_string(path("docs/hashcache-index.md")).unwrap();
    assert!(page.contains("![hashcache-index](hashcache-index.svg)") && page.contains("| hashcache-setmem"));
    assert!(std::fs::read_to_string(path("docs/README.md")).unwrap().contains("(hashcache-index.md)"));
}

/// What an experiment that makes disks and limits says where there are none to be had.
const REFUSALS: [&str; 4] = ["only root may", "making a control group", "making a disk of a file", "preparing a disk"];

/// Files that are mounted or attached as disks and lie below a directory.
fn in_use_below(dir: &Path) -> Vec<String> {
    let name = dir.to_str().unwrap();
    let loops = fs::read_dir("/sys/block").unwrap().filter_map(Result::ok);
    let files = loops.filter_map(|disk| fs::read_to_string(disk.path().join("loop/backing_file")).ok());
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    files.chain(mounts.lines().map(str::to_owned)).filter(|line| line.contains(name)).collect()
}

/// A disk with a limit outlives the program that made it, and Ctrl-C runs no destructors: what cleans up is a process that
/// the kernel tells of our end.
#[test]
fn killed_half_way_the_proxies_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinaja"));
    command.args(["lab", "hashcache-peers", "--quick"]).env("TMPDIR", dir.path());
    let mut lab = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let scratches = || fs::read_dir(dir.path()).unwrap().filter_map(Result::ok);
    let begin = Instant::now();
    // A cache has been made: there is a disk, a mount, a control group, and a server in it.
    while !scratches().any(|scratch| scratch.path().join("mounted/cache/tinaja.cache").exists()) {
        if let Some(status) = lab.try_wait().unwrap() {
            let mut said = String::new();
            lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            assert!(!status.success() && REFUSALS.iter().any(|refusal| said.contains(refusal)), "{status}: {said}");
            eprintln!("SKIPPED: {said}");
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing was made");
        sleep(Duration::from_millis(20));
    }
    assert_eq!(in_use_below(dir.path()).len(), 2, "a disk and a mount");
    lab.kill().unwrap();
    lab.wait().unwrap();
    while scratches().next().is_some() {
        assert!(begin.elapsed() < Duration::from_secs(180), "{:?} is still there", scratches().collect::<Vec<_>>());
        sleep(Duration::from_millis(50));
    }
    assert_eq!(in_use_below(dir.path()), Vec::<String>::new());
}

/// What an experiment as root found, in short and as JSON; `None` where it may not be carried out.
fn quick_as_root(name: &str) -> Option<serde_json::Value> {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinaja"));
    let output = command.args(["lab", name, "--quick", "--json"]).env("TMPDIR", dir.path()).output().unwrap();
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(in_use_below(dir.path()), Vec::<String>::new());
    if !output.status.success() {
        assert!(REFUSALS.iter().any(|refusal| says.contains(refusal)), "{says}");
        eprintln!("SKIPPED: {says}");
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Every layout of Maltzahn's over two real file systems, in short. The requests are the same for each, so the hits are too, and small
/// objects in one file cost fewer transactions than a file for each.
#[test]
fn layouts_are_measured_on_real_file_systems() {
    let Some(report) = quick_as_root("maltzahn-layouts") else { return };
    let rows = report["tables"][1]["rows"].as_array().unwrap();
    assert!(rows.len() == 13 && rows.iter().all(|row| row[1] == rows[0][1]), "{rows:?}");
    let squidm = rows.iter().find(|row| row[0] == "squidm").unwrap();
    assert!(squidm[5].as_u64().unwrap() > 0 && squidm[6].as_f64().unwrap() < 100.0, "{squidm}");
    // With memory for all of it nothing that was stored is read again.
    let ample = report["tables"][2]["rows"].as_array().unwrap();
    assert!(ample.iter().all(|row| row[2].as_u64().unwrap() < rows[0][2].as_u64().unwrap()), "{ample:?}");
    assert!(report["notes"][1].as_str().unwrap().starts_with("Read-ahead: in files 128 KiB"), "{}", report["notes"][1]);
}

/// Who is not root has no disks to make: what the kernel counts of the process stands for them, and the page says so.
#[test]
fn layouts_are_measured_without_root_too() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", env!("CARGO_BIN_EXE_tinaja"), "lab", "maltzahn-layouts", "--quick", "--json"]);
    let report = said(&command.env("TMPDIR", scratch.path()).output().unwrap());
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let rows = report["tables"][1]["rows"].as_array().unwrap();
    assert!(
        rows.len() == 13 && rows.iter().all(|row| row[1] == rows[0][1] && row[3].as_u64().unwrap() > 0),
        "{rows:?}"
    );
    assert!(report["notes"][0].as_str().unwrap().contains("Without root"), "{report}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left behind");
}

/// Maltzahn's replacements over a real mapped file, in short. Who knows the future has more hits than all others; FBC writes in turn, and so
/// jumps less than LRU; and a file six times its memory is not in memory.
#[test]
fn replacements_are_measured_over_a_real_mapped_file() {
    let Some(report) = quick_as_root("maltzahn-replacement") else { return };
    let rows = |table: usize| report["tables"][table]["rows"].as_array().unwrap().clone();
    let number = |cell: &serde_json::Value| cell.as_f64().unwrap();
    let (runs, met) = (rows(1), rows(2));
    assert!(runs.len() == 4 && runs[..3].iter().all(|run| number(&run[1]) < number(&runs[3][1])), "{runs:?}");
    assert!(runs.iter().all(|run| number(&run[2]) > 0.0 && number(&run[3]) > 0.0), "{runs:?}");
    assert!(number(&met[1][6]) < number(&met[0][6]) / 2.0, "{met:?}");
    assert!(met[..3].iter().all(|one| number(&one[2]) < 100.0), "{met:?}");
}

/// Dámelo on a modelled disk and beside trees of files on a limited one, in short. What is exact is the same each time: a delete
/// asks no disk, a page that was read by all of its objects has a hit rate of about 1, and flash takes no notice of where things
/// lie.
#[test]
fn damelo_is_measured_beside_trees_of_files() {
    let Some(report) = quick_as_root("damelo-micro") else { return };
    let titled = |title: &str| {
        let mut tables = report["tables"].as_array().unwrap().iter();
        let table = tables.find(|table| table["title"].as_str().unwrap().starts_with(title));
        table.unwrap_or_else(|| panic!("no table {title}"))["rows"].as_array().unwrap().clone()
    };
    let number = |cell: &serde_json::Value| cell.as_f64().unwrap();
    let modelled = titled("Latencies on the modelled disk");
    assert!(modelled.iter().filter(|row| row[2] == "delete").all(|row| row[9] == 0 && row[10] == 0), "{modelled:?}");
    let rates = titled("Hit rate of a page");
    assert!((80.0..=110.0).contains(&number(&rates[0][2])) && number(&rates[1][2]) < 50.0, "{rates:?}");
    let [disk, flash] = ["disk", "flash"].map(|disk| titled(&format!("Each thing switched off: modelled {disk}")));
    assert!(number(&disk[2][2]) > 110.0, "requests in turn take longer: {disk:?}");
    assert!(flash[..4].iter().all(|row| (95.0..=105.0).contains(&number(&row[2]))), "{flash:?}");
    // All stages of the real thing: two sizes of frame, four trees, eleven stages each.
    assert_eq!(titled("Dámelo and trees of files").len(), 6 * 11);
}

/// Figure 7 in short: whole proxies on the same load, each with nothing stored at first. All that is asked for is answered, by byte;
/// nobody has more hits than the load offers; and what was full is said.
#[test]
fn proxies_stand_beside_each_other_on_damelos_load() {
    let Some(report) = quick_as_root("damelo-proxy") else { return };
    let rows = |table: usize| report["tables"][table]["rows"].as_array().unwrap();
    let number = |cell: &serde_json::Value| cell.as_f64().unwrap();
    let names: Vec<_> = rows(0).iter().map(|row| row[0].as_str().unwrap()).collect();
    let has_squid = ["/usr/sbin/squid", "/usr/local/sbin/squid"].iter().any(|path| Path::new(path).exists());
    let all = if has_squid { &["squid2", "Squid, aufs", "damelo"][..] } else { &["squid2", "damelo"] };
    assert_eq!(names, all, "{}", report["notes"]);
    for row in rows(0) {
        assert!(number(&row[2]) > 50.0 && row[12] == 0, "{row}");
        // 44 % of the requests can be hits, and in the first seconds nobody has lost any.
        assert!((25.0..50.0).contains(&number(&row[9])), "{row}");
    }
    // The kernel writes files back when it sees fit, which in a few seconds may be not at all.
    for row in rows(2) {
        assert!((0.0..3.0).contains(&number(&row[2])), "writes a request: {row}");
    }
    assert!(rows(3).iter().all(|row| row[10].as_str().is_some_and(|said| !said.is_empty())), "{:?}", rows(3));
    assert_eq!(rows(4).len(), 2 * names.len(), "two parts each");
}

/// Who is not root has the modelled half of it, and the page says so.
#[test]
fn damelo_is_modelled_without_root_too() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", env!("CARGO_BIN_EXE_tinaja"), "lab", "damelo-micro", "--quick", "--json"]);
    let report = said(&command.env("TMPDIR", scratch.path()).output().unwrap());
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("Without root")));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left behind");
}

/// A table of a report by the beginning of its title: its columns' names and its rows.
fn titled<'a>(report: &'a serde_json::Value, title: &str) -> Vec<HashMap<&'a str, &'a serde_json::Value>> {
    let mut tables = report["tables"].as_array().unwrap().iter();
    let table = tables.find(|table| table["title"].as_str().unwrap().starts_with(title));
    let table = table.unwrap_or_else(|| panic!("no table {title}"));
    let columns = table["columns"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let row = |row: &'a serde_json::Value| columns.clone().zip(row.as_array().unwrap()).collect();
    table["rows"].as_array().unwrap().iter().map(row).collect()
}

/// The other servers, and the programs by which they are found where scripts/test installs them.
const OTHERS: [(&str, &str); 6] = [
    ("nginx", "/usr/sbin/nginx"),
    ("Squid", "/usr/sbin/squid"),
    ("Varnish", "/usr/sbin/varnishd"),
    ("Traffic Server", "/usr/bin/traffic_server"),
    ("Apache httpd", "/usr/sbin/apache2"),
    ("HAProxy", "/usr/sbin/haproxy"),
];

/// Every server that is installed, in short: each is measured at what it can do, each body is compared, and who cannot says why.
#[test]
fn all_peers_that_are_installed_stand_beside_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinaja"));
    let output = command.args(["lab", "peers", "--quick", "--json"]).env("TMPDIR", dir.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!(in_use_below(dir.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");

    let installed = OTHERS.iter().filter(|(_, program)| Path::new(program).exists()).map(|(name, _)| *name);
    let found: Vec<_> = std::iter::once("Tinaja").chain(installed).collect();
    let servers = titled(&report, "Servers");
    let told: Vec<_> = servers.iter().filter(|row| row["version"].is_string()).map(|row| row["server"]).collect();
    assert_eq!(told, found);
    let missing = servers.iter().filter(|row| row["version"].is_null());
    assert!(missing.clone().all(|row| row["what is missing"].as_str().unwrap().contains("apt install")), "{servers:?}");

    for (title, hits) in [("Memory hits of 8 KiB", 100.0), ("Misses of 8 KiB", 0.0)] {
        let rows = titled(&report, title);
        assert_eq!(rows.iter().map(|row| row["server"]).collect::<Vec<_>>(), found, "{title}");
        for row in rows {
            assert!(row["CPU µs"].as_f64().is_some_and(|us| us > 0.0), "{title}: {row:?}");
            assert!(row["hits %"].as_f64().is_some_and(|own| (own - hits).abs() <= 1.0), "{title}: {row:?}");
            assert_eq!(row["CPU, ours / its"].is_null(), row["server"] == "Tinaja");
        }
    }
    let ours = |title| titled(&report, title).swap_remove(0);
    assert_eq!(ours("64 clients")["requests at the origin for 64 clients"], 1.0);
    let restarted = ours("What is still a hit after a restart");
    // Of two objects with the same fingerprint in the same sets of the index the later one is found: one pair of 1,500 objects in about
    // eleven caches.
    assert!(restarted["hits after SIGTERM %"].as_f64().is_some_and(|own| own > 99.5), "{restarted:?}");
    assert!(ours("What a miss of 8 KiB writes")["bytes written a body byte"].as_f64().is_some_and(|own| own > 0.9));
    assert!(ours("Cold disk hits")["reads a request"].as_f64().is_some_and(|reads| reads > 0.5));
    // What keeps its objects in memory has none after a restart, and the table says so.
    for row in titled(&report, "Cold disk hits").iter().filter(|row| row["server"] == "Varnish") {
        assert!(row["what kept it"].as_str().unwrap().contains("in memory alone"), "{row:?}");
    }
}

/// Three loads over HTTP to every server that is installed: each finds something and no more than what there is to find, ours more than
/// one that forgets in the order of storing; who is missing says so.
#[test]
fn loads_are_put_to_all_servers_that_are_installed() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinaja"));
    let output =
        command.args(["lab", "policies-peers", "--quick", "--json"]).env("TMPDIR", dir.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!(in_use_below(dir.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");

    let found = titled(&report, "Objects found");
    let load = "Days, whole";
    let of = |name: &str| found.iter().find(|row| row["cache"] == name).unwrap()[load].as_f64();
    let best = of("Belady, sizes").unwrap();
    let is_installed = |name: &str| OTHERS.iter().any(|(own, path)| name.starts_with(own) && Path::new(path).exists());
    for row in found.iter().filter(|row| row["what it is"] == "server") {
        let name = row["cache"].as_str().unwrap();
        let is_there = name == "Tinaja" || is_installed(name);
        assert_eq!(row[load].is_number(), is_there, "{row:?}");
        // nginx has more disk than it was given for some seconds, and no more than all that was asked for.
        assert!(!is_there || (1.0..best + 1.0).contains(&row[load].as_f64().unwrap()), "{row:?} and {best}");
    }
    let (ours, fifo) = (of("Tinaja").unwrap(), of("FIFO").unwrap());
    assert!(ours > fifo, "{ours} and {fifo}");
}

/// Who has no other server installed, and is not root, has our own figures and is told what to install.
#[test]
fn without_other_servers_and_root_ours_is_measured_alone() {
    let (scratch, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = Command::new("unshare");
    command.args(["--user", env!("CARGO_BIN_EXE_tinaja"), "lab", "peers", "--quick", "--json", "--servers"]);
    let output = command.arg(empty.path()).env("TMPDIR", scratch.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left behind");
    for row in &titled(&report, "Servers")[1..] {
        assert!(row["what is missing"].as_str().unwrap().starts_with("it is not installed: apt install "), "{row:?}");
    }
    let hits = titled(&report, "Memory hits of 8 KiB");
    assert!(hits.len() == 1 && hits[0]["CPU µs"].as_f64().is_some_and(|us| us > 0.0), "{hits:?}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("Without root the servers share a file system"), "{notes}");
    let slow = titled(&report, "Cold hits on a disk of 70");
    assert!(slow[0]["what kept it"].as_str().unwrap().contains("only root"), "{slow:?}");
}

#[test]
fn what_cannot_be_done_is_refused() {
    for (arguments, why) in [
        (&["no-such"][..], "unknown experiment \"no-such\"; `tinaja lab` lists them"),
        (
            &["hashcache-index", "--requests", "5000"],
            "--requests does not work with hashcache-index: it works with replay, the maltzahn experiments and damelo-proxy",
        ),
        (&["hashcache-index", "--quick", "--plot", "a.txt"], "its name must end in .svg or .png"),
        (&["all", "--plot", "a.svg"], "for all of them use --docs DIR"),
        (&["hashcache-index", "--disk", "10%"], "--disk works with replay only, not with hashcache-index"),
        (&["all", "--memory", "1MiB"], "--memory works with replay only, not with hashcache-table3"),
        (&["hashcache-hits", "access.log"], "give hashcache-hits its log with --trace access.log"),
        (
            &["hashcache-index", "--servers", "/opt/nginx/sbin"],
            "--servers works with peers and policies-peers only, not with hashcache-index",
        ),
        (&["replay"], "replay takes exactly one log, and 0 were given: tinaja lab replay LOG"),
        (&["replay", "/no/such.log"], "cannot read the requests in /no/such.log: No such file"),
        (
            &["replay", "/etc/passwd"],
            "its first lines are of no form that is known (Squid, Common, Combined, JSON, tsv, csv)",
        ),
    ] {
        let output = lab(arguments);
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{says}");
        assert!(says.contains(why), "{says}");
    }
    // Before anything runs: an experiment takes a second at least.
    let output = lab(&["hashcache-index", "--quick", "--report", "/no/such/page.html"]);
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{says}");
    assert!(says.contains("cannot write /no/such/page.html") && says.contains("--report FILE"), "{says}");
    assert_eq!(lab(&["--json"]).status.code(), Some(2), "of which experiment?");
    for wrong in [["--disk", "0%"], ["--disk", "ten"], ["--engine", "no-such"], ["--memory", "lots"]] {
        let output = lab(&["replay", "access.log", wrong[0], wrong[1]]);
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && says.contains(wrong[0]) && says.contains(wrong[1]), "{says}");
    }
}

/// A log in the Combined form, through an engine and all policies, on a disk and on one that is too small for the engine.
#[test]
fn a_log_of_ones_own_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // Ten popular pages between others that are asked for once.
    let page = |at: u32| if at.is_multiple_of(2) { at / 2 % 10 } else { 1000 + at };
    let lines = (0..3000_u32).map(|at| {
        let (minute, second) = (at / 60, at % 60);
        format!(
            "10.0.0.{} - - [10/Oct/2000:13:{minute:02}:{second:02} +0000] \"GET /{} HTTP/1.1\" 200 20000 \"-\" \"x\"\n",
            at % 7,
            page(at)
        )
    });
    fs::write(dir.path().join("access.log"), lines.collect::<String>() + "this is no line of a log\n").unwrap();
    let log = path("access.log");
    let arguments = ["replay", &log, "--engine", "segmented", "--disk", "25%", "--disk", "4096", "--memory", "1MiB"];
    let json = said(&lab(&[&arguments[..], &["--json", "--plot", &path("a.svg"), "--docs", &path("docs")]].concat()));
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let table = |number: usize| report["tables"][number]["rows"].as_array().unwrap();
    assert_eq!((&table(0)[0][0], &table(0)[0][1], &table(0)[0][2]), (&"access.log".into(), &3000.into(), &1510.into()));
    assert_eq!(table(0)[0][6], 1, "one line cannot be read");
    // Half of the requests less the first ten are for what was there before, and a quarter of the objects is room enough.
    let most = 1490.0 / 3000.0 * 100.0;
    let found = |table: usize, name: &str| {
        let row =
            report["tables"][table]["rows"].as_array().unwrap().iter().find(|row| row[0] == name).cloned().unwrap();
        (row[1].as_f64(), row)
    };
    assert!(
        (found(1, "LRU").0.unwrap() - most).abs() < 1e-9 && (found(1, "Belady").0.unwrap() - most).abs() < 1e-9,
        "{json}"
    );
    let (hits, row) = found(1, "segmented");
    assert!((40.0..=most).contains(&hits.unwrap()), "{row}");
    assert!(row[5].as_f64().unwrap() > 1.0 && row[6].as_f64().unwrap() > 0.0 && row[7].as_f64().is_some(), "{row}");
    let (hits, row) = found(2, "segmented");
    assert!(hits.is_none() && row[10].as_str().unwrap().contains("too small"), "{row}");
    assert_eq!(found(2, "LRU").0, Some(0.0), "no object fits");
    let page = fs::read_to_string(path("docs/replay.md")).unwrap();
    assert!(page.contains("--trace access.log --engine segmented --disk 25% --disk 4096 --memory 1048576`"), "{page}");
    assert!(fs::read_to_string(path("a.svg")).unwrap().contains("Objects found by engines"));
    said(&lab(&["replay", &log, "--engine", "segmented", "--disk", "25%", "--report", &path("a.html")]));
    let html = fs::read_to_string(path("a.html")).unwrap();
    assert!(html.contains("<h2 id=\"replay\">") && html.contains("Objects found by engines"), "{html}");
    let cut = said(&lab(&["replay", &log, "--engine", "segmented", "--disk", "25%", "--requests", "1000"]));
    assert!(cut.contains("The log goes on: its first 1000 requests were replayed"), "{cut}");
}

/// Reads of another process's memory, while that writes and while it is stopped.
#[test]
fn another_process_is_read_without_its_help() {
    let report =
        |name: &str| -> serde_json::Value { serde_json::from_str(&said(&lab(&[name, "--quick", "--json"]))).unwrap() };
    let race = report("cluster-race");
    let rows = race["tables"][0]["rows"].as_array().unwrap();
    let reads = |what: &str| {
        let row = rows.iter().find(|row| row[0].as_str().unwrap() == what);
        row.map_or(0, |row| row[1].as_u64().unwrap())
    };
    let (all, accepted) = (reads("all"), reads("accepted"));
    assert!(accepted > 0 && accepted < all, "{accepted} of {all}");
    assert_eq!(reads("accepted, and mixed of two objects or versions"), 0);

    let reads = report("cluster-reads");
    let rows = reads["tables"][1]["rows"].as_array().unwrap();
    let one_sided: Vec<_> = rows.iter().map(|row| (row[1].as_u64().unwrap(), row[2].as_str().unwrap())).collect();
    assert_eq!(one_sided, [(20, "yes"), (0, "no"), (0, "no"), (0, "no")]);
    assert_eq!(reads["tables"][0]["rows"].as_array().unwrap().len(), 16);
}

/// The paper's schemes between processes: what each does for hits, and that nothing wrong is found.
#[test]
fn each_scheme_of_a_cluster_does_what_it_is_for() {
    let report: serde_json::Value =
        serde_json::from_str(&said(&lab(&["cluster-schemes", "--quick", "--json"]))).unwrap();
    let rows = |table: usize| report["tables"][table]["rows"].as_array().unwrap();
    let number = |cell: &serde_json::Value| cell.as_f64().unwrap();
    let (found, done) = (rows(0), rows(1));
    let misses = |trace: &str, scheme: &str| {
        let row = found.iter().find(|row| row[1] == trace && row[2] == scheme);
        number(&row.unwrap()[5])
    };
    assert_eq!(found.len(), 11);
    // One node has room for four fifths of the working set, two for all of it, and duplicates for one copy too many.
    assert!(misses("8k", "AC") > 15.0 && misses("8k", "BCC") < 10.0 && misses("8k", "CCWR") < 1.0, "{found:?}");
    // Of the larger one four nodes have room for two fifths, and two of them are passive.
    assert!(misses("64k", "MTACC") < misses("64k", "CCWR") - 10.0, "{found:?}");
    assert!(misses("64k", "HYBCC, small as BCC") < misses("64k", "CCWR") - 10.0, "{found:?}");
    assert!(found.iter().filter(|row| row[2] == "AC").all(|row| number(&row[11]) == 0.0), "it tells nobody anything");
    assert!(done.iter().all(|row| row[10] == 0), "wrong bytes: {done:?}");
    // How fast each would be follows from times that were measured, so only what was counted is looked at.
    let modelled = rows(2);
    let found_in_memory = |scheme: &str| {
        let row = modelled.iter().find(|row| row[1] == "8k" && row[2] == scheme);
        number(&row.unwrap()[6])
    };
    assert!(modelled.len() == 11 && found_in_memory("CCWR") > 1.2 * found_in_memory("AC"), "{modelled:?}");
}

/// Eight machines as one cache, in short: of those that are installed each answers everything, with what the origin would have sent; ours fetch nothing twice, and nothing lies
/// on two disks before a node dies.
#[test]
fn a_cluster_stands_beside_others() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinaja"));
    command.args(["lab", "cluster-peers", "--quick", "--json"]).env("TMPDIR", scratch.path());
    let report: serde_json::Value = serde_json::from_str(&said(&command.output().unwrap())).unwrap();
    let rows = |table: usize| report["tables"][table]["rows"].as_array().unwrap();
    let (asked, disks) = (rows(0), rows(1));
    assert!(asked.len() >= 4 && asked.len() % 4 == 0, "{asked:?}");
    // Those who are told of the death of what they ask ask another.
    assert!(asked.iter().filter(|row| row[0] != "HAProxy and nginx").all(|row| row[14] == 0), "{asked:?}");
    let ours = |row: &&serde_json::Value| row[0] == "Tinaja, homes, copies 1";
    for row in asked.iter().filter(ours).filter(|row| row[1] == "fill" || row[1] == "before") {
        assert_eq!(row[3], row[4], "a hit that was possible was none: {row}");
    }
    let before = disks.iter().find(ours).unwrap();
    assert_eq!((before[1].as_str(), before[5].as_f64()), (Some("before"), Some(0.0)), "{before}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left behind");
}
