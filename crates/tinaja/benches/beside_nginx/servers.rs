//! The servers that are compared, each with one worker.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use tempfile::TempDir;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::nginx::{Certificates, make_certificates_for};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools;
use tinaja_testkit::wait::wait_for;

/// Has nginx keep its files open.
pub const OPEN_FILES: &str = "open_file_cache max=20000 inactive=10m; open_file_cache_valid 10m;";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With memory for everything that is asked for often.
    TinajaInMemory,
    /// With no memory for objects: every hit is read from the disk, past the page cache.
    TinajaOnDisk,
    /// Its proxy cache, in files; memory is the page cache.
    Nginx,
    /// The same, with the files kept open.
    NginxWithOpenFiles,
    /// The same as [`Kind::Nginx`], with its files on a file system in memory: no disk's share is in its time.
    NginxInTmpfs,
    /// With all objects in memory.
    Varnish,
    /// Its cache in a file past the page cache, and memory for everything that is asked for often.
    TrafficServer,
    /// With no memory for objects.
    TrafficServerOnDisk,
    /// [`Kind::TinajaInMemory`], by TLS.
    TinajaByTls,
    /// Another program of ours in its place, for before and after.
    OlderByTls,
    /// [`Kind::Nginx`], by TLS and HTTP/2.
    NginxByTls,
    /// [`Kind::NginxWithOpenFiles`], by TLS and HTTP/2.
    NginxByTlsWithOpenFiles,
    /// A forward proxy that intercepts.
    TinajaIntercepting,
    /// The same, of Squid's (ssl-bump).
    SquidBumping,
    /// Files in the page cache, by TLS and HTTP/2: it keeps no answers of other servers.
    H2o,
    /// Only the libraries that Tinaja uses for HTTP/2: see [`crate::bare_http2`].
    BareHttp2,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::TinajaInMemory | Kind::TinajaOnDisk | Kind::TinajaByTls | Kind::TinajaIntercepting => "tinaja",
            Kind::Nginx | Kind::NginxByTls => "nginx",
            Kind::NginxWithOpenFiles | Kind::NginxByTlsWithOpenFiles => "nginx, open_file_cache",
            Kind::NginxInTmpfs => "nginx, files in tmpfs",
            Kind::Varnish => "varnish",
            Kind::TrafficServer | Kind::TrafficServerOnDisk => "traffic server",
            Kind::OlderByTls => "tinaja, before",
            Kind::H2o => "h2o, files",
            Kind::BareHttp2 => "bare h2 and rustls",
            Kind::SquidBumping => "squid",
        }
    }
}

pub enum Server {
    Tinaja {
        _setup: Setup,
        tinaja: Tinaja,
    },
    TinajaByTls {
        process: Process,
        _dir: TempDir,
        address: SocketAddr,
    },
    Nginx {
        process: Process,
        dir: TempDir,
        address: SocketAddr,
    },
    /// Its child does the work.
    Varnish {
        _process: Process,
        child: u32,
        _dir: TempDir,
        address: SocketAddr,
    },
    Ats {
        process: Process,
        _dir: TempDir,
        address: SocketAddr,
    },
    Squid {
        process: Process,
        _dir: TempDir,
        address: SocketAddr,
    },
    H2o {
        process: Process,
        _dir: TempDir,
        address: SocketAddr,
    },
    BareHttp2 {
        process: Process,
        _dir: TempDir,
        address: SocketAddr,
    },
}

/// The name of servers by TLS, their certificate and its authority.
pub const NAME: &str = "bench.example";

/// A certificate for [`NAME`].
pub fn certificates(dir: &Path) -> Certificates {
    make_certificates_for(dir, &format!("DNS:{NAME}"))
}

impl Server {
    pub fn start(kind: Kind, origin: SocketAddr) -> Server {
        match kind {
            Kind::TinajaInMemory => tinaja(origin, "256MiB"),
            Kind::TinajaOnDisk => tinaja(origin, "0B"),
            Kind::Nginx => nginx(origin, "", TempDir::new().unwrap()),
            Kind::NginxWithOpenFiles => nginx(origin, OPEN_FILES, TempDir::new().unwrap()),
            Kind::NginxInTmpfs => nginx(origin, "", TempDir::new_in("/dev/shm").unwrap()),
            Kind::Varnish => varnish(origin),
            Kind::TrafficServer => traffic_server(origin, "256M"),
            Kind::TrafficServerOnDisk => traffic_server(origin, "0"),
            Kind::TinajaByTls
            | Kind::OlderByTls
            | Kind::NginxByTls
            | Kind::NginxByTlsWithOpenFiles
            | Kind::TinajaIntercepting
            | Kind::SquidBumping
            | Kind::H2o
            | Kind::BareHttp2 => {
                panic!("{kind:?} takes a certificate")
            }
        }
    }

