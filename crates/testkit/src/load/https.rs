//! Clients of HTTPS over HTTP/1.1, on kept connections or one handshake after another, also in a proxy's tunnels.
//!
//! All of them speak TLS 1.3 with one cipher and one group, so that servers are compared by the same.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring::{self, cipher_suite, kx_group};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

/// How to reach the server.
#[derive(Clone)]
pub struct Https {
    at: SocketAddr,
    tunnel: Option<String>,
    config: Arc<ClientConfig>,
}

impl Https {
    /// To a server, or to a proxy that is asked for a tunnel to this host and port. The authority in the file speaks for names. With
    /// `resumes`, a handshake goes on from one before where the server lets it.
    pub fn new(at: SocketAddr, tunnel: Option<String>, authority: &Path, resumes: bool) -> Https {
        let mut roots = RootCertStore::empty();
        for certificate in rustls::pki_types::CertificateDer::pem_file_iter(authority).unwrap() {
            roots.add(certificate.unwrap()).unwrap();
        }
        let mut provider = ring::default_provider();
        provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
        provider.kx_groups = vec![kx_group::X25519];
        let config = ClientConfig::builder_with_provider(Arc::new(provider));
        let config = config.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = if resumes { Resumption::in_memory_sessions(64) } else { Resumption::disabled() };
        Https { at, tunnel, config: Arc::new(config) }
    }

    /// A connection to a server of this name, once its handshake is over, and whether that went on from one before.
    fn connect(&self, name: &str) -> (StreamOwned<ClientConnection, TcpStream>, bool) {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_nodelay(true).unwrap();
        if let Some(tunnel) = &self.tunnel {
            stream.write_all(format!("CONNECT {tunnel} HTTP/1.1\r\nHost: {tunnel}\r\n\r\n").as_bytes()).unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            assert!(head.starts_with(b"HTTP/1.1 200"), "{}", head.escape_ascii());
        }
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut connection = ClientConnection::new(self.config.clone(), name).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).unwrap();
        }
        let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        (StreamOwned::new(connection, stream), resumed)
    }

    /// One handshake for each name, and the end of the connection, on so many threads. How many went on from one before.
    pub fn shake(&self, names: &[String], threads: usize) -> usize {
        let one = |name: &String| {
            let (mut stream, resumed) = self.connect(name);
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            // Up to the server's end, before which its tickets are. It may end without a word of TLS.
            let mut rest = [0; 1024];
            loop {
                match stream.read(&mut rest) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                    Err(error) => panic!("{error}"),
                }
            }
            usize::from(resumed)
        };
        shared(names, threads, |names| names.iter().map(one).sum())
    }

    /// Asks a server of this name for all of these, on so many connections, and compares every body. How many were hits.
    pub fn ask(&self, name: &str, paths: &[String], body: &[u8], connections: usize) -> usize {
        let host = self.tunnel.as_deref().unwrap_or(name);
        shared(paths, connections, |paths| {
            let mut stream = BufReader::with_capacity(64 * 1024, self.connect(name).0);
            paths.iter().map(|path| usize::from(get(&mut stream, host, path, body))).sum()
        })
    }
}

/// Deals these out to so many threads; the sum of what they say.
fn shared(all: &[String], threads: usize, work: impl Fn(&[String]) -> usize + Sync) -> usize {
    std::thread::scope(|scope| {
        let work = &work;
        let parts = all.chunks(all.len().div_ceil(threads).max(1));
        let workers: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

/// One request; whether its answer says that it is a hit, by Cache-Status or as nginx and Squid say it.
fn get(
    stream: &mut BufReader<StreamOwned<ClientConnection, TcpStream>>,
    host: &str,
    path: &str,
    expected: &[u8],
) -> bool {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut line, mut length, mut hit) = (String::new(), 0, false);
    for number in 0.. {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "closed at {path}");
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(':') {
            _ if number == 0 => assert!(line.starts_with("http/1.1 200"), "{line} for {path}"),
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            Some(("cache-status" | "x-cache-status" | "x-cache", value)) => {
                hit |= value.split([';', ' ']).any(|word| word == "hit");
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    assert!(body == expected, "another body for {path}");
    hit
}
