use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn new(only_for: &[&str]) -> NewAuthority {
    NewAuthority {
        name: "Test CA".into(),
        days: 30,
        only_for: only_for.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// A directory with a CA.
fn made(only_for: &[&str]) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let ca = dir.path().join("state/ca");
    create(&ca, &new(only_for), now()).unwrap();
    (dir, ca)
}

fn why(dir: &Path, at: SystemTime) -> String {
    Leaves::load(dir, at).unwrap_err().to_string()
}

#[test]
fn a_new_ca_is_its_owners_and_is_not_overwritten() {
    let (_dir, ca) = made(&[]);
    let mode = |name| fs::metadata(ca.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(KEY), mode(CERTIFICATE) & 0o700), (0o600, 0o600));
    let key = fs::read(ca.join(KEY)).unwrap();
    for kept in [CERTIFICATE, KEY] {
        let text = create(&ca, &new(&[]), now()).unwrap_err().to_string();
        assert!(text.contains(&*ca.to_string_lossy()) && text.contains("is not overwritten"), "{text}");
        assert_eq!(fs::read(ca.join(KEY)).unwrap(), key);
        // One of the two is reason enough.
        fs::rename(ca.join(kept), ca.join("away")).unwrap();
        assert!(create(&ca, &new(&[]), now()).is_err());
        fs::rename(ca.join("away"), ca.join(kept)).unwrap();
    }
    // A link that leads nowhere is not followed to where it would have the key written.
    let other = TempDir::new().unwrap();
    std::os::unix::fs::symlink(ca.join("elsewhere"), other.path().join(KEY)).unwrap();
    assert!(create(other.path(), &new(&[]), now()).unwrap_err().to_string().contains("exists already"));
    assert!(!ca.join("elsewhere").exists());
}

#[test]
fn what_there_is_to_know() {
    let (_dir, ca) = made(&["Example.org", "test"]);
    let facts = show(&ca).unwrap();
    assert_eq!((facts.subject.as_str(), facts.only_for), ("CN=Test CA", vec!["example.org".into(), "test".into()]));
    assert_eq!(facts.fingerprint.len(), 32 * 3 - 1);
    assert!(facts.not_before.contains("2027") && facts.not_after.contains("2027"), "{}", facts.not_after);
    for bad in ["", ".a", "a..b", "a b", "192.0.2.1", "*.a", "a/b"] {
        let text = create(&ca.join("new"), &new(&[bad]), now()).unwrap_err().to_string();
        assert!(text.contains("is not a domain"), "{bad}: {text}");
        assert!(!ca.join("new").exists());
    }
}

