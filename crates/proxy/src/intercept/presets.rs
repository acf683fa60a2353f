//! Hosts that are best left alone, as a list that comes with Tinaja.

use std::str::FromStr;

use super::rules::{InterceptAction, InterceptRule};
use crate::cache_rules::HostPattern;

/// A list of rules by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterceptPreset {
    /// What is nobody's business, and what does not work otherwise: banks, health, and programs that know their server's
    /// certificate.
    Private,
}

impl FromStr for InterceptPreset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "private" => Ok(InterceptPreset::Private),
            _ => Err(format!("{text:?} is not a preset; use \"private\"")),
        }
    }
}

/// A start, and no more: nobody can list all banks. Each stands for itself and for all below it.
const PRIVATE: [&str; 41] = [
    // Banks and payments: top-level names that only they may have, and what many shops lead to.
    "bank",
    "insurance",
    "paypal.com",
    "stripe.com",
    "adyen.com",
    "klarna.com",
    "americanexpress.com",
    "mastercard.com",
    "visa.com",
    "wise.com",
    "revolut.com",
    "n26.com",
    "chase.com",
    "bankofamerica.com",
    "wellsfargo.com",
    "hsbc.com",
    "barclays.co.uk",
    "santander.com",
    "bnpparibas.com",
    "deutsche-bank.de",
    "commerzbank.de",
    "sparkasse.de",
    "ing.com",
    // Health.
    "hospital",
    "doctor",
    "nhs.uk",
    "mychart.org",
    "doctolib.com",
    "doctolib.de",
    "doctolib.fr",
    "healthcare.gov",
    "gematik.de",
    // Programs that take no other certificate than their server's own.
    "signal.org",
    "whatsapp.net",
    "whatsapp.com",
    "icloud.com",
    "push.apple.com",
    "mzstatic.com",
    "windowsupdate.com",
    "update.microsoft.com",
    "dropboxapi.com",
];

impl InterceptPreset {
    /// Its rule.
    pub fn rule(self) -> InterceptRule {
        let below = |name: &str| [HostPattern::Exact(name.to_owned()), HostPattern::Below(name.to_owned())];
        let InterceptPreset::Private = self;
        InterceptRule {
            action: InterceptAction::Tunnel,
            hosts: PRIVATE.iter().flat_map(|name| below(name)).collect(),
            clients: Vec::new(),
            number: 0,
            line: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_as_settings_have_them() {
        let rule = InterceptPreset::Private.rule();
        assert_eq!(rule.hosts.len(), 2 * PRIVATE.len());
        for name in PRIVATE {
            assert_eq!(name.parse(), Ok(HostPattern::Exact(name.to_owned())), "{name}");
            assert_eq!(format!("*.{name}").parse(), Ok(HostPattern::Below(name.to_owned())), "{name}");
        }
        let fits = |host: &str| rule.hosts.iter().any(|pattern| pattern.fits(host));
        assert!(fits("www.paypal.com") && fits("my.bank") && !fits("notpaypal.com") && !fits("pypi.org"));
    }
}
