//! The local CA as files: read, and checked before anything is signed with it.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, Issuer, KeyIdMethod, KeyPair, PublicKeyData};
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::asn1_rs::Tag;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use crate::tls::{BadCertificate, certificates_in, check_at};

/// The CA's certificate in its directory, which clients are given.
pub const CERTIFICATE: &str = "ca.pem";
/// Its key, which nobody is given.
pub const KEY: &str = "ca.key";

/// No key is longer.
const MAX_KEY_BYTES: u64 = 64 * 1024;

/// Why a CA is of no use. The text says which file, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAuthority {
    /// There is none.
    #[error("there is no CA in {0}: create one with `tinaja ca create {0}`, and have clients trust it")]
    Missing(PathBuf),
    /// Its key is not its own any more.
    #[error(
        "the CA's key {path} may be read by others (mode {mode:04o}): if nobody has read it yet, chmod 600 it; otherwise create a new CA"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file cannot be read, or holds something else.
    #[error("{0}")]
    File(BadCertificate),
    /// Its time is over.
    #[error("the CA in {path} has expired ({when}): create a new one in another directory, and have clients trust it")]
    Expired {
        /// The file.
        path: PathBuf,
        /// When.
        when: String,
    },
    /// Its time has not come.
    #[error("the CA in {path} is not valid before {when}: check the clock, or wait")]
    TooEarly {
        /// The file.
        path: PathBuf,
        /// When.
        when: String,
    },
    /// A certificate that may sign no others.
    #[error(
        "the certificate in {0} is not a CA's (it lacks CA:TRUE, or the key usage to sign certificates): create one with `tinaja ca create`"
    )]
    NotAuthority(PathBuf),
    /// Certificate and key do not belong together.
    #[error(
        "{key} is not the key of the CA in {certificate}: put back the one that it was created with, or create a new CA"
    )]
    OtherKey {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// A key of a kind that cannot sign here.
    #[error(
        "cannot use the CA's key in {path}: {cause}; it must be PKCS#8 in PEM without a password, as `tinaja ca create` makes it"
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// What it signs is not what a client takes.
    #[error("clients would not take what the CA in {path} signs: {cause}; create one with `tinaja ca create`")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
}

impl From<BadCertificate> for BadAuthority {
    fn from(bad: BadCertificate) -> BadAuthority {
        match bad {
            BadCertificate::Expired { path, when } => BadAuthority::Expired { path, when },
            BadCertificate::TooEarly { path, when } => BadAuthority::TooEarly { path, when },
            other => BadAuthority::File(other),
        }
    }
}

/// What there is to know of a CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFacts {
    /// Its certificate's file.
    pub certificate: PathBuf,
    /// Its key's file.
    pub key: PathBuf,
    /// Its name.
    pub subject: String,
    /// SHA-256 of its certificate, as other programs show it.
    pub fingerprint: String,
    /// From when it is valid.
    pub not_before: String,
    /// Until when.
    pub not_after: String,
    /// The only domains that it may sign for, where it is not any.
    pub only_for: Vec<String>,
}

/// What a CA signs with.
pub(super) struct Authority {
    pub certificate: CertificateDer<'static>,
    /// What leads from it to an authority that clients have: nothing where it is that itself.
    pub chain: Vec<CertificateDer<'static>>,
    pub issuer: Issuer<'static, KeyPair>,
    pub path: PathBuf,
    /// Until when it may sign, in seconds since 1970.
    pub not_after: i64,
    pub only_for: Vec<String>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What there is to know of the CA in a directory, which may have expired.
///
/// Errors: [`BadAuthority`], where there is no certificate, or no CA's.
pub fn show(dir: &Path) -> Result<AuthorityFacts, BadAuthority> {
    let path = dir.join(CERTIFICATE);
    let der = certificate_of(&path, certificates_in_dir(dir, &path)?)?;
    let certificate = parsed(&path, &der)?;
    let validity = certificate.validity();
    let fingerprint: Vec<String> = digest(&SHA256, &der).as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    Ok(AuthorityFacts {
        subject: certificate.subject().to_string(),
        fingerprint: fingerprint.join(":"),
        not_before: validity.not_before.to_string(),
        not_after: validity.not_after.to_string(),
        only_for: only_for(&certificate),
        certificate: path,
        key: dir.join(KEY),
    })
}

impl Authority {
    /// Reads the CA in a directory, and checks all but what it signs.
    ///
    /// Errors: [`BadAuthority`].
    pub fn load(dir: &Path, now: SystemTime) -> Result<Authority, BadAuthority> {
        let (path, key_path) = (dir.join(CERTIFICATE), dir.join(KEY));
        let all = certificates_in_dir(dir, &path)?;
        let certificate = check_at(now, &path, &all)?;
        if !may_sign(&certificate) {
            return Err(BadAuthority::NotAuthority(path));
        }
        let key = key_in(&key_path)?;
        if key.subject_public_key_info() != certificate.public_key().raw {
            return Err(BadAuthority::OtherKey { certificate: path, key: key_path });
        }
        let unfit = |cause: &str| BadAuthority::Unfit { path: path.clone(), cause: cause.to_owned() };
        let mut params = CertificateParams::default();
        params.distinguished_name =
            subject(&certificate).ok_or_else(|| unfit("its name is of a kind that cannot be written again"))?;
        if let Some(id) = key_id(&certificate) {
            params.key_identifier_method = KeyIdMethod::PreSpecified(id);
        }
        let (not_after, only_for) = (certificate.validity().not_after.timestamp(), only_for(&certificate));
        let is_root = certificate.subject().as_raw() == certificate.issuer().as_raw();
        let chain = if is_root { Vec::new() } else { all.clone() };
        let der = certificate_of(&path, all.clone())?;
        Ok(Authority { certificate: der, chain, issuer: Issuer::new(params, key), path, not_after, only_for })
    }
}

fn certificates_in_dir(dir: &Path, path: &Path) -> Result<Vec<CertificateDer<'static>>, BadAuthority> {
    if !path.exists() && !dir.join(KEY).exists() {
        return Err(BadAuthority::Missing(dir.to_owned()));
    }
    Ok(certificates_in(path)?)
}

