//! TLS with clients: certificates by name, and the handshake.

mod accept;
mod certificates;

pub(crate) use accept::{Served, Tls};
pub use certificates::{BadCertificate, CertificateFiles};
