//! What an operator asks of a cache: to forget a URL, and what it holds.
//!
//! A running server is asked through a socket in the cache's directory ([`socket`]): one line of JSON each way
//! ([`words`]). A stopped cache is opened by the program itself, which then calls the same functions.

mod by;
mod cluster;
mod elsewhere;
mod named;
mod purge;
pub mod socket;
mod top;
mod upgrade;
pub mod words;

pub use crate::bans::{BadSelector, BanError, Selector, carry as carry_bans};
pub use by::ban_stopped;
pub(crate) use by::{asked_by, purge_by};
pub use cluster::Describe;
pub(crate) use cluster::families as of_cluster;
pub use named::{BadNamed, Named, What};
pub use purge::{BadUrl, PurgeError, Url, purge_stopped};
pub(crate) use purge::{purge, purge_name};
pub use top::{MOST_HOSTS, top_hosts};
pub use upgrade::Successor;
pub(crate) use upgrade::Upgrade;
