//! What becomes of a query, and of sessions in a URL. Bytes count: `%75tm_source` is another parameter than `utm_source`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::fits::has_dot_segments;

/// Parameters by which sites that lead here say so. No origin answers otherwise for them; its scripts read them in the client.
pub const TRACKING: [&str; 24] = [
    // Google Analytics and Ads.
    "utm_*",
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "srsltid",
    "_ga",
    "_gl", // Facebook and Instagram.
    "fbclid",
    "igshid", // Microsoft, Yandex, X, TikTok, LinkedIn, Pinterest.
    "msclkid",
    "yclid",
    "ymclid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "epik", // Senders of mail.
    "mc_cid",
    "mc_eid",
    "_hsenc",
    "_hsmi",
    "mkt_tok",
    "vero_id",
];

/// Some parameters: one name, or all that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// This one.
    Exact(String),
    /// All that begin so.
    Prefix(String),
}

/// What names no parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a query parameter; write its name as it stands in URLs, as in gclid, or utm_* for all that begin so"
)]
pub struct BadParameter(String);

impl Parameter {
    /// Whether it is one of [`TRACKING`].
    pub(super) fn is_tracking(&self) -> bool {
        let (name, begins) = match self {
            Parameter::Exact(name) => (name, false),
            Parameter::Prefix(start) => (start, true),
        };
        TRACKING.iter().any(|one| one.strip_suffix('*').map_or((*one, false), |start| (start, true)) == (name, begins))
    }

    fn is(&self, name: &str) -> bool {
        match self {
            Parameter::Exact(own) => own == name,
            Parameter::Prefix(start) => name.starts_with(start),
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Exact(name) => f.write_str(name),
            Parameter::Prefix(start) => write!(f, "{start}*"),
        }
    }
}

impl FromStr for Parameter {
    type Err = BadParameter;

    fn from_str(text: &str) -> Result<Self, BadParameter> {
        let (name, begins) = text.strip_suffix('*').map_or((text, false), |start| (start, true));
        // What no name has in a URL as it is sent.
        let is_name = name.bytes().all(|byte| byte.is_ascii_graphic() && !b"&=#?*\"<>`\\".contains(&byte));
        if name.is_empty() || name.len() > 256 || !is_name {
            return Err(BadParameter(text.to_owned()));
        }
        let name = name.to_owned();
        Ok(if begins { Parameter::Prefix(name) } else { Parameter::Exact(name) })
    }
}

/// Which parameters of a query count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Query {
    /// All.
    #[default]
    All,
    /// None: the query goes as a whole.
    Nothing,
    /// All but these.
    Without(Vec<Parameter>),
    /// These.
    Only(Vec<Parameter>),
}

impl Query {
    fn keeps(&self, name: &str) -> bool {
        match self {
            Query::All => true,
            Query::Nothing => false,
            Query::Without(gone) => !gone.iter().any(|one| one.is(name)),
            Query::Only(kept) => kept.iter().any(|one| one.is(name)),
        }
    }
}

fn name_of(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default()
}

/// A path with its query as a rule leaves it. A query that loses its last parameter goes with its question mark; one that loses
/// nothing stays as it is, byte by byte.
pub(super) fn settled<'a>(path: &'a str, query: &Query, sorted: bool, sessions: &[String]) -> Cow<'a, str> {
    let (path, asked) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let settled = without_sessions(path, sessions);
    let Some(asked) = asked else { return settled };
    let keeps = |parameter: &&str| {
        let name = name_of(parameter);
        query.keeps(name) && !sessions.iter().any(|session| session == name)
    };
    let mut kept: Vec<&str> = asked.split('&').filter(keeps).collect();
    if sorted {
        // Stable: what is said several times is said in one order, which some servers go by.
        kept.sort_by(|one, other| name_of(one).cmp(name_of(other)));
    }
    let left = kept.join("&");
    let is_gone = left.is_empty() && (kept.is_empty() || !asked.is_empty());
    if is_gone { settled } else { Cow::Owned(format!("{settled}?{left}")) }
}

