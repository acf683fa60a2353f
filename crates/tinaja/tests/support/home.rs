//! A server that is told by a configuration file, with certificates.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::tinaja::binary;
use tinaja_testkit::nginx::{Certificates, make_certificates_for};
use tinaja_testkit::origin::Origin;
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, run};

/// A directory with certificates and a configuration in it.
pub struct Home {
    pub dir: TempDir,
    pub listen: SocketAddr,
    /// The files given to the listener, in their order.
    pub listener: String,
    /// Settings besides the listeners'.
    pub top: String,
    /// How long a head and a handshake may take. On a busy machine a client's process needs more than a second for its own.
    pub head: &'static str,
}

impl Home {
    pub fn new() -> Home {
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Home { dir: TempDir::new().unwrap(), listen, listener: String::new(), top: String::new(), head: "10s" }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Adds a certificate for these names, from an authority of its own.
    pub fn certificate(&mut self, name: &str, alt_names: &str) -> Certificates {
        fs::create_dir(self.path(name)).unwrap();
        let made = make_certificates_for(&self.path(name), alt_names);
        self.add(&made.certificate, &made.key);
        made
    }

    pub fn add(&mut self, certificate: &Path, key: &Path) {
        let (certificate, key) = (certificate.display(), key.display());
        self.listener += &format!("[[listener.certificate]]\nfile = \"{certificate}\"\nkey = \"{key}\"\n");
    }

    pub fn command(&self, mode: &str) -> Command {
        self.command_with_limits(mode, "")
    }

    fn command_with_limits(&self, mode: &str, limits: &str) -> Command {
        let (listen, listener, top, head) = (self.listen, &self.listener, &self.top, self.head);
        let text = format!(
            "cache = \"{0}/cache\"\ndisk = \"64MiB\"\nmemory = \"8MiB\"\naccess_log = \"{0}/access.log\"\n{top}\
             [limits]\nhead = \"{head}\"\n{limits}[[listener]]\naddress = \"{listen}\"\n{mode}\n{listener}",
            self.dir.path().display()
        );
        fs::write(self.path("tinaja.toml"), text).unwrap();
        let mut command = binary(&self.dir);
        command.arg("serve").arg("--config").arg(self.path("tinaja.toml"));
        command
    }

    pub fn start(&self, mode: &str) -> Process {
        self.start_as(&mut self.command(mode))
    }

    /// The same, with so long to stop.
    pub fn start_with_stop(&self, mode: &str, stop: &str) -> Process {
        self.start_as(&mut self.command_with_limits(mode, &format!("stop = \"{stop}\"\n")))
    }

    fn start_as(&self, command: &mut Command) -> Process {
        let mut process = Process::start("tinaja", command, &self.path("output"));
        process.wait_until_listening(self.listen);
        process
    }

    /// What curl says of `https://NAME/PATH`: status, version, whether it was a hit, and the body.
    pub fn curl(&self, authority: &Path, name: &str, path: &str, more: &[&str]) -> (u16, String, bool, String) {
        let port = self.listen.port();
        let mut curl = client("curl", self.dir.path());
        curl.args(["-sS", "--noproxy", "", "-w", "%{http_code} %{http_version} %header{cache-status}"]);
        curl.arg("-o").arg(self.path("got")).arg("--cacert").arg(authority).args(more);
        curl.args(["--resolve", &format!("{name}:{port}:127.0.0.1"), &format!("https://{name}:{port}{path}")]);
        let said = run(&mut curl);
        let mut words = said.splitn(3, ' ');
        let (status, version) = (words.next().unwrap().parse().unwrap(), words.next().unwrap().to_owned());
        let hit = words.next().is_some_and(tinaja_testkit::client::says_hit);
        (status, version, hit, fs::read_to_string(self.path("got")).unwrap_or_default())
    }
}

/// An origin that answers with what it was told of the client, and varies by nothing.
pub fn telling() -> Origin {
    Origin::closing(|request, stream| {
        let line = request.head.lines().find(|line| line.to_ascii_lowercase().starts_with("x-forwarded-proto"));
        let body = line.unwrap_or("nothing").to_ascii_lowercase();
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n")?;
        write!(stream, "Connection: close\r\n\r\n{body}")
    })
}

pub fn reverse(origin: &Origin) -> String {
    format!("mode = \"reverse\"\norigin = \"{}\"", origin.url(""))
}
