//! TLS before an origin that speaks none, so that a test can write raw answers to requests that came by it.

use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{HandshakeKind, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

use crate::nginx::Certificates;

/// What speaks TLS on loopback and passes everything on. Dropped, it stops.
pub struct Secured {
    /// Where it listens.
    pub address: SocketAddr,
    resumed: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Secured {
    /// Speaks TLS with these certificates for whoever listens there.
    pub fn before(behind: SocketAddr, certificates: &Certificates) -> Secured {
        let chain = CertificateDer::pem_reader_iter(BufReader::new(File::open(&certificates.certificate).unwrap()));
        let chain = chain.collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(&certificates.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let counted = Arc::new(AtomicUsize::new(0));
        let resumed = counted.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, resumed) = (acceptor.clone(), resumed.clone());
                tokio::spawn(async move {
                    // Clients that do not take the certificate leave here.
                    let Ok(mut secured) = acceptor.accept(stream).await else { return };
                    if secured.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) {
                        resumed.fetch_add(1, Relaxed);
                    }
                    let Ok(mut plain) = TcpStream::connect(behind).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut secured, &mut plain).await;
                });
            }
        });
        Secured { address, resumed: counted, _runtime: runtime }
    }

    /// How many connections went on from a session before.
    pub fn resumed(&self) -> usize {
        self.resumed.load(Relaxed)
    }
}
