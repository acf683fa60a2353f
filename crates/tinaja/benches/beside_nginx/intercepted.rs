//! An intercepting proxy: hits, handshakes, and certificates that it makes.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tempfile::TempDir;
use tinaja_testkit::load::Https;
use tinaja_testkit::nginx::{Certificates, make_certificates_for};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tls::Secured;
use tinaja_testkit::tools::{self, run};

use crate::report::Line;
use crate::servers::{Kind, OPEN_FILES, Server, nginx_by};
use crate::{BODY_BYTES, CONNECTIONS, FEW, ROUNDS, SERVED, load, origin, path};

/// Requests and handshakes of a round.
const REQUESTS: usize = 30_000;
const HANDSHAKES: usize = 1_500;
const CLIENTS: usize = 8;
/// The origin's name, which every resolver knows.
const NAME: &str = "localhost";

/// What Debian's Squid runs as; it refuses to be root.
const USER: &str = "proxy";
/// Squid's shared memory has names that are the same for every Squid of a machine: here only this one sees it.
const APART: &str = r#"mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /run && mkdir /run/squid && exec "$@""#;

/// All that they have in common.
struct Lab {
    dir: TempDir,
    /// The origin's certificate, which nginx has too.
    tls: Certificates,
    secured: Secured,
}

/// A server, and how its clients reach it.
struct Side {
    kind: Kind,
    server: Server,
    authority: PathBuf,
    tunnel: Option<String>,
}

impl Side {
    fn clients(&self, resumes: bool) -> Https {
        Https::new(self.server.address(), self.tunnel.clone(), &self.authority, resumes)
    }
}

/// Measures all of it.
pub fn measure() -> Vec<Line> {
    let dir = TempDir::new().unwrap();
    let tls = make_certificates_for(dir.path(), &format!("DNS:{NAME}"));
    let plain = origin::start(BODY_BYTES);
    let secured = Secured::before(plain, &tls);
    let lab = Lab { dir, tls, secured };
    let nginx = |kind, more: &str| {
        let server =
            nginx_by(plain, &format!("ssl_protocols TLSv1.3; {more}"), TempDir::new().unwrap(), Some(&lab.tls));
        Side { kind, server, authority: lab.tls.authority.clone(), tunnel: None }
    };
    let sides =
        [tinaja(&lab), nginx(Kind::NginxByTls, ""), nginx(Kind::NginxByTlsWithOpenFiles, OPEN_FILES), squid(&lab)];
    let warm: Vec<_> = (0..FEW).map(path).collect();
    for side in &sides {
        load::pin(side.server.pid(), SERVED);
        side.clients(false).ask(NAME, &warm, &vec![b'b'; BODY_BYTES], 1);
        side.server.settle();
    }
    let paths: Vec<_> = (0..REQUESTS).map(|at| path(at % FEW)).collect();
    let known = vec![NAME.to_owned(); HANDSHAKES];
    let all: Vec<&Side> = sides.iter().collect();
    vec![
        line("hit of 8 KiB", REQUESTS, &all, |side, _| {
            let hits = side.clients(false).ask(NAME, &paths, &vec![b'b'; BODY_BYTES], CONNECTIONS);
            assert_eq!(hits, REQUESTS, "hits of {:?}", side.kind);
        }),
        line("new session", HANDSHAKES, &all[..2], |side, _| {
            assert_eq!(side.clients(false).shake(&known, CLIENTS), 0, "resumed by {:?}", side.kind);
        }),
        line("resumed session", HANDSHAKES, &all[..2], |side, _| {
            let resumed = side.clients(true).shake(&known, CLIENTS);
            // The first ones of a round have nothing to go on from.
            assert!(resumed + 2 * CLIENTS >= HANDSHAKES, "{resumed} resumed by {:?}", side.kind);
        }),
        line("new session, certificate made", HANDSHAKES, &all[..1], |side, round| {
            let fresh: Vec<_> = (0..HANDSHAKES).map(|at| format!("host-{round}-{at}.bench.example")).collect();
            side.clients(false).shake(&fresh, CLIENTS);
        }),
    ]
}

/// Some rounds of one kind of work, `count` pieces each, on these in turns.
fn line(what: &'static str, count: usize, sides: &[&Side], work: impl Fn(&Side, usize)) -> Line {
    let kinds: Vec<_> = sides.iter().map(|side| side.kind).collect();
    let mut line = Line::new(what, &kinds);
    for round in 0..ROUNDS {
        for (at, side) in sides.iter().enumerate() {
            let (cpu, began) = (side.server.cpu(), Instant::now());
            work(side, round);
            line.add(at, (side.server.cpu() - cpu) / count as u32, count as f64 / began.elapsed().as_secs_f64());
        }
    }
    eprintln!("{}", line.text());
    line
}

