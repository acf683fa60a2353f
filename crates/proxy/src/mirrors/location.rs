//! Where a redirect leads (RFC 3986 5.2).

use tinaja_http::authority::Authority;

use crate::fits::has_dot_segments;
use crate::origin::Destination;

/// A place that a redirect names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub destination: Destination,
    pub host: Authority,
    /// With the query, without the fragment.
    pub path: String,
}

impl Place {
    /// Where a reference leads from here; nothing if it is malformed, or of another scheme.
    pub fn follow(&self, reference: &[u8]) -> Option<Place> {
        let reference = std::str::from_utf8(reference).ok()?.trim();
        // What stands in a request line next must not end it.
        if !reference.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte)) {
            return None;
        }
        let reference = reference.split('#').next().unwrap_or_default();
        let path = if let Some((scheme, rest)) = scheme(reference) {
            let tls = match scheme.to_ascii_lowercase().as_str() {
                "https" => true,
                "http" => false,
                _ => return None,
            };
            return Place::at(tls, rest.strip_prefix("//")?);
        } else if let Some(rest) = reference.strip_prefix("//") {
            return Place::at(self.destination.tls, rest);
        } else if reference.starts_with('/') {
            reference.to_owned()
        } else {
            let here = self.path.split('?').next().unwrap_or_default();
            match reference.chars().next() {
                None => self.path.clone(),
                Some('?') => format!("{here}{reference}"),
                Some(_) => format!("{}/{reference}", here.rsplit_once('/')?.0),
            }
        };
        Some(Place { path: without_dots(&path)?, ..self.clone() })
    }

    fn at(tls: bool, rest: &str) -> Option<Place> {
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let host = Authority::parse(authority.as_bytes()).ok()?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some(Place { destination: Destination::of(tls, &host), host, path: without_dots(&path)? })
    }
}

/// The scheme of a reference that has one, and what follows the colon.
fn scheme(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let plain = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (plain && scheme.starts_with(|first: char| first.is_ascii_alphabetic())).then_some((scheme, rest))
}

/// The path without `.` and `..`; nothing if some hide in escapes.
fn without_dots(path: &str) -> Option<String> {
    let (plain, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = plain.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    let plain = format!("/{}", kept.join("/"));
    (!has_dot_segments(&plain)).then(|| format!("{plain}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let here = Place::at(true, "a.example/x/y?z").unwrap();
        let follow = |reference: &str| {
            let place = here.follow(reference.as_bytes())?;
            let Place { destination, host, path } = place;
            Some(format!("{}{host}{path}", if destination.tls { "https://" } else { "http://" }))
        };
        for (reference, expected) in [
            ("https://b.example/c?d#e", "https://b.example/c?d"),
            ("HTTP://B.example", "http://b.example/"),
            ("https://b.example?q", "https://b.example/?q"),
            ("//b.example:8443/c", "https://b.example:8443/c"),
            ("/c", "https://a.example/c"),
            ("c", "https://a.example/x/c"),
            ("../c/./d/", "https://a.example/c/d/"),
            ("..", "https://a.example/"),
            ("?q", "https://a.example/x/y?q"),
            ("", "https://a.example/x/y?z"),
            ("/../../c", "https://a.example/c"),
        ] {
            assert_eq!(follow(reference).as_deref(), Some(expected), "{reference}");
        }
        for reference in [
            "ftp://a.example/",
            "file:///etc/passwd",
            "https:/b.example/",
            "https://u:p@b.example/",
            "https://",
            "https://b.example/ x",
            "/\u{e4}",
            "/a\r\nX: y",
            "/%2e%2e/x",
            "\\\\b.example\\x",
        ] {
            assert_eq!(follow(reference), None, "{reference}");
        }
    }
}
