//! Certificates for the servers, made by openssl, and what the load trusts.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::crypto::ring::{self, cipher_suite, kx_group};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use super::exchange::HOST;
use super::settings::Pair;
use crate::error::LabError;
use crate::peers::bench::run;

/// A pair for servers, and whoever trusts it. Dropped, the files are gone.
pub struct Tls {
    pair: Pair,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    _dir: TempDir,
}

impl Tls {
    /// Make a certificate with an ECDSA P-256 key. The load speaks TLS 1.3 with one cipher and one group, so that servers are compared by the
    /// same. Errors: there is no openssl.
    pub fn make(scratch: &Path) -> Result<Tls, LabError> {
        let failed = |why: String| LabError::failed("making certificates", why);
        let dir = tempfile::Builder::new().prefix("tinaja-lab-tls-").tempdir_in(scratch);
        let dir = dir.map_err(|why| failed(why.to_string()))?;
        let path = |name: &str| dir.path().join(name);
        let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        let openssl = || {
            let mut command = Command::new("openssl");
            command.current_dir(dir.path());
            command
        };
        let authority = ["-x509", "-days", "2", "-subj", "/CN=Laboratory", "-keyout", "ca.key", "-out", "ca.pem"];
        run(openssl().arg("req").args(new_key).args(authority))?;
        let request = ["-subj", "/CN=Server", "-keyout", "server.key", "-out", "request"];
        run(openssl().arg("req").args(new_key).args(request))?;
        let names = format!("subjectAltName=DNS:{HOST}\nbasicConstraints=CA:FALSE\n");
        fs::write(path("names"), names).map_err(|why| failed(why.to_string()))?;
        let signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"];
        run(openssl().args(["x509", "-req", "-in", "request", "-out", "server.pem"]).args(signed))?;
        let (certificate, key) = (path("server.pem"), path("server.key"));
        // HAProxy's certificate and key are one file.
        let both = [&certificate, &key].map(fs::read).into_iter().collect::<Result<Vec<_>, _>>();
        let both = both.and_then(|both| fs::write(path("server.both"), both.concat()));
        both.map_err(|why| failed(why.to_string()))?;
        let (http1, http2) = (trusting(&path("ca.pem"), b"http/1.1")?, trusting(&path("ca.pem"), b"h2")?);
        Ok(Tls { pair: Pair { certificate, key, both: path("server.both") }, http1, http2, _dir: dir })
    }

    /// What servers are given.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// What a client of HTTP/1.1 goes by.
    pub fn http1(&self) -> &Arc<ClientConfig> {
        &self.http1
    }

    /// What a client of HTTP/2 goes by.
    pub fn http2(&self) -> &Arc<ClientConfig> {
        &self.http2
    }
}

fn trusting(authority: &Path, protocol: &[u8]) -> Result<Arc<ClientConfig>, LabError> {
    let failed = |why: String| LabError::failed("trusting a certificate", why);
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(authority).map_err(|why| failed(why.to_string()))?;
    roots.add(certificate).map_err(|why| failed(why.to_string()))?;
    let mut provider = ring::default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
    provider.kx_groups = vec![kx_group::X25519];
    let config = ClientConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_protocol_versions(&[&rustls::version::TLS13]).map_err(|why| failed(why.to_string()))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}
