//! Making a CA.

use std::fs::{DirBuilder, OpenOptions, remove_file};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, GeneralSubtree, IsCa, KeyPair,
    KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P256_SHA256,
};

use super::authority::{AuthorityFacts, BadAuthority, CERTIFICATE, KEY, is_there, show};
use super::leaves::{date, serial};

/// Clocks of clients that are behind by so much take it all the same.
pub(super) const BACK: Duration = Duration::from_secs(3600);

/// What a new CA is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAuthority {
    /// Its name, which people see in lists of CAs.
    pub name: String,
    /// Days that it is valid.
    pub days: u32,
    /// The only domains that it may sign for, with all below them; any if there is none.
    pub only_for: Vec<String>,
}

/// Why no CA was made. Nothing is left of it then.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is one, or part of one.
    #[error(
        "{0} exists already: a CA is not overwritten, since clients may trust it; choose another directory, or remove it first"
    )]
    Exists(PathBuf),
    /// A file or directory cannot be made.
    #[error("cannot write {path}: {cause}; nothing is left of the new CA")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// A domain that cannot be one.
    #[error("{0:?} is not a domain; write it as in example.org, which stands for all below it too")]
    Domain(String),
    /// The key or the certificate cannot be made.
    #[error("cannot make the CA: {0}")]
    Make(#[from] rcgen::Error),
    /// What was written is of no use.
    #[error("the new CA is of no use: {0}")]
    Bad(#[from] BadAuthority),
}

/// Makes a CA in a directory, which is made too if it is not there: a key that its owner alone may read, and a certificate.
///
/// Errors: [`CreateError`].
pub fn create(dir: &Path, new: &NewAuthority, now: SystemTime) -> Result<AuthorityFacts, CreateError> {
    if let Some(path) = is_there(dir) {
        return Err(CreateError::Exists(path));
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params(new, now)?.self_signed(&key)?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|cause| CreateError::Write { path: dir.to_owned(), cause })?;
    let (key_path, path) = (dir.join(KEY), dir.join(CERTIFICATE));
    write_new(&key_path, key.serialize_pem().as_bytes(), 0o600)?;
    if let Err(error) = write_new(&path, certificate.pem().as_bytes(), 0o644) {
        // A key without its certificate would be in the way of the next attempt. It is ours: it was made here.
        let _ = remove_file(&key_path);
        return Err(error);
    }
    Ok(show(dir)?)
}

fn params(new: &NewAuthority, now: SystemTime) -> Result<CertificateParams, CreateError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, new.name.clone());
    params.not_before = date(now - BACK)?;
    params.not_after = date(now + Duration::from_secs(u64::from(new.days) * 24 * 3600))?;
    params.serial_number = Some(serial()?);
    // It signs servers' certificates alone, and no other CA's.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    if !new.only_for.is_empty() {
        let domains = new.only_for.iter().map(|name| domain(name)).collect::<Result<_, _>>()?;
        // A list of domains says nothing of addresses: without these the CA could sign for all of them.
        let no_address = [CidrSubnet::V4([0; 4], [0; 4]), CidrSubnet::V6([0; 16], [0; 16])];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: domains,
            excluded_subtrees: no_address.map(GeneralSubtree::IpAddress).into(),
        });
    }
    Ok(params)
}

fn domain(name: &str) -> Result<GeneralSubtree, CreateError> {
    let label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    if name.len() > 253 || is_address || !name.split('.').all(label) {
        return Err(CreateError::Domain(name.to_owned()));
    }
    Ok(GeneralSubtree::DnsName(name.to_ascii_lowercase()))
}

/// Writes a file that is not there yet, to the disk. A part of it is not left behind.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CreateError> {
    let failed = |cause: io::Error| match cause.kind() {
        ErrorKind::AlreadyExists => CreateError::Exists(path.to_owned()),
        _ => CreateError::Write { path: path.to_owned(), cause },
    };
    // O_EXCL, which follows no links either: whoever made something there first is not overwritten, nor told the key.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|cause| {
        let _ = remove_file(path);
        failed(cause)
    })
}
