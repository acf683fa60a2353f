//! Connections by TLS.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Plan;

/// How to reach the server.
pub struct Dial {
    server: SocketAddr,
    name: String,
    roots: Arc<RootCertStore>,
}

impl Dial {
    pub fn new(plan: &Plan) -> Dial {
        Dial::to(plan.server, &plan.name, &plan.authority)
    }

    /// To a server of that name, for which the authority in this file speaks.
    pub fn to(server: SocketAddr, name: &str, authority: &Path) -> Dial {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority).unwrap() {
            roots.add(certificate.unwrap()).unwrap();
        }
        Dial { server, name: name.to_owned(), roots: Arc::new(roots) }
    }

    /// A connection that speaks this protocol.
    pub async fn connect(&self, protocol: &[u8]) -> io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(self.name.clone()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        match stream.get_ref().1.alpn_protocol() == Some(protocol) {
            true => Ok(stream),
            false => Err(io::Error::other("the server speaks another protocol")),
        }
    }
}
