//! One request: where it came in, where it goes, and what it says.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{HOST, IF_MATCH, IF_UNMODIFIED_SINCE, MAX_FORWARDS, RANGE, UPGRADE};
use http::{Method, Version};
use tinaja_http::authority::Authority;
use tinaja_http::body::Framing;
use tinaja_http::control::{RequestDirectives, request_directives};
use tinaja_http::encoding::{Codings, wanted};
use tinaja_http::hops;
use tinaja_http::judge::Judged;
use tinaja_http::message::{BadField, Fields, RequestHead, ResponseHead};
use tinaja_http::status::Outcome;
use tinaja_http::vary::NOT_FETCHED_WITH;
use tinaja_store::Key;

use super::said::{Said, accepted};
use crate::bans::Subject;
use crate::cache_rules::{CacheRule, Seen};
use crate::config::{Listener, Mode};
use crate::diverted::{Chosen, Proof};
use crate::failure::{Failure, Unanswered};
use crate::fits::HostPattern;
use crate::ids::RequestId;
use crate::key_rules::ReadRule;
use crate::mirrors::{At, Learned};
use crate::neighbours::{CLIENT, HAS, INTERCEPTED, OBJECT, mark_of};
use crate::origin::{Behind, Destination, default_port};
use crate::rules::{Asked, Denied, Own};
use crate::shared::Shared;
use crate::stored::{Name, keyed, name_of};

/// What the front knows about a request that it hands on.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub id: RequestId,
    pub began: Instant,
    pub client: IpAddr,
    /// Who has sent it: its client, or a proxy before this one that is believed.
    pub peer: IpAddr,
    /// Where the request came in.
    pub listener: Arc<Listener>,
    /// The machine's addresses.
    pub own: Arc<Own>,
    /// Where it goes, or the first of the places where it may go: what is stored is named after it.
    pub destination: Destination,
    /// The origins of a reverse proxy's route.
    pub behind: Option<Arc<Behind>>,
    /// The mirror that it is for.
    pub mirror: Option<At>,
    /// The address that its client chose, where that knows of no proxy.
    pub chosen: Option<Chosen>,
    /// The client came by TLS.
    pub tls: bool,
    /// The one Host, in its canonical form.
    pub host: String,
    /// Path and query, as the origin gets them.
    pub path: String,
    /// The URL's scheme is https.
    pub https: bool,
    /// The name of what is asked for.
    pub name: Name,
    pub framing: Framing,
    /// The number of that listener.
    pub index: usize,
    /// Another proxy asks, for a client of its own.
    pub neighbour: bool,
    /// It came in a tunnel that is intercepted, here or at the proxy that asks.
    pub intercepted: bool,
    /// What its client asked for, if there is a key rule for that.
    pub keyed: Option<Arc<AskedFor>>,
}

/// What a client asked for, before a key rule had its say.
#[derive(Clone, Debug)]
pub(crate) struct AskedFor {
    pub rule: Arc<ReadRule>,
    /// The request may be answered from the cache, and is changed as the rule says. Others go on as they came.
    pub is_read: bool,
    pub host: Authority,
    /// Path and query.
    pub path: String,
    /// The port of where it would have gone.
    pub port: u16,
}