    /// The same by TLS and HTTP/2. `files` are what servers of files serve, below their root.
    pub fn start_by_tls(kind: Kind, origin: SocketAddr, tls: &Certificates, files: &[(String, Vec<u8>)]) -> Server {
        match kind {
            Kind::NginxByTls => nginx_by(origin, "", TempDir::new().unwrap(), Some(tls)),
            Kind::NginxByTlsWithOpenFiles => nginx_by(origin, OPEN_FILES, TempDir::new().unwrap(), Some(tls)),
            Kind::H2o => h2o(tls, files),
            Kind::BareHttp2 => bare_http2(tls, files.first().map_or(0, |(_, bytes)| bytes.len())),
            _ => Server::start(kind, origin),
        }
    }

    /// A program of Tinaja's, as [`Kind::TinajaByTls`].
    pub fn tinaja_by_tls(program: &Path, origin: SocketAddr, tls: &Certificates) -> Server {
        tinaja_by_tls(program, origin, tls)
    }

    pub fn address(&self) -> SocketAddr {
        match self {
            Server::Tinaja { tinaja, .. } => tinaja.address(),
            Server::Nginx { address, .. }
            | Server::TinajaByTls { address, .. }
            | Server::Varnish { address, .. }
            | Server::Ats { address, .. }
            | Server::Squid { address, .. }
            | Server::H2o { address, .. }
            | Server::BareHttp2 { address, .. } => *address,
        }
    }

    pub fn pid(&self) -> u32 {
        match self {
            Server::Tinaja { tinaja, .. } => tinaja.process.pid(),
            Server::Nginx { process, .. }
            | Server::TinajaByTls { process, .. }
            | Server::Ats { process, .. }
            | Server::Squid { process, .. }
            | Server::H2o { process, .. }
            | Server::BareHttp2 { process, .. } => process.pid(),
            Server::Varnish { child, .. } => *child,
        }
    }

    /// Processor time of all its threads so far, user and system.
    pub fn cpu(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let time = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|nanos| nanos.parse().ok()).map_or(Duration::ZERO, Duration::from_nanos)
        };
        tasks.map(|task| time(task.unwrap())).sum()
    }

    /// Waits until it writes no more: what was just stored is on its way to the disk.
    pub fn settle(&self) {
        let written = || {
            let io = fs::read_to_string(format!("/proc/{}/io", self.pid())).unwrap_or_default();
            (io.lines().find(|line| line.starts_with("write_bytes")).map(str::to_owned), self.cpu().as_millis() / 20)
        };
        let mut last = written();
        wait_for("a server that rests", Duration::from_secs(60), || {
            std::thread::sleep(Duration::from_secs(1));
            let now = written();
            (std::mem::replace(&mut last, now.clone()) == now).then_some(())
        });
        // Tinaja writes at the latest after its flush interval.
        std::thread::sleep(Duration::from_secs(6));
    }

    /// Drops the pages of its files, so that the disk is read. Tinaja's are never there.
    pub fn forget_pages(&self) {
        if let Server::Nginx { dir, .. } = self {
            forget_pages(&dir.path().join("cache"));
        }
    }
}

fn forget_pages(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            forget_pages(&path);
        } else {
            let file = fs::File::open(path).unwrap();
            rustix::fs::fdatasync(&file).unwrap();
            fadvise(file.as_fd(), 0, None, Advice::DontNeed).unwrap();
        }
    }
}

fn tinaja(origin: SocketAddr, memory: &str) -> Server {
    let origin = format!("http://{origin}");
    let flags = ["--disk", "1GiB", "--memory", memory, "--workers", "1", "--origin", &origin];
    let setup = Setup::unlogged().flags(&flags);
    let tinaja = setup.start();
    Server::Tinaja { _setup: setup, tinaja }
}

