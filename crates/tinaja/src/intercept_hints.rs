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

/// What marks packets for tproxy, one bit of a mark whose other bits are left as they are, and the number of the table by which packets
/// with it stay on this machine.
const MARK: &str = "0x1000/0x1000";
const SET_MARK: &str = "meta mark set meta mark or 0x1000";
const TABLE: &str = "116";
/// Kinds of addresses that are no server's elsewhere.
const HERE: &str = "fib daddr type { local, broadcast, multicast } accept";
/// And those of private networks: what goes there is between an operator's own machines, and most of it the proxy would refuse.
const PRIVATE: [&str; 2] = [
    "ip daddr { 10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16 } accept",
    "ip6 daddr { fc00::/7, fe80::/10 } accept",
];

/// Print the script for the listeners of a configuration file.
///
/// Errors: the file makes no sense, has no transparent listener, neither interfaces nor a user are named, no listener takes the
/// connections that come in by the interfaces, or the name of one or of the user is none.
pub fn intercept_hints(flags: InterceptHints) -> Result<()> {
    let listeners = settings::listeners(&flags.config)?;
    let whose = Whose { from: &flags.from, user: flags.user.as_deref() };
    let text = script(&listeners, whose, &flags.config.display().to_string())?;
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Whose connections are sent to the proxy.
#[derive(Clone, Copy, Debug)]
struct Whose<'a> {
    /// Those that come in by these interfaces.
    from: &'a [String],
    /// And those of this machine's own programs, but those of this user.
    user: Option<&'a str>,
}

impl Whose<'_> {
    /// Errors: nobody's, or a name that is none.
    fn check(self) -> Result<()> {
        if self.from.is_empty() && self.user.is_none() {
            bail!(
                "whose connections? Say --from INTERFACE, once for each interface behind which clients are (what comes in by others, \
                 as from the Internet, is left alone), or --user NAME for this machine's own programs, or both"
            );
        }
        if let Some(interface) = self.from.iter().find(|interface| !is_name(interface, 15)) {
            bail!("{interface:?} is not the name of an interface; `ip link` shows them");
        }
        if let Some(user) = self.user.filter(|user| !is_name(user, 64)) {
            bail!("{user:?} is not the name or number of a user");
        }
        Ok(())
    }

    /// A rule that ends a chain for what comes in by any interface but those, and one more.
    fn not_from(self, more: Option<&str>) -> String {
        let all = self.from.iter().map(String::as_str).chain(more);
        let quoted: Vec<String> = all.map(|interface| format!("\"{interface}\"")).collect();
        format!("iifname != {{ {} }} accept", quoted.join(", "))
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
        format!("meta nfproto {} tcp dport {{ 80, 443 }}", self.protocol())
    }

    fn protocol(self) -> &'static str {
        if self.version == "ip" { "ipv4" } else { "ipv6" }
    }

    /// Whether connections of other machines come to it: by a redirect, a listener on loopback has none.
    fn takes_routed(self) -> bool {
        self.by == Diversion::Tproxy || !self.at.ip().is_loopback()
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
        format!("tproxy {} to {to} {SET_MARK} accept", self.version)
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

fn script(listeners: &[Listener], whose: Whose<'_>, file: &str) -> Result<String> {
    let (targets, left_over) = targets(listeners);
    if targets.is_empty() {
        bail!("{file} has no transparent listener: add a [[listener]] with mode = \"transparent\"");
    }
    whose.check()?;
    if !whose.from.is_empty() && !targets.iter().any(|target| target.takes_routed()) {
        bail!(
            "a redirect brings no connection of another machine to a listener on loopback: give the transparent listener in {file} \
             another address or by = \"tproxy\", or leave --from out"
        );
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
    if !whose.from.is_empty() {
        let _ = writeln!(
            text,
            "# For connections that come in by {}. Those by other interfaces are left alone.",
            whose.from.join(", ")
        );
    }
    text.push_str(match whose.user {
        Some(_) => "# For connections of this machine's own programs, but the proxy's.\n",
        None => "# For this machine's own programs, add --user with the user that the proxy runs as.\n",
    });
    text.push_str("set -e\n");
    for target in of(Diversion::Tproxy) {
        let ip = if target.version == "ip" { "ip" } else { "ip -6" };
        let _ = writeln!(text, "{ip} rule del fwmark {MARK} lookup {TABLE} 2>/dev/null || true");
        let _ = writeln!(text, "{ip} rule add fwmark {MARK} lookup {TABLE}");
        let _ = writeln!(text, "{ip} route replace local default dev lo table {TABLE}");
    }
    text.push_str("nft -f - <<'END'\ntable inet tinaja\ndelete table inet tinaja\ntable inet tinaja {\n");
    chains(&mut text, &targets, whose);
    text.push_str("}\nEND\n");
    Ok(text)
}

fn chains(text: &mut String, targets: &[Target], whose: Whose<'_>) {
    let of = |by| targets.iter().copied().filter(move |target| target.by == by);
    let mut chain = |name: &str, hook: &str, unless: Vec<String>, rules: Vec<String>| {
        if rules.is_empty() {
            return;
        }
        let _ = writeln!(text, "\tchain {name} {{\n\t\ttype {hook}; policy accept;");
        for rule in unless.into_iter().chain(rules) {
            let _ = writeln!(text, "\t\t{rule}");
        }
        text.push_str("\t}\n");
    };
    let elsewhere =
        |first: String| [&[first.as_str(), HERE], &PRIVATE[..]].concat().into_iter().map(str::to_owned).collect();
    let quic = |target: Target| format!("meta nfproto {} udp dport 443 reject", target.protocol());
    if !whose.from.is_empty() {
        let routed = of(Diversion::Redirect).filter(|target| target.takes_routed());
        let rules = routed.map(|target| format!("{} {}", target.connections(), target.redirect())).collect();
        chain("nat_router", "nat hook prerouting priority dstnat", elsewhere(whose.not_from(None)), rules);
        let unless = [&[whose.not_from(None)][..], &PRIVATE.map(str::to_owned)].concat();
        let rules = targets.iter().copied().filter(|target| target.takes_routed()).map(quic).collect();
        chain("quic_router", "filter hook forward priority filter", unless, rules);
    }
    // What this machine's own programs send comes to tproxy by loopback, with the mark.
    let not_from = whose.not_from(whose.user.map(|_| "lo"));
    let rules = of(Diversion::Tproxy).map(|target| format!("{} {}", target.connections(), target.tproxy())).collect();
    chain("mangle_router", "filter hook prerouting priority mangle", elsewhere(not_from), rules);
    let Some(user) = whose.user else { return };
    let unless = || elsewhere(format!("meta skuid \"{user}\" accept"));
    let rules =
        of(Diversion::Redirect).map(|target| format!("{} {}", target.connections(), target.redirect())).collect();
    chain("nat_own", "nat hook output priority -100", unless(), rules);
    let rules = of(Diversion::Tproxy).map(|target| format!("{} {SET_MARK}", target.connections())).collect();
    chain("mangle_own", "route hook output priority mangle", unless(), rules);
    chain("quic_own", "filter hook output priority filter", unless(), targets.iter().copied().map(quic).collect());
}

/// Whether it is safe in quotes of nftables', and of a shell's.
fn is_name(text: &str, most_bytes: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=most_bytes).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-')
}

#[cfg(test)]
#[path = "intercept_hints_tests.rs"]
mod tests;
