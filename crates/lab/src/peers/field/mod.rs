//! The whole field side by side: six other servers and ours as reverse proxies, each with settings that are kept as files.
//!
//! - [`Product`] is one of them, and where it is found;
//! - `crates/lab/peers/` has their settings, which `settings` puts together;
//! - [`Stand`] is a file system of its own for each, or a directory for who is not root;
//! - [`Side`] is a server on a stand: started, ended, started again, and what it takes;
//! - [`Cores`] keeps them all on the same core, and the load on others;
//! - [`Connections`] is the load: one thread, up to thousands of connections, in a closed loop or at a rate, in the clear or by [`Tls`]; [`over_http2`] the
//!   same over HTTP/2;
//! - [`Floor`] is what any server does at least.

mod conf;
mod connections;
mod cores;
mod exchange;
mod floor;
mod product;
mod settings;
mod side;
mod stand;
mod streams;
mod tls;
mod wire;

pub use connections::{Connections, Pace, Wanted};
pub use cores::Cores;
pub use exchange::HOST;
pub use floor::Floor;
pub use product::Product;
pub use settings::{Pair, Room};
pub use side::{Making, Side};
pub use stand::Stand;
pub use streams::over_http2;
pub use tls::Tls;
