//! What clients make the proxy hold.

use prometheus::proto::MetricFamily;

use super::family::{counter, gauge};
use crate::held::Held;

/// How much is held, how much may be, and who had to go for it.
pub(crate) fn families(held: &Held) -> Vec<MetricFamily> {
    vec![
        gauge("tinaja_clients_held_bytes", "Memory that clients make the proxy hold.", held.bytes() as f64),
        gauge("tinaja_clients_held_limit_bytes", "As much as they may, limits.client_memory.", held.most() as f64),
        counter(
            "tinaja_clients_let_go_connections_total",
            "Connections and streams that were ended because clients held too much: idle ones, then the slowest.",
            held.let_go(),
        ),
        counter(
            "tinaja_clients_refused_connections_total",
            "Connections and requests that were refused because clients held too much.",
            held.refused(),
        ),
    ]
}
