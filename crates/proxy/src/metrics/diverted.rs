//! What is counted of connections that the kernel sent here.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use super::register;

/// The counters.
#[derive(Debug)]
pub(crate) struct Diverted {
    /// To port 443.
    pub tls: IntCounter,
    /// To any other port.
    pub http: IntCounter,
    /// Refused, since they were made to the listener itself.
    pub direct: IntCounter,
    /// Closed, since the kernel does not say where they were going.
    pub unknown: IntCounter,
    /// Requests whose host is not known to be at the address that their client chose.
    pub unproved: IntCounter,
}

impl Diverted {
    pub fn new(registry: &Registry) -> prometheus::Result<Diverted> {
        let all = "Connections to transparent listeners: to port 443, to other ports, refused since they were made to the listener \
                   itself, and closed since the kernel does not say where they were going.";
        let all = Opts::new("tinaja_transparent_connections_total", all);
        let all = register(registry, IntCounterVec::new(all, &["outcome"])?)?;
        let of = |outcome| all.get_metric_with_label_values(&[outcome]);
        let unproved = "Requests to transparent listeners that name a host which is not known to be at the address that their client \
                        chose: the answers are not stored.";
        let unproved = IntCounter::new("tinaja_transparent_unproved_requests_total", unproved)?;
        Ok(Diverted {
            tls: of("tls")?,
            http: of("http")?,
            direct: of("direct")?,
            unknown: of("unknown")?,
            unproved: register(registry, unproved)?,
        })
    }
}