/// A path without its parameters of these names (`;jsessionid=...`), in whichever segment.
fn without_sessions<'a>(path: &'a str, sessions: &[String]) -> Cow<'a, str> {
    let is_session = |part: &str| sessions.iter().any(|session| session == name_of(part));
    if !path.contains(';') || !path.split(['/', ';']).any(is_session) {
        return Cow::Borrowed(path);
    }
    let segment = |segment: &str| {
        let (name, rest) = segment.split_once(';').unwrap_or((segment, ""));
        // What is left must not mean another directory.
        if has_dot_segments(name) || rest.is_empty() {
            return segment.to_owned();
        }
        let kept = rest.split(';').filter(|part| !is_session(part));
        std::iter::once(name).chain(kept).collect::<Vec<_>>().join(";")
    };
    Cow::Owned(path.split('/').map(segment).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<Parameter> {
        text.split_whitespace().map(|one| one.parse().unwrap()).collect()
    }

    #[test]
    fn queries() {
        let without = Query::Without(list("utm_* gclid"));
        let only = Query::Only(list("a b*"));
        for (path, query, sorted, expected) in [
            ("/x", &without, true, "/x"),
            ("/x?", &without, false, "/x?"),
            ("/x?", &only, false, "/x"),
            ("/x?", &Query::Nothing, false, "/x"),
            ("/x?a=1&b", &Query::Nothing, false, "/x"),
            ("/x?utm_source=1&utm_=2&gclid", &without, false, "/x"),
            ("/x?a=1&utm_x=3&a=2", &without, false, "/x?a=1&a=2"),
            ("/x?gclid=&", &without, false, "/x"),
            ("/x?a&&gclid=", &without, false, "/x?a&"),
            ("/x?%75tm_source=1", &without, false, "/x?%75tm_source=1"),
            ("/x?UTM_source=1&gclid2", &without, false, "/x?UTM_source=1&gclid2"),
            ("/x?y?utm_a=1&utm_b=1", &without, false, "/x?y?utm_a=1"),
            ("/x?c=1&ba=2&a&=3", &only, false, "/x?ba=2&a"),
            ("/x?b=2&a=2&b=1&a=1&", &Query::All, true, "/x?&a=2&a=1&b=2&b=1"),
            ("/x?b;a", &Query::All, true, "/x?b;a"),
            ("/x?a=b=c&a", &only, false, "/x?a=b=c&a"),
        ] {
            let settled = super::settled(path, query, sorted, &[]);
            assert_eq!(settled, expected, "{path} {query:?}");
            assert_eq!(super::settled(&settled, query, sorted, &[]), expected, "once more");
        }
    }

    #[test]
    fn sessions() {
        let sessions = ["jsessionid".to_owned(), "sid".to_owned()];
        for (path, expected) in [
            ("/a;jsessionid=1", "/a"),
            ("/a;jsessionid=1/b;x=1;sid;y?sid=2&c&jsessionid", "/a/b;x=1;y?c"),
            ("/a;jsessionid2=1?sids", "/a;jsessionid2=1?sids"),
            ("/jsessionid=1", "/jsessionid=1"),
            ("/a;JSESSIONID=1", "/a;JSESSIONID=1"),
            ("/..;sid=1/b", "/..;sid=1/b"),
            ("/.;sid=1", "/.;sid=1"),
            ("/%2e%2E;sid=1/b", "/%2e%2E;sid=1/b"),
            ("/.%2e;sid=1", "/.%2e;sid=1"),
            ("/a%2f..;sid=1", "/a%2f..;sid=1"),
            ("/%2ea;sid=1", "/%2ea"),
            ("/;sid=1", "/"),
            ("/a;;sid", "/a;"),
            ("/a?sid=1", "/a"),
            ("/a;x;jsession;jsessionid=2id=3", "/a;x;jsession"),
        ] {
            let settled = super::settled(path, &Query::All, false, &sessions);
            assert_eq!(settled, expected, "{path}");
            assert_eq!(super::settled(&settled, &Query::All, false, &sessions), expected, "once more");
        }
    }

    #[test]
    fn parameters() {
        for text in ["", "*", "a b", "a=b", "a&b", "a*b", "é", "a#"] {
            assert!(text.parse::<Parameter>().unwrap_err().to_string().contains("utm_*"), "{text}");
        }
        assert!(TRACKING.iter().all(|one| one.parse::<Parameter>().is_ok()));
        assert_eq!(list("a[] b*"), [Parameter::Exact("a[]".into()), Parameter::Prefix("b".into())]);
    }

    /// Nothing but parameters go, in whatever order; and what is left, is left the next time. Over all short URLs.
    #[test]
    fn a_path_stays_and_once_is_enough() {
        let sessions = ["a".to_owned()];
        let all = [Query::All, Query::Nothing, Query::Without(list("a")), Query::Only(list("b*"))];
        let letters = ['a', 'b', '&', '=', '?', ';', '/', '.'];
        for number in 0..8_usize.pow(5) {
            let url: String =
                std::iter::once('/').chain((0..5).map(|at| letters[number / 8_usize.pow(at) % 8])).collect();
            for (rule, sorted) in all.iter().flat_map(|rule| [(rule, false), (rule, true)]) {
                let once = settled(&url, rule, sorted, &sessions);
                assert_eq!(settled(&once, rule, sorted, &sessions), once, "{url} {rule:?}");
                let alone = settled(&url, rule, sorted, &[]);
                assert_eq!(alone.split('?').next(), url.split('?').next(), "{url} {rule:?}");
            }
        }
    }
}
