//! Where a request at a mirror goes, and what it says there of who asks.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use tinaja_http::authority::Authority;
use tinaja_http::message::{BadField, RequestHead};

use super::{Kind, Mounted, Named, SITE, Token};
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
