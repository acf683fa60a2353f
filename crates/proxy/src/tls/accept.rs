//! The handshake with a client, and its connection after that.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::certificates::{BadCertificate, CertificateFiles, Certificates};
use crate::stream::Stream;

/// HTTP versions that clients may choose from, the better one first (RFC 7301).
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Bytes of ciphertext that are read at once: Rustls asks for 4 KiB, and a record has up to 16. Without TLS an idle connection
/// has no read buffer at all.
pub(crate) const READ_BYTES: usize = 16 * 1024;

/// One listener's TLS.
#[derive(Debug)]
pub(crate) struct Tls {
    certificates: Arc<Certificates>,
    config: Arc<ServerConfig>,
}

/// What a connection was accepted with.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    certificates: Arc<Certificates>,
    /// The name that the client asked for, if it did.
    name: Option<Arc<str>>,
}

impl Served {
    /// Whether a host is served with the certificate that this connection has: a client that asked for one name and
    /// then for the objects of another may take answers for what they are not (RFC 9110 7.4). One that asked for no
    /// name has looked at the certificate itself.
    pub fn is_for(&self, host: &str) -> bool {
        let index = |name: &str| self.certificates.index_of(name);
        self.name.as_deref().is_none_or(|name| name == host || index(name) == index(host))
    }
}

/// A connection after its handshake.
pub(crate) struct Accepted {
    pub stream: Stream,
    pub served: Served,
    pub is_http2: bool,
}

impl Tls {
    /// Loads certificates; nothing for a listener without any.
    ///
    /// Errors: [`BadCertificate`].
    pub fn load(files: &[CertificateFiles], now: SystemTime) -> Result<Option<Tls>, BadCertificate> {
        if files.is_empty() {
            return Ok(None);
        }
        loaded(files, now).map(Some)
    }

    /// The handshake.
    ///
    /// Errors: the client's, or the connection's.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Accepted> {
        let stream = BufReader::with_capacity(READ_BYTES, stream);
        let stream = TlsAcceptor::from(self.config.clone()).accept(stream).await?;
        let (_, connection) = stream.get_ref();
        let name = connection.server_name().map(Arc::from);
        let is_http2 = connection.alpn_protocol() == Some(HTTP2);
        let served = Served { certificates: self.certificates.clone(), name };
        Ok(Accepted { stream: Stream::Tls(Box::new(stream)), served, is_http2 })
    }
}

fn loaded(files: &[CertificateFiles], now: SystemTime) -> Result<Tls, BadCertificate> {
    let provider = Arc::new(ring::default_provider());
    let certificates = Arc::new(Certificates::load(files, now, &provider)?);
    let unfit = |error: rustls::Error| BadCertificate::Key {
        certificate: files.first().map(|file| file.certificate.clone()).unwrap_or_default(),
        key: files.first().map(|file| file.key.clone()).unwrap_or_default(),
        cause: error.to_string(),
    };
    // TLS 1.2 and 1.3.
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(unfit)?;
    let mut config = config.with_no_client_auth().with_cert_resolver(certificates.clone());
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    config.ticketer = ring::Ticketer::new().map_err(unfit)?;
    Ok(Tls { certificates, config: Arc::new(config) })
}