impl Ticket {
    /// What the rules can see of the request.
    pub fn asked<'a>(&self, method: &'a Method) -> Asked<'a> {
        Asked { client: self.client, method: method.as_str(), port: self.destination.port, upgrade: None }
    }

    /// The same for a request that goes to one of several destinations.
    pub fn asked_of<'a>(&self, method: &'a Method, destination: &Destination) -> Asked<'a> {
        Asked { port: destination.port, ..self.asked(method) }
    }

    /// The name of what is at another path of what the client calls the same origin. Nothing where no route leads there.
    pub fn name_at(&self, path: &str) -> Option<Name> {
        if let Some(at) = &self.mirror {
            return Some(Name::of(&self.destination, &at.site(), path));
        }
        let mode = &self.listener.mode;
        if !self.listener.key_rules.is_empty() {
            let asked = self.keyed.as_ref().map(|asked| asked.host.clone());
            let host = asked.or_else(|| Authority::parse(self.host.as_bytes()).ok())?;
            if let Some(keyed) = keyed(&self.listener, &self.destination, &host, path).ok()? {
                return Some(keyed.name(mode, self.tls));
            }
        }
        Some(name_of(mode, &self.destination, self.tls, &self.host, path))
    }

    /// The name that is there without key rules, where they give another: it may have been stored before there was one.
    pub fn own_name_at(&self, path: &str) -> Option<Name> {
        if self.mirror.is_some() || self.listener.key_rules.is_empty() {
            return None;
        }
        let own = name_of(&self.listener.mode, &self.destination, self.tls, &self.host, path);
        (self.name_at(path).as_ref() != Some(&own)).then_some(own)
    }

    /// What bans see of its URL: as it is stored, and, where key rules are about its host, as it was asked for and at the hosts where they may
    /// have stored something of it. As the beginning of URLs it counts only as it was asked for: what a rule leaves of it may begin many more.
    pub fn subjects(&self, is_prefix: bool) -> Vec<Subject<'_>> {
        let mut subjects: Vec<_> = self.name.subject().into_iter().collect();
        if self.mirror.is_some() || self.listener.key_rules.is_empty() {
            return subjects;
        }
        if is_prefix {
            subjects.clear();
        }
        let asked = self.keyed.as_ref().map(|asked| (asked.host.clone(), &*asked.path));
        let own = || Some((Authority::parse(self.host.as_bytes()).ok()?, &*self.path));
        let Some((host, path)) = asked.or_else(own) else { return subjects };
        let others = self.listener.key_rules.other_hosts(&HostPattern::Exact(host.host().to_owned()));
        subjects.push(Subject::new(self.https, &host, path));
        let others = others.iter().filter_map(|other| host.at(other));
        subjects.extend(others.map(|other| Subject::new(self.https, &other, path)));
        subjects
    }

    /// Whether the rules refuse it, whatever its destination's address is. The source of a mirror is its operator's choice, as the origin of a
    /// route is; its other hosts are reached as a forward proxy reaches what its clients name.
    pub fn check_request(&self, method: &str) -> Result<(), Failure> {
        let asked = Asked { client: self.client, method, port: self.destination.port, upgrade: None };
        if let Some(before) = self.keyed.as_ref().filter(|before| before.port != asked.port) {
            // What it asks for, and not only where a rule sends it.
            self.listener.check_request(Asked { port: before.port, ..asked })?;
        }
        let Some(at) = &self.mirror else { return self.listener.check_request(asked) };
        if !at.is_for(self.client) {
            return Err(Denied::Mirror(at.mounted.mirror.path.clone()).into());
        }
        let rules = &self.listener.rules;
        Ok(if at.is_home { rules.check_listed(asked, None) } else { rules.check_request(asked) }?)
    }

    /// Whether what comes from this address is for this request, at a destination that may be another of its route's.
    pub fn check_fetched(&self, shared: &Shared, asked: Asked<'_>, from: IpAddr) -> Result<(), Failure> {
        match &self.mirror {
            None => shared.check_fetched(&self.listener, asked, from),
            Some(at) if at.is_home => Ok(self.listener.rules.check_listed(asked, Some(from))?),
            Some(_) => Ok(self.listener.rules.check_address(asked, from, &self.own)?),
        }
    }

    /// Whether what is stored and was once fetched from this address may be given for this request.
    pub fn may_serve(&self, method: &Method, fetched_from: Option<IpAddr>) -> bool {
        let (asked, rules) = (self.asked(method), &self.listener.rules);
        match (&self.mirror, fetched_from) {
            (None, _) => self.listener.may_serve(asked, fetched_from, &self.own),
            (Some(at), _) if at.is_home && !rules.name_destinations() => true,
            (Some(at), Some(from)) if at.is_home => rules.check_listed(asked, Some(from)).is_ok(),
            (Some(_), Some(from)) => rules.check_address(asked, from, &self.own).is_ok(),
            (Some(_), None) => false,
        }
    }

    /// The rule about storing that fits an answer: the operator's, else that of a mirror's kind.
    pub fn cache_rule(&self, seen: Seen<'_>) -> Option<&CacheRule> {
        let of_kind = || {
            let at = self.mirror.as_ref()?;
            let path = at.named.as_ref().map_or(seen.path, |named| &named.path);
            at.mounted.rules.find(Seen { path, ..seen })
        };
        self.listener.cache_rules.find(seen).or_else(of_kind)
    }

    /// Whether a rule about storing may have its answers sent encoded. In front of clients that know what they asked for, a rule must name the
    /// hosts that it is for.
    pub fn heeds_encode(&self, rule: &CacheRule) -> bool {
        let applies = self.mirror.is_none() && !self.intercepted && !self.is_unproved();
        applies && !rule.orders.encode.is_empty() && (self.is_reverse() || !rule.hosts.is_empty())
    }

    /// Whether the origin is asked for what is not encoded: a rule may have the answer encoded here.
    pub fn asks_identity(&self) -> bool {
        self.listener.cache_rules.may_encode(self.host_name(), &self.path, |rule| self.heeds_encode(rule))
    }

    /// Whether a rule may have the answer encoded in codings of which this holds.
    pub fn may_encode_for(&self, takes: impl Fn(&Codings) -> bool) -> bool {
        let heeds = |rule: &CacheRule| self.heeds_encode(rule) && takes(&rule.orders.encode);
        self.listener.cache_rules.may_encode(self.host_name(), &self.path, heeds)
    }

    /// Whether a key rule says which cookies its origin gets.
    pub fn names_cookies(&self) -> bool {
        self.keyed.as_ref().is_some_and(|asked| asked.rule.rule.cookies.is_some())
    }

    /// Whether some rule about storing says that clients' wishes to have answers validated do not count.
    pub fn may_ignore_reload(&self) -> bool {
        let of_kind = || self.mirror.as_ref().is_some_and(|at| at.mounted.rules.may_ignore_reload());
        self.listener.cache_rules.may_ignore_reload() || of_kind()
    }

    /// The host without its port, and without the brackets of an IPv6 address.
    pub fn host_name(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }

    /// The URL as the access log shows it: of what was in a tunnel, no more than a tunnel shows.
    pub fn url(&self) -> String {
        if self.intercepted {
            let Destination { host, port, .. } = &self.destination;
            let asked = self.keyed.as_ref().map(|asked| (asked.host.host(), &asked.port));
            let (host, port) = asked.unwrap_or((host, port));
            return if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        }
        let scheme = if self.https { "https" } else { "http" };
        // What a client asked for, whatever was asked of its origin.
        if let Some(asked) = &self.keyed {
            return format!("{scheme}://{}{}", asked.host.host_field(default_port(self.https)), asked.path);
        }
        let path = if self.path == "*" { "" } else { &self.path };
        format!("{scheme}://{}{path}", self.host)
    }

    /// Whether this proxy keeps the object on its disk. What is a mirror's each node keeps by itself, since none asks another for it.
    pub fn is_kept(&self, shared: &Shared) -> bool {
        self.mirror.is_some() || shared.keeps(|| self.name.place())
    }

    /// Whether nothing proves that its host is where it goes: the answer is for this client alone.
    pub fn is_unproved(&self) -> bool {
        self.chosen.is_some_and(|chosen| chosen.proof == Proof::Nothing)
    }

    /// Who fetches what is to stand at this place together. One whose host only a certificate proves may be on its way to somebody who
    /// never answers: nobody waits for it who has not chosen the same address.
    pub fn flight(&self, place: &Key) -> Key {
        match self.chosen {
            Some(Chosen { address, proof: Proof::Certificate }) => {
                Key::from_name(&[place.digest(), address.to_string().as_bytes()].concat())
            }
            _ => place.clone(),
        }
    }

    /// Whether its name says what the bytes must be: then none are kept that were not checked to the end.
    pub fn names_bytes(&self) -> bool {
        self.mirror.as_ref().is_some_and(|at| at.named.is_some())
    }

    /// What an index says of them, where its name does not. Then what came of a fetch that ended early is kept, for a part alone is given out
    /// by nobody's word: the whole that is made of it is checked.
    pub fn learned(&self) -> Option<&Learned> {
        self.mirror.as_ref().filter(|at| at.named.is_none())?.learned.as_ref()
    }

    /// Whether no origin is asked for it.
    pub fn is_offline(&self) -> bool {
        self.listener.offline
    }

    /// Whether the proxy speaks for the origin, rather than for the client.
    pub fn is_reverse(&self) -> bool {
        self.mirror.is_none() && matches!(self.listener.mode, Mode::Reverse(_))
    }
}

