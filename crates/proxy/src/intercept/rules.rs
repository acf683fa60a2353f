//! Which tunnels are opened up, which are left alone, and which are refused.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::cache_rules::HostPattern;
use crate::rules::Cidr;

/// Says of tunnels what becomes of them. An empty list fits everything; a rule fits where both of its lists do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterceptRule {
    /// What is done.
    pub action: InterceptAction,
    /// Hosts that clients ask for.
    pub hosts: Vec<HostPattern>,
    /// Where clients are.
    pub clients: Vec<Cidr>,
    /// The rule's number in the configuration, from 1.
    pub number: usize,
    /// Where it stands in the configuration file, if it does.
    pub line: Option<usize>,
}

/// What becomes of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterceptAction {
    /// Its TLS ends here, and the requests in it are answered like any others.
    Cache(OnReject),
    /// It is opened, and nobody looks into it.
    Tunnel,
    /// It is not opened.
    Refuse,
}

/// What becomes of clients that do not accept the certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReject {
    /// They are offered the certificate again, and nothing else.
    #[default]
    Refuse,
    /// Their tunnels to that host are opened for a while.
    Tunnel,
}

/// The rules, in their order. Without any, nothing is intercepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterceptRules(Arc<[InterceptRule]>);

/// A rule that never decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this rule never decides: {before} fits all that it fits, and comes before it; move this one up, or remove it")]
pub struct NeverFits {
    /// Its place among the rules.
    pub at: usize,
    before: String,
}

/// What the rules say of one tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is opened up.
    Cache(OnReject),
    /// It is left alone; whether a rule says so.
    Tunnel { by_rule: bool },
    /// This rule refuses it.
    Refuse(usize),
}

impl InterceptRules {
    /// Errors: [`NeverFits`].
    pub fn new(rules: Vec<InterceptRule>) -> Result<InterceptRules, NeverFits> {
        for (at, rule) in rules.iter().enumerate() {
            if let Some(before) = rules.iter().take(at).find(|before| before.covers(rule)) {
                return Err(NeverFits { at, before: before.to_string() });
            }
        }
        Ok(InterceptRules(rules.into()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn list(&self) -> &[InterceptRule] {
        &self.0
    }

    /// Whether some tunnels are opened up.
    pub fn open_any(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule.action, InterceptAction::Cache(_)))
    }

    /// Whether what a client says inside its tunnel may matter, whatever host it asked for.
    pub(crate) fn concern(&self, client: IpAddr) -> bool {
        self.0.iter().any(|rule| rule.action != InterceptAction::Tunnel && rule.fits_client(client))
    }

    /// What the first rule that fits says of a host. A dot at the end makes it no other.
    pub(crate) fn decide(&self, client: IpAddr, host: &str) -> Decision {
        let host = host.trim_end_matches('.');
        let rule = self.0.iter().find(|rule| rule.fits_client(client) && rule.fits_host(host));
        match rule.map(|rule| (rule.action, rule.number)) {
            None => Decision::Tunnel { by_rule: false },
            Some((InterceptAction::Tunnel, _)) => Decision::Tunnel { by_rule: true },
            Some((InterceptAction::Cache(on_reject), _)) => Decision::Cache(on_reject),
            Some((InterceptAction::Refuse, number)) => Decision::Refuse(number),
        }
    }

    /// The same for a client that asks for one host and then, in its TLS, for a name. What is refused by either is refused, and
    /// what is to be left alone by either is left alone. Only then does the name decide: nothing is opened up because of the other.
    pub(crate) fn decide_both(&self, client: IpAddr, host: &str, name: &str) -> Decision {
        match (self.decide(client, host), self.decide(client, name)) {
            (refused @ Decision::Refuse(_), _) | (_, refused @ Decision::Refuse(_)) => refused,
            (alone @ Decision::Tunnel { by_rule: true }, _) => alone,
            (_, by_name) => by_name,
        }
    }
}

impl InterceptRules {
    /// The same for a client that knows of no proxy, by the address that it chose and the name in its TLS. What is refused by either is
    /// refused. A rule that names the address keeps it from being opened up, whatever the name; else the name decides, and without one the
    /// address.
    pub(crate) fn decide_diverted(&self, client: IpAddr, address: &str, name: Option<&str>) -> Decision {
        let Some(name) = name else { return self.decide(client, address) };
        let by_name = self.decide(client, name);
        if matches!(by_name, Decision::Refuse(_)) {
            return by_name;
        }
        let names_it =
            |rule: &&InterceptRule| !rule.hosts.is_empty() && rule.fits_client(client) && rule.fits_host(address);
        match self.0.iter().find(names_it).map(|rule| (rule.action, rule.number)) {
            Some((InterceptAction::Tunnel, _)) => Decision::Tunnel { by_rule: true },
            Some((InterceptAction::Refuse, number)) => Decision::Refuse(number),
            Some((InterceptAction::Cache(_), _)) | None => by_name,
        }
    }
}

impl InterceptRule {
    fn fits_client(&self, client: IpAddr) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|network| network.contains(client.to_canonical()))
    }

    fn fits_host(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|pattern| pattern.fits(host))
    }

    /// Whether it fits all that another one fits, as far as is easily told: networks must be the same.
    fn covers(&self, other: &InterceptRule) -> bool {
        let clients = self.clients.is_empty()
            || (!other.clients.is_empty() && other.clients.iter().all(|network| self.clients.contains(network)));
        let covered = |host: &HostPattern| self.hosts.iter().any(|pattern| pattern.covers(host));
        let hosts = self.hosts.is_empty() || (!other.hosts.is_empty() && other.hosts.iter().all(covered));
        clients && hosts
    }
}

