//! Origins: where a request goes, and how it gets there.

mod backend;
mod checks;
mod connection;
mod dial;
mod group;
mod h1;
mod h2;
mod handshake;
mod health;
mod origins;
mod reach;
mod reads_on;
mod resolve;
mod rooms;
mod session;
mod system;
mod trust;
mod upstream;
mod url;
mod wire;

pub(crate) use backend::{Backend, Outcome};
pub(crate) use checks::check_all;
pub(crate) use connection::Connection;
pub(crate) use dial::dial;
pub(crate) use origins::{Origins, Target};
pub(crate) use origins::{over, secure};
pub(crate) use resolve::{resolve, resolve_chosen};
pub(crate) use system::authorities;
pub use trust::Trust;
pub(crate) use upstream::Behind;
pub use upstream::{Balance, Check, OriginTls, Upstream};
pub use url::{BadOrigin, OriginUrl};

use tinaja_http::authority::Authority;

/// Where one request goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    /// Whether to speak TLS to it.
    pub tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
}

impl Destination {
    /// The destination of a URL's scheme and authority.
    pub fn of(tls: bool, authority: &Authority) -> Destination {
        let port = authority.port_or(default_port(tls));
        Destination { tls, host: authority.host().to_owned(), port }
    }
}

/// The port of a scheme (RFC 9110 4.2).
pub(crate) fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}
