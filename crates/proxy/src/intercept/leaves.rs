//! Certificates for the names that clients ask for: made when one asks, and kept for the next.
//!
//! One costs a signature, as each handshake does, so it is made where it is needed. All have one key, which
//! the process makes at its start and nobody ever writes down. Each is looked at as a client would before it is used.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use time::OffsetDateTime;

use super::authority::{Authority, BadAuthority};
use super::create::BACK;

/// A certificate is valid for so long, and used for half of that: clients whose clocks differ take it to its end.
const VALID: Duration = Duration::from_secs(24 * 3600);
/// Names whose certificates are kept. Memory: some 3 KB each.
const MOST: usize = 1024;
/// What is checked at the start, where the CA may sign for any name.
const ANY_NAME: &str = "a.example";

/// What makes certificates, and has made them.
pub(super) struct Leaves {
    authority: Authority,
    provider: Arc<CryptoProvider>,
    verifier: Arc<WebPkiServerVerifier>,
    tickets: Arc<dyn ProducesTickets>,
    made: Mutex<Made>,
}

#[derive(Default)]
pub(super) struct Made {
    by_name: HashMap<String, Leaf>,
    /// Counts uses, so that what was used last is known.
    uses: u64,
}

struct Leaf {
    config: Arc<ServerConfig>,
    until: SystemTime,
    used: u64,
}

/// Why there is no certificate for a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no certificate can be made for this name: {0}")]
pub(crate) struct NoLeaf(String);

impl NoLeaf {
    /// There is no CA, which a configuration is checked for.
    pub fn without_authority() -> NoLeaf {
        NoLeaf("there is no CA".into())
    }
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaves").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Leaves {
    /// Reads the CA in a directory, and checks that clients would take what it signs.
    ///
    /// Errors: [`BadAuthority`].
    pub fn load(dir: &Path, now: SystemTime) -> Result<Leaves, BadAuthority> {
        let authority = Authority::load(dir, now)?;
        let path = authority.path.clone();
        let unfit = |cause: String| BadAuthority::Unfit { path: path.clone(), cause };
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone()).map_err(|error| unfit(error.to_string()))?;
        let provider = Arc::new(provider::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let verifier = verifier.map_err(|error| unfit(error.to_string()))?;
        let tickets = rustls::crypto::ring::Ticketer::new().map_err(|error| unfit(error.to_string()))?;
        let leaves = Leaves { authority, provider, verifier, tickets, made: Mutex::default() };
        let name = leaves.authority.only_for.first().map_or(ANY_NAME, |name| name.trim_start_matches('.')).to_owned();
        leaves.make(&name, now).map_err(|NoLeaf(cause)| unfit(cause))?;
        Ok(leaves)
    }

    /// How to speak TLS as this name, and whether a certificate had to be made.
    ///
    /// Errors: the CA may not sign for it, or has expired.
    pub fn of(&self, name: &str, now: SystemTime) -> Result<(Arc<ServerConfig>, bool), NoLeaf> {
        if let Some(config) = self.made.lock().find(name, now) {
            return Ok((config, false));
        }
        // Two that ask for one name at once may both make it: either will do.
        let config = self.make(name, now)?;
        let until = (now + VALID / 2).min(self.authority_ends());
        self.made.lock().keep(name, Leaf { config: config.clone(), until, used: 0 });
        Ok((config, true))
    }

    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.made.lock().by_name.len()
    }

    fn make(&self, name: &str, now: SystemTime) -> Result<Arc<ServerConfig>, NoLeaf> {
        let key = process_key()?;
        let leaf = self.sign(name, key, now)?;
        let chain = [&[leaf][..], &self.authority.chain].concat();
        let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let certified = CertifiedKey::from_der(chain, secret, &self.provider).map_err(no_leaf)?;
        let builder = ServerConfig::builder_with_provider(self.provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(no_leaf)?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(One(Arc::new(certified))));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Tickets hold what is needed to resume, so nothing is kept for clients here.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = self.tickets.clone();
        Ok(Arc::new(config))
    }

    fn authority_ends(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.authority.not_after.max(0).unsigned_abs())
    }

    /// A certificate for one name, as a client would take it.
    fn sign(&self, name: &str, key: &KeyPair, now: SystemTime) -> Result<CertificateDer<'static>, NoLeaf> {
        let server = ServerName::try_from(name.to_owned()).map_err(no_leaf)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Intercepted by Tinaja");
        params.subject_alt_names = vec![match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(name.try_into().map_err(no_leaf)?),
        }];
        let end = (now + VALID).min(self.authority_ends());
        (params.not_before, params.not_after) = (date(now - BACK).map_err(no_leaf)?, date(end).map_err(no_leaf)?);
        params.serial_number = Some(serial().map_err(no_leaf)?);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(key, &self.authority.issuer).map_err(no_leaf)?.der().clone();
        let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        self.verifier.verify_server_cert(&leaf, &[], &server, &[], now).map_err(no_leaf)?;
        Ok(leaf)
    }
}

fn no_leaf(error: impl fmt::Display) -> NoLeaf {
    NoLeaf(error.to_string())
}

impl Made {
    fn find(&mut self, name: &str, now: SystemTime) -> Option<Arc<ServerConfig>> {
        self.uses += 1;
        let leaf = self.by_name.get_mut(name).filter(|leaf| now < leaf.until)?;
        leaf.used = self.uses;
        Some(leaf.config.clone())
    }

    /// Keeps one; of too many the one that was not used for longest goes.
    fn keep(&mut self, name: &str, leaf: Leaf) {
        if self.by_name.len() >= MOST && !self.by_name.contains_key(name) {
            let oldest = self.by_name.iter().min_by_key(|(_, leaf)| leaf.used).map(|(name, _)| name.clone());
            oldest.map(|name| self.by_name.remove(&name));
        }
        self.by_name.insert(name.to_owned(), Leaf { used: self.uses, ..leaf });
    }
}

/// The one certificate of a connection.
#[derive(Debug)]
struct One(Arc<CertifiedKey>);

impl ResolvesServerCert for One {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// The key of all certificates that this process makes.
fn process_key() -> Result<&'static KeyPair, NoLeaf> {
    static KEY: OnceLock<Result<KeyPair, NoLeaf>> = OnceLock::new();
    let key = KEY.get_or_init(|| KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(no_leaf));
    key.as_ref().map_err(Clone::clone)
}

/// A serial number that no other certificate has: browsers refuse two of one CA with the same.
pub(super) fn serial() -> Result<SerialNumber, rcgen::Error> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| rcgen::Error::RingUnspecified)?;
    // Positive, and not shorter than it looks.
    if let Some(first) = bytes.first_mut() {
        *first = *first & 0x7f | 0x40;
    }
    Ok(SerialNumber::from_slice(&bytes))
}

pub(super) fn date(at: SystemTime) -> Result<OffsetDateTime, rcgen::Error> {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    OffsetDateTime::from_unix_timestamp(i64::try_from(seconds).unwrap_or(i64::MAX)).map_err(|_| rcgen::Error::Time)
}
