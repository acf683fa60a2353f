//! What a key rule makes of a URL: where its request goes, and what its answer is named.
//!
//! Whoever names anything asks here first: requests, purges, what unsafe methods make invalid, and what is explained. So no two of
//! them come to different names.

use std::sync::Arc;

use tinaja_http::authority::Authority;

use super::name::{Name, name_of};
use crate::config::{Listener, Mode};
use crate::failure::Failure;
use crate::key_rules::{FoldedHost, ReadRule};
use crate::origin::{Behind, Destination, default_port};

/// A URL for which there is a rule, as the rule leaves it.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    pub rule: Arc<ReadRule>,
    pub destination: Destination,
    /// The origins of a reverse proxy's route.
    pub behind: Option<Arc<Behind>>,
    pub host: Authority,
    pub path: String,
}

/// What the rules of a listener make of a URL whose request would go to `destination`; nothing without a rule.
///
/// Errors: no route of a reverse proxy leads to what the rule makes of it.
pub(crate) fn keyed(
    listener: &Listener,
    destination: &Destination,
    host: &Authority,
    path: &str,
) -> Result<Option<Keyed>, Failure> {
    let Some(rule) = listener.key_rules.find(host.host(), path) else { return Ok(None) };
    let settled = rule.rule.path(path).into_owned();
    let folded = rule.rule.fold_host.as_ref().map(FoldedHost::host).filter(|folded| *folded != host.host());
    let folded = folded.and_then(|folded| host.at(folded));
    let is_same = folded.is_none() && settled == path;
    let host = folded.unwrap_or_else(|| host.clone());
    let mut keyed = Keyed { rule: rule.clone(), destination: destination.clone(), behind: None, host, path: settled };
    match &listener.mode {
        Mode::Forward | Mode::Transparent(_) => keyed.destination.host = keyed.host.host().to_owned(),
        Mode::Reverse(_) if is_same => {}
        Mode::Reverse(routes) => {
            let behind = routes.find(Some(keyed.host.host()), &keyed.path)?;
            let none = || Failure::Internal("a route has lost its origins".into());
            keyed.destination = behind.upstream.destination().ok_or_else(none)?;
            keyed.behind = Some(behind.clone());
        }
    }
    Ok(Some(keyed))
}

impl Keyed {
    /// The name of what is there; `tls` is whether a reverse proxy's client comes by TLS.
    pub fn name(&self, mode: &Mode, tls: bool) -> Name {
        match &self.rule.rule.store_id {
            Some(id) => Name::of_store_id(mode, &self.destination, tls, (&id.host(), &self.host), &self.path),
            None => {
                let https = if mode.is_for_clients() { self.destination.tls } else { tls };
                let host = self.host.host_field(default_port(https));
                name_of(mode, &self.destination, tls, &host, &self.path)
            }
        }
    }
}
