//! What other proxies of the same cache were asked before an origin.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use super::register;

/// The counters.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// It gave an origin's answer, fetched by itself or stored.
    pub answered: IntCounter,
    /// It gave none, or could not be reached.
    pub failed: IntCounter,
}

impl Neighbours {
    pub fn new(registry: &Registry) -> prometheus::Result<Neighbours> {
        let help = "Requests to other nodes of the cluster for objects on their disks, by what came of it.";
        let asked = IntCounterVec::new(Opts::new("tinaja_neighbour_requests_total", help), &["result"])?;
        let asked = register(registry, asked)?;
        let of = |result| asked.get_metric_with_label_values(&[result]);
        Ok(Neighbours { answered: of("answered")?, failed: of("failed")? })
    }
}
