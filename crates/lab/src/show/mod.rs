//! Showing a report: on a terminal, as a page of documentation, as a picture.

mod page;
mod picture;
mod text;

pub use page::{contents, page};
pub use picture::draw;
pub use text::{list, text};
