//! Looking into tunnels, for clients that trust a CA of the operator's.
//!
//! - `rules`, `presets`: which tunnels are opened up, which are left alone
//! - `hello`: what a client says first in its TLS; `rejections`: clients that do not trust the CA
//! - `authority`, `create`: the CA as files; `leaves`: certificates for the names that clients ask for
//!
//! # Decisions
//!
//! - Nothing is opened up unless a rule says so. Where a client names one host to the proxy and another in its TLS, whatever a
//!   rule says against opening it counts for both.
//! - Only the name that the certificate was made for is answered, and only the origin's own certificate for that name vouches for
//!   what is stored under it. So a client that lies about one of the names harms nobody else.
//! - The origin is not asked before a client's TLS ends here. A hit then costs the origin nothing, and works offline.

mod authority;
mod create;
mod hello;
mod leaves;
mod presets;
mod rejections;
mod rules;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::ServerConfig;

pub use authority::{AuthorityFacts, BadAuthority, CERTIFICATE, KEY, show};
pub use create::{CreateError, NewAuthority, create};
pub(crate) use hello::{First, MAX_HELLO_BYTES, read as read_hello};
use leaves::Leaves;
pub(crate) use leaves::NoLeaf;
pub use presets::InterceptPreset;
pub(crate) use rejections::Rejections;
pub(crate) use rules::Decision;
pub use rules::{InterceptAction, InterceptRule, InterceptRules, NeverFits, OnReject};

/// What a proxy is told of interception.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interception {
    /// The directory of the CA. Needed where a rule opens tunnels up.
    pub authority: Option<PathBuf>,
    /// Which tunnels. None by default.
    pub rules: InterceptRules,
}

/// What intercepts tunnels.
#[derive(Debug)]
pub(crate) struct Interceptor {
    pub rules: InterceptRules,
    leaves: Option<Leaves>,
}

impl Interceptor {
    /// Reads what is needed; nothing where there are no rules. A CA that is named is checked though no rule needs it yet.
    ///
    /// Errors: [`BadAuthority`].
    pub fn load(told: &Interception, now: SystemTime) -> Result<Option<Interceptor>, BadAuthority> {
        let load = |dir: &PathBuf| Leaves::load(Path::new(dir), now);
        let leaves = told.authority.as_ref().map(load).transpose()?;
        Ok((!told.rules.is_empty()).then(|| Interceptor { rules: told.rules.clone(), leaves }))
    }

    /// How to speak TLS as this name, and whether a certificate had to be made.
    ///
    /// Errors: [`NoLeaf`].
    pub fn leaf(&self, name: &str, now: SystemTime) -> Result<(Arc<ServerConfig>, bool), NoLeaf> {
        self.leaves.as_ref().ok_or_else(NoLeaf::without_authority)?.of(name, now)
    }
}

#[cfg(test)]
mod tests;
