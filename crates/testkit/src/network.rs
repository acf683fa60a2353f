//! A test in a network of its own.

use std::process::Command;

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

/// Run a test of this program, by its full name, once more in a network of its own. Panics with its output when it fails there.
///
/// For tests that give loopback addresses of others, and for those of programs that watch the machine's network: a browser breaks off
/// what it is loading when an address comes or goes, as they do wherever a test makes bridges.
pub fn in_own_network(test: &str) -> Place {
    if std::env::var_os(INSIDE).is_some() {
        return Place::Own;
    }
    let program = std::env::current_exe().unwrap();
    let script = format!("ip link set lo up && exec '{}' --exact {test} --nocapture", program.display());
    match Command::new("unshare").args(["--net", "sh", "-c", &script]).env(INSIDE, "1").output() {
        Ok(ran) if String::from_utf8_lossy(&ran.stdout).contains("running 1 test") => {
            let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
            assert!(ran.status.success(), "in a network of its own: {text}");
            Place::Passed
        }
        other => Place::Shared(format!("{other:?}")),
    }
}
