//! Logs: an id on every line of a request, told to origins and clients; and files that are opened anew when they were renamed.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::home::{Home, reverse};
use tinaja_testkit::origin::Origin;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output};
use tinaja_testkit::wait::wait_for;

const LIMIT: Duration = Duration::from_secs(60);

/// Answers with the id that it was told, in its body and in its own field; `/broken` ends early.
fn repeating() -> Origin {
    Origin::closing(|request, stream| {
        let (path, head) = (request.path.as_str(), &request.head);
        let id =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("x-request-id: ").map(str::to_owned));
        let id = id.unwrap_or_default();
        let length = if path == "/broken" { 1000 } else { id.len() };
        write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nX-Request-Id: of-{id}\r\n")?;
        write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n{id}")
    })
}

fn start(origin: &Origin, home: &mut Home) -> Process {
    let log = home.path("log").display().to_string();
    home.top = format!(
        "log = \"tinaja_proxy=debug,info\"\nlog_file = \"{log}\"\nlog_format = \"json\"\naccess_log_format = \"json\"\n\
         [request_id]\nheader = \"X-Request-Id\"\ntrust = \"127.0.0.1\"\n"
    );
    home.start(&reverse(origin))
}

/// What a request for a path brings: the ids in its answer\'s head, and its body.
fn get(home: &Home, path: &str, id: Option<&str>) -> (Vec<String>, String) {
    let mut curl = client("curl", home.dir.path());
    curl.args(["-sSi", "--noproxy", "*", &format!("http://{}{path}", home.listen)]);
    if let Some(id) = id {
        curl.args(["-H", &format!("X-Request-Id: {id}")]);
    }
    let said = String::from_utf8(output(&mut curl).stdout).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    let ids =
        head.lines().filter_map(|line| line.to_ascii_lowercase().strip_prefix("x-request-id: ").map(str::to_owned));
    (ids.collect(), body.to_owned())
}

/// The lines of a log, each an object.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The last may be on its way.
    let whole = text.rsplit_once('\n').map(|(whole, _)| whole.to_owned()).unwrap_or_default();
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// Waits for a line in a log for which this holds.
fn line(path: &Path, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, LIMIT, || lines(path).into_iter().find(|line| is_it(line)))
}

#[test]
fn one_id_is_in_every_log_and_told_both_ways() {
    let (origin, mut home) = (repeating(), Home::new());
    let _tinaja = start(&origin, &mut home);
    let (access, log) = (home.path("access.log"), home.path("log"));
    // Taken over, sent on, and given back; what the origin says of it is not.
    assert_eq!(get(&home, "/a", Some("abc-1")), (vec!["abc-1".into()], "abc-1".into()));
    line(&access, "the miss", |line| line["id"] == "abc-1" && line["result"] == "TCP_MISS");
    // A hit has an id of its own, though what is stored had another.
    let (ids, body) = get(&home, "/a", None);
    assert_eq!((ids.len(), ids[0].len(), body.as_str()), (1, 16, "abc-1"));
    line(&access, "the hit", |line| line["id"] == ids[0] && line["result"] == "TCP_HIT");
    // One that would harm a log is replaced, and so is the client's where it cannot be told.
    let (replaced, _) = get(&home, "/b", Some("a\"b"));
    assert_eq!((replaced.len(), replaced[0].len()), (1, 16));
    // What goes wrong behind the answer's head is said with the request's id.
    get(&home, "/broken", Some("br-1"));
    let said = line(&log, "why it was given up", |line| line["span"]["id"] == "br-1");
    assert_eq!((&said["span"]["name"], &said["level"]), (&Value::from("request"), &Value::from("DEBUG")));
    line(&access, "the broken one", |line| line["id"] == "br-1");
    // The proxy's own pages have one as well.
    let (ids, page) = get(&home, "/c/../d", Some("no-1"));
    assert_eq!(ids, ["no-1"], "{page}");
}

#[test]
fn renamed_logs_are_left_and_those_that_cannot_be_opened_are_kept() {
    let (origin, mut home) = (repeating(), Home::new());
    let mut tinaja = start(&origin, &mut home);
    let (access, log) = (home.path("access.log"), home.path("log"));
    get(&home, "/a", Some("first"));
    line(&access, "the first line", |line| line["id"] == "first");
    let old = [home.path("access.old"), home.path("log.old")];
    fs::rename(&access, &old[0]).unwrap();
    fs::rename(&log, &old[1]).unwrap();
    tinaja.signal(Signal::USR1);
    line(&log, "the new log", |line| line["message"] == "the log was reopened");
    wait_for("the new access log", LIMIT, || access.exists().then_some(()));
    get(&home, "/a", Some("second"));
    line(&access, "the second line", |line| line["id"] == "second");
    assert!(lines(&old[0]).iter().any(|line| line["id"] == "first"));
    // Directories in their places: those from before are written on, and it is said there.
    let kept = [home.path("access.kept"), home.path("log.kept")];
    for (log, kept) in [(&access, &kept[0]), (&log, &kept[1])] {
        fs::rename(log, kept).unwrap();
        fs::create_dir(log).unwrap();
    }
    tinaja.signal(Signal::USR1);
    for (what, path) in [("cannot reopen the log", &log), ("the access log cannot be opened anew", &access)] {
        line(&kept[1], what, |line| {
            let message = line["message"].as_str().unwrap_or_default();
            message.starts_with(what) && line["path"] == path.display().to_string()
        });
    }
    get(&home, "/a", Some("third"));
    line(&kept[0], "the third line", |line| line["id"] == "third");
    assert!(tinaja.terminate().success(), "{}", tinaja.output());
    // A log that cannot be opened at a start is an error that names it.
    let refused = output(&mut home.command(&reverse(&origin)));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&format!("cannot open the log {}", log.display())), "{said}");
}
