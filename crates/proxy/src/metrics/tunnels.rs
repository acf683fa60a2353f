//! What is counted of tunnels that rules about interception are asked about.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use super::register;

/// The counters.
#[derive(Debug)]
pub(crate) struct Tunnels {
    /// TLS ended here.
    pub intercepted: IntCounter,
    /// Left alone, since a rule says so.
    pub by_rule: IntCounter,
    /// Left alone, since their client did not accept a certificate before.
    pub after_rejection: IntCounter,
    /// Not opened, since a rule says so.
    pub refused: IntCounter,
    /// Their client did not accept the certificate.
    pub rejected: IntCounter,
    /// What was in them was no TLS, or no HTTP, and they were left alone.
    pub not_https: IntCounter,
    /// Their client's TLS failed otherwise.
    pub failed: IntCounter,
    /// Certificates that were made.
    pub made: IntCounter,
}

impl Tunnels {
    pub fn new(registry: &Registry) -> prometheus::Result<Tunnels> {
        let all = "Tunnels that rules about interception decided on, by what became of them.";
        let all = Opts::new("tinaja_intercept_tunnels_total", all);
        let all = register(registry, IntCounterVec::new(all, &["outcome"])?)?;
        let of = |outcome| all.get_metric_with_label_values(&[outcome]);
        let made = "Certificates that were made for intercepted tunnels.";
        let made = register(registry, IntCounter::new("tinaja_intercept_made_certificates_total", made)?)?;
        Ok(Tunnels {
            intercepted: of("intercepted")?,
            by_rule: of("tunnelled")?,
            after_rejection: of("tunnelled-after-rejection")?,
            refused: of("refused")?,
            rejected: of("rejected-by-client")?,
            not_https: of("not-https")?,
            failed: of("failed")?,
            made,
        })
    }
}
