//! A test in a network of its own, and other machines there.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::process::Process;
use crate::tools::run;
use crate::wait::eventually;

/// Set for the run in there.
const INSIDE: &str = "TINAJA_TEST_OWN_NETWORK";

/// Where a test finds itself.
pub enum Place {
    /// In a network of its own: loopback, which is up, and nothing else.
    Own,
    /// In the machine's network, and it has passed in one of its own already.
    Passed,
    /// In the machine's network, and another cannot be made, which takes root. Why, as said.
    Shared(String),
}

/// Run a test of this program, by its full name, once more in a network of its own. Panics with its output when it fails there, and if no
/// test has that name.
///
/// For tests that give loopback addresses of others, and for those of programs that watch the machine's network: a browser breaks off
/// what it is loading when an address comes or goes, as they do wherever a test makes bridges.
pub fn in_own_network(test: &str) -> Place {
    if std::env::var_os(INSIDE).is_some() {
        return Place::Own;
    }
    let program = std::env::current_exe().unwrap();
    let script = format!("ip link set lo up && exec '{}' --exact {test} --nocapture", program.display());
    // With the machine's process numbers: faketime names what it shares in /dev/shm by them, and two programs with one number fail.
    match Command::new("unshare").args(["--net", "sh", "-c", &script]).env(INSIDE, "1").output() {
        Ok(ran) if String::from_utf8_lossy(&ran.stdout).contains("running 1 test") => {
            let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
            assert!(ran.status.success(), "in a network of its own: {text}");
            Place::Passed
        }
        Ok(ran) if String::from_utf8_lossy(&ran.stdout).contains("running 0 tests") => {
            panic!("no test is called {test:?}")
        }
        other => Place::Shared(format!("{other:?}")),
    }
}

/// Another machine, in a network of its own with a cable to this one: for tests that have a network of their own. Its programs are
/// ended by whoever has started them; the network is gone with this, and with the thread that has made it.
pub struct Machine {
    process: Process,
    _dir: TempDir,
}

impl Machine {
    /// Makes one. `link` is the name of the cable's end here, and `eth0` that of the other; both have these addresses, with their
    /// lengths. All that it reaches goes by the first address here of each version of IP.
    pub fn new(link: &str, here: &[&str], there: &[&str]) -> Machine {
        let dir = TempDir::new().unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]);
        let process = Process::start("a machine's network", &mut command, &dir.path().join("output"));
        let machine = Machine { process, _dir: dir };
        let own = fs::read_link("/proc/thread-self/ns/net").unwrap();
        eventually("a network", || fs::read_link(machine.network()).is_ok_and(|network| network != own));
        let pid = machine.process.pid().to_string();
        ip(&["link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", &pid]);
        // Nobody else is there who could have the address.
        let nodad = |address: &str| if address.contains(':') { &["nodad"][..] } else { &[] };
        here.iter().for_each(|address| ip(&[&["address", "add", address, "dev", link], nodad(address)].concat()));
        ip(&["link", "set", link, "up"]);
        let at = |args: &[&str]| drop(run(machine.command("ip").args(args)));
        there.iter().for_each(|address| at(&[&["address", "add", address, "dev", "eth0"], nodad(address)].concat()));
        at(&["link", "set", "lo", "up"]);
        at(&["link", "set", "eth0", "up"]);
        for is_v6 in [false, true] {
            if let Some(router) = here.iter().find(|address| address.contains(':') == is_v6) {
                let router = router.split('/').next().unwrap_or_default();
                at(&[if is_v6 { "-6" } else { "-4" }, "route", "add", "default", "via", router]);
            }
        }
        machine
    }

    /// A command that will run there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.network())).arg(program);
        command
    }

    fn network(&self) -> String {
        format!("/proc/{}/ns/net", self.process.pid())
    }
}

/// Has this machine pass on what is for others, as a router does, and drop what comes from where it should not (`rp_filter`). For tests
/// that have a network of their own.
pub fn be_a_router() {
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/conf/all/rp_filter"] {
        fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap();
    }
}

fn ip(args: &[&str]) {
    run(Command::new("ip").args(args));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_test_has_is_no_reason_to_skip() {
        match std::panic::catch_unwind(|| in_own_network("a test that is not there")) {
            Ok(Place::Shared(why)) => assert!(!why.contains("running 0 tests"), "{why}"),
            Ok(Place::Own | Place::Passed) => panic!("no such test has run"),
            Err(_) => (),
        }
    }
}
