//! Which origin a reverse proxy asks: by the host and the path of a request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tinaja_http::authority::Authority;
use tinaja_http::key::join;

use crate::failure::Failure;
use crate::fits::has_dot_segments;
use crate::origin::{Behind, OriginUrl, Upstream};

/// One way from a request to its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The host that clients ask for, without a port; `None` for any.
    pub host: Option<String>,
    /// What the path begins with, by whole segments: `/img` leads `/img` and `/img/a.png`, not `/images`.
    pub path: String,
    /// The servers to ask. They get the host and the path as the client sent them.
    pub origin: Upstream,
}

/// All ways of one reverse proxy. A route that names the host goes before those for any host, then the longest path
/// wins, and what no route fits goes to the default, or gets a 404 where there is none.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Routes {
    hosts: HashMap<String, Vec<Way>>,
    any: Vec<Way>,
    default: Option<Arc<Behind>>,
    /// What is the same for all routes that lead to the same.
    number: u64,
}

/// Longest path first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    /// Without a slash at its end.
    path: String,
    behind: Arc<Behind>,
}

/// Why routes make no sense together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRoutes {
    /// There is nowhere to go.
    #[error("a reverse proxy needs an origin, or at least one route to one")]
    None,
    /// A route that leads nowhere.
    #[error("the list of origins is empty; name at least one, as in http://127.0.0.1:8080")]
    NoOrigin,
    /// One origin, two times.
    #[error("{0} is in the list of origins twice; remove one")]
    OriginTwice(OriginUrl),
    /// A host that is no name or address.
    #[error("{0:?} is not a host; write a name or an address without a scheme, port or path, as in www.example.org")]
    Host(String),
    /// A path that no request could have.
    #[error("{0:?} is not a path prefix; write it as in /downloads, without a query, dot segments or escapes")]
    Path(String),
    /// Two routes for one thing.
    #[error("there are two routes for {host} and {path}; remove one")]
    Twice {
        /// The host, or "any host".
        host: String,
        /// The path.
        path: String,
    },
}

impl Routes {
    /// Checks the routes and puts them in order. Takes a few hundred bytes of memory for each.
    ///
    /// Errors: [`BadRoutes`].
    pub fn new(routes: Vec<Route>, default: Option<Upstream>) -> Result<Routes, BadRoutes> {
        if routes.is_empty() && default.is_none() {
            return Err(BadRoutes::None);
        }
        let default = default.map(|upstream| behind(ALL_ELSE, upstream)).transpose()?;
        let mut made = Routes { default, ..Routes::default() };
        for Route { host, path, origin } in routes {
            let path = beginning(&path).ok_or(BadRoutes::Path(path))?;
            let host = host.map(|host| name(&host).ok_or(BadRoutes::Host(host))).transpose()?;
            let route = format!("{}{path}/", host.as_deref().unwrap_or("*"));
            let way = Way { behind: behind(&route, origin)?, path };
            let ways = match &host {
                Some(host) => made.hosts.entry(host.clone()).or_default(),
                None => &mut made.any,
            };
            if ways.iter().any(|other| other.path == way.path) {
                let host = host.map_or("any host".into(), |host| format!("the host {host}"));
                return Err(BadRoutes::Twice { host, path: format!("{}/", way.path) });
            }
            ways.push(way);
        }
        for ways in made.hosts.values_mut().chain([&mut made.any]) {
            ways.sort_by_key(|way| std::cmp::Reverse(way.path.len()));
        }
        Ok(made.numbered())
    }

    /// Everything goes to one origin.
    pub fn to(origin: OriginUrl) -> Routes {
        let behind = Behind { route: ALL_ELSE.into(), upstream: origin.into() };
        Routes { default: Some(Arc::new(behind)), ..Routes::default() }.numbered()
    }

    /// The same, with the number that [`Routes::number`] gives.
    fn numbered(mut self) -> Routes {
        let mut hasher = blake3::Hasher::new();
        let mut add = |parts: [&str; 3], upstream: &Upstream| {
            let origin = upstream.destination();
            let (tls, host, port) = origin.map_or((false, String::new(), 0), |it| (it.tls, it.host, it.port));
            let (scheme, port) = (if tls { "https" } else { "http" }, port.to_string());
            hasher.update(&join(&[&parts[..], &[scheme, &host, &port]].concat()));
        };
        for Route { host, path, origin } in self.list() {
            let kind = if host.is_some() { "host" } else { "any" };
            add([kind, host.as_deref().unwrap_or_default(), &path], &origin);
        }
        if let Some(behind) = &self.default {
            add(["else", "", ""], &behind.upstream);
        }
        let mut number = [0; 8];
        hasher.finalize_xof().fill(&mut number);
        self.number = u64::from_le_bytes(number);
        self
    }

