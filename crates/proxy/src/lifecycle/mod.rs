//! From start to stop: listening, serving, settings read again, and handing over to a new process.
//!
//! Each part uses those behind it:
//!
//! - `start`: what a program calls; signals
//! - `running`: serving, until it is stopped or handed over; `passing`: who serves at each step of a hand-over
//! - `server`: a proxy that listens, with all it needs
//! - `control`: the server's end of the control socket
//! - `simulated`: a proxy without sockets
//! - `explain`: what would become of a request, without carrying it out
//! - `reload`: other settings while it serves; `handover`: to a new process and from an old one

mod control;
mod explain;
mod handover;
mod passing;
mod reload;
mod running;
mod server;
#[cfg(feature = "simulated")]
mod simulated;
mod start;

pub use handover::Predecessor;
pub use reload::{Reload, ReloadError, check};
pub use server::{Server, can_listen};
#[cfg(feature = "simulated")]
pub use simulated::Simulated;
pub use start::{Service, serve};
