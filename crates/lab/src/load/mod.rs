//! Loads: requests from generators and from logs, and the driver that puts them to a rig.

mod changes;
mod days;
mod drive;
mod grouping;
mod hosts;
mod polymix;
mod sites;
mod sizes;
mod trace;

use std::time::Duration;

pub use changes::{Changes, Phase, SCANNED};
pub use days::{Days, DaysOptions};
pub use drive::{Drive, Outcome, drive};
pub use grouping::{Endings, Grouping};
pub use hosts::{Hosts, HostsOptions};
pub use polymix::{Embedded, PolyMix, PolyMixOptions};
pub use sites::{Sites, SitesOptions};
pub use sizes::codeen_bytes;
pub use trace::{Kept, MAX_REQUESTS, Trace, read_trace, read_trace_of};
pub(crate) use trace::{next_line, open_text};

/// One request: look for the object, fetch and store it if it is not there and may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it comes, since the first one.
    pub time: Duration,
    /// What is asked for.
    pub object: u64,
    /// The size of its body.
    pub bytes: u64,
    /// How much of it is sent: all of it, or in a log less for a part, and nothing for what the client has already.
    pub sent_bytes: u64,
    /// Who asks.
    pub client: u64,
    /// The page that it is asked for on account of, if that is known.
    pub referer: Option<u64>,
    /// The host it comes from.
    pub host: u64,
    /// What kind of content it is, or from which of several logs: a number that means something to its source only.
    pub stream: u8,
    /// Whether it may be stored.
    pub cachable: bool,
}
