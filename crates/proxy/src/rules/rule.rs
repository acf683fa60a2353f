//! One access rule: what it fits, and whether that is allowed.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::{Asked, Cidr};

/// Allows or denies the requests that fit. An empty list fits everything; a rule fits where each of its lists does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What happens to requests that fit.
    pub action: Action,
    /// Networks that the client is in.
    pub clients: Vec<Cidr>,
    /// The request's method; methods are told apart by case.
    pub methods: Vec<String>,
    /// The destination's port.
    pub ports: Vec<Ports>,
    /// Networks that the destination's address is in, once its name is resolved.
    pub destinations: Vec<Cidr>,
    /// Protocols that a request asks for instead of HTTP, as in `websocket`, in small letters. A rule that names some is about such requests
    /// and no others, and takes no destinations.
    pub upgrades: Vec<String>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let it through.
    Allow,
    /// Answer with 403.
    Deny,
}

/// Some ports: `80`, or `8000-8999`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    first: u16,
    last: u16,
}

/// A text that names no ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a port from 1 to 65535 or a range of ports; write it as in 8443 or 8000-8999")]
pub struct BadPorts(String);

/// Whether a rule fits a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    No,
    /// It depends on the address, which is not known yet.
    Perhaps,
    Yes,
}

impl Rule {
    /// Does `action` with everything, until its lists are filled.
    pub fn new(action: Action) -> Rule {
        Rule {
            action,
            clients: Vec::new(),
            methods: Vec::new(),
            ports: Vec::new(),
            destinations: Vec::new(),
            upgrades: Vec::new(),
        }
    }

    /// Opens addresses that are not public.
    pub fn allow_destination(network: Cidr) -> Rule {
        Rule { destinations: vec![network], ..Rule::new(Action::Allow) }
    }

    /// Opens a port for tunnels.
    pub fn allow_connect_port(port: u16) -> Rule {
        Rule { methods: vec!["CONNECT".into()], ports: vec![port.into()], ..Rule::new(Action::Allow) }
    }

    /// `inner` is the IPv4 address that the destination stands for, if it is another.
    pub(super) fn fit(&self, asked: Asked<'_>, destination: Option<IpAddr>, inner: Option<IpAddr>) -> Fit {
        let client = asked.client.to_canonical();
        let from = |network: &Cidr| network.contains(client);
        let to = |network: &Cidr| [destination, inner].into_iter().flatten().any(|address| network.contains(address));
        let known = (self.clients.is_empty() || self.clients.iter().any(from))
            && (self.methods.is_empty() || self.methods.iter().any(|method| method == asked.method))
            && (self.ports.is_empty() || self.ports.iter().any(|ports| ports.contain(asked.port)))
            && (self.upgrades.is_empty() || asked.upgrade.is_some_and(|upgrade| self.is_about(upgrade)));
        match destination {
            _ if !known => Fit::No,
            _ if self.destinations.is_empty() => Fit::Yes,
            None => Fit::Perhaps,
            Some(_) if self.destinations.iter().any(to) => Fit::Yes,
            Some(_) => Fit::No,
        }
    }
}

impl Rule {
    fn is_about(&self, upgrade: &str) -> bool {
        self.upgrades.iter().any(|protocol| protocol.eq_ignore_ascii_case(upgrade))
    }
}

impl Ports {
    fn contain(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl From<u16> for Ports {
    fn from(port: u16) -> Ports {
        Ports { first: port, last: port }
    }
}

impl FromStr for Ports {
    type Err = BadPorts;

    fn from_str(text: &str) -> Result<Self, BadPorts> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        // `parse` alone would take a sign.
        let port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        match (port(first), port(last)) {
            (Some(first), Some(last)) if 1 <= first && first <= last => Ok(Ports { first, last }),
            _ => Err(BadPorts(text.to_owned())),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}
