//! `tinaja intercept-hints`: the lines by which the kernel sends connections to transparent listeners.
//!
//! What is printed is a script for a shell, which a test runs as it is. It has a table of its own in nftables, and replaces that alone:
//! it can be run again, and nothing else of the machine's is touched.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _, stdout};
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, bail};
use tinaja_proxy::{Diversion, Listener};

use crate::flags::InterceptHints;
use crate::settings;

/// What marks packets for tproxy, and the number of the table by which those stay on this machine.
const MARK: &str = "0x74";
const TABLE: &str = "116";
/// Kinds of addresses that are no server's elsewhere.
const HERE: &str = "fib daddr type { local, broadcast, multicast } accept";

/// Print the script for the listeners of a configuration file.
///
/// Errors: the file makes no sense, has no transparent listener, or the user's name is none.
pub fn intercept_hints(flags: InterceptHints) -> Result<()> {
    let listeners = settings::listeners(&flags.config)?;
    let text = script(&listeners, flags.user.as_deref(), &flags.config.display().to_string())?;
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// A listener, as the one that takes the connections of one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    by: Diversion,
    at: SocketAddr,
    /// `ip` or `ip6`.
    version: &'static str,
}

impl Target {
    /// What begins a rule for its connections.
    fn connections(self) -> String {
        let protocol = if self.version == "ip" { "ipv4" } else { "ipv6" };
        format!("meta nfproto {protocol} tcp dport {{ 80, 443 }}")
    }

    /// What a rule of nat does with them.
    fn redirect(self) -> String {
        match self.at.ip() {
            ip if ip.is_unspecified() || ip.is_loopback() => format!("redirect to :{}", self.at.port()),
            _ => format!("dnat {} to {}", self.version, self.at),
        }
    }

    fn tproxy(self) -> String {
        let to = if self.at.ip().is_unspecified() { format!(":{}", self.at.port()) } else { self.at.to_string() };
        format!("tproxy {} to {to} meta mark set {MARK} accept", self.version)
    }
}

/// The listener for each version of IP: the first that takes it. Others are named.
fn targets(listeners: &[Listener]) -> (Vec<Target>, Vec<SocketAddr>) {
    let (mut targets, mut left_over) = (Vec::<Target>::new(), Vec::new());
    for listener in listeners {
        let (Some(by), at) = (listener.mode.diversion(), listener.address) else { continue };
        let versions: &[&str] = match at.ip() {
            IpAddr::V4(_) => &["ip"],
            // It takes connections by IPv4 too, unless the system says otherwise; a listener for IPv4 is before it then.
            IpAddr::V6(ip) if ip.is_unspecified() => &["ip6", "ip"],
            IpAddr::V6(_) => &["ip6"],
        };
        let before = targets.len();
        for version in versions {
            let at = match at.ip() {
                IpAddr::V6(ip) if ip.is_unspecified() && *version == "ip" => SocketAddr::from(([0; 4], at.port())),
                _ => at,
            };
            if targets.iter().all(|target| target.version != *version) {
                targets.push(Target { by, at, version });
            }
        }
        if targets.len() == before {
            left_over.push(listener.address);
        }
    }
    (targets, left_over)
}

fn script(listeners: &[Listener], user: Option<&str>, file: &str) -> Result<String> {
    let (targets, left_over) = targets(listeners);
    if targets.is_empty() {
        bail!("{file} has no transparent listener: add a [[listener]] with mode = \"transparent\"");
    }
    if let Some(user) = user.filter(|user| !is_user(user)) {
        bail!("{user:?} is not the name or number of a user");
    }
    let of = |by| targets.iter().copied().filter(move |target| target.by == by);
    let mut text = String::from(
        "#!/bin/sh
# Sends connections to ports 80 and 443 to Tinaja, and rejects QUIC (UDP port 443), so that browsers use those. Run it as root,
# at each start of the machine, and again when the listeners have changed. Made by `tinaja intercept-hints` for:
",
    );
    for target in &targets {
        let version = if target.version == "ip" { "IPv4" } else { "IPv6" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "#   {version} by {} to the listener on {}", target.by, target.at);
    }
    for address in left_over {
        let _ = writeln!(text, "#   not the listener on {address}: another one has its connections already");
    }
    text.push_str("# To undo it: nft delete table inet tinaja\n");
    if of(Diversion::Tproxy).next().is_some() {
        let _ =
            writeln!(text, "#   ip rule del fwmark {MARK} lookup {TABLE}; ip -6 rule del fwmark {MARK} lookup {TABLE}");
    }
    text.push_str(match user {
        Some(_) => "# With the connections of this machine's own programs, but the proxy's.\n",
        None => "# For those of machines behind this router. For this machine's own, add --user with the user that the proxy runs as.\n",
    });
    text.push_str("set -e\n");
    for target in of(Diversion::Tproxy) {
        let ip = if target.version == "ip" { "ip" } else { "ip -6" };
        let _ = writeln!(text, "{ip} rule del fwmark {MARK} lookup {TABLE} 2>/dev/null || true");
        let _ = writeln!(text, "{ip} rule add fwmark {MARK} lookup {TABLE}");
        let _ = writeln!(text, "{ip} route replace local default dev lo table {TABLE}");
    }
    text.push_str("nft -f - <<'END'\ntable inet tinaja\ndelete table inet tinaja\ntable inet tinaja {\n");
    chains(&mut text, &targets, user);
    text.push_str("}\nEND\n");
    Ok(text)
}

