//! Which links of a page are rewritten, and into what.

use std::sync::Arc;

use tinaja_http::authority::Authority;

use super::{At, ELSEWHERE, Mounted};
use crate::origin::{Destination, default_port};

/// The links of one page.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    mounted: Arc<Mounted>,
    /// Where the page is.
    page: Destination,
}

/// Where a link's server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// The source's own: paths with this prefix become ours, and all others too if there is a text for them.
    Home(Option<String>),
    /// A listed host: this comes before the path.
    Listed(String),
}

impl Links {
    /// Those of a page that was asked for so; nothing where we have no address for links.
    pub fn new(at: &At, page: &Destination) -> Option<Links> {
        at.mounted.base.as_ref()?;
        Some(Links { mounted: at.mounted.clone(), page: page.clone() })
    }

    /// What comes before our paths, with a slash at the end.
    pub(super) fn base(&self) -> &str {
        self.mounted.base.as_deref().unwrap_or_default()
    }

    /// What the source's paths begin with, with a slash at both ends.
    pub(super) fn prefix(&self) -> &str {
        &self.mounted.mirror.origin.prefix
    }

    /// The server of a link, if it is rewritten.
    pub(super) fn server(&self, tls: bool, authority: &str) -> Option<Server> {
        let parsed = Authority::parse(authority.as_bytes()).ok()?;
        self.of(&Destination::of(tls, &parsed))
    }

    /// The page's own server, and the scheme of links that name none.
    pub(super) fn own(&self) -> Option<Server> {
        self.of(&self.page)
    }

    pub(super) fn is_tls(&self) -> bool {
        self.page.tls
    }

    fn of(&self, destination: &Destination) -> Option<Server> {
        let Destination { tls, host, port } = destination;
        let listed = self.mounted.mirror.hosts.iter().any(|listed| listed.fits(destination)).then(|| {
            let scheme = if *tls { "https" } else { "http" };
            let port = if *port == default_port(*tls) { String::new() } else { format!("-{port}") };
            format!("{}{ELSEWHERE}{scheme}{port}/{host}", self.base())
        });
        match (*destination == self.mounted.mirror.origin.server.destination(), listed) {
            (true, listed) => Some(Server::Home(listed)),
            (false, listed) => listed.map(Server::Listed),
        }
    }

    #[cfg(test)]
    pub(super) fn mounted_for_tests(&self) -> Arc<Mounted> {
        self.mounted.clone()
    }

    /// A whole URL, rewritten; nothing if it is to stay as it is.
    pub fn url(&self, url: &str) -> Option<String> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        match self.server(tls, authority)? {
            Server::Listed(before) => Some(format!("{before}{path}")),
            Server::Home(listed) => match path.strip_prefix(self.prefix()) {
                Some(rest) => Some(format!("{}{rest}", self.base())),
                None => listed.map(|before| format!("{before}{path}")),
            },
        }
    }
}
