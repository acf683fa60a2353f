//! What an operator hears of a cluster. The proxy itself knows a store, and nothing of other nodes.

use std::sync::Arc;
use std::time::Duration;

use prometheus::proto::MetricFamily;
use tinaja_clock::Clock;
use tinaja_store::Pending;

use crate::metrics::gauge;

/// How long figures of the cluster are waited for; those that come later are left out.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says how the cluster is; `None` where there is none at the moment.
pub type Describe = Arc<dyn Fn() -> Pending<Option<serde_json::Value>> + Send + Sync>;

/// The other nodes, as figures: zeros where this process is no node at the moment, so that an alert sees it. There are none where no cluster is
/// configured, and where the node does not answer within a second: what is not known is not said.
pub(crate) async fn families(describe: Option<&Describe>, clock: &Clock) -> Vec<MetricFamily> {
    let Some(describe) = describe else { return Vec::new() };
    match clock.timeout(PATIENCE, describe()).await {
        Ok(status) => figures(&status.unwrap_or_default()),
        Err(_) => Vec::new(),
    }
}

fn figures(status: &serde_json::Value) -> Vec<MetricFamily> {
    let list = |name: &str| status.get(name).and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
    let is = |node: &serde_json::Value, what: &str| node.get(what).and_then(serde_json::Value::as_bool) == Some(true);
    let (nodes, refused) = (list("peers"), list("refused"));
    let one_sided = nodes.iter().filter(|node| is(node, "one_sided")).count();
    let connected = nodes.iter().filter(|node| is(node, "is_up")).count();
    vec![
        gauge("tinaja_cluster_nodes", "Other nodes that belong to the cluster.", nodes.len() as f64),
        gauge("tinaja_cluster_connected_nodes", "Those of them to which there is a connection.", connected as f64),
        gauge("tinaja_cluster_one_sided_nodes", "Those whose memory is read without their help.", one_sided as f64),
        gauge(
            "tinaja_cluster_refused_nodes",
            "Nodes that are there and do not go with this one.",
            refused.len() as f64,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(families: &[MetricFamily]) -> Vec<f64> {
        families.iter().map(|family| family.get_metric()[0].get_gauge().get_value()).collect()
    }

    /// A server that could not join its cluster, or has left it, has zeros; one without a cluster, and one whose node hangs, has none.
    #[tokio::test(start_paused = true)]
    async fn without_a_node_there_are_zeros() {
        let clock = Clock::system();
        let alone: Describe = Arc::new(|| Box::pin(async { None }));
        assert_eq!(values(&families(Some(&alone), &clock).await), [0.0; 4]);
        let hangs: Describe = Arc::new(|| Box::pin(std::future::pending()));
        assert!(families(Some(&hangs), &clock).await.is_empty());
        assert!(families(None, &clock).await.is_empty());
    }

    #[test]
    fn other_nodes_are_counted() {
        let said = |status: serde_json::Value| values(&figures(&status));
        let status = serde_json::json!({
            "peers": [{ "one_sided": true, "is_up": true }, { "one_sided": false, "is_up": true }, { "one_sided": false, "is_up": false }],
            "refused": [["box-9", "127.0.0.1:1", "another scheme"]],
        });
        assert_eq!(said(status), [3.0, 2.0, 1.0, 1.0]);
        assert_eq!(said(serde_json::Value::Null), [0.0; 4]);
    }
}