    /// Stands for where all hosts and paths lead, the same after every restart. Of several origins of a route the first counts, as in names.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Every origin that is led to, in no order.
    pub fn origins(&self) -> impl Iterator<Item = &OriginUrl> {
        self.behind().flat_map(|behind| &behind.upstream.origins)
    }

    /// What each route leads to, in no order.
    pub(crate) fn behind(&self) -> impl Iterator<Item = &Arc<Behind>> {
        self.hosts.values().flatten().chain(&self.any).map(|way| &way.behind).chain(&self.default)
    }

    /// Every route, hosts in alphabetical order and those for any host last, longer paths first.
    pub fn list(&self) -> Vec<Route> {
        let mut hosts: Vec<_> = self.hosts.iter().map(|(host, ways)| (Some(host.clone()), ways)).collect();
        hosts.sort_by(|(one, _), (other, _)| one.cmp(other));
        hosts.push((None, &self.any));
        let route = |host: &Option<String>, way: &Way| {
            let path = if way.path.is_empty() { "/".into() } else { way.path.clone() };
            Route { host: host.clone(), path, origin: way.behind.upstream.clone() }
        };
        hosts.iter().flat_map(|(host, ways)| ways.iter().map(move |way| route(host, way))).collect()
    }

    /// Whether a host has routes of its own.
    pub(crate) fn names(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// The hosts that have routes of their own, in no order.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.keys().map(String::as_str)
    }

    /// Whether any path of a host leads somewhere.
    pub(crate) fn leads(&self, host: &str) -> bool {
        self.names(host) || !self.any.is_empty() || self.default.is_some()
    }

    /// Where everything else goes.
    pub fn all_else(&self) -> Option<&Upstream> {
        self.default.as_ref().map(|behind| &behind.upstream)
    }

    /// The origins for a path (with its query) at a host.
    pub(crate) fn find(&self, host: Option<&str>, path: &str) -> Result<&Arc<Behind>, Failure> {
        let path = path.split('?').next().unwrap_or_default();
        let named = host.and_then(|host| self.hosts.get(host)).map(Vec::as_slice).unwrap_or_default();
        let mut ways = named.iter().chain(&self.any);
        if ways.clone().any(|way| !way.path.is_empty()) && has_dot_segments(path) {
            // The origin would take it for another path than the one that the route was chosen by.
            return Err(Failure::DotSegments);
        }
        let found = ways.find(|way| way.leads(path)).map(|way| &way.behind);
        found.or(self.default.as_ref()).ok_or_else(|| Failure::NoRoute { host: host.unwrap_or("-").into() })
    }
}

/// The name that figures have for what no route fits.
const ALL_ELSE: &str = "*";

/// Checks a list of origins.
fn behind(route: &str, upstream: Upstream) -> Result<Arc<Behind>, BadRoutes> {
    if upstream.origins.is_empty() {
        return Err(BadRoutes::NoOrigin);
    }
    let mut seen = HashSet::new();
    if let Some(twice) = upstream.origins.iter().find(|origin| !seen.insert(origin.destination())) {
        return Err(BadRoutes::OriginTwice(twice.clone()));
    }
    Ok(Arc::new(Behind { route: route.into(), upstream }))
}

impl Way {
    fn leads(&self, path: &str) -> bool {
        path.strip_prefix(&self.path)
            .is_some_and(|rest| self.path.is_empty() || rest.is_empty() || rest.starts_with('/'))
    }
}

/// The path without the slash at its end; nothing for what is no path.
pub(crate) fn beginning(path: &str) -> Option<String> {
    let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%\\;\"<>`".contains(&byte));
    let is_path = path.starts_with('/') && plain && !has_dot_segments(path);
    is_path.then(|| path.trim_end_matches('/').to_owned())
}

