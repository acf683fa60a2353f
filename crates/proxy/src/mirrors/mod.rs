//! Mirrors: sources of packages that clients reach below a path of ours, by plain HTTP or by our TLS, while we speak TLS with the
//! source.
//!
//! # Decisions
//!
//! - Every listener serves every mirror. A forward proxy is never asked for pages of its own, so a path there can mean nothing else.
//!   A reverse proxy's hosts that have routes of their own keep all their paths; mirrors go before what is for any host.
//! - What is stored is named after the source's URL, as a forward proxy names it, for the source is asked as it would be by one: with
//!   its own Host, and without a word about our clients. So what clients of both fetch is one object. Only a mirror that is told
//!   whom to trust, or who we are, has names of its own: what is proved otherwise is not for those who did not ask for it.
//! - The original is stored, and links are rewritten on the way out (`rewrite`). So the source validates what it has sent, and another
//!   `public_url` needs no new fetch.
//! - Links to other listed hosts lead below `~/` of the mirror's own path. So a mirror of an index is a mirror of its files, and needs
//!   no second one.
//! - The source itself may be anywhere, as the origin of a route: its operator names it. A listed host must be public unless
//!   an access rule opens its address, for a pattern lets the source choose the name.
//! - Credentials go to what is below the source's URL and to hosts that give tokens for it, and nowhere else; a mirror that has some
//!   only reads.

mod aim;
mod credentials;
mod digest;
mod forms;
mod heads;
mod hosts;
mod kind;
mod learn;
mod links;
mod list;
mod location;
mod rewrite;
mod sum;
mod tokens;

use std::sync::Arc;

pub(crate) use aim::{Aim, At};
pub use credentials::{BadCredentials, Credentials};
pub(crate) use digest::{Checking, Named, Proof};
pub(crate) use heads::{Held, Next, Shaping};
pub use hosts::{BadMirrorUrl, ListedHost, MirrorUrl, PublicUrl};
pub use kind::Kind;
pub(crate) use learn::Learned;
use learn::Table;
use links::Links;
pub use list::{BadMirror, Mirrors};
use parking_lot::Mutex;
use tinaja_http::authority::Authority;
use tokens::Tokens;
pub(crate) use tokens::{Challenge, Token};

use crate::cache_rules::CacheRules;
use crate::failure::Failure;
use crate::fits::has_dot_segments;
use crate::origin::{Behind, Destination, OriginTls, Upstream};
use crate::rules::Cidr;

/// What names of mirrors' own begin with where others have a Host; no host has two dots in a row.
const SITE: &str = "mirror..";
/// Below it are the other hosts of a mirror: `/pypi/~/https/files.example.org/a`, `/pypi/~/https-8443/files.example.org/a`.
const ELSEWHERE: &str = "~/";

/// One mirror, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Below which path it is: with a slash at both ends.
    pub path: String,
    /// What is there.
    pub origin: MirrorUrl,
    /// How it is asked.
    pub upstream: Upstream,
    /// Where else its files lie: redirects there are followed, and links there are rewritten.
    pub hosts: Vec<ListedHost>,
    /// For whose packages; says what is kept and what is rewritten.
    pub kind: Option<Kind>,
    /// Whether links in bodies are rewritten. Default by the kind.
    pub rewrite: Option<bool>,
    /// The longest body in which they are. Default 64 MiB.
    pub rewrite_limit_bytes: u64,
    /// What becomes of a body that cannot be rewritten. Default [`Unrewritten::Pass`].
    pub unrewritten: Unrewritten,
    /// Networks of the clients that it is for; all where it has no credentials.
    pub clients: Vec<Cidr>,
    /// Hosts that give tokens for the source, as those of container registries are: they are told the credentials, too.
    pub token_hosts: Vec<ListedHost>,
    /// What the source is told, so that it answers.
    pub credentials: Option<Credentials>,
}

/// What becomes of a body with links that is too long, or compressed against our wish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unrewritten {
    /// The client gets it as it is.
    #[default]
    Pass,
    /// The client gets an error.
    Refuse,
}

impl Mirror {
    /// A mirror with all defaults.
    pub fn new(path: String, origin: MirrorUrl) -> Mirror {
        Mirror {
            path,
            upstream: Upstream::from(origin.server.clone()),
            origin,
            hosts: Vec::new(),
            kind: None,
            rewrite: None,
            rewrite_limit_bytes: 64 << 20,
            unrewritten: Unrewritten::default(),
            clients: Vec::new(),
            token_hosts: Vec::new(),
            credentials: None,
        }
    }

    /// Whether links in bodies are to be rewritten.
    pub fn wants_links(&self) -> bool {
        self.rewrite.unwrap_or(self.kind.is_none_or(Kind::has_links))
    }
}

/// A mirror that is served.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub mirror: Mirror,
    /// What its links become; nothing where no `public_url` says where clients find us.
    pub base: Option<String>,
    /// Rules of its kind, for what no rule of the operator fits.
    pub rules: CacheRules,
    /// The source.
    pub behind: Arc<Behind>,
    /// Tokens for the source.
    pub tokens: Tokens,
    /// What its indexes have told, and those of the mirrors beside it.
    table: Arc<Table>,
    /// Where its crates are, as Cargo's index says it; 4 KiB at most.
    downloads: Mutex<Option<String>>,
    /// How its other hosts are reached: without what tells the source who we are.
    pub elsewhere: Arc<Behind>,
    /// What names have that are its own; empty where they are those of a forward proxy.
    site: String,
}

