//! `sandbox = true`: a server that has shut itself in does all that a server does, and the kernel refuses it the rest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use tempfile::TempDir;

use super::tunnels::PYTHON;
use crate::support::home::{Home, telling};
use crate::support::tinaja::binary;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output};
use tinaja_testkit::wait::eventually;

/// A command of `tinaja` on the cache: whether it went well, and what it said.
fn told(home: &Home, args: &[&str]) -> (bool, String) {
    let mut command = binary(&home.dir);
    let Output { status, stdout, stderr } = output(command.args(args).arg("--cache").arg(home.path("cache")));
    (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

/// A home whose server logs to a file and has a list of hosts and certificates; and how it is a reverse proxy by a name, which a library
/// of the system's has to look up.
fn home(sandbox: bool, origin: &Origin) -> (Home, String) {
    let mut home = Home::new();
    let log = home.path("server.log");
    home.top = format!("sandbox = {sandbox}\nlog_file = \"{}\"\n", log.display());
    home.certificate("www", "DNS:www.test");
    fs::write(home.path("hosts"), "a.test\n").unwrap();
    let list = home.path("hosts");
    home.listener += &format!("[[cache_rule]]\nhost_file = \"{}\"\npath = \"/y\"\nstore = \"never\"\n", list.display());
    let url = origin.url("").replace("127.0.0.1", "localhost");
    (home, format!("mode = \"reverse\"\norigin = \"{url}\""))
}

fn log(home: &Home) -> String {
    fs::read_to_string(home.path("server.log")).unwrap_or_default()
}

fn get(home: &Home, path: &str) -> (u16, bool) {
    let (status, _, hit, _) = home.curl(&home.path("www/ca.pem"), "www.test", path, &[]);
    (status, hit)
}

/// Puts others in the place of the listener's certificate and key, as tools do: by renaming.
fn renew(home: &Home) {
    let mut other = Home::new();
    other.certificate("www", "DNS:www.test");
    for name in ["server.pem", "server.key", "ca.pem"] {
        fs::copy(other.path("www").join(name), home.path("www").join("new")).unwrap();
        fs::rename(home.path("www").join("new"), home.path("www").join(name)).unwrap();
    }
}

/// Has the server open its log again, where that has become a link to a file elsewhere; and whether that file is there then.
fn log_elsewhere(home: &Home, tinaja: &Process, elsewhere: &Path) -> bool {
    fs::rename(home.path("server.log"), home.path("server.log.1")).unwrap();
    symlink(elsewhere.join("log"), home.path("server.log")).unwrap();
    tinaja.signal(Signal::USR1);
    let old = || fs::read_to_string(home.path("server.log.1")).unwrap();
    eventually("the log is opened again, or not", || {
        elsewhere.join("log").exists() || old().contains("cannot reopen the log") && old().contains("Permission denied")
    });
    elsewhere.join("log").exists()
}

#[test]
fn a_server_that_is_shut_in_does_all_that_a_server_does() {
    let origin = telling();
    let (home, mode) = home(true, &origin);
    let mut old = home.start(&mode);
    // All of it, not only the thread that asked for it.
    let threads = fs::read_dir(format!("/proc/{}/task", old.pid())).unwrap();
    let states: Vec<String> =
        threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap()).collect();
    assert!(states.len() > 2, "{states:?}");
    for state in states {
        assert!(state.contains("Seccomp:\t2\n") && state.contains("NoNewPrivs:\t1\n"), "{state}");
    }
    if cfg!(target_arch = "x86_64") {
        let task = format!("/proc/{}/task", old.pid());
        let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        eventually("a thread gives back what is freed", || {
            fs::read_dir(&task).unwrap().any(|thread| name(thread.unwrap()).starts_with("jemalloc_bg"))
        });
    }
    assert_eq!((get(&home, "/x"), get(&home, "/x")), ((200, false), (200, true)));
    let (done, said) = told(&home, &["inspect"]);
    assert!(done, "{said}");
    let (done, said) = told(&home, &["purge", &format!("https://www.test:{}/x", home.listen.port())]);
    assert!(done, "{said}");
    assert_eq!((get(&home, "/x"), get(&home, "/x")), ((200, false), (200, true)));
    // Certificates and lists that others were renamed over, and logs that were rotated.
    renew(&home);
    fs::write(home.path("hosts.new"), "a.test\nwww.test\n").unwrap();
    fs::rename(home.path("hosts.new"), home.path("hosts")).unwrap();
    fs::rename(home.path("access.log"), home.path("access.log.1")).unwrap();
    fs::rename(home.path("server.log"), home.path("server.log.1")).unwrap();
    let (done, said) = told(&home, &["reload"]);
    assert!(done, "{said} {}", log(&home));
    assert_eq!((get(&home, "/y"), get(&home, "/y")), ((200, false), (200, false)), "by the new certificate and list");
    eventually("there are new logs", || {
        home.path("access.log").exists() && log(&home).contains("reloaded the settings")
    });
    // It starts no program, and says what to do; so a successor comes from outside, and is shut in too.
    let (done, said) = told(&home, &["upgrade"]);
    assert!(!done && said.contains("may start no programs") && said.contains("--take-over"), "{said}");
    assert_eq!(get(&home, "/x"), (200, true), "it serves on");
    let mut new = Process::start("tinaja", home.command(&mode).arg("--take-over"), &home.path("output"));
    eventually("the other one takes over", || log(&home).contains("took over"));
    assert!(old.wait().success(), "{}", log(&home));
    assert_eq!(get(&home, "/x"), (200, true), "at the new one");
    assert!(new.terminate().success(), "{}", log(&home));
}

#[test]
fn files_that_the_settings_did_not_name_are_out_of_reach() {
    let origin = telling();
    let elsewhere = TempDir::new().unwrap();
    fs::write(elsewhere.path().join("hosts"), "b.test\n").unwrap();
    for sandbox in [true, false] {
        let (home, mode) = home(sandbox, &origin);
        let mut tinaja = home.start(&mode);
        assert_eq!(get(&home, "/x").0, 200);
        let settings = fs::read_to_string(home.path("tinaja.toml")).unwrap();
        let list = |home: &Home| format!("host_file = \"{}\"", home.path("hosts").display());
        let other = format!("host_file = \"{}\"", elsewhere.path().join("hosts").display());
        let changed = settings.replace(&list(&home), &other);
        assert_ne!(changed, settings);
        fs::write(home.path("tinaja.toml"), changed).unwrap();
        let (done, said) = told(&home, &["reload"]);
        assert_eq!(done, !sandbox, "{said}");
        for word in ["hosts is out of reach", "sandbox", "start it again"] {
            assert_eq!(said.contains(word), sandbox, "{said}");
        }
        assert_eq!(get(&home, "/x"), (200, true), "it serves on");
        fs::write(home.path("tinaja.toml"), &settings).unwrap();
        let (done, said) = told(&home, &["reload"]);
        assert!(done, "{said}");
        // Here nobody has looked before the kernel does.
        assert_eq!(log_elsewhere(&home, &tinaja, elsewhere.path()), !sandbox);
        assert!(tinaja.terminate().success());
    }
}

/// Runs a program in which Landlock's first call fails as in kernels that do not know it. The number is the same on every processor.
const WITHOUT_LANDLOCK: &str = "
import ctypes, os, struct, sys
load, equals, answer = 0x20, 0x15, 0x06
filter = [(load, 0, 0, 0), (equals, 0, 1, 444), (answer, 0, 0, 0x50026), (answer, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in filter))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(filter), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn a_kernel_that_cannot_do_it_is_no_place_to_start() {
    let origin = telling();
    for sandbox in [true, false] {
        let (home, mode) = home(sandbox, &origin);
        let inner = home.command(&mode);
        let without = |more: &[&str]| -> Command {
            let mut command = client(PYTHON, home.dir.path());
            command.args(["-c", WITHOUT_LANDLOCK]).arg(inner.get_program()).args(inner.get_args()).args(more);
            command
        };
        let Output { status, stdout, stderr } = output(&mut without(&["--check"]));
        let said = String::from_utf8([stdout, stderr].concat()).unwrap();
        assert_eq!((status.success(), said.contains("this kernel has no Landlock")), (!sandbox, sandbox), "{said}");
        let mut started = Process::start("tinaja", &mut without(&[]), &home.path("output"));
        if sandbox {
            assert_eq!(started.wait().code(), Some(1));
            assert!(started.output().contains("set sandbox = false to serve without"), "{}", started.output());
            assert!(!home.path("cache").exists(), "nothing is left behind");
        } else {
            started.wait_until_listening(home.listen);
            assert!(started.terminate().success());
        }
    }
}
