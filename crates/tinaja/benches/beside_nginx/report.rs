//! What is printed and written down.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::servers::Kind;

/// One kind of request, on each server: processor time a request and requests a second, by round.
pub struct Line {
    what: &'static str,
    servers: Vec<(Kind, Vec<Duration>, Vec<f64>)>,
}

impl Line {
    pub fn new(what: &'static str, kinds: &[Kind]) -> Line {
        Line { what, servers: kinds.iter().map(|kind| (*kind, Vec::new(), Vec::new())).collect() }
    }

    pub fn add(&mut self, server: usize, cpu: Duration, rate: f64) {
        self.servers[server].1.push(cpu);
        self.servers[server].2.push(rate);
    }

    /// A line of the table for each server.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let ours = self.cpu(0);
        for (at, (kind, cpus, rates)) in self.servers.iter().enumerate() {
            let (least, most) = (cpus.iter().min().unwrap(), cpus.iter().max().unwrap());
            let rate = rates.iter().sum::<f64>() / rates.len() as f64;
            let ratio = if at == 0 { String::new() } else { format!("{:.2}", ours / self.cpu(at)) };
            let (what, name, cpu) = (self.what, kind.name(), self.cpu(at));
            let spread = most.as_secs_f64() / least.as_secs_f64();
            writeln!(text, "| {what} | {name} | {cpu:.1} | {ratio} | {rate:.0} | {spread:.2} |").unwrap();
        }
        text
    }

    /// The median processor time of a request, in microseconds.
    fn cpu(&self, server: usize) -> f64 {
        let mut cpus = self.servers[server].1.clone();
        cpus.sort();
        cpus[cpus.len() / 2].as_secs_f64() * 1e6
    }
}

/// What a program prints when it is asked so.
fn said(command: &str, argument: &str) -> String {
    let output = Command::new(command).arg(argument).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap().trim().to_owned()
}

/// Writes a page of this name: what is above its table, the table, and what has been written below it by hand.
fn write_page(name: &str, above: &str, lines: &[Line]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench").join(name);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let by_hand = before.find("\n## ").map(|at| before[at..].to_owned()).unwrap_or_default();
    let table: String = lines.iter().map(Line::text).collect();
    let head = "| request | server | CPU µs | ratio | requests/s | spread |\n|---|---|---|---|---|---|\n";
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, format!("{above}\n{head}{table}{by_hand}")).unwrap();
    println!("{table}");
}