fn tinaja_by_tls(program: &Path, origin: SocketAddr, tls: &Certificates) -> Server {
    let dir = TempDir::new().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (path, certificate, key) = (dir.path().display(), tls.certificate.display(), tls.key.display());
    let text = format!(
        "cache = \"{path}/cache\"\ndisk = \"1GiB\"\nmemory = \"256MiB\"\nworkers = 1\n\
         [[listener]]\naddress = \"{address}\"\nmode = \"reverse\"\norigin = \"http://{origin}\"\n\
         [[listener.certificate]]\nfile = \"{certificate}\"\nkey = \"{key}\"\n"
    );
    let file = dir.path().join("tinaja.toml");
    fs::write(&file, text).unwrap();
    let mut command = tools::client(program.to_str().unwrap(), dir.path());
    command.arg("serve").arg("--config").arg(file);
    let mut process = Process::start("tinaja", &mut command, &dir.path().join("output"));
    process.wait_until_listening(address);
    Server::TinajaByTls { process, _dir: dir, address }
}

/// One thread, and what it is told to do with each file: nothing. Without a log.
fn h2o(tls: &Certificates, files: &[(String, Vec<u8>)]) -> Server {
    let dir = TempDir::new().unwrap();
    for (name, bytes) in files {
        let file = dir.path().join("root").join(name.trim_start_matches('/'));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (path, certificate, key) = (dir.path().display(), tls.certificate.display(), tls.key.display());
    let user = if rustix::process::getuid().is_root() { "user: root\n" } else { "" };
    let conf = format!(
        "{user}num-threads: 1\nhttp2-max-concurrent-requests-per-connection: 256\n\
         listen:\n  host: {}\n  port: {}\n  ssl:\n    certificate-file: {certificate}\n    key-file: {key}\n\
         hosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: {path}/root\n        \
         header.set: \"X-Cache-Status: HIT\"\n",
        address.ip(),
        address.port()
    );
    let file = dir.path().join("h2o.conf");
    fs::write(&file, conf).unwrap();
    let mut command = Command::new("/usr/bin/h2o");
    command.arg("-m").arg("worker").arg("-c").arg(&file);
    let mut process = Process::start("h2o", &mut command, &dir.path().join("output"));
    process.wait_until_listening(address);
    Server::H2o { process, _dir: dir, address }
}

/// This program again, as the bare server.
fn bare_http2(tls: &Certificates, body_bytes: usize) -> Server {
    let dir = TempDir::new().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--bare-http2").arg(address.to_string()).arg("--bytes").arg(body_bytes.to_string());
    command.arg("--certificate").arg(&tls.certificate).arg("--key").arg(&tls.key);
    let mut process = Process::start("bare HTTP/2", &mut command, &dir.path().join("output"));
    process.wait_until_listening(address);
    Server::BareHttp2 { process, _dir: dir, address }
}

fn nginx(origin: SocketAddr, more: &str, dir: TempDir) -> Server {
    nginx_by(origin, more, dir, None)
}

/// One that ends TLS, if it has a certificate; with these settings more.
pub fn nginx_by(origin: SocketAddr, more: &str, dir: TempDir, tls: Option<&Certificates>) -> Server {
    let (by, tls) = tls.map_or_else(Default::default, |files| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        (" ssl http2", format!("ssl_certificate {certificate}; ssl_certificate_key {key};"))
    });
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let path = dir.path().display();
    let conf = format!(
        "daemon off; master_process off; pid {path}/pid; worker_rlimit_nofile 65536;
         events {{ worker_connections 8192; }}
         http {{
             access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000; {more}
             client_body_temp_path {path}/tmp-body; proxy_temp_path {path}/tmp-proxy;
             fastcgi_temp_path {path}/tmp-fastcgi; uwsgi_temp_path {path}/tmp-uwsgi; scgi_temp_path {path}/tmp-scgi;
             proxy_cache_path {path}/cache levels=1:2 keys_zone=objects:64m max_size=1g inactive=1d use_temp_path=off;
             upstream origin {{ server {origin}; keepalive 64; keepalive_requests 1000000; }}
             server {{
                 listen {address}{by}; {tls}
                 location / {{
                     proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";
                     proxy_cache objects; proxy_cache_lock on; add_header X-Cache-Status $upstream_cache_status;
                 }}
             }}
         }}\n"
    );
    let file = dir.path().join("nginx.conf");
    fs::write(&file, conf).unwrap();
    let mut command = Command::new("/usr/sbin/nginx");
    command.arg("-p").arg(dir.path()).arg("-c").arg(&file).args(["-e", "stderr"]);
    let mut process = Process::start("nginx", &mut command, &dir.path().join("output"));
    process.wait_until_listening(address);
    Server::Nginx { process, dir, address }
}