fn tinaja(lab: &Lab) -> Side {
    let (dir, address) = (TempDir::new().unwrap(), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let (at, port, program) = (dir.path().display(), lab.secured.address.port(), env!("CARGO_BIN_EXE_tinaja"));
    let authority = lab.dir.path().join("tinaja-ca");
    run(tools::client(program, dir.path()).args(["ca", "create"]).arg(&authority));
    let text = format!(
        "cache = \"{at}/cache\"\ndisk = \"1GiB\"\nmemory = \"256MiB\"\nworkers = 1\nca_file = \"{}\"\nintercept_ca = \"{}\"\n\
         [[intercept]]\naction = \"cache\"\n[[listener]]\naddress = \"{address}\"\nallow_destination = \"127.0.0.0/8\"\n\
         allow_connect_port = {port}\n",
        lab.tls.authority.display(),
        authority.display()
    );
    let file = dir.path().join("tinaja.toml");
    fs::write(&file, text).unwrap();
    let mut command = tools::client(program, dir.path());
    let mut process =
        Process::start("tinaja", command.arg("serve").arg("--config").arg(file), &dir.path().join("output"));
    process.wait_until_listening(address);
    let server = Server::TinajaByTls { process, _dir: dir, address };
    let tunnel = Some(format!("{NAME}:{port}"));
    Side { kind: Kind::TinajaIntercepting, server, authority: authority.join("ca.pem"), tunnel }
}

/// As its makers' pages have it: the client's first message is read (`peek`), then TLS ends there (`bump`).
fn squid(lab: &Lab) -> Side {
    let (dir, address) = (TempDir::new().unwrap(), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let (at, root) = (dir.path().display(), unpacked(dir.path()));
    let key = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    let (pem, authority) = (dir.path().join("ca.both"), lab.dir.path().join("squid-ca.pem"));
    let mut openssl = Command::new("openssl");
    run(openssl.args(key).args(["-subj", "/CN=Squid", "-keyout"]).arg(&pem).arg("-out").arg(&authority));
    let both = [fs::read(&authority).unwrap(), fs::read(&pem).unwrap()].concat();
    fs::write(&pem, both).unwrap();
    let maker = root.join("usr/lib/squid/security_file_certgen");
    run(Command::new(&maker).arg("-c").arg("-s").arg(dir.path().join("made")).args(["-M", "4MB"]));
    let conf = format!(
        "http_port {address} ssl-bump generate-host-certificates=on dynamic_cert_mem_cache_size=4MB cert={at}/ca.both\n\
         sslcrtd_program {} -s {at}/made -M 4MB\nsslcrtd_children 1 startup=1 idle=1\n\
         acl first at_step SslBump1\nssl_bump peek first\nssl_bump bump all\ntls_outgoing_options cafile={at}/origins.pem\n\
         http_access allow all\ncache_mem 256 MB\nmaximum_object_size_in_memory 64 KB\nmemory_cache_shared off\n\
         access_log none\ncache_log {at}/cache.log\ncache_store_log none\npid_filename {at}/pid\ncoredump_dir {at}\n\
         cache_effective_user {USER}\nnetdb_filename none\nvisible_hostname bench\nshutdown_lifetime 0\n\
         icon_directory {root}/usr/share/squid/icons\nmime_table {root}/usr/share/squid/mime.conf\n\
         error_directory {at}\nerr_page_stylesheet {root}/etc/squid/errorpage.css\n\
         pinger_enable off\n",
        maker.display(),
        root = root.display()
    );
    let file = dir.path().join("squid.conf");
    fs::write(&file, conf).unwrap();
    fs::copy(&lab.tls.authority, dir.path().join("origins.pem")).unwrap();
    run(Command::new("chown").args(["-R", USER]).arg(dir.path()));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", APART, "sh"]).arg(root.join("usr/sbin/squid")).args(["-N", "-f"]).arg(&file);
    let mut process = Process::start("squid", &mut command, &dir.path().join("output"));
    process.wait_until_listening(address);
    let tunnel = Some(format!("{NAME}:{}", lab.secured.address.port()));
    let server = Server::Squid { process, _dir: dir, address };
    Side { kind: Kind::SquidBumping, server, authority, tunnel }
}

/// Debian's Squid with OpenSSL, which cannot be installed beside the one without: below this directory, for this run.
fn unpacked(dir: &Path) -> PathBuf {
    let root = dir.join("squid-openssl");
    fs::create_dir(&root).unwrap();
    run(Command::new("apt-get").args(["download", "squid-openssl", "squid-common"]).current_dir(&root));
    let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
    let packages: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).filter(is_package).collect();
    assert_eq!(packages.len(), 2, "{packages:?}");
    for package in packages {
        run(Command::new("dpkg").arg("-x").arg(package).arg(&root));
    }
    root
}
