//! Whose signature on an origin's certificate counts, and which certificates have been revoked.
//!
//! Files are read where settings are read, so that what is wrong with one is said with the setting's line. A connection is kept for those
//! settings alone by which its origin was checked ([`Trust::mark`]): what a reload revokes is not asked over a connection from before.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::{Resumption, WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, Der, TrustAnchor};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::system::system;
use crate::tls::{BadCertificate, in_pem};

/// The longest file of authorities, or of lists, and the most that all lists together may have.
pub(crate) const MOST_BYTES: u64 = 16 << 20;

const LIST: &str = "list of revoked certificates (CRL)";
const AUTHORITY: &str = "authority's certificate";

/// What an operator says of origins' certificates, beside what the system trusts. Default nothing: the system's authorities, and nobody
/// is asked what they have revoked.
///
/// Memory: the files' certificates and lists, and the lists once more, several times as long, for this and for each route or mirror
/// with TLS settings of its own.
#[derive(Debug, Default)]
pub struct Trust {
    authorities: Vec<CertificateDer<'static>>,
    lists: Vec<List>,
    /// For origins without settings of their own; made when the first is asked.
    config: OnceLock<Option<Arc<ClientConfig>>>,
}

/// What an authority says it has revoked.
#[derive(Clone, Debug, PartialEq)]
struct List {
    der: CertificateRevocationListDer<'static>,
    path: PathBuf,
    issuer: String,
    /// In seconds since 1970: when it was made, and when its authority said that there would be a newer one.
    made: i64,
    next: Option<(i64, String)>,
}

impl PartialEq for Trust {
    fn eq(&self, other: &Trust) -> bool {
        (&self.authorities, &self.lists) == (&other.authorities, &other.lists)
    }
}

