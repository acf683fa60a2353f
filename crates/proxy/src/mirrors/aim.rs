//! Where a request at a mirror goes, and what it says there of who asks.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use tinaja_http::authority::Authority;
use tinaja_http::message::{BadField, RequestHead};

use super::{Checking, Kind, Learned, Mounted, Named, SITE, Token};
use crate::origin::{Behind, Destination, default_port};

/// Where one request at a mirror goes.
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub mounted: Arc<Mounted>,
    /// It is below the source's URL, not at a listed host.
    pub is_home: bool,
    /// What the source is told instead of the credentials.
    pub token: Option<Token>,
    /// It asks for a token, at a host that gives them.
    pub asks_token: bool,
    /// What its path at the source says of its bytes.
    pub named: Option<Arc<Named>>,
    /// What an index says of them, if its name does not.
    pub learned: Option<Learned>,
}

/// The same, and what its head says there.
#[derive(Clone, Debug)]
pub(crate) struct Aim {
    pub at: At,
    pub destination: Destination,
    pub host: Authority,
    /// With the query.
    pub path: String,
}

impl At {
    /// How its destination is connected to.
    pub fn behind(&self) -> &Arc<Behind> {
        if self.is_home { &self.mounted.behind } else { &self.mounted.elsewhere }
    }

    /// What its names have besides the URL.
    pub fn site(&self) -> Cow<'_, str> {
        if self.is_followed() {
            format!("{SITE}followed {}", self.mounted.site).into()
        } else {
            (&self.mounted.site).into()
        }
    }

    /// Whether what redirects lead to is stored under the source's own URL: registries redirect to where blobs lie by another URL each
    /// time, signed anew, and the digest in their own says that it is the same. A name of its own, for whoever asks the source otherwise
    /// gets the redirect.
    pub fn is_followed(&self) -> bool {
        self.named.is_some() && self.mounted.mirror.kind == Some(Kind::Oci)
    }

    /// Begins to check its bytes, if it is known what they must be.
    pub fn check(&self) -> Option<Checking> {
        self.named.as_ref().map(|named| named.check()).or_else(|| self.learned.as_ref().map(Learned::check))
    }

    /// Whether what is at this path teaches what other files must be, though nothing in it is changed on the way. A client that has it already
    /// does not keep it from us then.
    pub fn teaches(&self, path: &str) -> bool {
        self.is_home && self.mounted.mirror.kind.is_some_and(|kind| kind.is_plain_index(path))
    }

    /// Whether the mirror is for this client.
    pub fn is_for(&self, client: IpAddr) -> bool {
        let clients = &self.mounted.mirror.clients;
        clients.is_empty() || clients.iter().any(|network| network.contains(client.to_canonical()))
    }

    /// Tells the source who asks, if it is the source, or who gives tokens for it.
    pub fn authorize(&self, head: &mut RequestHead) -> Result<(), BadField> {
        let credentials = || self.mounted.mirror.credentials.as_ref().map(|credentials| credentials.field().to_owned());
        let field = match &self.token {
            Some(token) if self.is_home => Some(token.field()),
            _ if self.is_home || self.asks_token => credentials(),
            _ => None,
        };
        field.map_or(Ok(()), |field| head.headers.insert(http::header::AUTHORIZATION, field))
    }
}

impl Aim {
    /// The value of Host.
    pub fn host_field(&self) -> String {
        self.host.host_field(default_port(self.destination.tls))
    }
}
