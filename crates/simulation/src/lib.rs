//! The proxy over its store in a simulated world, where one seed decides everything.
//!
//! Time goes on only when nobody has anything to do, so an hour takes as long as what happens in it. All runs on one thread at
//! a time: the proxy's tasks on a runtime of one thread, and the store's threads one after the other, each until it sleeps or
//! waits. The disk, the network, origins and clients are simulated, and fail as the seed says. What clients are answered is
//! judged by an oracle that knows which version of what was true when. Purges are written to real files, which do not fail.
//!
//! - [`run`]: one seed from its beginning to its end; [`Plan`]: what a seed decides
//! - `house`: time and threads; `machine`: a clock that somebody sets; `disk`, `network`: what fails; `frames`: whose head a server sends where; `origin`, `client`: who speaks
//! - `oracle`: what an answer may be; `objects`: bodies that name their version
//! - [`Canary`]: bugs planted on purpose, which it must find
//!
//! The same seed gives the same events, to the last one: [`Report::hash`].

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "it is a test, which ends where something is wrong"
)]

mod canary;
mod client;
mod disk;
mod events;
mod frames;
mod house;
mod load;
mod machine;
mod network;
mod objects;
mod oracle;
mod origin;
mod panics;
mod plan;
mod random;
mod run;
mod server;
mod site;

pub use canary::Canary;
pub use plan::Plan;
pub use run::{Report, run};
