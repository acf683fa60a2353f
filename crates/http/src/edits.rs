//! Changes to a message's fields, for whoever keeps them: the rules of this crate need not know in what kind of map.

use std::fmt::Display;

use http::{HeaderMap, HeaderName, HeaderValue};

/// Changes to fields: first all of [`Edits::removed`] go, then all of [`Edits::added`] come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Fields of which every line goes.
    pub removed: Vec<HeaderName>,
    /// Lines that come, in this order. Names may repeat.
    pub added: Vec<(HeaderName, HeaderValue)>,
}

impl Edits {
    /// Every line of a field goes.
    pub fn remove(&mut self, name: HeaderName) {
        if !self.removed.contains(&name) {
            self.removed.push(name);
        }
    }

    /// A field gets one line, whatever it had. A value that cannot stand in a field removes it.
    pub(crate) fn set(&mut self, name: HeaderName, value: impl Display) {
        if let Ok(value) = HeaderValue::from_str(&value.to_string()) {
            self.added.push((name.clone(), value));
        }
        self.remove(name);
    }

    /// Makes the changes in a map.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.removed {
            headers.remove(name);
        }
        for (name, value) in &self.added {
            // A full map takes no more: the lines that are there are right on their own.
            let _ = headers.try_append(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{AGE, ETAG, VIA};

    use super::*;

    #[test]
    fn removed_first() {
        let mut headers = HeaderMap::new();
        for (name, value) in [(AGE, "1"), (VIA, "a"), (VIA, "b")] {
            headers.append(name, value.parse().unwrap());
        }
        let mut edits = Edits::default();
        edits.set(AGE, 7);
        edits.remove(VIA);
        edits.set(ETAG, "\n");
        edits.added.push((VIA, "c".parse().unwrap()));
        edits.apply(&mut headers);
        assert_eq!(headers.len(), 2);
        assert_eq!([headers[AGE].to_str().unwrap(), headers[VIA].to_str().unwrap()], ["7", "c"]);
    }
}
