//! Mutual TLS under one authority: who has a certificate of the cluster's authority is a node of it, and nobody else is.
//!
//! Names in certificates are not looked at: a seed is an address, and what node answers there is known only afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use tinaja_clock::Clock;

use crate::error::JoinError;

/// What nodes say they speak with each other.
const PROTOCOL: &[u8] = b"h2";
/// And what a node says that asks for objects: HTTP/2 too, answered by whoever serves clients.
pub const FETCH: &[u8] = b"tinaja-fetch/1";

/// Where a node's identity lies, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate of the cluster's authority. All nodes have the same.
    pub ca: PathBuf,
    /// The node's own, for servers and for clients.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A node's identity.
#[derive(Clone)]
pub struct Identity {
    /// For connections that it makes.
    pub client: Arc<ClientConfig>,
    /// For those by which it asks for objects.
    pub fetch: Arc<ClientConfig>,
    /// For those that it accepts.
    pub server: Arc<ServerConfig>,
    /// What all nodes under this authority know, and nobody else needs to: keys of hashes are made of it.
    pub secret: [u8; 32],
}

impl Identity {
    /// Read and check them. `cluster` is the cluster's name: two under one authority have different secrets.
    ///
    /// Errors: [`JoinError::File`], [`JoinError::Certificate`].
    pub fn read(files: &Files, cluster: &str, clock: &Clock) -> Result<Identity, JoinError> {
        let provider = Arc::new(ring::default_provider());
        let authorities = certificates(&files.ca)?;
        let chain = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|cause| file(&files.key, "private key", cause))?;
        let wrong = |cause: rustls::Error| JoinError::Certificate {
            certificate: files.certificate.clone(),
            ca: files.ca.clone(),
            cause: cause.to_string(),
        };
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone()).map_err(|cause| file(&files.ca, "certificate of an authority", cause))?;
        }
        let roots = Arc::new(roots);
        let verifier = Arc::new(OfTheAuthority { roots: roots.clone(), provider: provider.clone() });
        // Found out now, and not by each peer.
        if let Some((own, rest)) = chain.split_first() {
            let now = clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            verifier.verify(own, rest, UnixTime::since_unix_epoch(now)).map_err(wrong)?;
        }
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|cause| file(&files.ca, "certificate of an authority", cause))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(wrong)?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(wrong)?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(chain, key)
            .map_err(wrong)?;
        server.alpn_protocols = vec![PROTOCOL.to_vec(), FETCH.to_vec()];
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        let mut fetch = client.clone();
        fetch.alpn_protocols = vec![FETCH.to_vec()];
        let mut hash = blake3::Hasher::new_derive_key("tinaja cluster 1");
        hash.update(cluster.as_bytes());
        hash.update(&[0]);
        for authority in &authorities {
            hash.update(authority);
        }
        Ok(Identity {
            client: Arc::new(client),
            fetch: Arc::new(fetch),
            server: Arc::new(server),
            secret: *hash.finalize().as_bytes(),
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, JoinError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(read) if read.is_empty() => Err(file(path, "certificate", "there is none in it")),
        Ok(read) => Ok(read),
        Err(cause) => Err(file(path, "certificate", cause)),
    }
}

fn file(path: &Path, wanted: &'static str, cause: impl ToString) -> JoinError {
    JoinError::File { path: path.to_owned(), wanted, cause: cause.to_string() }
}

/// Accepts whoever has a certificate of the authority, whatever it is called.
#[derive(Debug)]
struct OfTheAuthority {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl OfTheAuthority {
    fn verify(
        &self,
        own: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(own)?,
            &self.roots,
            rest,
            now,
            algorithms,
        )
    }
}

impl ServerCertVerifier for OfTheAuthority {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verify(own, rest, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
