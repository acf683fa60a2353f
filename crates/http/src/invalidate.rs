//! What an answer to an unsafe method makes invalid (RFC 9111 4.4).

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, Method, StatusCode};

use crate::authority::Authority;
use crate::judge::clean_path;
use crate::limits::MAX_INVALIDATED;

/// Whether an answer to such a request makes what is stored under its URL invalid (RFC 9111 4.4): an unsafe method
/// that did not fail. Methods that nobody knows count as unsafe.
pub fn invalidates(method: &Method, status: StatusCode) -> bool {
    !method.is_safe() && (status.is_success() || status.is_redirection())
}

/// The URL of a request, as keys are made from it.
#[derive(Clone, Copy, Debug)]
pub struct Url<'a> {
    /// Whether the scheme is https rather than http.
    pub tls: bool,
    /// Host and port as the client knows them.
    pub authority: &'a Authority,
    /// Path and query, beginning with `/`.
    pub path: &'a str,
}

/// Paths, with their queries, of everything to forget at the origin of `url`: the URL itself first, then those of
/// Location and Content-Location that lead to the same scheme, host and port. What leads elsewhere is left alone, or
/// any site could empty the cache of another's objects (RFC 9111 4.4). Empty where nothing is invalidated.
pub fn invalidated(method: &Method, status: StatusCode, url: Url<'_>, response: &HeaderMap) -> Vec<String> {
    if !invalidates(method, status) {
        return Vec::new();
    }
    let mut paths = vec![url.path.to_owned()];
    let references = [LOCATION, CONTENT_LOCATION].map(|name| response.get_all(name).into_iter());
    for reference in references.into_iter().flatten().take(MAX_INVALIDATED) {
        if let Some(path) = same_origin_path(url, reference.as_bytes())
            && !paths.contains(&path)
        {
            paths.push(path);
        }
    }
    paths
}

/// Where a reference leads (RFC 3986 5.2), as a path at the origin of `base`; `None` if it leads to another origin or
/// is no reference.
fn same_origin_path(base: Url<'_>, reference: &[u8]) -> Option<String> {
    if reference.iter().any(|byte| byte.is_ascii_control() || matches!(byte, b' ' | b'\\')) {
        return None;
    }
    let reference = clean_path(reference.split(|byte| *byte == b'#').next().unwrap_or_default());
    let (tls, rest) = match reference.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => match scheme.to_ascii_lowercase().as_str() {
            "http" if rest.starts_with("//") => (false, rest),
            "https" if rest.starts_with("//") => (true, rest),
            _ => return None,
        },
        _ => (base.tls, reference.as_str()),
    };
    if let Some(rest) = rest.strip_prefix("//") {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end)?;
        let authority = Authority::parse(authority.as_bytes()).ok()?;
        let default_port = if tls { 443 } else { 80 };
        let same = tls == base.tls
            && authority.host() == base.authority.host()
            && authority.port_or(default_port) == base.authority.port_or(default_port);
        return same.then(|| normal(path));
    }
    let base_path = base.path.split('?').next().unwrap_or_default();
    Some(match rest.chars().next() {
        None => base.path.to_owned(),
        Some('/') => normal(rest),
        Some('?') => format!("{base_path}{rest}"),
        Some(_) => {
            let folder = base_path.rfind('/').and_then(|at| base_path.get(..=at)).unwrap_or("/");
            normal(&format!("{folder}{rest}"))
        }
    })
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// A path without its dot segments (RFC 3986 5.2.4), and at least `/`.
fn normal(path_and_query: &str) -> String {
    let (path, query) = match path_and_query.find('?') {
        Some(at) => path_and_query.split_at_checked(at).unwrap_or((path_and_query, "")),
        None => (path_and_query, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn methods_and_statuses() {
        for (method, status, expected) in [
            ("POST", 200, true),
            ("PUT", 204, true),
            ("DELETE", 303, true),
            ("PATCH", 500, false),
            ("POST", 404, false),
            ("GET", 200, false),
            ("OPTIONS", 200, false),
            ("BREW", 200, true),
        ] {
            let judged = invalidates(&method.parse().unwrap(), StatusCode::from_u16(status).unwrap());
            assert_eq!(judged, expected, "{method} {status}");
        }
    }

    fn also(tls: bool, host: &str, fields: &[(&str, &str)]) -> Vec<String> {
        let authority = Authority::parse(host.as_bytes()).unwrap();
        let url = Url { tls, authority: &authority, path: "/a/b?c" };
        let response =
            fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect();
        let mut paths = invalidated(&Method::POST, StatusCode::OK, url, &response);
        assert_eq!(paths.remove(0), "/a/b?c");
        paths
    }

    #[test]
    fn other_urls() {
        for (location, path) in [
            ("http://h/x", Some("/x")),
            ("HTTP://H:80/x?y#z", Some("/x?y")),
            ("http://h", Some("/")),
            ("http://h?q", Some("/?q")),
            ("//h/x", Some("/x")),
            ("/x/./y/../z", Some("/x/z")),
            ("/../..", Some("/")),
            ("/x/..", Some("/")),
            ("/x/.", Some("/x/")),
            ("c", Some("/a/c")),
            ("../c", Some("/c")),
            ("c:d/e", None),
            ("./c:d", Some("/a/c:d")),
            ("?d", Some("/a/b?d")),
            ("", None),
            ("#x", None),
            ("/a/b?c", None),
            ("/<é>", Some("/%3C%C3%A9%3E")),
            ("https://h/x", None),
            ("http://h:81/x", None),
            ("http://other/x", None),
            ("//other/x", None),
            ("http://u@h/x", None),
            ("http:/x", None),
            ("http:x", None),
            ("mailto:a@h", None),
            ("/x y", None),
            ("\\\\h\\x", None),
            ("http://h.evil/x", None),
        ] {
            let response = [("location", location)];
            assert_eq!(also(false, "h", &response), path.into_iter().collect::<Vec<_>>(), "{location}");
        }
        assert_eq!(also(true, "h", &[("location", "https://h:443/x")]), ["/x"]);
        assert_eq!(also(true, "h:8443", &[("location", "https://h/x")]), [""; 0]);
    }

    #[test]
    fn several_fields() {
        let response = [("location", "/x"), ("content-location", "/y"), ("content-location", "http://other/")];
        assert_eq!(also(false, "h", &response), ["/x", "/y"]);
        assert_eq!(also(false, "h", &[("location", "/x"), ("content-location", "/x")]), ["/x"]);
        let many: Vec<_> = ["/1", "/2", "/3", "/4", "/5"].map(|path| ("location", path)).into();
        assert_eq!(also(false, "h", &many).len(), MAX_INVALIDATED);
        let authority = Authority::parse(b"h").unwrap();
        let url = Url { tls: false, authority: &authority, path: "/" };
        assert!(invalidated(&Method::GET, StatusCode::OK, url, &HeaderMap::new()).is_empty());
    }
}
