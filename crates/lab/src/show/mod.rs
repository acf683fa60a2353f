//! Showing a report: on a terminal, as a page of documentation, as a picture; and all reports on one page.

mod html;
mod page;
mod picture;
mod text;

pub use html::{Came, Ran, html};
pub use page::{contents, page};
pub use picture::draw;
pub use text::{list, text};
