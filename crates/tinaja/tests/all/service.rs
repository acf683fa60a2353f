//! Tinaja as a system's service: its unit, what it tells a service manager, its pages and completions.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::tinaja::binary;
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::run;

/// The exposure that `systemd-analyze security` may find, in tenths; it calls up to 20 "OK". What is left: a network,
/// which a cache is for, users, and one capability.
const MOST_EXPOSURE: &str = "15";

fn ops(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ops").join(path)
}

fn analyze() -> Command {
    let mut command = Command::new("systemd-analyze");
    command.args(["--no-pager"]);
    command
}

#[test]
fn the_unit_shuts_the_service_in() {
    let said = run(analyze()
        .args(["security", "--offline=true", "--threshold", MOST_EXPOSURE])
        .arg(ops("systemd/tinaja.service")));
    // The rows that fail, by what they would cost.
    let open: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("✗ ")?.split_whitespace().next()).collect();
    for allowed in &open {
        let known = [
            "PrivateNetwork=",
            "PrivateUsers=",
            "DeviceAllow=",
            "IPAddressDeny=",
            "AmbientCapabilities=",
            "RootDirectory=/RootImage=",
            "CapabilityBoundingSet=~CAP_NET_(BIND_SERVICE|BROADCAST|RAW)",
        ];
        let by_kind = allowed.starts_with("RestrictAddressFamilies=~AF_");
        assert!(known.contains(allowed) || by_kind, "{allowed} is open:\n{said}");
    }
    assert!(said.contains("Overall exposure level"), "{said}");
}

#[test]
fn the_unit_has_no_word_that_systemd_does_not_know() {
    let dir = TempDir::new().unwrap();
    let unit = fs::read_to_string(ops("systemd/tinaja.service")).unwrap();
    // Where it is not installed, its program and pages are not there.
    let lines = unit.lines().filter(|line| !line.starts_with("Documentation=")).collect::<Vec<_>>().join("\n");
    let here = lines.replace("/usr/bin/tinaja", env!("CARGO_BIN_EXE_tinaja"));
    let check = |text: &str| {
        let path = dir.path().join("tinaja.service");
        fs::write(&path, text).unwrap();
        let output = tinaja_testkit::tools::output(analyze().args(["verify", "--man=no"]).arg(&path));
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        // It may name units of the machine that have flaws of their own.
        said.lines().filter(|line| line.contains("tinaja.service")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(check(&here), [] as [&str; 0]);
    assert!(!check(&here.replace("ProtectSystem=", "ProtectSytem=")).is_empty(), "it finds nothing");
}

/// Lines that come to a service manager's socket, until one begins like this.
fn told(socket: &UnixDatagram, word: &str) -> String {
    loop {
        let mut message = [0; 4096];
        let length = socket.recv(&mut message).unwrap_or_else(|error| panic!("{word} never came: {error}"));
        let text = String::from_utf8(message[..length].to_vec()).unwrap();
        if text.starts_with(word) {
            return text;
        }
    }
}

#[test]
fn a_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let dir = TempDir::new().unwrap();
    let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = binary(&dir);
    command.env("NOTIFY_SOCKET", dir.path().join("notify"));
    command.args(["serve", "--disk", "64MiB", "--listen", &address, "--cache"]).arg(dir.path().join("cache"));
    let mut tinaja = Process::start("tinaja", &mut command, &dir.path().join("output"));
    let ready = told(&socket, "READY=1");
    assert!(ready.contains(&format!("STATUS=listening on {address}")), "{ready}");
    // Nobody waits for it to listen: it does.
    std::net::TcpStream::connect(&address).unwrap();
    assert!(tinaja.terminate().success(), "{}", tinaja.output());
    told(&socket, "STOPPING=1");
}

#[test]
fn every_command_has_a_page_and_completions() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("pages");
    run(binary(&dir).arg("generate").arg(&out));
    let help = run(binary(&dir).arg("--help"));
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let mut seen = 0;
    for command in commands.iter().filter(|command| !command.is_empty() && **command != "help") {
        let page = fs::read_to_string(out.join(format!("tinaja-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH OPTIONS"), "{page}");
        seen += 1;
    }
    assert!(seen >= 6, "{help}");
    assert!(!out.join("tinaja-generate.1").exists(), "a command that is no user's has no page");
    run(Command::new("bash").arg("-n").arg(out.join("tinaja.bash")));
    for file in ["tinaja.bash", "_tinaja", "tinaja.fish"] {
        let text = fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains("access-log-format") && text.contains("purge"), "{file}");
    }
    let denied = tinaja_testkit::tools::output(binary(&dir).args(["generate", "/proc/no"]));
    assert!(String::from_utf8_lossy(&denied.stderr).contains("cannot write the pages into /proc/no"));
}

#[test]
fn the_package_names_files_that_there_are_and_scripts_that_are_sound() {
    let crate_dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let manifest: toml::Table = fs::read_to_string(crate_dir.join("Cargo.toml")).unwrap().parse().unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets: Vec<&str> = deb["assets"].as_array().unwrap().iter().map(|asset| asset[0].as_str().unwrap()).collect();
    let generated = |path: &&&str| path.contains("target/");
    for path in assets.iter().filter(|path| !generated(path)) {
        assert!(crate_dir.join(path).is_file(), "{path}");
    }
    // Those that `generate` makes, and the binary.
    assert_eq!(assets.iter().filter(generated).count(), 5, "{assets:?}");
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh").arg("-n").arg(ops("debian").join(script)));
        let text = fs::read_to_string(ops("debian").join(script)).unwrap();
        assert!(text.contains("\nset -e\n") && text.contains("\n#DEBHELPER#\n"), "{script}");
    }
    let unit = fs::read_to_string(ops("systemd/tinaja.service")).unwrap();
    assert!(unit.contains("--config /etc/tinaja/tinaja.toml") && assets.contains(&"../../ops/debian/tinaja.toml"));
}
