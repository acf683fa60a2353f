//! Who may ask for what.
//!
//! An operator's rules are read from the top, and the first that fits decides. Below them stands what a forward proxy
//! refuses by itself. A proxy stands where its clients do not: its own loopback, the machines beside it, a cloud's
//! metadata service. So addresses that are not public are refused unless a rule opens them by name, and so are the machine's own. The address is
//! judged, not the name, and the very address that was judged is connected to: a name that resolves differently a
//! moment later gains nothing. A rule must name what it opens: "allow these clients" must not open the proxy's own loopback.

mod address;
mod cidr;
mod own;
mod rule;

use std::fmt;
use std::net::IpAddr;

pub use cidr::{BadCidr, Cidr};
pub(crate) use own::Own;
use rule::Fit;
pub use rule::{Action, BadPorts, Ports, Rule};

/// Ports that tunnels may lead to by default: HTTPS, and news over TLS, as in Squid's `SSL_ports`.
const TUNNEL_PORTS: [u16; 2] = [443, 563];

/// The rules of one listener, in their order. Without any, a forward proxy reaches public addresses at the usual ports,
/// and a reverse proxy serves everybody.
///
/// The first rule that fits a request decides whether it is denied. What a forward proxy refuses by itself is opened
/// only by `allow` rules that name it and stand before the first `deny` that fits: an address that is not public by a
/// rule with a destination, a port by a rule with a port (and for a tunnel with the method CONNECT). PURGE and BAN, which no proxy lets through by itself, are opened
/// by a rule with that method, and a protocol other than HTTP by one with that protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// What is known of a request before its destination is resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub client: IpAddr,
    pub method: &'a str,
    /// The destination's.
    pub port: u16,
    /// The protocol for which it would leave HTTP, where that is what is asked.
    pub upgrade: Option<&'a str>,
}

/// The methods by which clients take back what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purging {
    /// A URL is forgotten, unless fields name more.
    Purge,
    /// The same by a ban, whatever is stored: as users of Varnish know it.
    Ban,
}

impl Purging {
    /// Which of them a method is, if it is one.
    pub fn of(method: &str) -> Option<Purging> {
        match method {
            "PURGE" => Some(Purging::Purge),
            "BAN" => Some(Purging::Ban),
            _ => None,
        }
    }
}

impl fmt::Display for Purging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Purging::Purge { "PURGE" } else { "BAN" })
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("{0} is not allowed. To allow it, add an allow rule with method {0} to the configuration file (--config).")]
    Purge(Purging),
    #[error("Access rule {0} of this proxy denies the request.")]
    Rule(usize),
    #[error("Interception rule {0} of this proxy refuses tunnels to this host.")]
    Interception(usize),
    #[error("The mirror at {0} is for other clients: its setting `clients` does not have this one.")]
    Mirror(String),
    #[error(
        "The mirror at {path} has credentials, and is reached by an address, as localhost or by public_url, but not as {host}."
    )]
    MirrorName { path: String, host: String },
    #[error(
        "{address} is {kind}. The proxy only connects to public addresses; --allow-destination {address} allows this one."
    )]
    Address { address: IpAddr, kind: &'static str },
    #[error(
        "Tunnels to port {0} are not allowed; --allow-connect-port {0} allows them. By default only 443 and 563 are."
    )]
    TunnelPort(u16),
    #[error(
        "Plain HTTP to port {0} is not allowed, because the port belongs to another protocol. Allowed are 80, 443 and ports \
         above 1024, and others if a rule names them."
    )]
    PlainPort(u16),
}

/// What the rules say of one request.
#[derive(Default)]
struct Verdict {
    /// The number of the rule that refuses it.
    denied_by: Option<usize>,
    opens_address: bool,
    opens_port: bool,
    opens_tunnel: bool,
    opens_method: bool,
    opens_upgrade: bool,
}

impl Rules {
    /// Adds a rule behind the others.
    pub fn push(&mut self, rule: Rule) {
        self.0.push(rule);
    }