fn varnish(origin: SocketAddr) -> Server {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    // Its log lies in memory, as its makers advise.
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let file = dir.path().join("bench.vcl");
    let (host, port) = (origin.ip(), origin.port());
    let vcl = format!(
        "vcl 4.1;
         backend origin {{ .host = \"{host}\"; .port = \"{port}\"; }}
         sub vcl_deliver {{
             if (obj.hits > 0) {{ set resp.http.X-Cache-Status = \"hit\"; }}
             else {{ set resp.http.X-Cache-Status = \"miss\"; }}
         }}\n"
    );
    fs::write(&file, vcl).unwrap();
    let mut command = Command::new("/usr/sbin/varnishd");
    command.args(["-F", "-j", "none", "-a", &address.to_string(), "-s", "malloc,256M", "-p", "thread_pools=1"]);
    command.arg("-f").arg(&file).arg("-n").arg(dir.path().join("work"));
    let mut process = Process::start("varnish", &mut command, &dir.path().join("output"));
    process.wait_until_listening(address);
    // Its master's one child.
    let children = format!("/proc/{0}/task/{0}/children", process.pid());
    let child = fs::read_to_string(children).unwrap().trim().parse().unwrap();
    Server::Varnish { _process: process, child, _dir: dir, address }
}

/// Without its manager, as the laboratory runs it; X-Cache-Status comes from its own header.
fn traffic_server(origin: SocketAddr, memory: &str) -> Server {
    const DISK_BYTES: u64 = 1 << 30;
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    for part in ["etc", "run", "log"] {
        fs::create_dir(root.join(part)).unwrap();
    }
    // It makes no file itself.
    fs::File::create(root.join("cache")).unwrap().set_len(DISK_BYTES).unwrap();
    let at = root.display();
    let runroot = format!(
        "prefix: {at}\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\nsysconfdir: {at}/etc\ndatadir: {at}\n\
         includedir: {at}\nlibdir: /usr/lib/trafficserver\nlibexecdir: /usr/lib/trafficserver/modules\n\
         localstatedir: {at}/run\nruntimedir: {at}/run\nlogdir: {at}/log\ncachedir: {at}\n"
    );
    let settings = [
        format!("http.server_ports STRING {}:ip-in={}", address.port(), address.ip()),
        "admin.user_id STRING #-1".to_owned(),
        "crash_log_helper STRING NULL".to_owned(),
        "exec_thread.autoconfig INT 0".to_owned(),
        "exec_thread.limit INT 1".to_owned(),
        format!("cache.ram_cache.size INT {memory}"),
        "log.logging_enabled INT 0".to_owned(),
        // How an answer came, in its Via: `cH` is a hit.
        "http.insert_response_via_str INT 2".to_owned(),
    ];
    let settings: Vec<_> = settings.iter().map(|line| format!("CONFIG proxy.config.{line}\n")).collect();
    let allow = "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n";
    for (name, text) in [
        ("runroot.yaml", runroot.as_str()),
        ("etc/records.config", &settings.concat()),
        ("etc/storage.config", &format!("{at}/cache {DISK_BYTES}\n")),
        ("etc/ip_allow.yaml", allow),
        ("etc/remap.config", &format!("map / http://{origin}/\n")),
        ("etc/plugin.config", ""),
    ] {
        fs::write(root.join(name), text).unwrap();
    }
    let mut command = Command::new("/usr/bin/traffic_server");
    command.arg(format!("--run-root={at}/runroot.yaml"));
    let mut process = Process::start("traffic server", &mut command, &root.join("output"));
    process.wait_until_listening(address);
    // It listens before its cache is ready, and stores nothing until then.
    std::thread::sleep(Duration::from_secs(5));
    Server::Ats { process, _dir: dir, address }
}
