//! The servers that stand beside each other, and where they are found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::bench::needs_root;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Product {
    /// Ours, by the program that this runs in.
    Tinaja,
    /// nginx's `proxy_cache`.
    Nginx,
    /// Squid as an accelerator.
    Squid,
    /// Varnish with its objects in memory.
    Varnish,
    /// Apache Traffic Server.
    TrafficServer,
    /// Apache httpd's `mod_cache_disk`.
    Apache,
    /// HAProxy's cache in memory.
    HaProxy,
}

impl Product {
    /// Ours, and the others.
    pub const ALL: [Product; 7] = [
        Product::Tinaja,
        Product::Nginx,
        Product::Squid,
        Product::Varnish,
        Product::TrafficServer,
        Product::Apache,
        Product::HaProxy,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Product::Tinaja => "Tinaja",
            Product::Nginx => "nginx",
            Product::Squid => "Squid",
            Product::Varnish => "Varnish",
            Product::TrafficServer => "Traffic Server",
            Product::Apache => "Apache httpd",
            Product::HaProxy => "HAProxy",
        }
    }

    /// Its program's name.
    fn program_name(self) -> &'static str {
        match self {
            Product::Tinaja => "tinaja",
            Product::Nginx => "nginx",
            Product::Squid => "squid",
            Product::Varnish => "varnishd",
            Product::TrafficServer => "traffic_server",
            Product::Apache => "apache2",
            Product::HaProxy => "haproxy",
        }
    }

    /// Debian's package that has it.
    pub fn package(self) -> &'static str {
        match self {
            Product::Tinaja => "tinaja",
            Product::Nginx => "nginx-light",
            Product::Squid => "squid",
            Product::Varnish => "varnish",
            Product::TrafficServer => "trafficserver",
            Product::Apache => "apache2-bin",
            Product::HaProxy => "haproxy",
        }
    }

    /// Its program: in one of these directories, or where it lies on this machine if there are none; `None` if it is not there.
    pub fn program(self, dirs: &[PathBuf]) -> Option<PathBuf> {
        if self == Product::Tinaja {
            return std::env::current_exe().ok();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
        let all: Vec<_> = if dirs.is_empty() { usual.collect() } else { dirs.to_vec() };
        all.into_iter().map(|dir| dir.join(self.program_name())).find(|program| program.is_file())
    }

    /// What it calls itself, with its version.
    pub fn version(self, program: &Path) -> String {
        let option = match self {
            Product::Tinaja | Product::TrafficServer => "--version",
            Product::Varnish => "-V",
            Product::Nginx | Product::Squid | Product::Apache | Product::HaProxy => "-v",
        };
        let said = Command::new(program).arg(option).output();
        let text = said.map(|said| [said.stdout, said.stderr].concat()).unwrap_or_default();
        version_in(&String::from_utf8_lossy(&text)).to_owned()
    }

    /// Whether its objects are on a disk; else they are in its memory alone.
    pub fn keeps_on_disk(self) -> bool {
        !matches!(self, Product::Varnish | Product::HaProxy)
    }

    /// Who it becomes where root starts it: Squid and Apache refuse to be root.
    pub fn user(self) -> Option<&'static str> {
        let user = match self {
            Product::Squid => "proxy",
            Product::Apache => "www-data",
            _ => return None,
        };
        needs_root().is_ok().then_some(user)
    }

    /// What it lacks beside its program: Varnish compiles its settings.
    pub fn lacks(self) -> Option<&'static str> {
        let has = |dir: &str| fs::metadata(Path::new(dir).join("cc")).is_ok();
        (self == Product::Varnish && !["/usr/bin", "/usr/local/bin"].into_iter().any(has)).then_some("gcc")
    }
}

/// The first word that looks like a version.
fn version_in(text: &str) -> &str {
    let mut words = text.split(|letter: char| letter.is_whitespace() || "/-()".contains(letter));
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    words.find(is_version).unwrap_or("of an unknown version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_where_it_is_looked_for_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let there = vec![dir.path().to_owned()];
        assert!(Product::ALL[1..].iter().all(|product| product.program(&there).is_none()));
        fs::write(dir.path().join("squid"), "").unwrap();
        assert_eq!(Product::Squid.program(&there), Some(dir.path().join("squid")));
        assert!(Product::Tinaja.program(&there).is_some(), "it is this program");
    }

    #[test]
    fn a_version_is_what_looks_like_one() {
        for (text, version) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("varnishd (varnish-7.1.1 revision 7cee)", "7.1.1"),
            ("Traffic Server 9.2.9 Apr  4 2026", "9.2.9"),
            ("HAProxy version 2.6.12-1+deb12u3 2025/10/03", "2.6.12"),
            ("Squid Cache: Version 5.7", "5.7"),
            ("nothing", "of an unknown version"),
        ] {
            assert_eq!(version_in(text), version);
        }
    }
}
