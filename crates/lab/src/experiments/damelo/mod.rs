//! Dámelo: groups of pages, loved or hated.

mod claims;
mod drive;
mod limited;
mod load;
mod micro;
mod modelled;
mod notes;
mod proxy;
mod subject;
mod tables;
mod tree;

pub use micro::EXPERIMENT as MICRO;
pub use proxy::EXPERIMENT as PROXY;