/// One request, read and judged once, for all that carry it out.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub ticket: Arc<Ticket>,
    /// Method, target, and fields as they came, with the one Host.
    pub head: RequestHead,
    /// The version that the client speaks.
    pub version: Version,
    pub directives: RequestDirectives,
    /// Why it is not for the cache, as it came; nothing if it is.
    pub not_for_cache: Option<Outcome>,
    /// It has passed this proxy before.
    pub is_loop: bool,
    /// A neighbour says that this one has the object.
    pub told_of: Option<SocketAddr>,
    /// What its client says of encoded forms, where its origin is told otherwise.
    pub said: Option<Box<Said>>,
}

impl Request {
    /// The protocols for which it may leave HTTP, as rules say: where it goes by another way than its client's, one must name them. `None` where it stays
    /// with HTTP; so it does with content, whose end would be the origin's to say.
    ///
    /// Errors: a rule denies one of them.
    pub fn may_switch_to(&self) -> Result<Option<String>, Failure> {
        let ticket = &self.ticket;
        if !self.head.headers.contains_key(UPGRADE) {
            return Ok(None);
        }
        let mut open = Vec::new();
        for protocol in self.asked_protocols() {
            if ticket.listener.rules.opens_upgrade(ticket.asked(self.method()), protocol)? {
                open.push(protocol);
            }
        }
        let may =
            !open.is_empty() && ticket.framing == Framing::Length(0) && ticket.mirror.is_none() && !ticket.neighbour;
        Ok((may && !self.counts_hops()).then(|| open.join(", ")))
    }

