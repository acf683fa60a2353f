//! TLS with clients: certificates by name, and the handshake; files with certificates, for either side.
//!
//! The handshake comes before the first request, which is read from a stream like any other.

mod accept;
mod certificates;

pub(crate) use accept::{Accepted, READ_BYTES, Served, Tls};
pub use certificates::{BadCertificate, CertificateFiles};
pub(crate) use certificates::{certificates_in, check_at, in_pem, key_in};
