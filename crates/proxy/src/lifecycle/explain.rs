//! What would become of a GET, told without asking its origin: the name, the rule, what is stored, and whether that will do.
//!
//! It goes the way of a request as far as the cache: the same judge reads its head, the same routes find its origin, and the same
//! rules say whether what is stored will do. The client is taken to be on this machine.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http::Version;
use http::header::{CONTENT_TYPE, COOKIE, ETAG, LAST_MODIFIED};
use tinaja_clock::Clock;
use tinaja_http::judge::{Judged, Target, judge as judge_head};
use tinaja_http::reuse;
use tinaja_http::storable::Storing;
use tinaja_store::State;

use crate::admin::words::{self, Explained, Stored};
use crate::bans::{Bans, Verdict};
use crate::config::{Listener, Mode};
use crate::exchange::{Request, Reuse, judge, rule_for};
use crate::front::{Came, way};
use crate::ids::RequestId;
use crate::rules::Own;
use crate::storage::Storage;
use crate::stored::{Form, Forms, Found, Kind, Looked, Name, family, find, find_form, verdict as banned};

/// What would become of a GET of this URL with these fields, at each listener that would give it another name.
///
/// Errors: the URL or a field is none, or no listener would take it.
pub(super) async fn explain(
    (store, bans): (&Storage, &Bans),
    clock: &Clock,
    listeners: &[Arc<Listener>],
    url: &str,
    fields: &[(String, String)],
) -> Result<Vec<Explained>, String> {
    let (head, judged) = read(url, fields)?;
    let own = Arc::new(Own::of_interfaces(clock.clone()));
    let (mut ways, mut refused, mut names) = (Vec::new(), None, Vec::new());
    for (index, listener) in listeners.iter().enumerate() {
        let request = match request(listener, index, (&head, &judged), &own, clock) {
            Ok(request) => request,
            Err(why) => {
                refused = Some(why);
                continue;
            }
        };
        if !names.contains(&request.ticket.name) {
            names.push(request.ticket.name.clone());
            ways.push(explain_at((store, bans), clock, &request).await);
        }
    }
    match refused {
        Some(why) if ways.is_empty() => Err(why),
        _ => Ok(ways),
    }
}