/// Writes what was measured over HTTP/2.
pub fn write_http2(lines: &[Line], is_given: bool) {
    let (today, nginx) = (said("date", "+%F"), said("/usr/sbin/nginx", "-v").replace("nginx version: ", ""));
    let h2o = said("/usr/bin/h2o", "--version");
    let h2o = h2o.lines().next().unwrap_or_default().replace(" version ", " ");
    let by = if is_given {
        "`scripts/release` and `cargo bench -p tinaja -- --http2 --program target/optimised/tinaja`"
    } else {
        "`cargo bench -p tinaja -- --http2`"
    };
    let above = format!(
        "# Processor time of a hit over HTTP/2

{today}, by {by}, beside {nginx} and {h2o}, on a virtual machine of 2 cores.

Each server has one worker, and all its threads on one core; the client is on the other. It is one thread that speaks HTTP/2 by TLS 1.3 over 4
connections, with 32 requests at once on each, and compares every body. 100 objects are requested 60,000 times a round; all are hits.
Access logs are off. The servers take turns, 3 rounds. CPU is the user and system time of all threads of the server in microseconds, the
median of the rounds; *ratio* is Tinaja's over that server's, so below 1 Tinaja takes less. *Spread* is the largest round over the smallest.

- Tinaja serves from memory, nginx what its `proxy_cache` has in files in the page cache.
- H2O has no cache of other servers' answers. It serves files with the same bytes from the page cache: no answer of another server is judged, and its
  heads are shorter.
- *bare h2 and rustls* is the least that Tinaja's libraries take: a server that looks at no request and gives everybody the same answer. It is built by `cargo
  bench`, without a profile.
"
    );
    write_page("http2.md", &above, lines);
}

/// Writes what was measured of interception.
pub fn write_intercepted(lines: &[Line]) {
    let (today, nginx) = (said("date", "+%F"), said("/usr/sbin/nginx", "-v").replace("nginx version: ", ""));
    let above = format!(
        "# Processor time of an intercepting proxy

{today}, by `cargo bench -p tinaja -- --intercepted`, beside {nginx}, which ends TLS as a reverse proxy, and Debian's `squid-openssl` with
`ssl_bump`, on a virtual machine of 2 cores.

Each server has one worker, and all its threads on one core; clients and origin are on the other. All speak TLS 1.3 with TLS_AES_128_GCM_SHA256 and
X25519, and all certificates have ECDSA P-256 keys. Access logs are off. The servers take turns, 3 rounds. CPU is the user and system time of all
threads of the server in microseconds, the median of the rounds; *ratio* is Tinaja's over that server's, so below 1 Tinaja takes less. *Spread* is the
largest round over the smallest. What is counted a second depends on the client too, which has one core: the CPU says what a server could do.

- *hit of 8 KiB*: 100 objects, requested 30,000 times a round by HTTP/1.1 over 16 kept connections, which are tunnels through the two proxies. Every
  body is compared. Tinaja and Squid have them in memory, nginx in files in the page cache.
- *new session*, *resumed session*: 1,500 connections a round by 8 clients, from connecting to the end that both sides say, and no request. Tinaja's
  have a CONNECT each besides, and it reads the client's first message before it decides; its certificate for the name is made already. Squid is left out: it
  connects to the origin for each tunnel.
- *new session, certificate made*: the same with 1,500 names that were never asked for. What it takes more than a new session is the certificate.
"
    );
    write_page("intercepted.md", &above, lines);
}

/// Writes the table, and keeps what has been written below it by hand.
pub fn write(lines: &[Line]) {
    let (today, nginx) = (said("date", "+%F"), said("/usr/sbin/nginx", "-v").replace("nginx version: ", ""));
    let varnish = said("/usr/sbin/varnishd", "-V");
    let varnish = varnish.split(['(', ' ', ')']).find(|word| word.starts_with("varnish-")).unwrap_or("Varnish");
    let traffic_server = said("/usr/bin/traffic_server", "--version");
    let traffic_server = traffic_server.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let traffic_server = traffic_server.unwrap_or_default();
    let above = format!(
        "# Processor time of a request, beside nginx, Varnish and Traffic Server

{today}, by `cargo bench -p tinaja`, beside {nginx}, {varnish} and Traffic Server {traffic_server}, on a virtual machine of 2 cores.

Each server has one worker, Varnish one pool of threads, Traffic Server one event thread, and all its threads on one core; clients and origin are on the other. There are 16 persistent
connections, bodies are 8 KiB, and access logs are off, but for the log in memory that
Varnish always writes. The servers take turns, 3 rounds. CPU is the user and system time of
all threads of the server in microseconds, the median of the rounds; *ratio* is Tinaja's over that server's, so below 1
Tinaja takes less. *Spread* is the largest round over the smallest.

- *memory hit*: 100 objects, requested 40,000 times. nginx serves them from files in the page cache, Varnish and Traffic
  Server from memory.
- *disk hit*: 12,000 objects, each requested once per round, far from its neighbours. Tinaja has no memory for objects and
  bypasses the page cache, as Traffic Server does; nginx's pages are dropped before each round.
- *miss*: 10,000 objects that have never been requested, fetched over persistent connections and stored. nginx stores each in
  a file, once on this machine's file system and once in memory, where files cost least. Varnish keeps all objects in memory. Traffic
  Server stores them in one file past the page cache, as Tinaja does.
"
    );
    write_page("beside-nginx.md", &above, lines);
}
