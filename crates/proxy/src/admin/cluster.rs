//! What an operator hears of a cluster. The proxy itself knows a store, and nothing of other nodes.

use std::sync::Arc;

use tinaja_store::Pending;

/// Says how the cluster is; `None` where there is none at the moment.
pub type Describe = Arc<dyn Fn() -> Pending<Option<serde_json::Value>> + Send + Sync>;
