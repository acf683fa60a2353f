//! Hosts of a rule: those that it names, and those of a list in a file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tinaja_proxy::cache_rules::HostPattern;

use crate::values::{OneOrMore, Text};

/// The longest list that is read.
const MOST_BYTES: u64 = 8 << 20;

/// The hosts of a rule.
///
/// Errors: the file cannot be read, names no host, or has a line that is no host, with its number.
pub fn hosts(named: OneOrMore<Text<HostPattern>>, file: Option<&PathBuf>) -> Result<Vec<HostPattern>, String> {
    let mut hosts: Vec<HostPattern> = named.0.into_iter().map(|Text(host)| host).collect();
    if let Some(file) = file {
        hosts.extend(listed(file)?);
    }
    Ok(hosts)
}

fn listed(path: &Path) -> Result<Vec<HostPattern>, String> {
    let name = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read the list of hosts {name}: {error}"))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(format!("the list of hosts {name} is larger than {MOST_BYTES} bytes"));
    }
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let host = line.split('#').next().unwrap_or_default().trim();
        if !host.is_empty() {
            hosts.push(host.parse().map_err(|error| format!("{name}, line {number}: {error}"))?);
        }
    }
    // Without one the rule would fit all there are.
    if hosts.is_empty() {
        return Err(format!("the list of hosts {name} names none: write one on each line"));
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts.txt");
        let read = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            hosts(OneOrMore(vec![Text("x".parse().unwrap())]), Some(&path))
        };
        let patterns = |text: &str| text.split(' ').map(|host| host.parse().unwrap()).collect::<Vec<HostPattern>>();
        assert_eq!(
            read(b"# ours\nA.example\r\n\n  *.b.example # and below\n"),
            Ok(patterns("x a.example *.b.example"))
        );
        for (text, said) in [
            (&b"a\nb:80\n"[..], "hosts.txt, line 2: \"b:80\" is not a host"),
            (b"# none\n", "names none"),
            (b"a\xff\n", "cannot read the list"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let large = vec![b'#'; MOST_BYTES as usize + 1];
        assert!(read(&large).unwrap_err().contains("larger than"));
        let gone = hosts(OneOrMore(Vec::new()), Some(&dir.path().join("none"))).unwrap_err();
        assert!(gone.contains("cannot read the list of hosts") && gone.contains("none"), "{gone}");
    }
}
