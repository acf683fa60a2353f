//! The authorities that the system trusts, or those that SSL_CERT_FILE and SSL_CERT_DIR name.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls_native_certs::load_native_certs;

/// How many there are.
///
/// An unreadable file is an error, and a certificate that is none. While this runs it takes about as much memory as the files.
pub(crate) fn authorities() -> Result<usize, String> {
    if let Some(path) = env::var_os("SSL_CERT_FILE") {
        // Passed over in silence otherwise, as long as SSL_CERT_DIR holds some.
        readable(Path::new(&path)).map_err(|cause| format!("{}: {cause}", path.display()))?;
    }
    let mut trusted = RootCertStore::empty();
    for certificate in load_native_certs().map_err(|cause| cause.to_string())? {
        trusted.add(certificate).map_err(|cause| format!("one of them is malformed: {cause}"))?;
    }
    Ok(trusted.len())
}

/// All of them, read once. They are checked before anything is served ([`authorities`]); what is bad in them then is passed over.
pub(super) fn system() -> Arc<RootCertStore> {
    static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let load = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(load_native_certs().unwrap_or_default());
        Arc::new(roots)
    };
    SYSTEM.get_or_init(load).clone()
}

/// Reading a byte also finds out directories, which can be opened.
fn readable(path: &Path) -> io::Result<()> {
    File::open(path)?.read(&mut [0]).map(drop)
}