    /// The protocols other than HTTP for which it asks. In HTTP/1.0 that means nothing (RFC 9110 7.8).
    pub fn asked_protocols(&self) -> impl Iterator<Item = &str> {
        let is_http10 = self.is_http10();
        hops::upgrades(self.head.headers.as_map()).filter(move |_| !is_http10)
    }

    /// Whether it says how many hops it may still go (RFC 9110 7.6.2). Such a request stays with HTTP, where hops are counted.
    pub fn counts_hops(&self) -> bool {
        *self.method() == Method::OPTIONS && self.head.headers.contains_key(MAX_FORWARDS)
    }

    /// Whether it may leave HTTP at this address, for whatever it asks.
    ///
    /// Errors: a rule denies one of its protocols.
    pub fn check_switch(&self, asked: Asked<'_>, address: IpAddr) -> Result<(), Failure> {
        Ok(self.ticket.listener.rules.check_upgrades(asked, self.asked_protocols(), address)?)
    }

    /// Reads a judged head that came over HTTP/1. `name` is this proxy's in Via.
    ///
    /// Errors: [`Failure::BadRequest`].
    pub fn read(
        ticket: Arc<Ticket>,
        judged: &Judged,
        head: &Bytes,
        version: Version,
        name: &str,
    ) -> Result<Request, Failure> {
        let headers = Fields::of_lines(&head.slice(judged.fields.clone()));
        Request::of(ticket, &judged.method, headers, version, name)
    }

