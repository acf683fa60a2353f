//! Tokens of registries: a source answers 401 and says where to get one, and what for. Whoever has one gets the answer, so that
//! clients need none, and what comes is stored as that of any source.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;

use super::location::Place;
use super::{Aim, At};

/// Tokens that are kept, for as many repositories.
const MOST_TOKENS: usize = 256;
/// A token is good for so long where nothing else is said, and used no more shortly before it is not.
const USUAL: Duration = Duration::from_secs(60);
const BEFORE: Duration = Duration::from_secs(10);
/// However long a token is said to be good.
const LONGEST: Duration = Duration::from_secs(3600);

/// A token. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(Arc<str>);

/// Where a token is to be asked for.
#[derive(Debug)]
pub(crate) struct Challenge {
    pub aim: Aim,
}

/// Tokens for one source, by repository.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Mutex<HashMap<String, (Token, Instant)>>);

/// What gives tokens answers so.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Token {
    /// The value of Authorization.
    pub fn field(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Tokens {
    /// One that is good for what is at this path.
    pub fn get(&self, path: &str, now: Instant) -> Option<Token> {
        self.0.lock().get(repository(path)).filter(|(_, until)| *until > now).map(|(token, _)| token.clone())
    }

    /// Keeps one from the answer of who gives them; nothing if there is none in it.
    pub fn keep(&self, path: &str, answer: &[u8], now: Instant) -> Option<Token> {
        let Answer { token, access_token, expires_in } = serde_json::from_slice(answer).ok()?;
        let text = token.or(access_token).filter(|text| !text.is_empty())?;
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let token = Token(text.into());
        let good_for = expires_in.map_or(USUAL, Duration::from_secs).min(LONGEST).saturating_sub(BEFORE);
        let mut tokens = self.0.lock();
        if tokens.len() >= MOST_TOKENS {
            tokens.retain(|_, (_, until)| *until > now);
        }
        if tokens.len() >= MOST_TOKENS {
            tokens.clear();
        }
        tokens.insert(repository(path).to_owned(), (token.clone(), now + good_for));
        Some(token)
    }
}

/// What a token is for: a path up to what says which part of a repository.
fn repository(path: &str) -> &str {
    let ends = ["/manifests/", "/blobs/", "/tags/", "/referrers/"].iter().filter_map(|mark| path.find(mark)).min();
    path.get(..ends.unwrap_or(path.len())).unwrap_or(path)
}

impl Challenge {
    /// Reads a WWW-Authenticate: `Bearer realm="https://auth.example.org/token",service="x",scope="y"`. Nothing where a token is asked
    /// for otherwise, or at a host that is not listed for that.
    pub(super) fn read(at: &At, here: &Place, field: &[u8]) -> Option<Challenge> {
        let text = std::str::from_utf8(field).ok()?;
        let (scheme, parameters) = text.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let value = |name: &str| {
            let start = parameters.find(&format!("{name}=\""))? + name.len() + 2;
            parameters.get(start..)?.split('"').next()
        };
        let realm = here.follow(value("realm")?.as_bytes())?;
        let listed = at.mounted.mirror.token_hosts.iter().any(|listed| listed.fits(&realm.destination));
        if !listed {
            return None;
        }
        let mut path = realm.path;
        for name in ["service", "scope"] {
            if let Some(value) = value(name) {
                let before = if path.contains('?') { '&' } else { '?' };
                path.push_str(&format!("{before}{name}={}", escaped(value)));
            }
        }
        let at = At { asks_token: true, ..at.mounted.at(false) };
        Some(Challenge { aim: Aim { at, destination: realm.destination, host: realm.host, path } })
    }
}

/// A value in a query (RFC 3986 3.4).
fn escaped(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/,".contains(&byte);
    let letter = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirrors::{Mirror, Mounted, Table};

    #[test]
    fn challenges() {
        let token_hosts = vec!["auth.example".parse().unwrap()];
        let mirror = Mirror { token_hosts, ..Mirror::new("/v2/".into(), "https://r.example/v2/".parse().unwrap()) };
        let mounted = Arc::new(Mounted::new(mirror, None, Table::new([0; 32])));
        let at = mounted.at(true);
        let aim = Mounted::aim(&mounted, "/v2/a/b/manifests/latest").unwrap();
        let here = Place { destination: aim.destination, host: aim.host, path: aim.path };
        let read = |field: &str| Challenge::read(&at, &here, field.as_bytes()).map(|challenge| challenge.aim.path);
        let field = "Bearer realm=\"https://auth.example/token\",service=\"r.example\",scope=\"repository:a/b:pull x\"";
        assert_eq!(read(field).unwrap(), "/token?service=r.example&scope=repository:a/b:pull%20x");
        for field in [
            "Basic realm=\"https://auth.example/token\"",
            "Bearer realm=\"https://auth.example.evil/token\"",
            "Bearer realm=\"http://auth.example/token\"",
            "Bearer service=\"x\"",
            "Bearer",
        ] {
            assert_eq!(read(field), None, "{field}");
        }
    }

    #[test]
    fn tokens_are_kept_for_their_repository_until_they_are_old() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let answer = br#"{"token":"t0ken","expires_in":300}"#;
        let token = tokens.keep("/v2/a/b/manifests/latest", answer, now).unwrap();
        assert_eq!((token.field().as_str(), format!("{tokens:?}").contains("t0ken")), ("Bearer t0ken", false));
        assert_eq!(tokens.get("/v2/a/b/blobs/sha256:00", now), Some(token));
        assert_eq!(tokens.get("/v2/a/c/blobs/sha256:00", now), None);
        assert_eq!(tokens.get("/v2/a/b/blobs/sha256:00", now + Duration::from_secs(290)), None);
        for answer in ["", "{}", r#"{"token":""}"#, r#"{"token":"a\r\nb"}"#, "[]"] {
            assert_eq!(tokens.keep("/v2/x/manifests/y", answer.as_bytes(), now), None, "{answer}");
        }
    }
}
