//! What a rule makes of a request's fields.

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, COOKIE, HeaderName, HeaderValue, VARY};
use tinaja_http::accept::folded;
use tinaja_http::hops::hop_by_hop;
use tinaja_http::message::{BadField, Fields};
use tinaja_http::vary;

use super::ReadRule;
use super::cookies::{named, only};
use super::rule::Addition;

impl ReadRule {
    /// Changes the fields of a request that may be answered from the cache to what its origin gets.
    ///
    /// Errors: [`BadField`].
    pub fn change(&self, headers: &mut Fields) -> Result<(), BadField> {
        let rule = &self.rule;
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
            match self.word(at, &value) {
                Some(word) => headers.insert(name.clone(), word)?,
                None => headers.remove(name),
            }
        }
        Ok(())
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
        let mut hasher = blake3::Hasher::new();
        for one in &self.rule.add {
            match one {
                Addition::Header(name) => {
                    // As if the answer varied by it: what it means counts, and what is not sent on does not.
                    let varies = HeaderMap::from_iter([(VARY, HeaderValue::from(name.clone()))]);
                    hasher.update(b"h").update(&vary::key(&varies, request).unwrap_or_default());
                }
                Addition::Cookie(name) => {
                    let is_sent = !hop_by_hop(request).contains(&COOKIE);
                    let values: Vec<_> = named(lines(request, &COOKIE), name).filter(|_| is_sent).collect();
                    hasher.update(b"c").update(&length(name.as_bytes())).update(name.as_bytes());
                    hasher.update(&(values.len() as u64).to_le_bytes());
                    for value in values {
                        hasher.update(&length(value)).update(value);
                    }
                }
            }
        }
        let mut added = [0; 16];
        hasher.finalize_xof().fill(&mut added);
        Some(added)
    }
}

fn length(bytes: &[u8]) -> [u8; 8] {
    (bytes.len() as u64).to_le_bytes()
}

fn lines<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes)
}