/// The CA's certificate, which is the first of its file.
fn certificate_of(path: &Path, all: Vec<CertificateDer<'static>>) -> Result<CertificateDer<'static>, BadAuthority> {
    all.into_iter().next().ok_or_else(|| BadAuthority::NotAuthority(path.to_owned()))
}

fn parsed<'a>(path: &Path, der: &'a [u8]) -> Result<X509Certificate<'a>, BadAuthority> {
    let parsed = X509Certificate::from_der(der).map(|(_, certificate)| certificate);
    let parsed = parsed.map_err(|_| BadAuthority::NotAuthority(path.to_owned()))?;
    if may_sign(&parsed) { Ok(parsed) } else { Err(BadAuthority::NotAuthority(path.to_owned())) }
}

/// Reads the key from a file that only its owner may read. The permissions are those of the file that is read.
fn key_in(path: &Path) -> Result<KeyPair, BadAuthority> {
    let unreadable = |error: std::io::Error| {
        BadAuthority::File(BadCertificate::Unreadable { path: path.to_owned(), cause: error.to_string() })
    };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(BadAuthority::Open { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(MAX_KEY_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    KeyPair::from_pem(&text).map_err(|error| BadAuthority::Key { path: path.to_owned(), cause: error.to_string() })
}

/// Whether somebody can be told that a directory has a CA, or part of one.
pub(super) fn is_there(dir: &Path) -> Option<PathBuf> {
    [KEY, CERTIFICATE].into_iter().map(|name| dir.join(name)).find(|path| fs::symlink_metadata(path).is_ok())
}

fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let is_ca = certificate.basic_constraints().ok().flatten().is_some_and(|constraints| constraints.value.ca);
    let usage = certificate.key_usage().ok().flatten();
    is_ca && usage.is_none_or(|usage| usage.value.key_cert_sign())
}

fn key_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    })
}

fn only_for(certificate: &X509Certificate<'_>) -> Vec<String> {
    let constraints = certificate.name_constraints().ok().flatten();
    let permitted = constraints.and_then(|constraints| constraints.value.permitted_subtrees.as_ref());
    let domain = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    permitted.map_or(Vec::new(), |trees| trees.iter().filter_map(|tree| domain(&tree.base)).collect())
}

/// The CA's name, to be written into what it signs byte for byte: clients compare it so. Nothing for kinds of text that nobody
/// uses any more.
fn subject(certificate: &X509Certificate<'_>) -> Option<DistinguishedName> {
    let mut name = DistinguishedName::new();
    for attribute in certificate.subject().iter_attributes() {
        let kind: Vec<u64> = attribute.attr_type().iter()?.collect();
        let text = attribute.as_str().ok()?;
        let value = match attribute.attr_value().tag() {
            Tag::Utf8String => DnValue::Utf8String(text.to_owned()),
            Tag::PrintableString => DnValue::PrintableString(text.try_into().ok()?),
            Tag::Ia5String => DnValue::Ia5String(text.try_into().ok()?),
            _ => return None,
        };
        name.push(DnType::from_oid(&kind), value);
    }
    Some(name)
}
