//! TLS with clients: certificates by name, and the handshake; files with certificates, for either side.
//!
//! Rustls does it here, and not Pingora's listeners: those take one certificate and no names, and cannot change it. The
//! handshake comes before the front, which sees a stream like any other.

mod accept;
mod certificates;

pub(crate) use accept::{Served, Tls};
pub use certificates::{BadCertificate, CertificateFiles};
pub(crate) use certificates::{certificates_in, check_now, key_in};