    /// The same of fields that were judged and read.
    ///
    /// Errors: [`Failure::BadRequest`].
    pub fn of(
        mut ticket: Arc<Ticket>,
        method: &str,
        headers: Result<Fields, BadField>,
        version: Version,
        name: &str,
    ) -> Result<Request, Failure> {
        let malformed = |_| Failure::BadRequest;
        let mut headers = headers.map_err(malformed)?;
        let directives = request_directives(&headers);
        let told_of = headers.get(HAS).filter(|_| ticket.neighbour).and_then(|has| has.to_str().ok()?.parse().ok());
        // Neighbours may all have one name, and never ask in a circle.
        let is_loop = !ticket.neighbour && hops::is_loop(&headers, name);
        if ticket.neighbour {
            [OBJECT, CLIENT, HAS, INTERCEPTED].iter().for_each(|name| headers.remove(name));
        }
        if !headers.get_all(HOST).iter().eq([ticket.host.as_str()]) {
            headers.insert(HOST, ticket.host.as_str()).map_err(malformed)?;
        }
        let mut before = None;
        if let Some(asked) = ticket.keyed.clone().filter(|asked| asked.is_read) {
            before = asked.rule.changes_codings().then(|| accepted(&headers));
            asked.rule.change(&mut headers)?;
            let name = ticket.name.clone().with(asked.rule.added(headers.as_map()));
            Arc::make_mut(&mut ticket).name = name;
        }
        // Neighbours have done so for their clients.
        let said = match ticket.neighbour {
            true => None,
            false => Said::take(&mut headers, before, |takes| ticket.may_encode_for(takes)).map_err(malformed)?,
        };
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| Failure::BadRequest)?;
        let unproved = ticket.is_unproved().then_some(Outcome::Bypass);
        let not_for_cache = not_for_cache(&method, ticket.framing, &directives).or(unproved);
        let head = RequestHead { method, target: Bytes::copy_from_slice(ticket.path.as_bytes()), headers };
        Ok(Request { ticket, head, version, directives, not_for_cache, is_loop, told_of, said })
    }

    /// What it is about, as one neighbour tells it another.
    pub fn mark(&self) -> String {
        let name = &self.ticket.name;
        let rule = self.ticket.keyed.as_ref().filter(|asked| asked.is_read);
        mark_of(&name.place(), rule.and_then(|asked| asked.rule.counts(name.added())).as_deref())
    }

    /// Every way to an origin, or to a neighbour that would ask one, asks here first, before anything is looked up or connected to.
    ///
    /// Errors: [`Failure::Offline`].
    pub fn check_online(&self) -> Result<(), Failure> {
        match (self.ticket.is_offline(), self.not_for_cache) {
            (false, _) => Ok(()),
            (true, None) => Err(Failure::Offline(Unanswered::NotStored)),
            (true, Some(_)) => Err(Failure::Offline(Unanswered::NotForCache)),
        }
    }

    /// Which of these codings its client takes, the best first.
    pub fn accepts(&self, offered: &Codings) -> Codings {
        let fields = &self.head.headers;
        self.said.as_ref().map_or_else(|| wanted(fields, offered), |said| said.accepts(fields, offered))
    }

    /// Has a 304 name the tag that its client has named, where that may be a form's.
    ///
    /// Errors: [`BadField`].
    pub fn name_matched(&self, head: &mut ResponseHead, is_encodable: bool) -> Result<(), BadField> {
        match &self.said {
            Some(said) if is_encodable || said.has_form_tags() => said.name_matched(&self.head.headers, head),
            None if is_encodable => Said::default().name_matched(&self.head.headers, head),
            _ => Ok(()),
        }
    }

    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// Whether the client speaks HTTP/1.0, which knows neither chunks nor interim answers.
    pub fn is_http10(&self) -> bool {
        self.version == Version::HTTP_10
    }

    /// Whether the client's connection ends with the answer.
    pub fn closes(&self) -> bool {
        hops::closes_to_client(&self.head.headers, !self.is_http10(), self.ticket.is_reverse())
    }

    /// Whether it has conditions that only the origin can judge (RFC 9111 4.3.2).
    pub fn asks_origin(&self) -> bool {
        [IF_MATCH, IF_UNMODIFIED_SINCE].iter().any(|name| self.head.headers.contains_key(name))
    }

    /// Whether it wants less than a whole object. `bytes=0-` does not: it moves the same bytes as no Range at all, and
    /// players and download managers send it.
    pub fn wants_part(&self) -> bool {
        match (self.method(), self.head.headers.get(RANGE)) {
            (&Method::HEAD, _) => true,
            (_, None) => false,
            (_, Some(range)) => !range.as_bytes().eq_ignore_ascii_case(b"bytes=0-"),
        }
    }

    /// Its head, asking for the whole object.
    pub fn whole(&self) -> RequestHead {
        let mut head = self.head.clone();
        head.method = Method::GET;
        for name in &NOT_FETCHED_WITH {
            head.headers.remove(name);
        }
        head
    }
}

/// Why a request is not for the cache; nothing if it is.
fn not_for_cache(method: &Method, framing: Framing, directives: &RequestDirectives) -> Option<Outcome> {
    match method {
        &Method::GET | &Method::HEAD if directives.no_store => Some(Outcome::Request),
        // The key does not cover a body.
        &Method::GET | &Method::HEAD => (framing != Framing::Length(0)).then_some(Outcome::Bypass),
        _ => Some(Outcome::Method),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
