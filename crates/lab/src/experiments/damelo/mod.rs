//! Dámelo: groups of pages, loved or hated.

mod claims;
mod drive;
mod limited;
mod load;
mod micro;
mod modelled;
mod notes;
mod subject;
mod tables;
mod tree;

pub use micro::EXPERIMENT as MICRO;
