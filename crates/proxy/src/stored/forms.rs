//! Encoded forms of a stored response: whether there may be any, and finding one.
//!
//! A response that may be sent encoded has an id in its head, which no other response has, and a form has the id of the response that it
//! was made of. So the form of a response that was replaced, purged or evicted is never served, whoever forgot to remove it; and a response
//! that is validated keeps its forms, since its bytes and its id stay. A form has neither a lifetime nor fields of its own: both are
//! looked up, and the response alone decides.

use bytes::Bytes;
use http::StatusCode;
use tinaja_http::encoding::{Coding, Codings};
use tinaja_http::message::ResponseHead;
use tinaja_store::{Hit, Key, State};

use super::facts::Facts;
use super::find::look;
use super::head::{Kind, StoredHead};
use super::name::Name;
use crate::storage::Storage;

/// Bytes of an id.
const ID_BYTES: usize = 16;

/// What the head of a response says of its encoded forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forms {
    /// No other response has it.
    pub id: [u8; ID_BYTES],
    /// The codings that there may be, the best first.
    pub codings: Codings,
}

/// What is known of one form.
#[derive(Debug)]
pub(crate) enum Form {
    /// It is there.
    Stored(Hit),
    /// It would be no smaller, and is not made.
    NotSmaller,
    /// Nobody has made it.
    Absent,
}

impl Forms {
    /// What a head says; `None` if there are to be no forms.
    pub fn of(head: &StoredHead) -> Option<Forms> {
        if head.kind != Kind::Whole {
            return None;
        }
        let (id, numbers) = head.pieces().split_first_chunk()?;
        // Each hit of such a response comes here.
        let codings: Codings = numbers.iter().filter_map(|number| Coding::of(*number)).collect();
        (!codings.is_empty()).then_some(Forms { id: *id, codings })
    }

    /// The same as a head holds it.
    pub fn bytes(&self) -> Vec<u8> {
        self.id.iter().copied().chain(self.codings.iter().map(|coding| coding as u8)).collect()
    }

    /// What the head of the form in this coding says of it.
    fn mark(&self, coding: Coding) -> [u8; ID_BYTES + 1] {
        let mut mark = [coding as u8; ID_BYTES + 1];
        if let Some((id, _)) = mark.split_first_chunk_mut() {
            *id = self.id;
        }
        mark
    }

    /// The head to store of a form. It has the facts and the tags of its response, so that whoever goes through a store sees what it
    /// belongs to.
    pub fn head(&self, coding: Coding, of: &StoredHead) -> Option<Bytes> {
        let none = ResponseHead::new(StatusCode::OK);
        StoredHead::encode_pieces(Kind::Form, &of.facts, of.primary(), &self.mark(coding), of.tags(), &none)
    }
}

/// Where the form in this coding of a response, which may be a variant, stands in a store.
///
/// Other nodes may have another response of the same name, each with forms of its own: in what they share those must not take each other's
/// places. In a store of one's own a new form takes the place of the one that is of no use any more.
pub(crate) fn form_place(store: &Storage, name: &Name, (facts, forms): (&Facts, &Forms), coding: Coding) -> Key {
    let is_shared = store.distrusted_before().is_some();
    let (of, kind) = match facts.variant {
        _ if is_shared => (forms.id, 2),
        Some(variant) => (variant, 1),
        None => ([0; ID_BYTES], 0),
    };
    let mut mark = [kind; ID_BYTES + 2];
    if let Some((first, [number, _])) = mark.split_first_chunk_mut() {
        (*first, *number) = (of, coding as u8);
    }
    name.form_place(&mark)
}

/// Looks for the form of a response in a coding. Reads the disk once at most.
pub(crate) async fn find_form(store: &Storage, name: &Name, of: (&StoredHead, &Forms), coding: Coding) -> Form {
    let (head, forms) = of;
    let place = form_place(store, name, (&head.facts, forms), coding);
    let Some((found, hit)) = look(store, name, &place).await else { return Form::Absent };
    let is_its = found.kind == Kind::Form && found.pieces()[..] == forms.mark(coding);
    match hit.body.len() {
        Some(length) if is_its && hit.state == State::Whole => {
            if length == 0 {
                Form::NotSmaller
            } else {
                Form::Stored(hit)
            }
        }
        _ => Form::Absent,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::bans::Tags;

    fn facts(variant: Option<[u8; 16]>) -> Facts {
        Facts { variant, ..Facts::bare(SystemTime::UNIX_EPOCH) }
    }

    fn head(kind: Kind, marks: &[u8]) -> StoredHead {
        let header = ResponseHead::new(StatusCode::OK);
        let bytes = StoredHead::encode_pieces(kind, &facts(None), b"name", marks, &Tags::default(), &header).unwrap();
        StoredHead::decode(&bytes).unwrap()
    }

    #[test]
    fn there_and_back() {
        let forms = Forms { id: [7; 16], codings: [Coding::Br, Coding::Gzip].into_iter().collect() };
        let of = head(Kind::Whole, &forms.bytes());
        assert_eq!(Forms::of(&of), Some(forms));
        let form = StoredHead::decode(&forms.head(Coding::Br, &of).unwrap()).unwrap();
        assert_eq!((form.kind, &form.pieces()[..]), (Kind::Form, &forms.mark(Coding::Br)[..]));
        // A form has no forms, and what has no codings that are known has none either.
        assert_eq!(Forms::of(&form), None);
        for marks in [&[][..], &[7; 15], &[7; 16], &[9; 20]] {
            assert_eq!(Forms::of(&head(Kind::Whole, marks)), None, "{marks:?}");
        }
    }

    #[test]
    fn each_has_a_place_of_its_own() {
        let name = Name::from_primary(b"name");
        let mut places = vec![name.place()];
        let store: Storage = std::sync::Arc::new(tinaja_store::Reference::new());
        let forms = Forms { id: [7; 16], codings: Codings::NONE };
        for variant in [None, Some([0; 16]), Some([1; 16])] {
            places.extend(Coding::ALL.map(|coding| form_place(&store, &name, (&facts(variant), &forms), coding)));
        }
        for (number, place) in places.iter().enumerate() {
            assert!(!places[..number].contains(place), "{number}");
        }
    }
}
