//! What stands in the store: names, heads, and which variants a URL has.
//!
//! An object is found under its URL, or, where its origin's answers vary, a small family object is: it says by which
//! fields of a request they vary, and each variant is found under the URL and the values of those fields. So no
//! variant's leaving loses the others. Where only pieces of an object came, each is an object, and the one under the
//! URL, or the variant's, lists them. `docs/formats/heads.md` draws the bytes.
//!
//! Of some objects there are encoded forms, each an object of its own (`forms`). None of them is of use without the object that it was
//! made of, which alone says whether it may be served.
//!
//! A part of an object is stored as it comes. If a client then wants more, one request with If-Range brings what is missing
//! (`exchange/parts`).

mod facts;
mod family;
mod find;
mod forms;
mod head;
mod keyed;
mod name;
mod old_head;
mod pieces;
mod prepared;

pub(crate) use facts::Facts;
pub(crate) use family::Families;
pub(crate) use find::{Found, Looked, family, find, find_piece, verdict};
pub(crate) use forms::{Form, Forms, find_form, form_place};
pub(crate) use head::{Kind, StoredHead};
pub(crate) use keyed::{Keyed, keyed};
pub(crate) use name::{Name, is_store_id, name_of, parts_of, site};
pub(crate) use pieces::{Piece, PieceList};
pub(crate) use prepared::Prepared;
