//! What clients make the proxy hold, and what they are refused.

use prometheus::proto::MetricFamily;

use super::family::{counter, counters, gauge};
use crate::clients::Clients;
use crate::held::Held;
use crate::quotas::Quotas;

/// How much is held, how much may be, and who had to go for it; and what one client was refused that had more than its share.
pub(crate) fn families(held: &Held, clients: &Clients, quotas: &Quotas) -> Vec<MetricFamily> {
    let mut refused = quotas.refused();
    refused.push(("connections", clients.refused()));
    vec![
        counters(
            "tinaja_client_refused_requests_total",
            "Requests of one client, and connections, that were refused with 429, by what it had too much of.",
            "reason",
            &refused,
        ),
        counter(
            "tinaja_client_uncounted_requests_total",
            "Requests and fetches that no limit for one client was applied to, since too many clients had some in progress.",
            quotas.uncounted(),
        ),
        gauge("tinaja_clients_held_bytes", "Memory that clients make the proxy hold.", held.bytes() as f64),
        gauge("tinaja_clients_held_limit_bytes", "As much as they may, limits.client_memory.", held.most() as f64),
        counter(
            "tinaja_clients_let_go_connections_total",
            "Connections and streams that were ended because clients held too much: idle ones, then the slowest.",
            held.let_go(),
        ),
        counter(
            "tinaja_clients_let_go_tunnels_total",
            "Tunnels among them: nothing had moved in them for longest.",
            held.tunnels_let_go(),
        ),
        counter(
            "tinaja_clients_refused_connections_total",
            "Connections and requests that were refused because clients held too much.",
            held.refused(),
        ),
    ]
}
