//! What each listener goes by at this moment: its routes, rules and certificates.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;

use crate::config::Listener;
use crate::errors::ServeError;
use crate::intercept::{Interception, Interceptor};
use crate::tls::Tls;

/// What one listener goes by.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub listener: Arc<Listener>,
    /// How clients are spoken to, if not in the clear.
    pub tls: Option<Arc<Tls>>,
    /// What looks into tunnels, if any is looked into.
    pub interceptor: Option<Arc<Interceptor>>,
}

/// What all listeners go by, in their order. There are always as many as at the start.
#[derive(Debug)]
pub(crate) struct Current(RwLock<Vec<Serving>>);

impl Current {
    /// Loads what the listeners need. Certificates must be valid `now`.
    ///
    /// Errors: [`ServeError::Certificate`], [`ServeError::Authority`].
    pub fn load(listeners: &[Listener], now: SystemTime) -> Result<Current, ServeError> {
        // Listeners that are told the same share what they make.
        let mut loaded: Vec<(&Interception, Option<Arc<Interceptor>>)> = Vec::new();
        let mut all = Vec::new();
        for listener in listeners {
            let told = &listener.interception;
            let interceptor = match loaded.iter().find(|(one, _)| *one == told) {
                Some((_, interceptor)) => interceptor.clone(),
                None => Interceptor::load(told, now)?.map(Arc::new),
            };
            loaded.push((told, interceptor.clone()));
            let interceptor = interceptor.filter(|_| listener.mode.is_for_clients());
            all.push(Serving { interceptor, ..serving(listener, now)? });
        }
        Ok(Current(RwLock::new(all)))
    }

    /// What one listener goes by now.
    pub fn of(&self, index: usize) -> Option<Serving> {
        self.0.read().get(index).cloned()
    }

    /// What `read` finds of what one listener goes by now, at less cost.
    pub fn with<T>(&self, index: usize, read: impl FnOnce(&Listener) -> T) -> Option<T> {
        self.0.read().get(index).map(|serving| read(&serving.listener))
    }

    /// Has all go by these from now on.
    pub fn exchange(&self, fresh: Current) {
        *self.0.write() = fresh.0.into_inner();
    }

    /// Whether no listener asks origins.
    pub fn is_offline(&self) -> bool {
        self.0.read().iter().all(|serving| serving.listener.offline)
    }

    /// What all go by now.
    pub fn listeners(&self) -> Vec<Arc<Listener>> {
        self.0.read().iter().map(|serving| serving.listener.clone()).collect()
    }
}

fn serving(listener: &Listener, now: SystemTime) -> Result<Serving, ServeError> {
    let tls = Tls::load(&listener.certificates, now);
    let tls = tls.map_err(|cause| ServeError::Certificate { address: listener.address, cause })?;
    Ok(Serving { listener: Arc::new(listener.clone()), tls: tls.map(Arc::new), interceptor: None })
}
