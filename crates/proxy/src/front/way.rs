//! Where a request goes, by what it asks for and whom its listener speaks for: a server that it names, a route's origins, or a
//! mirror's source.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tinaja_http::authority::Authority;
use tinaja_http::judge::{Judged, Target};

use crate::config::{Listener, Mode};
use crate::diverted::{Chosen, Proof};
use crate::exchange::{AskedFor, Ticket};
use crate::failure::Failure;
use crate::ids::RequestId;
use crate::mirrors::{Aim, At};
use crate::origin::{Behind, Destination, default_port};
use crate::rules::{Denied, Own};
use crate::stored::{Keyed, Name, keyed, name_of};

/// Where a request goes, and what its head says there.
pub(crate) struct Way<'a> {
    pub path: Cow<'a, str>,
    pub host: Authority,
    pub host_tls: bool,
    pub destination: Destination,
    pub behind: Option<Arc<Behind>>,
    /// The mirror that it is for.
    pub mirror: Option<At>,
    /// The address that its client chose, where that knows of no proxy.
    pub chosen: Option<Chosen>,
}

/// How a request came.
pub(crate) struct Came {
    pub id: RequestId,
    pub began: Instant,
    pub client: IpAddr,
    /// Who has sent it.
    pub peer: IpAddr,
    /// By TLS.
    pub tls: bool,
    /// The number of its listener.
    pub index: usize,
    /// From another node of the cluster.
    pub neighbour: bool,
    /// In a tunnel that is intercepted.
    pub intercepted: bool,
}

impl Way<'_> {
    /// The way to a mirror's source, or to a host of its.
    fn to_mirror(aim: Aim) -> Way<'static> {
        let Aim { at, destination, host, path } = aim;
        let behind = Some(at.behind().clone());
        Way {
            path: Cow::Owned(path),
            host,
            host_tls: destination.tls,
            destination,
            behind,
            mirror: Some(at),
            chosen: None,
        }
    }

    /// What is known of a request that goes this way, or the way of its key rule if there is one.
    ///
    /// Errors: no route leads to what the rule makes of it.
    pub(crate) fn ticket(
        mut self,
        came: Came,
        listener: Arc<Listener>,
        own: Arc<Own>,
        judged: &Judged,
    ) -> Result<Arc<Ticket>, Failure> {
        let Came { id, began, client, peer, tls, index, neighbour, intercepted } = came;
        let is_reverse = self.mirror.is_none() && matches!(listener.mode, Mode::Reverse(_));
        let is_read = is_read(&judged.method);
        let keyed = match self.keyed(&listener) {
            // What is not answered from the cache goes its own way, wherever that of its rule leads.
            Err(_) if !is_read => None,
            keyed => keyed?,
        };
        let named = keyed.as_ref().map(|keyed| keyed.name(&listener.mode, tls));
        let rekeyed = keyed.map(|keyed| self.rekey(keyed, is_read));
        let https = self.host_tls || (tls && is_reverse);
        let host = self.host.host_field(default_port(https));
        let of_url = || match &self.mirror {
            Some(at) => Name::of(&self.destination, &at.site(), &self.path),
            None => name_of(&listener.mode, &self.destination, tls, &host, &self.path),
        };
        Ok(Arc::new(Ticket {
            id,
            began,
            client,
            peer,
            name: named.unwrap_or_else(of_url),
            listener,
            own,
            destination: self.destination,
            behind: self.behind,
            mirror: self.mirror,
            chosen: self.chosen,
            tls,
            host,
            path: self.path.into_owned(),
            https,
            framing: judged.framing,
            index,
            neighbour,
            intercepted,
            keyed: rekeyed.map(Arc::new),
        }))
    }

    /// What a key rule makes of it. A mirror has names of its own; and of a host that nothing proves nothing is stored.
    fn keyed(&self, listener: &Listener) -> Result<Option<Keyed>, Failure> {
        let is_unproved = self.chosen.is_some_and(|chosen| chosen.proof == Proof::Nothing);
        if self.mirror.is_some() || is_unproved || listener.key_rules.is_empty() {
            return Ok(None);
        }
        keyed(listener, &self.destination, &self.host, &self.path)
    }

    /// Has a request that `is_read` go the way of its rule.
    fn rekey(&mut self, keyed: Keyed, is_read: bool) -> AskedFor {
        let Keyed { rule, destination, behind, host, path } = keyed;
        let asked = AskedFor {
            rule,
            is_read,
            host: self.host.clone(),
            path: self.path.to_string(),
            port: self.destination.port,
        };
        if is_read {
            // A host that is folded into another is at that one's address, and not where the client's was.
            self.chosen = self.chosen.filter(|_| destination.host == self.destination.host);
            self.behind = behind.or(self.behind.take());
            (self.destination, self.host, self.path) = (destination, host, Cow::Owned(path));
        }
        asked
    }
}