#[test]
fn a_ca_that_is_of_no_use_is_refused() {
    let nothing = TempDir::new().unwrap();
    let text = why(nothing.path(), now());
    assert!(text.starts_with("there is no CA in") && text.contains("tinaja ca create"), "{text}");

    let ((_dir, ca), (_other_dir, other)) = (made(&[]), made(&[]));
    Leaves::load(&ca, now()).unwrap();
    let text = why(&ca, now() + 31 * DAY);
    assert!(text.contains("has expired") && text.contains("create a new one in another directory"), "{text}");
    let text = why(&ca, now() - 2 * DAY);
    assert!(text.contains("is not valid before") && text.contains("check the clock"), "{text}");

    let mode = |mode| fs::set_permissions(ca.join(KEY), fs::Permissions::from_mode(mode)).unwrap();
    for open in [0o640, 0o604, 0o620, 0o644, 0o601] {
        mode(open);
        let text = why(&ca, now());
        assert!(text.contains(&format!("(mode {open:04o})")) && text.contains("chmod 600"), "{text}");
    }
    mode(0o600);
    Leaves::load(&ca, now()).unwrap();

    let key = fs::read(ca.join(KEY)).unwrap();
    fs::copy(other.join(KEY), ca.join(KEY)).unwrap();
    let text = why(&ca, now());
    assert!(text.contains("is not the key of the CA") && text.contains("put back the one"), "{text}");
    fs::write(ca.join(KEY), "nonsense").unwrap();
    assert!(why(&ca, now()).contains("must be PKCS#8 in PEM"), "{}", why(&ca, now()));
    fs::remove_file(ca.join(KEY)).unwrap();
    assert!(why(&ca, now()).contains("cannot read"), "{}", why(&ca, now()));
    fs::write(ca.join(KEY), &key).unwrap();
    mode(0o600);

    let certificate = fs::read(ca.join(CERTIFICATE)).unwrap();
    fs::write(ca.join(CERTIFICATE), "nonsense").unwrap();
    assert!(why(&ca, now()).contains("holds no certificate in PEM"), "{}", why(&ca, now()));
    fs::remove_file(ca.join(CERTIFICATE)).unwrap();
    assert!(why(&ca, now()).contains("cannot read"), "{}", why(&ca, now()));

    // A server's certificate with its own key.
    let server = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    fs::write(ca.join(CERTIFICATE), server.cert.pem()).unwrap();
    fs::write(ca.join(KEY), server.signing_key.serialize_pem()).unwrap();
    assert!(why(&ca, now()).contains("is not a CA's"), "{}", why(&ca, now()));
    fs::write(ca.join(CERTIFICATE), certificate).unwrap();
}

/// A CA of other programs' making, with names in other kinds of text and another key identifier.
#[test]
fn a_ca_that_openssl_made_will_do() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"])
        .args(["-subj", "/C=DE/O=A school/OU=Library/CN=Örtliche CA"])
        .args(["-utf8", "-keyout", &path(KEY), "-out", &path(CERTIFICATE)])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::set_permissions(path(KEY), fs::Permissions::from_mode(0o600)).unwrap();
    let leaves = Leaves::load(dir.path(), SystemTime::now()).unwrap();
    assert!(leaves.of("www.example.org", SystemTime::now()).unwrap().1);
}

#[test]
fn certificates_are_made_once_and_as_many_as_there_is_room_for() {
    let (_dir, ca) = made(&[]);
    let leaves = Leaves::load(&ca, now()).unwrap();
    let is_made = |name: &str, at| leaves.of(name, at).unwrap().1;
    assert!(is_made("a.example", now()) && !is_made("a.example", now()));
    assert!(is_made("192.0.2.1", now()) && is_made("2001:db8::1", now()) && is_made("b_c.example", now()));
    assert!(!is_made("a.example", now() + DAY / 3) && is_made("a.example", now() + DAY / 2), "made anew in time");
    // Long names are too long for a common name, and fine.
    assert!(is_made(&format!("{}.{}.example", "x".repeat(63), "y".repeat(63)), now()));
    for name in ["a..b", "a.example.", &"x".repeat(64)] {
        assert!(leaves.of(name, now()).is_err(), "{name}");
    }
    assert!(leaves.of("a.example", now() + 31 * DAY).is_err(), "the CA has expired");
    let began = std::time::Instant::now();
    for n in 0..1100 {
        assert!(is_made(&format!("{n}.example"), now()));
    }
    println!("{:?} for each certificate", began.elapsed() / 1100);
    assert_eq!(leaves.kept(), 1024);
    assert!(!is_made("1099.example", now()) && is_made("a.example", now()), "what was used last is there");
    assert_eq!(leaves.kept(), 1024);
}

#[test]
fn a_ca_for_some_domains_makes_no_other_certificates() {
    let (_dir, ca) = made(&["example.org"]);
    let leaves = Leaves::load(&ca, now()).unwrap();
    for (name, may) in [
        ("example.org", true),
        ("www.example.org", true),
        ("notexample.org", false),
        ("example.com", false),
        ("192.0.2.1", false),
        ("::1", false),
    ] {
        assert_eq!(leaves.of(name, now()).is_ok(), may, "{name}");
    }
}
