//! The CA of interception: its commands, and what is said of one that is of no use.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;

use crate::intercept::{Home, cache};
use crate::support::tinaja::binary;
use tinaja_testkit::nginx::make_certificates;
use tinaja_testkit::tools::{client, output, run};

#[test]
fn a_ca_that_is_of_no_use_is_said_before_anything_starts() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let home = Home::new(&certificates.authority, &[]);
    let key = home.path("ca/ca.key");
    let said = || {
        let tried = [&["--check"][..], &[]].map(|flags| output(home.command(&cache("localhost")).args(flags)));
        let [checked, started] = tried.map(|tried| (tried.status.code(), String::from_utf8(tried.stderr).unwrap()));
        assert_eq!((checked.0, started.0), (Some(1), Some(1)), "{started:?}");
        assert!(started.1.contains(checked.1.trim()), "{checked:?} {started:?}");
        checked.1
    };
    let checked = output(home.command(&cache("localhost")).arg("--check"));
    let text = String::from_utf8(checked.stdout).unwrap();
    assert!(text.contains("intercepts tunnels by 1 rule, with the CA in"), "{text}");

    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let text = said();
    assert!(text.contains("ca.key may be read by others (mode 0640)") && text.contains("chmod 600"), "{text}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::copy(&certificates.key, &key).unwrap();
    let text = said();
    assert!(text.contains("is not the key of the CA") && text.contains("put back the one"), "{text}");
    fs::remove_dir_all(home.path("ca")).unwrap();
    let text = said();
    assert!(text.contains("there is no CA in") && text.contains("tinaja ca create"), "{text}");
    let mut past = Command::new("faketime");
    past.arg("10 days ago").arg(env!("CARGO_BIN_EXE_tinaja")).args(["ca", "create", "--days", "2"]);
    run(past.arg(home.path("ca")));
    let text = said();
    assert!(text.contains("has expired") && text.contains("create a new one"), "{text}");
    // It is shown all the same, so that its dates can be seen.
    let shown = run(binary(&home.dir).args(["ca", "show"]).arg(home.path("ca")));
    assert!(shown.contains("valid until") && shown.contains("SHA-256"), "{shown}");
}

#[test]
fn the_commands_of_a_ca() {
    let dir = TempDir::new().unwrap();
    let ca = |args: &[&str]| output(binary(&dir).arg("ca").args(args));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    // Without a directory it is where state belongs.
    let made = ca(&["create", "--name", "My CA", "--only-for", "example.org", "--days", "9"]);
    assert!(made.status.success(), "{made:?}");
    let at = dir.path().join(".local/state/tinaja/ca");
    assert!(text(made.stdout).contains(&format!("intercept_ca = \"{}\"", at.display())));
    let shown = text(ca(&["show"]).stdout);
    for words in ["CN=My CA", "signs for    example.org", &at.join("ca.pem").display().to_string()] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // The fingerprint that others show.
    let mut openssl = client("openssl", dir.path());
    let theirs = run(openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(at.join("ca.pem")));
    assert!(shown.contains(theirs.trim().split_once('=').unwrap().1), "{shown} {theirs}");
    let hints = text(ca(&["install-hints"]).stdout);
    for words in [
        "update-ca-certificates",
        "certutil -d",
        "PIP_CERT",
        "NODE_EXTRA_CA_CERTS",
        "CARGO_HTTP_CAINFO",
        "SSL_CERT_FILE",
    ] {
        assert!(hints.contains(words), "{words}: {hints}");
    }
    run(client("sh", dir.path()).args(["-n", "-c", &hints]));
    for (args, words) in [
        (&["create"][..], "is not overwritten"),
        (&["show", "/no/such"], "there is no CA in /no/such"),
        (&["create", "/proc/x/ca"], "cannot write /proc/x/ca"),
        (&["create", "--only-for", "*.x", "new"], "is not a domain"),
        (&["create", "--days", "0", "new"], "1..=3650"),
    ] {
        let failed = ca(args);
        let said = text(failed.stderr);
        assert!(!failed.status.success() && said.contains(words), "{args:?}: {said}");
    }
}
