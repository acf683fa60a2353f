//! What a client says of encoded forms, which is for this proxy alone: its origin knows of none, and gets it otherwise or not at all.

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE};
use tinaja_http::encoding::{Codings, may_mix, tags, wanted};
use tinaja_http::message::{BadField, Fields, ResponseHead};

/// Fields as a client sent them, where the request goes on without them or with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// What it says of codings, before a key rule had its say.
    accepted: Option<HeaderMap>,
    /// If-None-Match, with tags of forms.
    tags: Option<HeaderMap>,
}

/// The lines of some fields.
fn lines_of(fields: &HeaderMap, names: &[http::HeaderName]) -> HeaderMap {
    let mut taken = HeaderMap::new();
    for name in names {
        for value in fields.get_all(name) {
            taken.append(name.clone(), value.clone());
        }
    }
    taken
}

/// What a client says of codings.
pub(super) fn accepted(fields: &HeaderMap) -> HeaderMap {
    lines_of(fields, &[ACCEPT_ENCODING, CACHE_CONTROL])
}

impl Said {
    /// Takes out of a request what is not for its origin. `accepted` is what it said of codings, if a key rule may have changed that. `may_encode_for` says whether
    /// a rule may have the answer encoded in codings of which something holds.
    ///
    /// A part is of what is in no coding. Whoever has only a date to say what its beginning is of may have that of a form: it gets the whole, whatever is stored,
    /// and whether anything is.
    ///
    /// Errors: [`BadField`].
    pub fn take(
        headers: &mut Fields,
        accepted: Option<HeaderMap>,
        may_encode_for: impl Fn(&dyn Fn(&Codings) -> bool) -> bool,
    ) -> Result<Option<Box<Said>>, BadField> {
        let mut said = Said { accepted, tags: None };
        if may_mix(headers) && may_encode_for(&|codings| !said.accepts(headers, codings).is_empty()) {
            [RANGE, IF_RANGE].iter().for_each(|name| headers.remove(name));
        }
        if let Some(list) = tags::for_origin(headers)
            && may_encode_for(&|_| true)
        {
            said.tags = Some(lines_of(headers, &[IF_NONE_MATCH]));
            headers.insert(IF_NONE_MATCH, list)?;
        }
        let is_some = said.accepted.is_some() || said.tags.is_some();
        Ok(is_some.then(|| Box::new(said)))
    }

    /// Which of these codings the client takes, the best first. `fields` are what the request says now.
    pub fn accepts(&self, fields: &HeaderMap, offered: &Codings) -> Codings {
        wanted(self.accepted.as_ref().unwrap_or(fields), offered)
    }

    /// Whether the client has named tags of forms.
    pub fn has_form_tags(&self) -> bool {
        self.tags.is_some()
    }

    /// Has a 304 name the tag that the client has named. `fields` are what the request says now.
    ///
    /// Errors: [`BadField`].
    pub fn name_matched(&self, fields: &HeaderMap, head: &mut ResponseHead) -> Result<(), BadField> {
        let named = self.tags.as_ref().unwrap_or(fields);
        let own = head.headers.get(ETAG);
        match own.and_then(|own| tags::matched(named.get_all(IF_NONE_MATCH).iter(), own.as_bytes())) {
            Some(tag) => head.headers.insert(ETAG, tag),
            None => Ok(()),
        }
    }
}
