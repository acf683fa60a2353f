//! A router with Tinaja on it, clients on one side and origins on the other, for tests that have a network of their own.
//!
//! Origins have addresses of the public Internet, but for one. nginx is all of them: `a.test` and `b.test`, by HTTP and HTTPS, and one
//! at a private address. Names are told by a name server of ours, to the proxy alone: clients choose addresses themselves.

mod origins;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::name_server::NameServer;
use super::tinaja::binary;
use tinaja_testkit::client::says_hit;
use tinaja_testkit::network::{Machine, be_a_router};
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{env_of, output, run};
use tinaja_testkit::wait::eventually;

/// Where `a.test` is.
pub const A: [&str; 2] = ["198.41.0.4", "2001:500:2::c"];
/// Where `b.test` is.
pub const B: [&str; 2] = ["198.41.0.5", "2001:500:2::d"];
/// A server that clients may not reach unless a rule says so.
pub const PRIVATE: &str = "10.77.0.5";
/// An address that answers nothing at all.
pub const SILENT: &str = "198.41.0.8";
/// An address behind the router that the whole Internet can reach.
pub const INWARD: &str = "198.51.100.7";
/// The router, as its clients know it.
pub const ROUTER: &str = "10.9.0.1";
/// A listener for both versions of IP.
pub const PORT: u16 = 3129;

const NAME_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 77));

/// All of it. Dropped, nothing is left.
pub struct Network {
    pub dir: TempDir,
    nginx: Process,
    clients: Machine,
    origins: Machine,
}

/// What a client got.
#[derive(Debug, Default)]
pub struct Got {
    pub status: u16,
    pub cache_status: String,
    /// Which server says that it has answered: `a`, `b` or `private`.
    pub server: String,
    pub body: String,
}

impl Got {
    pub fn is_hit(&self) -> bool {
        says_hit(&self.cache_status)
    }
}

