//! TLS with clients: certificates by name, and the handshake; files with certificates, for either side.

mod accept;
mod certificates;

pub(crate) use accept::{Served, Tls};
pub use certificates::{BadCertificate, CertificateFiles};
pub(crate) use certificates::{certificates_in, check_now, key_in};