fn chains(text: &mut String, targets: &[Target], user: Option<&str>) {
    let of = |by| targets.iter().copied().filter(move |target| target.by == by);
    let mut chain = |name: &str, hook: &str, rules: Vec<String>| {
        let _ = writeln!(text, "\tchain {name} {{\n\t\ttype {hook}; policy accept;");
        for rule in rules {
            let _ = writeln!(text, "\t\t{rule}");
        }
        text.push_str("\t}\n");
    };
    let not_own = |user: &str| vec![format!("meta skuid \"{user}\" accept"), HERE.to_owned()];
    // A listener on loopback has no connections from elsewhere: they would not be let in.
    let routed: Vec<Target> = of(Diversion::Redirect).filter(|target| !target.at.ip().is_loopback()).collect();
    if !routed.is_empty() {
        let rules = routed.iter().map(|target| format!("{} {}", target.connections(), target.redirect()));
        let rules = [HERE.to_owned()].into_iter().chain(rules).collect();
        chain("nat_router", "nat hook prerouting priority dstnat", rules);
    }
    if let (Some(user), Some(_)) = (user, of(Diversion::Redirect).next()) {
        let rules = of(Diversion::Redirect).map(|target| format!("{} {}", target.connections(), target.redirect()));
        chain("nat_own", "nat hook output priority -100", not_own(user).into_iter().chain(rules).collect());
    }
    if of(Diversion::Tproxy).next().is_some() {
        let rules = of(Diversion::Tproxy).map(|target| format!("{} {}", target.connections(), target.tproxy()));
        let rules = [HERE.to_owned()].into_iter().chain(rules).collect();
        chain("mangle_router", "filter hook prerouting priority mangle", rules);
    }
    if let (Some(user), Some(_)) = (user, of(Diversion::Tproxy).next()) {
        let rules = of(Diversion::Tproxy).map(|target| format!("{} meta mark set {MARK}", target.connections()));
        chain("mangle_own", "route hook output priority mangle", not_own(user).into_iter().chain(rules).collect());
    }
    let quic = || {
        let protocol = |target: &Target| if target.version == "ip" { "ipv4" } else { "ipv6" };
        targets.iter().map(move |target| format!("meta nfproto {} udp dport 443 reject", protocol(target)))
    };
    chain("quic_router", "filter hook forward priority filter", quic().collect());
    if let Some(user) = user {
        chain("quic_own", "filter hook output priority filter", not_own(user).into_iter().chain(quic()).collect());
    }
}

/// Whether it is safe in quotes of nftables', and of a shell's.
fn is_user(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use tinaja_proxy::Mode;

    use super::*;

    fn listener(at: &str, by: Diversion) -> Listener {
        Listener { mode: Mode::Transparent(by), ..Listener::forward(at.parse().unwrap()) }
    }

    fn of(listeners: &[Listener], user: Option<&str>) -> String {
        script(listeners, user, "tinaja.toml").unwrap()
    }

    #[test]
    fn a_redirect_needs_no_marks() {
        let text =
            of(&[listener("0.0.0.0:3129", Diversion::Redirect), listener("[::]:3130", Diversion::Redirect)], None);
        for line in [
            "#   IPv4 by redirect to the listener on 0.0.0.0:3129",
            "#   IPv6 by redirect to the listener on [::]:3130",
            "\t\tmeta nfproto ipv4 tcp dport { 80, 443 } redirect to :3129",
            "\t\tmeta nfproto ipv6 tcp dport { 80, 443 } redirect to :3130",
            "\t\tmeta nfproto ipv6 udp dport 443 reject",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("ip rule") && !text.contains("skuid") && !text.contains("tproxy"), "{text}");
    }

    #[test]
    fn an_address_of_its_own_and_both_versions_at_one() {
        let text = of(&[listener("192.0.2.1:3129", Diversion::Redirect)], None);
        assert!(text.contains(" dnat ip to 192.0.2.1:3129\n") && !text.contains("ipv6"), "{text}");
        let text =
            of(&[listener("[::]:3129", Diversion::Tproxy), listener("0.0.0.0:9", Diversion::Tproxy)], Some("tinaja"));
        for line in [
            "#   not the listener on 0.0.0.0:9: another one has its connections already",
            "ip rule add fwmark 0x74 lookup 116",
            "ip -6 route replace local default dev lo table 116",
            "\t\tmeta nfproto ipv4 tcp dport { 80, 443 } tproxy ip to :3129 meta mark set 0x74 accept",
            "\t\tmeta nfproto ipv6 tcp dport { 80, 443 } meta mark set 0x74",
            "\t\tmeta skuid \"tinaja\" accept",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        // What is for this machine alone is not for others.
        let text = of(&[listener("127.0.0.1:3129", Diversion::Redirect)], Some("999"));
        assert!(!text.contains("prerouting") && text.contains("chain nat_own"), "{text}");
        let text = of(&[listener("127.0.0.1:3129", Diversion::Tproxy)], None);
        assert!(text.contains("tproxy ip to 127.0.0.1:3129 "), "{text}");
    }

    #[test]
    fn what_makes_no_sense() {
        let forward = [Listener::forward("127.0.0.1:3128".parse().unwrap())];
        assert!(script(&forward, None, "a.toml").unwrap_err().to_string().contains("mode = \"transparent\""));
        let good = [listener("0.0.0.0:3129", Diversion::Redirect)];
        for user in ["", "a b", "a\"", "-x", "a\nb", "$(id)"] {
            assert!(script(&good, Some(user), "a.toml").is_err(), "{user:?}");
        }
    }
}