impl fmt::Display for InterceptRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "interception rule {} (line {line})", self.number),
            None => write!(f, "interception rule {}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

    fn rule(action: InterceptAction, hosts: &[&str], clients: &[&str]) -> InterceptRule {
        InterceptRule {
            action,
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            clients: clients.iter().map(|network| network.parse().unwrap()).collect(),
            number: 0,
            line: None,
        }
    }

    fn rules(all: Vec<InterceptRule>) -> InterceptRules {
        InterceptRules::new((1..).zip(all).map(|(number, rule)| InterceptRule { number, ..rule }).collect()).unwrap()
    }

    const CACHE: InterceptAction = InterceptAction::Cache(OnReject::Refuse);
    const ALONE: Decision = Decision::Tunnel { by_rule: true };
    const NO_RULE: Decision = Decision::Tunnel { by_rule: false };

    #[test]
    fn the_first_that_fits_decides() {
        let rules = rules(vec![
            rule(InterceptAction::Tunnel, &["*.bank.example", "bank.example"], &[]),
            rule(InterceptAction::Refuse, &["games.example"], &["10.0.0.0/24"]),
            rule(InterceptAction::Cache(OnReject::Tunnel), &["*.example"], &["10.0.0.0/8", "::1"]),
            rule(CACHE, &["192.0.2.1"], &[]),
        ]);
        let away = IpAddr::from([192, 168, 0, 1]);
        let mapped: IpAddr = "::ffff:10.0.0.7".parse().unwrap();
        for (client, host, expected) in [
            (HERE, "www.bank.example", ALONE),
            (away, "bank.example", ALONE),
            (HERE, "games.example", Decision::Refuse(2)),
            (HERE, "games.example.", Decision::Refuse(2)),
            (mapped, "games.example", Decision::Refuse(2)),
            (IpAddr::from([10, 0, 1, 1]), "games.example", Decision::Cache(OnReject::Tunnel)),
            (away, "games.example", NO_RULE),
            (HERE, "a.example", Decision::Cache(OnReject::Tunnel)),
            (HERE, "example", NO_RULE),
            (HERE, "notbank.exampl", NO_RULE),
            (away, "192.0.2.1", Decision::Cache(OnReject::Refuse)),
        ] {
            assert_eq!(rules.decide(client, host), expected, "{client} {host}");
        }
        assert!(rules.concern(HERE) && rules.concern(away) && rules.open_any());
        assert!(!InterceptRules::default().concern(HERE));
        assert_eq!(InterceptRules::default().decide(HERE, "a.example"), NO_RULE);
    }

    #[test]
    fn two_names() {
        let rules = rules(vec![
            rule(InterceptAction::Refuse, &["no.example"], &[]),
            rule(InterceptAction::Tunnel, &["bank.example"], &[]),
            rule(CACHE, &["a.example", "b.example"], &[]),
        ]);
        let cache = Decision::Cache(OnReject::Refuse);
        for (host, name, expected) in [
            ("a.example", "a.example", cache),
            ("a.example", "b.example", cache),
            ("192.0.2.1", "a.example", cache),
            ("other.example", "a.example", cache),
            ("a.example", "other.example", NO_RULE),
            ("a.example", "bank.example", ALONE),
            ("bank.example", "a.example", ALONE),
            ("a.example", "no.example", Decision::Refuse(1)),
            ("no.example", "a.example", Decision::Refuse(1)),
            ("bank.example", "no.example", Decision::Refuse(1)),
            ("no.example", "bank.example", Decision::Refuse(1)),
        ] {
            assert_eq!(rules.decide_both(HERE, host, name), expected, "{host} {name}");
        }
    }

    #[test]
    fn an_address_and_a_name() {
        let rules = rules(vec![
            rule(InterceptAction::Tunnel, &["192.0.2.1"], &[]),
            rule(InterceptAction::Refuse, &["192.0.2.2"], &[]),
            rule(CACHE, &["a.example", "192.0.2.3"], &[]),
            rule(InterceptAction::Refuse, &[], &["10.0.0.0/8"]),
        ]);
        let (cache, away) = (Decision::Cache(OnReject::Refuse), IpAddr::from([192, 168, 0, 1]));
        for (client, address, name, expected) in [
            (HERE, "198.51.100.1", Some("a.example"), cache),
            (HERE, "192.0.2.1", Some("a.example"), ALONE),
            (HERE, "192.0.2.1", Some("b.example"), Decision::Refuse(4)),
            (HERE, "192.0.2.2", Some("a.example"), Decision::Refuse(2)),
            (HERE, "192.0.2.3", Some("a.example"), cache),
            (HERE, "192.0.2.3", None, cache),
            (HERE, "192.0.2.3", Some("b.example"), Decision::Refuse(4)),
            (HERE, "198.51.100.1", None, Decision::Refuse(4)),
            (away, "192.0.2.3", Some("b.example"), NO_RULE),
            (away, "198.51.100.1", None, NO_RULE),
        ] {
            assert_eq!(rules.decide_diverted(client, address, name), expected, "{client} {address} {name:?}");
        }
    }

    #[test]
    fn rules_that_never_decide() {
        for (first, second, never) in [
            (rule(CACHE, &[], &[]), rule(InterceptAction::Tunnel, &["a.example"], &[]), true),
            (rule(CACHE, &["*.example"], &[]), rule(CACHE, &["a.example"], &["10.0.0.0/8"]), true),
            (rule(CACHE, &["*.example"], &["10.0.0.0/8"]), rule(CACHE, &["a.example"], &[]), false),
            (rule(CACHE, &["*.example"], &[]), rule(CACHE, &["example"], &[]), false),
            (rule(CACHE, &["*.example"], &[]), rule(CACHE, &[], &[]), false),
        ] {
            let made = InterceptRules::new(vec![first, second]);
            assert_eq!(made.is_err(), never, "{made:?}");
            assert!(made.err().is_none_or(|error| error.at == 1 && error.to_string().contains("move this one up")));
        }
    }
}
