//! What a rule makes of a request's fields.

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, COOKIE, HeaderName, HeaderValue, VARY};
use regex::bytes::Regex;
use tinaja_http::accept::folded;
use tinaja_http::key::join;
use tinaja_http::message::{BadField, Fields};
use tinaja_http::vary;

use super::ReadRule;
use super::cookies::only;
use super::rule::{Addition, KeyRule};

impl ReadRule {
    /// A rule with its expressions.
    pub(super) fn new(rule: KeyRule, words: Vec<Vec<Regex>>) -> ReadRule {
        let actions = actions(&rule);
        ReadRule { rule, words, actions }
    }

    /// What stands for all that counts of a request by this rule besides its name: what it does to fields, and what was added. Nothing if
    /// that is nothing. Two nodes with other rules come to other values, though they have one name for a URL.
    pub fn counts(&self, added: Option<[u8; 16]>) -> Option<Vec<u8>> {
        let counts = self.actions.map(|actions| actions.to_vec());
        match added {
            Some(added) => Some([counts.unwrap_or_default(), added.to_vec()].concat()),
            None => counts,
        }
    }

    /// Changes the fields of a request that may be answered from the cache to what its origin gets.
    ///
    /// Errors: [`BadField`].
    pub fn change(&self, headers: &mut Fields) -> Result<(), BadField> {
        let rule = &self.rule;
        for name in self.respelled(headers.as_map()) {
            headers.remove(&name);
        }
        rule.drop_fields.iter().for_each(|name| headers.remove(name));
        if let Some(names) = &rule.cookies {
            let kept = only(&lines(headers.as_map(), &COOKIE).collect::<Vec<_>>(), names);
            if kept.is_empty() {
                headers.remove(&COOKIE);
            } else {
                headers.insert(COOKIE, HeaderValue::from_bytes(&kept)?)?;
            }
        }
        if let Some(encodings) = &rule.encodings
            && let Some(folded) = folded(lines(headers.as_map(), &ACCEPT_ENCODING), encodings)
        {
            headers.insert(ACCEPT_ENCODING, folded)?;
        }
        for (at, (name, _)) in rule.normalize.iter().enumerate() {
            let value = lines(headers.as_map(), name).collect::<Vec<_>>().join(&b", "[..]);
            // What fits nothing counts as what is not there, or the next node would take it for that and come to another word.
            match self.word(at, &value).or_else(|| self.word(at, b"")) {
                Some(word) => headers.insert(name.clone(), word)?,
                None => headers.remove(name),
            }
        }
        Ok(())
    }

    /// Fields that would pass for one that the rule is about, as `X_Device` for `X-Device`: CGI and its like cannot tell them apart, so an
    /// origin could take from one what the rule has done to the other.
    fn respelled(&self, headers: &HeaderMap) -> Vec<HeaderName> {
        let KeyRule { drop_fields, normalize, add, encodings, .. } = &self.rule;
        let added = add.iter().filter_map(|one| match one {
            Addition::Header(name) => Some(name),
            Addition::Cookie(_) => None,
        });
        let encoding = encodings.as_ref().map(|_| &ACCEPT_ENCODING);
        let named =
            || drop_fields.iter().chain(normalize.iter().map(|(name, _)| name)).chain(added.clone()).chain(encoding);
        let passes_for_one =
            |name: &&HeaderName| named().any(|own| is_like(own, name)) && !named().any(|own| own == *name);
        headers.keys().filter(passes_for_one).cloned().collect()
    }

    /// Whether it may change what a request says of codings.
    pub fn changes_codings(&self) -> bool {
        let dropped = &self.rule.drop_fields;
        self.rule.encodings.is_some() || [ACCEPT_ENCODING, CACHE_CONTROL].iter().any(|name| dropped.contains(name))
    }

    /// The word for a value of a field, by the field's place in the rule.
    pub(super) fn word(&self, at: usize, value: &[u8]) -> Option<&str> {
        let (expressions, (_, words)) = (self.words.get(at)?, self.rule.normalize.get(at)?);
        let fits = expressions.iter().position(|expression| expression.is_match(value))?;
        words.get(fits).map(|(_, word)| &**word)
    }

    /// What stands for all that the rule adds to a URL, by what the origin gets of a request with these fields.
    pub fn added(&self, request: &HeaderMap) -> Option<[u8; 16]> {
        if self.rule.add.is_empty() {
            return None;
        }
        // As if the answer varied by it: what it means counts, and what is not sent on does not.
        let of = |name: HeaderName| {
            let varies = HeaderMap::from_iter([(VARY, HeaderValue::from(name))]);
            vary::key(&varies, request).unwrap_or_default()
        };
        let mut hasher = blake3::Hasher::new();
        for one in &self.rule.add {
            match one {
                Addition::Header(name) => {
                    hasher.update(b"h").update(&of(name.clone()));
                }
                Addition::Cookie(name) => {
                    // All cookies that the origin gets: where one of them ends is its own affair, and some take a quote or a comma for more than
                    // others do.
                    hasher.update(b"c").update(&length(name.as_bytes())).update(name.as_bytes());
                    hasher.update(&of(COOKIE));
                }
            }
        }
        let mut added = [0; 16];
        hasher.finalize_xof().fill(&mut added);
        Some(added)
    }
}

/// Whether CGI would have one variable for both: it has letters and digits, and one sign for all others.
fn is_like(one: &HeaderName, other: &HeaderName) -> bool {
    let (one, other) = (one.as_str().as_bytes(), other.as_str().as_bytes());
    let is_sign = |byte: &u8| !byte.is_ascii_alphanumeric();
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a == b || is_sign(a) && is_sign(b))
}

/// A number for what a rule does to fields. It is told other nodes: it must not change unless what is done does.
fn actions(rule: &KeyRule) -> Option<[u8; 16]> {
    let KeyRule { encodings, cookies, normalize, drop_fields, .. } = rule;
    let mut parts: Vec<Vec<u8>> = Vec::new();
    parts.extend(encodings.as_ref().map(|list| [b"encodings".to_vec(), join(list)].concat()));
    parts.extend(cookies.as_ref().map(|list| [b"cookies".to_vec(), join(list)].concat()));
    for (name, words) in normalize {
        let words: Vec<_> = words.iter().flat_map(|(expression, word)| [expression, word]).collect();
        parts.push([b"normalize", name.as_str().as_bytes(), b" ", &join(&words)].concat());
    }
    // In whatever order they are dropped.
    let mut dropped: Vec<_> = drop_fields.iter().map(|name| [b"drop", name.as_str().as_bytes()].concat()).collect();
    dropped.sort_unstable();
    parts.extend(dropped);
    let mut number = [0; 16];
    blake3::Hasher::new().update(&join(&parts)).finalize_xof().fill(&mut number);
    (!parts.is_empty()).then_some(number)
}

fn length(bytes: &[u8]) -> [u8; 8] {
    (bytes.len() as u64).to_le_bytes()
}

fn lines<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes)
}