    /// Adds rules before the others, in their order.
    pub fn put_first(&mut self, rules: &[Rule]) {
        self.0.splice(0..0, rules.iter().cloned());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the rules for a request. Where the destination is not known yet, whatever it may turn out to be is allowed
    /// if some destination is.
    fn verdict(&self, asked: Asked<'_>, destination: Option<IpAddr>) -> Verdict {
        // An IPv6 address can carry an IPv4 address that is the one really reached.
        let inner = destination.and_then(address::embedded);
        let mut verdict = Verdict::default();
        let mut allowed = false;
        for (number, rule) in (1..).zip(&self.0) {
            match (rule.action, rule.fit(asked, destination, inner)) {
                (_, Fit::No) | (Action::Deny, Fit::Perhaps) => {}
                (Action::Allow, fit) => {
                    allowed = true;
                    verdict.opens_method |= fit == Fit::Yes && !rule.methods.is_empty();
                    verdict.opens_upgrade |= fit == Fit::Yes && !rule.upgrades.is_empty();
                    verdict.opens_address |= !rule.destinations.is_empty();
                    verdict.opens_port |= !rule.ports.is_empty();
                    verdict.opens_tunnel |= !rule.ports.is_empty() && !rule.methods.is_empty();
                }
                (Action::Deny, Fit::Yes) => {
                    verdict.denied_by = (!allowed).then_some(number);
                    break;
                }
            }
        }
        verdict
    }

    /// What a forward proxy can refuse before it knows the address. Low ports belong to protocols that can be tricked
    /// into taking a request for their own (mail, for one).
    pub(crate) fn check_request(&self, asked: Asked<'_>) -> Result<(), Denied> {
        check_port(&self.verdict(asked, None), asked)
    }

    /// Whether a forward proxy may connect to this address for this request.
    pub(crate) fn check_address(&self, asked: Asked<'_>, address: IpAddr, own: &Own) -> Result<(), Denied> {
        let verdict = self.verdict(asked, Some(address));
        check_port(&verdict, asked)?;
        let inner = address::embedded(address).unwrap_or(address);
        let is_own = || own.has(address) || own.has(inner);
        match address::not_public(inner).or_else(|| is_own().then_some("an address of this machine")) {
            Some(kind) if !verdict.opens_address => Err(Denied::Address { address, kind }),
            _ => Ok(()),
        }
    }

    /// Whether objects may be forgotten for this request. The address that an object came from does not matter.
    pub(crate) fn check_purge(&self, asked: Asked<'_>) -> Result<(), Denied> {
        let verdict = self.verdict(asked, None);
        match verdict.denied_by {
            Some(number) => Err(Denied::Rule(number)),
            None if verdict.opens_method => Ok(()),
            // Who asks this asks for one of them.
            None => Err(Denied::Purge(Purging::of(asked.method).unwrap_or(Purging::Purge))),
        }
    }

    /// Whether a request may leave HTTP for this protocol: an `allow` rule names it. Where none does, a proxy that its clients know goes on with
    /// HTTP (RFC 9110 7.8).
    ///
    /// Errors: a rule denies it, whatever the address is; [`Rules::check_upgrades`] tells of the others.
    pub(crate) fn opens_upgrade(&self, asked: Asked<'_>, protocol: &str) -> Result<bool, Denied> {
        let verdict = self.verdict(Asked { upgrade: Some(protocol), ..asked }, None);
        match verdict.denied_by {
            Some(number) => Err(Denied::Rule(number)),
            None => Ok(verdict.opens_upgrade),
        }
    }

    /// Whether a rule denies a request for one of these protocols, once the address is known: before, a rule for some addresses hides
    /// all that stand behind it.
    pub(crate) fn check_upgrades<'a>(
        &self,
        asked: Asked<'a>,
        mut protocols: impl Iterator<Item = &'a str>,
        address: IpAddr,
    ) -> Result<(), Denied> {
        protocols.try_for_each(|protocol| self.check_listed(Asked { upgrade: Some(protocol), ..asked }, Some(address)))
    }

    /// What the rules alone say, as for a reverse proxy; without an address what can be said before it is known.
    pub(crate) fn check_listed(&self, asked: Asked<'_>, address: Option<IpAddr>) -> Result<(), Denied> {
        self.verdict(asked, address).denied_by.map_or(Ok(()), |number| Err(Denied::Rule(number)))
    }

    /// Whether a forward proxy with these serves clients from anywhere: those of networks for documentation, in which nobody is.
    pub(crate) fn serve_anybody(&self) -> bool {
        let clients = [IpAddr::from([203, 0, 113, 77]), IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77])];
        let asked = clients.iter().flat_map(|client| [("GET", 80), ("CONNECT", 443)].map(|asked| (*client, asked)));
        asked
            .into_iter()
            .any(|(client, (method, port))| self.check_request(Asked { client, method, port, upgrade: None }).is_ok())
    }

    /// Whether the address matters to any rule.
    pub(crate) fn name_destinations(&self) -> bool {
        self.0.iter().any(|rule| !rule.destinations.is_empty())
    }
}

impl From<Vec<Rule>> for Rules {
    fn from(rules: Vec<Rule>) -> Rules {
        Rules(rules)
    }
}

/// Whether an address is one of the public Internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    address::not_public(address::embedded(address).unwrap_or(address)).is_none()
}

fn check_port(verdict: &Verdict, Asked { method, port, .. }: Asked<'_>) -> Result<(), Denied> {
    let open = match method {
        "CONNECT" => TUNNEL_PORTS.contains(&port) || verdict.opens_tunnel,
        _ => matches!(port, 80 | 443 | 1025..) || verdict.opens_port,
    };
    match (verdict.denied_by, method) {
        (Some(number), _) => Err(Denied::Rule(number)),
        _ if open => Ok(()),
        (None, "CONNECT") => Err(Denied::TunnelPort(port)),
        (None, _) => Err(Denied::PlainPort(port)),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
