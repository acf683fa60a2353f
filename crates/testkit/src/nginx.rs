//! Debian's nginx as the test's own process: its own configuration, prefix, port and log.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::port::free_port;
use crate::process::Process;

/// A running nginx that serves the files in its root.
pub struct Nginx {
    process: Process,
    dir: TempDir,
    address: SocketAddr,
    tls: bool,
}

/// One line of nginx's access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The method.
    pub method: String,
    /// The target as it was asked for.
    pub target: String,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of the body that nginx sent.
    pub body_bytes: u64,
}

/// A server's certificate, signed by an authority made for the test.
pub struct Certificates {
    /// The authority that clients are told to trust.
    pub authority: PathBuf,
    /// The server's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Nginx {
    /// Serve plain HTTP; `fill` puts the files into the root first.
    pub fn start(fill: impl FnOnce(&Path)) -> Self {
        Nginx::start_on(fill, None)
    }

    /// Serve HTTPS.
    pub fn start_tls(certificates: &Certificates, fill: impl FnOnce(&Path)) -> Self {
        Nginx::start_on(fill, Some(certificates))
    }

    /// Speak HTTP/2: over TLS to those who choose it, else to all.
    pub fn start_http2(certificates: Option<&Certificates>, fill: impl FnOnce(&Path)) -> Self {
        Nginx::start_as(fill, certificates, " http2")
    }

    /// Serve by TLS what another server answers, and log its bodies' bytes.
    pub fn start_before(certificates: &Certificates, server: SocketAddr) -> Self {
        Nginx::start_with(
            |_| {},
            Some(certificates),
            "",
            &format!(
                "location / {{ proxy_pass http://{server}; proxy_set_header Host $http_host; proxy_redirect off; proxy_buffering off; }}"
            ),
        )
    }

    /// Answer everything with what the script makes of it, by FastCGI to the server behind this socket. Nothing of a request is kept
    /// from it: names with underscores pass too, which nginx drops unless it is told otherwise.
    pub fn start_fastcgi(socket: &Path, script: &Path) -> Self {
        let params = [
            ("SCRIPT_FILENAME", &*script.display().to_string()),
            ("REQUEST_METHOD", "$request_method"),
            ("REQUEST_URI", "$request_uri"),
            ("QUERY_STRING", "$query_string"),
            ("CONTENT_TYPE", "$content_type"),
            ("CONTENT_LENGTH", "$content_length"),
            ("SERVER_PROTOCOL", "$server_protocol"),
            ("REMOTE_ADDR", "$remote_addr"),
        ];
        let params: String = params.iter().map(|(name, value)| format!("fastcgi_param {name} {value}; ")).collect();
        let socket = socket.display();
        let location = format!("underscores_in_headers on; location / {{ fastcgi_pass unix:{socket}; {params} }}");
        Nginx::start_with(|_| {}, None, "", &location)
    }

    fn start_on(fill: impl FnOnce(&Path), certificates: Option<&Certificates>) -> Self {
        Nginx::start_as(fill, certificates, "")
    }

    fn start_as(fill: impl FnOnce(&Path), certificates: Option<&Certificates>, version: &str) -> Self {
        Nginx::start_with(fill, certificates, version, "")
    }

    fn start_with(
        fill: impl FnOnce(&Path),
        certificates: Option<&Certificates>,
        version: &str,
        location: &str,
    ) -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fill(&dir.path().join("root"));
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let conf = dir.path().join("nginx.conf");
        fs::write(&conf, configuration(dir.path(), address, certificates, (version, location))).unwrap();
        let process = run(dir.path(), address);
        Nginx { process, dir, address, tls: certificates.is_some() }
    }

    /// End it as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Start it again at the same address.
    pub fn revive(&mut self) {
        // What was killed has left its socket's name behind, which another one cannot have.
        let _ = fs::remove_file(self.dir.path().join("idle"));
        self.process = run(self.dir.path(), self.address);
    }

    /// The absolute URL of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http{}://{}{path}", if self.tls { "s" } else { "" }, self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests answered so far. It writes a line once it has sent the answer, and does one thing after the other: when it
    /// answers on its own socket, the line of whatever a client has seen before is written.
    pub fn log(&self) -> Vec<Logged> {
        if let Ok(mut socket) = UnixStream::connect(self.dir.path().join("idle")) {
            let _ = socket.write_all(b"GET / HTTP/1.0\r\n\r\n").and_then(|()| socket.read_to_end(&mut Vec::new()));
        }
        let log = fs::read_to_string(self.dir.path().join("access.log")).unwrap_or_default();
        log.lines().map(parse_line).collect()
    }

    /// Stop it: connections are refused from now on.
    pub fn stop(&mut self) {
        self.process.terminate();
    }
}

fn run(dir: &Path, address: SocketAddr) -> Process {
    // By path: /usr/sbin is not in every PATH.
    let mut command = Command::new("/usr/sbin/nginx");
    command.arg("-p").arg(dir).arg("-c").arg(dir.join("nginx.conf")).args(["-e", "stderr"]);
    let mut process = Process::start("nginx", &mut command, &dir.join("output"));
    process.wait_until_listening(address);
    process
}