/// Whether a method is one of those that are answered from the cache.
fn is_read(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

/// Where a request goes, by what it asks for and whom the proxy speaks for.
pub(crate) fn way<'a>(listener: &Listener, judged: &'a Judged) -> Result<Way<'a>, Failure> {
    let (path, target_tls) = match &judged.target {
        Target::Origin(path) => (path.as_str(), None),
        Target::Absolute { tls, path } => (path.as_str(), Some(*tls)),
        Target::Asterisk => ("*", None),
        Target::Tunnel => return Err(Failure::NoTunnels),
    };
    if let Some(aim) = mirror(listener, judged, path, target_tls) {
        return Ok(Way::to_mirror(aim?));
    }
    match (&listener.mode, target_tls, &judged.authority) {
        // What nodes of a cluster ask a transparent proxy for is said as to a forward one.
        (Mode::Forward | Mode::Transparent(_), Some(tls), Some(authority)) => {
            let destination = Destination::of(tls, authority);
            let path = Cow::Borrowed(path);
            Ok(Way {
                path,
                host: authority.clone(),
                host_tls: tls,
                destination,
                behind: None,
                mirror: None,
                chosen: None,
            })
        }
        (Mode::Forward | Mode::Transparent(_), ..) => Err(Failure::NotForProxy),
        (Mode::Reverse(routes), _, host) => {
            let behind = routes.find(host.as_ref().map(Authority::host), path)?;
            let none = || Failure::Internal("a route has lost its origins".into());
            let first = behind.upstream.names().ok_or_else(none)?;
            let host = host.clone().unwrap_or_else(|| first.authority().clone());
            let destination = first.destination();
            let path = Cow::Borrowed(path);
            Ok(Way {
                path,
                host,
                host_tls: false,
                destination,
                behind: Some(behind.clone()),
                mirror: None,
                chosen: None,
            })
        }
    }
}

/// The mirror that a request is for: at a forward proxy if it asks for a page of the proxy's own, and at a reverse proxy
/// if its host has no routes of its own.
fn mirror(listener: &Listener, judged: &Judged, path: &str, target_tls: Option<bool>) -> Option<Result<Aim, Failure>> {
    let is_ours = match &listener.mode {
        Mode::Forward => target_tls.is_none(),
        // Its clients ask other servers for their pages.
        Mode::Transparent(_) => false,
        Mode::Reverse(routes) => !judged.authority.as_ref().is_some_and(|host| routes.names(host.host())),
    };
    let found = if is_ours { listener.mirrors.find(path)? } else { return None };
    Some(found.and_then(|aim| match &judged.authority {
        Some(host) if !listener.mirrors.is_known_as(&aim, host) => {
            let (path, host) = (aim.at.mounted.mirror.path.clone(), host.host().to_owned());
            Err(Denied::MirrorName { path, host }.into())
        }
        _ => Ok(aim),
    }))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tinaja_http::judge::judge;

    use super::*;
    use crate::key_rules::{KeyRule, KeyRules, Query};

    /// The ticket of a request for `http://a.example/x?y`, whose client chose an address, at a listener that folds that host into another.
    fn ticket(method: &str, proof: Option<Proof>) -> Arc<Ticket> {
        let rule = KeyRule {
            hosts: vec!["a.example".parse().unwrap()],
            fold_host: Some("b.example".parse().unwrap()),
            query: Query::Nothing,
            ..KeyRule::default()
        };
        let key_rules = KeyRules::new(vec![rule.completed()]).unwrap();
        let listener = Arc::new(Listener { key_rules, ..Listener::forward("127.0.0.1:80".parse().unwrap()) });
        let head = format!("{method} http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let judged = judge(head.as_bytes()).unwrap();
        let address: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let chosen = proof.map(|proof| Chosen { address, proof });
        let way = Way { chosen, ..way(&listener, &judged).unwrap() };
        let (id, began, client) = (RequestId::Made(1), Instant::now(), IpAddr::from([192, 0, 2, 7]));
        let came = Came { id, began, client, peer: client, tls: false, index: 0, neighbour: false, intercepted: false };
        let own = Arc::new(Own::of_interfaces(tinaja_clock::Clock::system()));
        way.ticket(came, listener, own, &judged).unwrap()
    }

    /// Whoever folds hosts sends requests to the one host, wherever that is: at the address that a client chose for another it would get that
    /// one's answer for all.
    #[test]
    fn folded_requests_leave_the_address_that_was_chosen() {
        for (method, proof) in [("GET", None), ("HEAD", Some(Proof::Names)), ("GET", Some(Proof::Certificate))] {
            let ticket = ticket(method, proof);
            assert_eq!((&*ticket.destination.host, &*ticket.host, &*ticket.path), ("b.example", "b.example", "/x"));
            assert_eq!((ticket.chosen, ticket.url().as_str()), (None, "http://a.example/x?y"), "{method}");
        }
        // What the log shows of it in a tunnel is where its client went, too.
        assert_eq!(Ticket { intercepted: true, ..Ticket::clone(&ticket("GET", None)) }.url(), "a.example:80");
        // Other methods go where they were sent, and are named for what they change.
        let posted = ticket("POST", Some(Proof::Names));
        assert_eq!((&*posted.destination.host, &*posted.host, &*posted.path), ("a.example", "a.example", "/x?y"));
        assert!(posted.chosen.is_some() && posted.name == ticket("GET", None).name);
        assert_eq!(posted.name_at("/z?1"), ticket("POST", None).name_at("/z?2"));
        // What proves nothing is stored by no name, and goes to its address.
        let unproved = ticket("GET", Some(Proof::Nothing));
        assert!(unproved.chosen.is_some() && unproved.keyed.is_none() && unproved.path == "/x?y");
    }
}