/// The head of such a request.
fn read(url: &str, fields: &[(String, String)]) -> Result<(Bytes, Judged), String> {
    let mut head = format!("GET {url} HTTP/1.1\r\n");
    let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
    head.push_str(&format!("Host: {host}\r\n"));
    for (name, value) in fields {
        if name.eq_ignore_ascii_case("host") || [name, value].iter().any(|text| text.contains(['\r', '\n'])) {
            return Err(format!(
                "{name:?} cannot be a field here: give the host in the URL, and one line for each field"
            ));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let judged = judge_head(head.as_bytes()).map_err(|refusal| format!("it would be refused: {refusal}"))?;
    Ok((head.into(), judged))
}

/// The request as a listener would read it.
fn request(
    listener: &Arc<Listener>,
    index: usize,
    (head, judged): (&Bytes, &Judged),
    own: &Arc<Own>,
    clock: &Clock,
) -> Result<Request, String> {
    // A mirror's URL is asked for as a page of this proxy's own.
    let ours =
        listener.mirrors.public_url().is_some_and(|url| judged.authority.as_ref().is_some_and(|host| url.is_at(host)));
    let as_a_page = match &judged.target {
        Target::Absolute { path, .. } if ours => {
            Some(Judged { target: Target::Origin(path.clone()), ..judged.clone() })
        }
        _ => None,
    };
    let judged = as_a_page.as_ref().unwrap_or(judged);
    let way = way(listener, judged).map_err(|failure| failure.to_string())?;
    let is_reverse = matches!(listener.mode, Mode::Reverse(_));
    let tls = is_reverse && !listener.certificates.is_empty();
    let (id, began, client) = (RequestId::Made(0), clock.now(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let came = Came { id, began, client, peer: client, tls, index, neighbour: false, intercepted: false };
    let ticket = way.ticket(came, listener.clone(), own.clone(), judged).map_err(|failure| failure.to_string())?;
    // Via is not looked at: nothing is sent.
    Request::read(ticket, judged, head, Version::HTTP_11, "").map_err(|failure| failure.to_string())
}

async fn explain_at((store, bans): (&Storage, &Bans), clock: &Clock, request: &Request) -> Explained {
    let ticket = &request.ticket;
    let kind = match &ticket.mirror {
        Some(_) => "mirror",
        None if ticket.is_reverse() => "reverse proxy",
        None if ticket.listener.mode.diversion().is_some() => "transparent proxy",
        None => "forward proxy",
    };
    let may_fit = || {
        let of_kind = ticket.mirror.as_ref().map(|at| at.mounted.rules.find_before(ticket.host_name(), &ticket.path));
        let own = ticket.listener.cache_rules.find_before(ticket.host_name(), &ticket.path);
        own.into_iter().chain(of_kind.unwrap_or_default())
    };
    let family = family(store, &ticket.name).await;
    let mut explained = Explained {
        listener: format!("{kind} on {}", ticket.listener.address),
        name: ticket.name.primary().escape_ascii().to_string(),
        key_rule: ticket.keyed.as_ref().map(|asked| asked.rule.rule.to_string()),
        asked_as: ticket.keyed.as_ref().map(|_| asked_as(request)),
        rules: may_fit().map(ToString::to_string).collect(),
        stored: None,
        variants: family.as_ref().map(|family| family.variants() as u64),
        cookies: cookies(request, may_fit().any(|rule| rule.orders.store == Storing::Shared)),
        verdict: words::Verdict::Miss,
        why: String::new(),
    };
    let why = if let Err(denied) = ticket.check_request(request.method().as_str()) {
        explained.verdict = words::Verdict::Refused;
        denied.to_string()
    } else if request.not_for_cache.is_some() {
        "the request is not for the cache".to_owned()
    } else {
        match find(store, bans, &ticket.name, &request.head.headers).await {
            Looked::Nothing => "nothing is stored under this name".to_owned(),
            Looked::OtherVariants(_) => match family.filter(|_| !ticket.names_cookies()) {
                Some(family) if family.is_of_one_cookie(&request.head.headers) => BY_COOKIE.to_owned(),
                _ => "variants are stored, but none for such a request".to_owned(),
            },
            Looked::Banned(_, by) => format!("what is stored was purged by {}", in_words(by)),
            Looked::Found(found) => {
                let rule = rule_for(request, &found.head);
                explained.rules = rule.into_iter().map(ToString::to_string).collect();
                let stored = Stored { encoded: encoded(store, &ticket.name, &found).await, ..stored(&found, clock) };
                let (verdict, why) = verdict(request, &found, &stored, clock);
                (explained.verdict, explained.stored) = (verdict, Some(stored));
                match banned(bans, &ticket.name, &found.place, &found.head) {
                    Verdict::Stale(_, by) => format!("{why}: it was purged softly by {}", in_words(by)),
                    Verdict::Unknown(_) => format!("{why}: nobody knows any more whether it was purged"),
                    Verdict::Counts | Verdict::Gone(_) => why.to_owned(),
                }
            }
        }
    };
    if ticket.is_offline() && explained.verdict != words::Verdict::Hit {
        explained.verdict = words::Verdict::Refused;
    }
    let why = if ticket.is_offline() { format!("offline, {why}") } else { why };
    Explained { why, ..explained }
}

/// Why nothing is stored for a request with cookies, and what to do about it.
const BY_COOKIE: &str = "the response varies by Cookie, the request has one, and no key rule names the cookies that count: set vary_cookies";

/// Which cookies count where the response varies by Cookie, and whether it is stored then. `are_shared` is whether a cache rule that may fit has it stored all the
/// same.
fn cookies(request: &Request, are_shared: bool) -> Option<String> {
    let named = request.ticket.keyed.as_ref().and_then(|asked| asked.rule.rule.cookies.as_ref());
    if let Some(names) = named {
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Some(format!(
            "{names} (vary_cookies): the origin gets no others, and no others count where its response varies by Cookie"
        ));
    }
    request.head.headers.contains_key(&COOKIE).then(|| {
        match are_shared {
            true => "all, each Cookie as a whole, where the response varies by it and the rule with store = \"shared\" fits; name those that count in vary_cookies",
            false => "no key rule names those that count: a response to this request that varies by Cookie is not stored; set vary_cookies",
        }
        .to_owned()
    })
}

/// The URL that the origin is asked for.
fn asked_as(request: &Request) -> String {
    let ticket = &request.ticket;
    format!("{}://{}{}", if ticket.https { "https" } else { "http" }, ticket.host, ticket.path)
}

/// By which kind of ban, in words.
fn in_words(kind: &str) -> &str {
    match kind {
        "all" => "a purge of everything",
        "url" => "its URL",
        "prefix" => "a prefix of its URL",
        "host" => "its host",
        "domain" => "a domain of its host",
        "suffix" => "the end of its path",
        "regex" => "a regular expression",
        _ => "a tag",
    }
}

/// What was found, in words.
fn stored(found: &Found, clock: &Clock) -> Stored {
    let fields = found.head.fields(|_| true).unwrap_or_default();
    let state = found.head.facts.state(clock.wall());
    Stored {
        status: found.head.status().as_u16(),
        content_type: fields.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        bytes: found.length(),
        age: state.age_seconds,
        ttl: state.ttl_seconds,
        has_validator: fields.contains_key(ETAG) || fields.contains_key(LAST_MODIFIED),
        encoded: Vec::new(),
    }
}

/// The encoded forms of what was found that are stored, and how long each is.
async fn encoded(store: &Storage, name: &Name, found: &Found) -> Vec<(String, u64)> {
    let Some(forms) = Forms::of(&found.head) else { return Vec::new() };
    let mut all = Vec::new();
    for coding in forms.codings.iter() {
        if let Form::Stored(hit) = find_form(store, name, (&found.head, &forms), coding).await {
            all.extend(hit.body.len().map(|length| (coding.name().to_owned(), length)));
        }
    }
    all
}

/// What would become of a request for which this is stored.
fn verdict(request: &Request, found: &Found, stored: &Stored, clock: &Clock) -> (words::Verdict, &'static str) {
    match judge(request, &found.head, clock.wall()) {
        Reuse::Denied => {
            (words::Verdict::Miss, "access rules of this listener keep what is stored from clients on this machine")
        }
        Reuse::Withheld(reuse::Withheld::MustValidate) => {
            (words::Verdict::Refused, "it is stale, and must be validated before it is used")
        }
        Reuse::Withheld(reuse::Withheld::Unwanted) => {
            (words::Verdict::Refused, "the request asks for a younger, fresher or validated response")
        }
        Reuse::By(reuse::Reuse::NotCached) => {
            (words::Verdict::Refused, "it wants a stored response, and this one must be validated")
        }
        Reuse::By(reuse::Reuse::Validate) => match (stored.has_validator, stored.ttl > 0) {
            (true, true) => (words::Verdict::Validation, "the request asks for a response that was just validated"),
            (true, false) => (words::Verdict::Validation, "it is stale"),
            (false, true) => (words::Verdict::Miss, "the request asks for validation, and it has no validator"),
            (false, false) => (words::Verdict::Miss, "it is stale, and has no validator"),
        },
        Reuse::By(_) if found.head.kind == Kind::Pieces => (words::Verdict::Miss, "only pieces of it are stored"),
        Reuse::By(_) if found.hit.state != State::Whole => {
            (words::Verdict::Hit, "it is just being fetched, and clients read along")
        }
        Reuse::By(reuse::Reuse::Serve) => (words::Verdict::Hit, "it is fresh"),
        Reuse::By(reuse::Reuse::ServeStale) if request.ticket.is_offline() => {
            (words::Verdict::Hit, "it is stale, and may be served so")
        }
        Reuse::By(reuse::Reuse::ServeStale) => (words::Verdict::Hit, "it is stale, and the request takes it so"),
        Reuse::By(reuse::Reuse::ServeAndValidate) => {
            (words::Verdict::Hit, "it is stale, and within its grace: it is validated behind the response")
        }
    }
}