impl Trust {
    /// Has these authorities' signatures count, beside the system's: a file of certificates in PEM.
    ///
    /// Errors: [`BadCertificate`], also for a file that holds none.
    pub fn add_authorities(&mut self, path: &Path) -> Result<(), BadCertificate> {
        let bytes = read(path)?;
        let before = self.authorities.len();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bytes) {
            let certificate = certificate.map_err(|error| in_pem(path, AUTHORITY, error))?;
            roots.add(certificate.clone()).map_err(|error| malformed(path, AUTHORITY, error.to_string()))?;
            self.authorities.push(certificate);
        }
        if self.authorities.len() == before {
            return Err(malformed(path, AUTHORITY, "there is none in it".into()));
        }
        Ok(())
    }

    /// Refuses origins whose certificate, or an authority's between it and the one that is trusted, is in one of these lists: a file
    /// of lists in PEM. Of two lists of one authority the newer one counts. Certificates of authorities that have no list here
    /// are taken for good; those of one whose list has expired are refused.
    ///
    /// Errors: [`BadCertificate`], also for a file that holds none, or one that cannot be used.
    pub fn add_revoked(&mut self, path: &Path) -> Result<(), BadCertificate> {
        let bytes = read(path)?;
        let before = self.lists.len();
        for list in CertificateRevocationListDer::pem_slice_iter(&bytes) {
            self.lists.push(List::new(path, list.map_err(|error| in_pem(path, LIST, error))?)?);
        }
        if self.lists.len() == before {
            let why = "there is none in it; `openssl crl -inform DER -in FILE` prints one that is in DER as PEM";
            return Err(malformed(path, LIST, why.into()));
        }
        let total: u64 = self.lists.iter().map(|list| list.der.len() as u64).sum();
        if total > MOST_BYTES {
            return Err(BadCertificate::TooLong { path: path.to_owned(), most_bytes: MOST_BYTES });
        }
        // The first that is its authority's is looked at.
        self.lists.sort_by_key(|list| std::cmp::Reverse(list.made));
        Ok(())
    }

    /// Which lists have expired, and what to do.
    pub fn expired(&self, now: SystemTime) -> Vec<String> {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        let mut newest: Vec<&str> = Vec::new();
        let mut told = Vec::new();
        for List { issuer, next, path, .. } in &self.lists {
            if newest.contains(&&**issuer) {
                continue;
            }
            newest.push(issuer);
            if let Some((_, when)) = next.as_ref().filter(|(next, _)| *next < now) {
                told.push(format!(
                    "the {LIST} of {issuer} in {} has expired ({when}), so every origin with a certificate of that authority is \
                     refused: put the new one there, and reload",
                    path.display()
                ));
            }
        }
        told
    }

    /// How many authorities there are beside the system's.
    pub(crate) fn authorities(&self) -> usize {
        self.authorities.len()
    }

    /// Another one for other files, odd; 0 where there are none.
    pub(super) fn mark(&self) -> u64 {
        if self.authorities.is_empty() && self.lists.is_empty() {
            return 0;
        }
        let mut mark = DefaultHasher::new();
        self.authorities.hash(&mut mark);
        self.lists.iter().for_each(|list| list.der.as_ref().hash(&mut mark));
        mark.finish() | 1
    }

    /// How origins are spoken to that have no settings of their own; nothing where the library lacks what it takes, which no system
    /// does.
    pub(super) fn config(&self) -> Option<Arc<ClientConfig>> {
        let make = || {
            let mut config = self.builder(None).ok()?.with_no_client_auth();
            config.resumption = self.resumption();
            Some(Arc::new(config))
        };
        self.config.get_or_init(make).clone()
    }

    /// Whether TLS sessions go on from one before. Not where there are lists: whoever goes on shows no certificate, and a list that expired
    /// since would not be looked at.
    pub(super) fn resumption(&self) -> Resumption {
        if self.lists.is_empty() { Resumption::default() } else { Resumption::disabled() }
    }

    /// The beginning of how origins are spoken to: with these authorities, or with the system's and the operator's.
    pub(super) fn builder(
        &self,
        own: Option<RootCertStore>,
    ) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let roots = match own {
            Some(own) => Arc::new(own),
            None if self.authorities.is_empty() => system(),
            None => {
                let mut roots = (*system()).clone();
                roots.add_parsable_certificates(self.authorities.iter().cloned());
                Arc::new(roots)
            }
        };
        if self.lists.is_empty() || roots.is_empty() {
            return Ok(builder.with_root_certificates(roots));
        }
        let lists = self.lists.iter().map(|list| list.der.clone());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .with_crls(lists)
            .allow_unknown_revocation_status()
            .enforce_revocation_expiration();
        let verifier = verifier.build().map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(builder.with_webpki_verifier(verifier))
    }
}

impl List {
    fn new(path: &Path, der: CertificateRevocationListDer<'static>) -> Result<List, BadCertificate> {
        let unfit = |why: String| malformed(path, LIST, why);
        usable(&der).map_err(&unfit)?;
        let (_, list) = CertificateRevocationList::from_der(&der).map_err(|error| unfit(error.to_string()))?;
        let next = list.next_update().map(|next| (next.timestamp(), next.to_string()));
        let (issuer, made) = (list.issuer().to_string(), list.last_update().timestamp());
        Ok(List { path: path.to_owned(), issuer, made, next, der })
    }
}

/// Whether a verifier takes it. One is made with an authority that stands for any.
fn usable(list: &CertificateRevocationListDer<'static>) -> Result<(), String> {
    let (subject, subject_public_key_info) = (Der::from_slice(b""), Der::from_slice(b""));
    let any = TrustAnchor { subject, subject_public_key_info, name_constraints: None };
    let roots = Arc::new(RootCertStore { roots: vec![any] });
    let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::new(ring::default_provider()));
    builder.with_crls([list.clone()]).build().map(drop).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Vec<u8>, BadCertificate> {
    let unreadable = |cause: String| BadCertificate::Unreadable { path: path.to_owned(), cause };
    // Looked at before it is opened, which waits where it is a pipe.
    let is_file = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.is_file();
    if !is_file {
        return Err(unreadable("it is not a file".into()));
    }
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(BadCertificate::TooLong { path: path.to_owned(), most_bytes: MOST_BYTES });
    }
    Ok(bytes)
}

fn malformed(path: &Path, wanted: &'static str, cause: String) -> BadCertificate {
    BadCertificate::Malformed { path: path.to_owned(), wanted, cause }
}