fn name(host: &str) -> Option<String> {
    let bracketed = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    let authority = Authority::parse(bracketed.as_bytes()).ok()?;
    authority.port().is_none().then(|| authority.host().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: &str, path: &str, origin: &str) -> Route {
        let host = (!host.is_empty()).then(|| host.to_owned());
        Route { host, path: path.into(), origin: format!("http://{origin}").parse().unwrap() }
    }

    fn routes() -> Routes {
        let routes = vec![
            route("", "/img", "images"),
            route("", "/img/big/", "big"),
            route("A.example", "/", "a"),
            route("a.example", "/img", "a-images"),
            route("::1", "/", "six"),
        ];
        Routes::new(routes, Some("http://rest".parse().unwrap())).unwrap()
    }

    #[test]
    fn the_host_goes_before_the_longest_path_before_the_default() {
        let routes = routes();
        for (host, path, origin) in [
            ("x", "/", "rest"),
            ("x", "/img", "images"),
            ("x", "/img?big", "images"),
            ("x", "/img/", "images"),
            ("x", "/images", "rest"),
            ("x", "/img/big", "big"),
            ("x", "/img/bigger", "images"),
            ("x", "/img/big/a.png", "big"),
            ("x", "*", "rest"),
            ("a.example", "/", "a"),
            ("a.example", "*", "a"),
            ("a.example", "/img/big/a", "a-images"),
            ("b.example", "/img/big/a", "big"),
            ("::1", "/x", "six"),
        ] {
            let found = routes.find(Some(host), path).unwrap();
            assert_eq!(found.upstream.to_string(), format!("http://{origin}"), "{host} {path}");
        }
        assert_eq!(routes.find(None, "/img").unwrap().upstream.to_string(), "http://images");
    }

    /// Names hold it, so it must not change with a version.
    #[test]
    fn routes_have_a_number() {
        assert_eq!(Routes::to("http://a".parse().unwrap()).number(), 13_433_205_450_322_066_743);
        assert_eq!(routes().number(), routes().number());
        let swapped = vec![route("a.example", "/img", "a-images"), route("", "/img", "images")];
        let number = |routes: Vec<Route>| Routes::new(routes, None).unwrap().number();
        assert_eq!(number(swapped.clone()), number(swapped.iter().rev().cloned().collect()));
        for (host, path, origin) in
            [("", "/x", "a"), ("a", "/x", "a"), ("", "/y", "a"), ("", "/x", "b"), ("", "/x", "a:81")]
        {
            let others = [("", "/x", "a"), ("a", "/x", "a"), ("", "/y", "a"), ("", "/x", "b"), ("", "/x", "a:81")];
            let same = others
                .iter()
                .filter(|(h, p, o)| number(vec![route(h, p, o)]) == number(vec![route(host, path, origin)]));
            assert_eq!(same.count(), 1, "{host} {path} {origin}");
        }
    }

    #[test]
    fn paths_that_leave_their_route_are_refused() {
        for path in ["/img/../x", "/./img", "/img/%2e%2E/x", "/img/..%2fx", "/img/..;a/x", "/img/..", "/img%5c..%5cx"] {
            assert_eq!(routes().find(Some("x"), path), Err(Failure::DotSegments), "{path}");
        }
        for path in ["/a..b/.c/...", "/img/x?y=/../z"] {
            assert!(routes().find(Some("x"), path).is_ok(), "{path}");
        }
        // Where all goes to one origin, its paths are its own affair.
        assert!(Routes::to("http://a".parse().unwrap()).find(None, "/../x").is_ok());
    }

    #[test]
    fn without_a_default_the_rest_is_not_found() {
        let routes = Routes::new(vec![route("a", "/", "a")], None).unwrap();
        assert!(matches!(routes.find(Some("b"), "/"), Err(Failure::NoRoute { host }) if host == "b"));
        assert!(routes.find(Some("a"), "/").is_ok());
    }

    #[test]
    fn nonsense_is_named() {
        let new = |routes| Routes::new(routes, None).unwrap_err().to_string();
        assert!(new(vec![]).contains("needs an origin"));
        let twice = new(vec![route("a", "/x/", "b"), route("A", "/x", "c")]);
        assert!(twice.contains("two routes for the host a and /x/"), "{twice}");
        for path in ["", "x", "/a?b", "/a/../b", "/%61", "/a b", "http://a/"] {
            assert!(new(vec![route("", path, "a")]).contains(&format!("{path:?}")), "{path}");
        }
        let mut list = route("a", "/", "a");
        list.origin.origins.push("http://A:80/".parse().unwrap());
        assert!(new(vec![list.clone()]).contains("http://a:80 is in the list of origins twice"));
        list.origin.origins.clear();
        assert!(new(vec![list]).contains("list of origins is empty"));
        for host in ["a:80", "http://a", "a/b", "*", "a b"] {
            assert!(new(vec![route(host, "/", "a")]).contains(&format!("{host:?}")), "{host}");
        }
    }
}