fn parse_line(line: &str) -> Logged {
    let fields: Vec<&str> = line.split(' ').collect();
    let [method, target, status, body_bytes] = fields[..] else { panic!("nginx logged {line:?}") };
    Logged {
        method: method.to_owned(),
        target: target.to_owned(),
        status: status.parse().unwrap(),
        body_bytes: body_bytes.parse().unwrap(),
    }
}

/// One process in the foreground, under whatever user runs the test, everything it writes below `dir`.
fn configuration(
    dir: &Path,
    address: SocketAddr,
    certificates: Option<&Certificates>,
    (version, location): (&str, &str),
) -> String {
    let dir = dir.display();
    let tls = certificates.map_or(String::new(), |files| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        format!("ssl_certificate {certificate}; ssl_certificate_key {key};")
    });
    let ssl = if certificates.is_some() { " ssl" } else { "" };
    format!(
        "daemon off; master_process off; pid {dir}/pid;
         events {{ worker_connections 512; }}
         http {{
             log_format tests '$request_method $request_uri $status $body_bytes_sent';
             access_log {dir}/access.log tests;
             client_body_temp_path {dir}/tmp-body; proxy_temp_path {dir}/tmp-proxy;
             fastcgi_temp_path {dir}/tmp-fastcgi; uwsgi_temp_path {dir}/tmp-uwsgi; scgi_temp_path {dir}/tmp-scgi;
             types {{ text/html html; text/css css; text/javascript js; image/svg+xml svg; }}
             default_type application/octet-stream;
             server {{ listen unix:{dir}/idle; access_log off; return 204; }}
             server {{ listen {address}{ssl}{version}; {tls} add_header X-Protocol $server_protocol; root {dir}/root; index index.html; {location} }}
         }}\n"
    )
}

/// Date every file below `dir` `days` back: a server that says nothing of freshness lets a cache take a tenth of that.
pub fn date_back(dir: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            date_back(&path, days);
        } else {
            fs::File::options().append(true).open(&path).unwrap().set_modified(then).unwrap();
        }
    }
}

/// Make an authority and a certificate for 127.0.0.1 and localhost with openssl.
pub fn make_certificates(dir: &Path) -> Certificates {
    // npm's agent, given an address and a proxy, checks the certificate for localhost.
    make_certificates_for(dir, "IP:127.0.0.1,DNS:localhost")
}

/// [`make_certificates`] for other names, in openssl's notation.
pub fn make_certificates_for(dir: &Path, alt_names: &str) -> Certificates {
    let path = |name: &str| dir.join(name).display().to_string();
    let openssl = |args: &[&str]| crate::tools::run(Command::new("openssl").args(args));
    let (ca, ca_key, request) = (path("ca.pem"), path("ca.key"), path("request"));
    let (certificate, key, names) = (path("server.pem"), path("server.key"), path("names"));
    let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let authority = ["-x509", "-days", "2", "-subj", "/CN=Test authority", "-keyout", &ca_key, "-out", &ca];
    openssl(&[&["req"], &new_key[..], &authority[..]].concat());
    openssl(&[&["req"], &new_key[..], &["-subj", "/CN=Test server", "-keyout", &key, "-out", &request]].concat());
    fs::write(&names, format!("subjectAltName={alt_names}\nbasicConstraints=CA:FALSE\n")).unwrap();
    let signed = ["-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial", "-days", "2", "-extfile", &names];
    openssl(&[&["x509", "-req", "-in", &request, "-out", &certificate], &signed[..]].concat());
    Certificates { authority: ca.into(), certificate: certificate.into(), key: key.into() }
}

/// The list of what the authority of these certificates has revoked, in PEM: these certificates. `next` is when it expires, as openssl
/// takes it (YYYYMMDDHHMMSSZ); in a day otherwise.
pub fn revoke(made: &Certificates, certificates: &[&Path], next: Option<&str>) -> PathBuf {
    let work = TempDir::new().unwrap();
    let (dir, authority) = (work.path().display(), made.authority.display());
    let key = made.authority.with_extension("key");
    let config = format!(
        "[ca]\ndefault_ca = it\n[it]\ndatabase = {dir}/index\ncrlnumber = {dir}/number\ncertificate = {authority}\n\
         private_key = {}\ndefault_md = sha256\ncrl_extensions = more\n[more]\nauthorityKeyIdentifier = keyid:always\n",
        key.display()
    );
    let file = work.path().join("config");
    for (name, text) in [("config", config.as_str()), ("index", ""), ("number", "01\n")] {
        fs::write(work.path().join(name), text).unwrap();
    }
    let openssl = |args: &[&str]| {
        let mut command = Command::new("openssl");
        crate::tools::run(command.args(["ca", "-config"]).arg(&file).args(args))
    };
    for certificate in certificates {
        openssl(&["-revoke", certificate.to_str().unwrap()]);
    }
    let list = made.authority.with_file_name(format!("revoked-{}{}.pem", certificates.len(), next.unwrap_or_default()));
    let until =
        next.map_or(vec!["-crldays", "1"], |next| vec!["-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", next]);
    openssl(&[&["-gencrl", "-out", list.to_str().unwrap()], &until[..]].concat());
    list
}