impl Mounted {
    fn new(mirror: Mirror, public: Option<&PublicUrl>, table: Arc<Table>) -> Mounted {
        let route = format!("mirror {}", mirror.path);
        let tls = OriginTls { certificate: None, ..mirror.upstream.tls.clone() };
        let elsewhere = Upstream { tls, check: None, ..mirror.upstream.clone() };
        let site = site(&mirror);
        Mounted {
            base: public.map(|public| format!("{public}{}", mirror.path)),
            tokens: Tokens::default(),
            table,
            downloads: Mutex::default(),
            rules: mirror.kind.map(Kind::rules).unwrap_or_default(),
            behind: Arc::new(Behind { route: route.clone(), upstream: mirror.upstream.clone() }),
            elsewhere: Arc::new(Behind { route: format!("{route}~/"), upstream: elsewhere }),
            site,
            mirror,
        }
    }

    /// Whether a request with this path is its own.
    fn takes(&self, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or_default();
        path.starts_with(&self.mirror.path) || Some(path) == self.mirror.path.strip_suffix('/')
    }

    /// Where a request with this path goes.
    fn aim(self: &Arc<Self>, path: &str) -> Result<Aim, Failure> {
        let (plain, query) = path.split_at(path.find('?').unwrap_or(path.len()));
        // apt asks for `./Packages` where a source is one directory.
        let plain = plain.replace("/./", "/");
        if has_dot_segments(&plain) {
            return Err(Failure::DotSegments);
        }
        let rest = plain.strip_prefix(&self.mirror.path).unwrap_or_default();
        // Some clients write a tilde as it was written once (RFC 2396).
        let elsewhere = [ELSEWHERE, "%7E/", "%7e/"].iter().find_map(|mark| rest.strip_prefix(mark));
        let Some(elsewhere) = elsewhere else {
            let MirrorUrl { server, prefix } = &self.mirror.origin;
            let path = format!("{prefix}{rest}{query}");
            let named = self.mirror.kind.and_then(|kind| Named::read(kind, &path)).map(Arc::new);
            let destination = server.destination();
            let learned = self.learned(&destination, &path);
            return Ok(Aim {
                at: At { named, learned, ..self.at(true) },
                destination,
                host: server.authority().clone(),
                path,
            });
        };
        let none = || Failure::NoRoute { host: format!("~/{elsewhere}") };
        let (scheme, rest) = elsewhere.split_once('/').ok_or_else(none)?;
        let (authority, rest) = rest.split_once('/').ok_or_else(none)?;
        // A colon would be escaped by some clients, so a port stands behind the scheme.
        let (scheme, port) = scheme.split_once('-').map_or((scheme, None), |(scheme, port)| (scheme, Some(port)));
        let tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(none()),
        };
        let with_port = port.map(|port| format!("{authority}:{port}"));
        let text = with_port.as_deref().unwrap_or(authority);
        let host = Authority::parse(text.as_bytes()).ok().filter(|_| !authority.contains(':')).ok_or_else(none)?;
        self.elsewhere(Destination::of(tls, &host), host, format!("/{rest}{query}")).ok_or_else(none)
    }

    /// Where something at another host is; nothing if that is not listed.
    fn elsewhere(self: &Arc<Self>, destination: Destination, host: Authority, path: String) -> Option<Aim> {
        let listed = self.mirror.hosts.iter().any(|listed| listed.fits(&destination));
        listed.then(|| {
            let learned = self.learned(&destination, &path);
            Aim { at: At { learned, ..self.at(false) }, destination, host, path }
        })
    }

    fn at(self: &Arc<Self>, is_home: bool) -> At {
        At { mounted: self.clone(), is_home, token: None, asks_token: false, named: None, learned: None }
    }

    /// Whether the source is told who we are.
    pub fn tells(&self) -> bool {
        tells(&self.mirror)
    }

    /// Whether links in its bodies are rewritten.
    pub fn rewrites(&self) -> bool {
        self.base.is_some() && self.mirror.wants_links()
    }
}

/// Whether a source is told who we are, by credentials or by a certificate.
fn tells(mirror: &Mirror) -> bool {
    mirror.credentials.is_some() || mirror.upstream.tls.certificate.is_some()
}

/// Whether a name with this site is a mirror's.
pub(crate) fn is_mirrors(site: &str) -> bool {
    site.starts_with(SITE)
}

/// Names of its own for a mirror whose answers are proved by other authorities, or are given to us alone. What makes them so is
/// in the name, so that neither another mirror nor the next configuration finds them by chance.
fn site(mirror: &Mirror) -> String {
    let tls = &mirror.upstream.tls;
    if *tls == OriginTls::default() && mirror.credentials.is_none() {
        return String::new();
    }
    let mut hasher = blake3::Hasher::new();
    let credentials = mirror.credentials.as_ref().map(Credentials::digest);
    let said = format!("{:?} {:?} {credentials:?}", tls.authority, tls.certificate);
    format!("{SITE}{}", &hasher.update(said.as_bytes()).finalize().to_hex()[..16])
}
