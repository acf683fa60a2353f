//! Certificates as files, checked before anybody is served with them, and found by the name that a client asks for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// Where a certificate and its key lie, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// The certificate, and behind it those that lead to an authority.
    pub certificate: PathBuf,
    /// Its private key: PKCS#8, PKCS#1 or SEC1, without a password.
    pub key: PathBuf,
}

/// Why a certificate is of no use. The text says which file, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCertificate {
    /// The file cannot be read.
    #[error("cannot read {path}: {cause}; check the path, and that this user may read it")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// What is in the file is not what belongs there.
    #[error("{path} holds no {wanted} in PEM: {cause}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// A certificate, or a private key.
        wanted: &'static str,
        /// What is wrong with it.
        cause: String,
    },
    /// The file, or what is in all of its kind, is longer than anybody's.
    #[error("{path} is too long: at most {} MiB are read of authorities or of revoked certificates", .most_bytes >> 20)]
    TooLong {
        /// The file.
        path: PathBuf,
        /// How much is read.
        most_bytes: u64,
    },
    /// Certificate and key do not belong together, or the key is of a kind that nobody can use.
    #[error("{key} is not the key of the certificate in {certificate}: {cause}")]
    Key {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// Its time is over.
    #[error("the certificate in {path} has expired ({when}): put the new one there")]
    Expired {
        /// The file.
        path: PathBuf,
        /// When.
        when: String,
    },
    /// Its time has not come.
    #[error("the certificate in {path} is not valid before {when}: check the clock, or wait")]
    TooEarly {
        /// The file.
        path: PathBuf,
        /// When.
        when: String,
    },
    /// Clients look for names there alone.
    #[error("the certificate in {path} is for no name (it has no subjectAltName of a server): no client would take it")]
    NoName {
        /// The file.
        path: PathBuf,
    },
    /// Two certificates for one name.
    #[error("the certificates in {first} and {second} are both for {name}: remove one, or take the name out of one")]
    Twice {
        /// The name.
        name: String,
        /// A file.
        first: PathBuf,
        /// Another.
        second: PathBuf,
    },
}

/// Certificates and their keys, by the names that they are for.
#[derive(Debug)]
pub(super) struct Certificates {
    /// The first is for clients that name none of the others.
    keys: Vec<Arc<CertifiedKey>>,
    /// In lower case; `*.` in front stands for one label.
    names: HashMap<String, usize>,
}

impl Certificates {
    /// Reads all of them, and checks that each can be used now.
    ///
    /// Errors: [`BadCertificate`].
    pub fn load(
        files: &[CertificateFiles],
        now: SystemTime,
        provider: &CryptoProvider,
    ) -> Result<Certificates, BadCertificate> {
        let (mut keys, mut names) = (Vec::new(), HashMap::new());
        for (index, file) in files.iter().enumerate() {
            let (key, its_names) = load(file, now, provider)?;
            for name in its_names {
                let before: Option<usize> = names.insert(name.clone(), index);
                if let Some(first) = before.filter(|before| *before != index).and_then(|before| files.get(before)) {
                    let (first, second) = (first.certificate.clone(), file.certificate.clone());
                    return Err(BadCertificate::Twice { name, first, second });
                }
            }
            keys.push(Arc::new(key));
        }
        Ok(Certificates { keys, names })
    }

    /// Which one a name is served with.
    pub fn index_of(&self, name: &str) -> usize {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let wildcard = || self.names.get(&format!("*.{}", name.split_once('.')?.1));
        self.names.get(&name).or_else(wildcard).copied().unwrap_or_default()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let index = hello.server_name().map_or(0, |name| self.index_of(name));
        self.keys.get(index).cloned()
    }
}

/// One certificate with its key, and its names.
fn load(
    files: &CertificateFiles,
    now: SystemTime,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, Vec<String>), BadCertificate> {
    let path = &files.certificate;
    let chain = certificates_in(path)?;
    let names = names(&check_at(now, path, &chain)?);
    if names.is_empty() {
        return Err(BadCertificate::NoName { path: path.clone() });
    }
    let key = key_in(&files.key)?;
    let unfit = |error: rustls::Error| BadCertificate::Key {
        certificate: path.clone(),
        key: files.key.clone(),
        cause: error.to_string(),
    };
    Ok((CertifiedKey::from_der(chain, key, provider).map_err(unfit)?, names))
}

/// The certificates in a file, at least one.
pub(crate) fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadCertificate> {
    let chain = CertificateDer::pem_file_iter(path).map_err(|error| in_pem(path, "certificate", error))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| in_pem(path, "certificate", error))?;
    if chain.is_empty() {
        return Err(malformed(path, "there is none in it".into()));
    }
    Ok(chain)
}

/// The private key in a file.
pub(crate) fn key_in(path: &Path) -> Result<PrivateKeyDer<'static>, BadCertificate> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| in_pem(path, "private key", error))
}

/// The first certificate of a file, if it is valid at this time.
pub(crate) fn check_at<'a>(
    now: SystemTime,
    path: &Path,
    chain: &'a [CertificateDer<'_>],
) -> Result<X509Certificate<'a>, BadCertificate> {
    let first = chain.first().ok_or_else(|| malformed(path, "there is none in it".into()))?;
    let (_, certificate) = X509Certificate::from_der(first).map_err(|error| malformed(path, error.to_string()))?;
    check_time(now, path, &certificate)?;
    Ok(certificate)
}

fn malformed(path: &Path, cause: String) -> BadCertificate {
    BadCertificate::Malformed { path: path.to_owned(), wanted: "certificate", cause }
}

pub(crate) fn in_pem(path: &Path, wanted: &'static str, error: pem::Error) -> BadCertificate {
    match error {
        pem::Error::Io(cause) => BadCertificate::Unreadable { path: path.to_owned(), cause: cause.to_string() },
        other => BadCertificate::Malformed { path: path.to_owned(), wanted, cause: other.to_string() },
    }
}

fn check_time(now: SystemTime, path: &Path, certificate: &X509Certificate<'_>) -> Result<(), BadCertificate> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let (path, validity) = (path.to_owned(), certificate.validity());
    if validity.not_after.timestamp() < now {
        return Err(BadCertificate::Expired { path, when: validity.not_after.to_string() });
    }
    if validity.not_before.timestamp() > now {
        return Err(BadCertificate::TooEarly { path, when: validity.not_before.to_string() });
    }
    Ok(())
}

/// The names and addresses that a certificate is for, in lower case.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    };
    names.value.general_names.iter().filter_map(text).collect()
}