/// A URL's host as one that curl takes from an address alone.
fn in_url(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

impl Network {
    pub fn new() -> Network {
        let dir = TempDir::new().unwrap();
        be_a_router();
        let clients = ["10.9.0.2/24", "10.9.0.3/24", "fd00:9::2/64", "fd00:9::3/64"];
        let clients = Machine::new("clients", &["10.9.0.1/24", "fd00:9::1/64"], &clients);
        let here = ["198.41.0.1/24", "2001:500:2::1/64", "10.77.0.1/24"];
        let there =
            ["198.41.0.4/24", "198.41.0.5/24", "198.41.0.8/24", "2001:500:2::c/64", "2001:500:2::d/64", "10.77.0.5/24"];
        let origins = Machine::new("origins", &here, &there);
        let addresses = |name: &str, _| {
            let of = |all: &[&str]| all.iter().map(|address| address.parse().unwrap()).collect();
            match name {
                "a.test" => of(&A),
                "b.test" => of(&B),
                // One that does not answer, and a.test's.
                "moved.test" => of(&["198.41.0.9", A[0]]),
                "private.test" => of(&[PRIVATE]),
                _ => Vec::new(),
            }
        };
        NameServer::start(NAME_SERVER, addresses).unwrap();
        let silent = format!(
            "add table ip s; add chain ip s i {{ type filter hook input priority 0; }}; add rule ip s i ip daddr {SILENT} drop"
        );
        run(origins.command("nft").arg(silent));
        let nginx = origins::start_nginx(&dir, &origins);
        let network = Network { dir, nginx, clients, origins };
        let authorities = ["a", "b"].map(|name| fs::read_to_string(network.path(name).join("ca.pem")).unwrap());
        fs::write(network.path("trusted.pem"), authorities.concat()).unwrap();
        fs::write(network.path("resolv.conf"), format!("nameserver {NAME_SERVER}\noptions timeout:2 attempts:2\n"))
            .unwrap();
        run(binary(&network.dir).args(["ca", "create"]).arg(network.path("authority")));
        network
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes settings with these listeners and rules. There is a forward proxy on loopback beside them, for those who know of one.
    pub fn settings(&self, rules: &str, listeners: &str) -> PathBuf {
        let text = format!(
            "cache = \"{dir}/cache\"\ndisk = \"64MiB\"\nmemory = \"8MiB\"\naccess_log = \"{dir}/access.log\"\n\
             access_log_format = \"json\"\nlog = \"debug\"\nmetrics = \"127.0.0.1:9180\"\nintercept_ca = \"{dir}/authority\"\n\
             {rules}\n{listeners}\n[[listener]]\naddress = \"127.0.0.1:3128\"\n",
            dir = self.dir.path().display(),
        );
        let path = self.path("tinaja.toml");
        fs::write(&path, text).unwrap();
        path
    }

    /// Starts Tinaja on the router by the settings that were written last.
    pub fn start(&self, flags: &[&str]) -> Process {
        self.start_by(self.command(&[]).args(flags))
    }

    /// The same without the capabilities that are about networks.
    pub fn start_without_capabilities(&self, flags: &[&str]) -> Process {
        self.start_by(self.command(&["setpriv", "--bounding-set", "-net_admin,-net_raw"]).args(flags))
    }

    fn start_by(&self, command: &mut Command) -> Process {
        let before = self.said();
        let process = Process::start("tinaja", command, &self.path("output"));
        eventually("tinaja to listen", || {
            self.said().len() > before.len() && self.said()[before.len()..].contains("  stop ")
        });
        process
    }

    /// All that it has printed.
    pub fn said(&self) -> String {
        fs::read_to_string(self.path("output")).unwrap_or_default()
    }

    /// It, by this program if there is one, with a resolver that asks our name server.
    fn command(&self, by: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        env_of(&mut command, self.dir.path());
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command
            .arg("mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"")
            .arg("sh")
            .arg(self.path("resolv.conf"));
        command.args(by).arg(env!("CARGO_BIN_EXE_tinaja")).args(["serve", "--config"]).arg(self.path("tinaja.toml"));
        command.env("SSL_CERT_FILE", self.path("trusted.pem"));
        command
    }

    /// What `tinaja intercept-hints` prints for clients and the settings that were written last, and does as it is.
    pub fn divert(&self, flags: &[&str]) -> String {
        let hints = run(binary(&self.dir)
            .arg("intercept-hints")
            .arg("--config")
            .arg(self.path("tinaja.toml"))
            .args(["--from", "clients"])
            .args(flags));
        let script = self.path("hints.sh");
        fs::write(&script, &hints).unwrap();
        // Once more changes nothing.
        (0..2).for_each(|_| drop(run(Command::new("sh").arg(&script))));
        hints
    }

    /// Sends clients' connections to [`PRIVATE`] to Tinaja too, by a rule as an operator may add it.
    pub fn divert_private(&self, by: &str) {
        let (chain, to) = match by {
            "redirect" => ("nat_router", format!("redirect to :{PORT}")),
            _ => ("mangle_router", format!("tproxy ip to :{PORT} meta mark set meta mark or 0x1000 accept")),
        };
        let rule = format!("iifname clients ip daddr {PRIVATE} tcp dport {{ 80, 443 }} {to}");
        run(Command::new("nft").args(["insert", "rule", "inet", "tinaja", chain]).arg(rule));
    }

    /// Gives the clients' machine an address that is not private, [`INWARD`], with a server there by this script, at port 80.
    pub fn serve_among_clients(&self, script: &str) -> Process {
        run(self.clients.command("ip").args(["address", "add", INWARD, "dev", "lo"]));
        run(Command::new("ip").args(["route", "add", INWARD, "via", "10.9.0.2"]));
        self.python(&self.clients, script, INWARD, 80)
    }

    /// curl on a client's machine: to this address, for whatever URL.
    pub fn curl(&self, address: &str, url: &str, more: &[&str]) -> Got {
        self.curl_by(&mut self.clients.command("curl"), address, url, more)
    }

    /// The same, and it is not waited for.
    pub fn start_curl(&self, address: &str, url: &str, more: &[&str]) -> Process {
        let mut curl = self.clients.command("curl");
        curl.args(["-sS", "--noproxy", "*", "--connect-to", &format!("::{}:", in_url(address))]).args(more).arg(url);
        Process::start("curl", &mut curl, &self.path("curl.output"))
    }

    /// The same by a user of the router's.
    pub fn curl_here(&self, user: &str, address: &str, url: &str, more: &[&str]) -> Got {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--clear-groups", "curl"]);
        self.curl_by(&mut command, address, url, more)
    }

    fn curl_by(&self, curl: &mut Command, address: &str, url: &str, more: &[&str]) -> Got {
        curl.args(["-sS", "--noproxy", "*", "--max-time", "60", "-D", "-", "--connect-to"]);
        curl.arg(format!("::{}:", in_url(address))).args(more).arg(url);
        Network::got(output(curl))
    }

    /// The answer in what curl printed, or nothing with what it said.
    fn got(output: Output) -> Got {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Got { body: String::from_utf8_lossy(&output.stderr).into_owned(), ..Got::default() };
        };
        let field = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines
                .find(|(field, _)| field.eq_ignore_ascii_case(name))
                .map_or(String::new(), |(_, value)| value.to_owned())
        };
        Got {
            status: head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default(),
            cache_status: field("cache-status"),
            server: field("x-server"),
            body: body.to_owned(),
        }
    }

    /// A server at an address of the origins', by what Python makes of this script.
    pub fn serve_by(&self, script: &str, address: &str, port: u16) -> Process {
        self.python(&self.origins, script, address, port)
    }

    fn python(&self, on: &Machine, script: &str, address: &str, port: u16) -> Process {
        let mut command = on.command("python3");
        let mut process = Process::start("python3", command.args(["-c", script]), &self.path("python.output"));
        process.wait_until_listening(SocketAddr::new(address.parse().unwrap(), port));
        process
    }

    /// What a shell on a client's machine prints.
    pub fn shell(&self, script: &str) -> String {
        Network::shell_on(&self.clients, script)
    }

    /// What a shell on the origins' machine prints.
    pub fn shell_outside(&self, script: &str) -> String {
        Network::shell_on(&self.origins, script)
    }

    fn shell_on(machine: &Machine, script: &str) -> String {
        let output = output(machine.command("bash").args(["-c", script]));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// The requests for a path that nginx has answered: each with the server's address, scheme and Host.
    pub fn asked(&self, path: &str) -> Vec<String> {
        // It writes a line once it has sent the answer, and does one thing after the other.
        run(self.origins.command("curl").args(["-sS", &format!("http://{}/idle", A[0])]));
        assert!(self.nginx.pid() > 0);
        let log = fs::read_to_string(self.path("nginx.log")).unwrap();
        log.lines().filter(|line| line.split(' ').nth(3) == Some(path)).map(str::to_owned).collect()
    }

    /// A counter of Tinaja's.
    pub fn metric(&self, series: &str) -> u64 {
        let text = run(Command::new("curl").args(["-sSf", "--noproxy", "*", "http://127.0.0.1:9180/metrics"]));
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
        line.unwrap_or_else(|| panic!("{series} in {text}")).parse().unwrap()
    }

    /// Waits for a line of the access log that has all of these.
    pub fn logged(&self, parts: &[&str]) {
        eventually(&format!("{parts:?} in the access log"), || {
            let log = fs::read_to_string(self.path("access.log")).unwrap_or_default();
            log.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        });
    }
}
