use tinaja_proxy::Mode;

use super::*;

fn listener(at: &str, by: Diversion) -> Listener {
    Listener { mode: Mode::Transparent(by), ..Listener::forward(at.parse().unwrap()) }
}

fn try_of(listeners: &[Listener], from: &[&str], user: Option<&str>) -> Result<String> {
    let from: Vec<String> = from.iter().map(ToString::to_string).collect();
    script(listeners, Whose { from: &from, user }, "tinaja.toml")
}

fn of(listeners: &[Listener], from: &[&str], user: Option<&str>) -> String {
    try_of(listeners, from, user).unwrap()
}

#[test]
fn a_redirect_needs_no_marks() {
    let both = [listener("0.0.0.0:3129", Diversion::Redirect), listener("[::]:3130", Diversion::Redirect)];
    let text = of(&both, &["lan", "wlan0.7"], None);
    for line in [
        "#   IPv4 by redirect to the listener on 0.0.0.0:3129",
        "#   IPv6 by redirect to the listener on [::]:3130",
        "\t\tmeta nfproto ipv4 tcp dport { 80, 443 } redirect to :3129",
        "\t\tmeta nfproto ipv6 tcp dport { 80, 443 } redirect to :3130",
        "\t\tmeta nfproto ipv6 udp dport 443 reject",
        "# For connections that come in by lan, wlan0.7. Those by other interfaces are left alone.",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("ip rule") && !text.contains("skuid") && !text.contains("tproxy"), "{text}");
    // Each chain leaves alone what comes from elsewhere, before all else.
    assert_eq!(text.matches("policy accept;\n\t\tiifname != { \"lan\", \"wlan0.7\" } accept\n").count(), 2, "{text}");
    assert_eq!((text.matches(PRIVATE[0]).count(), text.matches("chain ").count()), (2, 2), "{text}");
}

#[test]
fn an_address_of_its_own_and_both_versions_at_one() {
    let text = of(&[listener("192.0.2.1:3129", Diversion::Redirect)], &["lan"], None);
    assert!(text.contains(" dnat ip to 192.0.2.1:3129\n") && !text.contains("ipv6"), "{text}");
    let two = [listener("[::]:3129", Diversion::Tproxy), listener("0.0.0.0:9", Diversion::Tproxy)];
    let text = of(&two, &["lan"], Some("tinaja"));
    for line in [
        "#   not the listener on 0.0.0.0:9: another one has its connections already",
        "ip rule add fwmark 0x1000/0x1000 lookup 116",
        "ip -6 route replace local default dev lo table 116",
        "\t\tmeta nfproto ipv4 tcp dport { 80, 443 } tproxy ip to :3129 meta mark set meta mark or 0x1000 accept",
        "\t\tmeta nfproto ipv6 tcp dport { 80, 443 } meta mark set meta mark or 0x1000",
        "\t\tiifname != { \"lan\", \"lo\" } accept",
        "\t\tmeta skuid \"tinaja\" accept",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    // What is for this machine alone is not for others.
    let text = of(&[listener("127.0.0.1:3129", Diversion::Redirect)], &[], Some("999"));
    assert!(!text.contains("prerouting") && !text.contains("forward") && text.contains("chain nat_own"), "{text}");
    let text = of(&[listener("127.0.0.1:3129", Diversion::Tproxy)], &["lan"], None);
    assert!(text.contains("tproxy ip to 127.0.0.1:3129 ") && !text.contains("\"lo\""), "{text}");
    let text = of(&[listener("127.0.0.1:3129", Diversion::Tproxy)], &[], Some("tinaja"));
    assert!(text.contains("iifname != { \"lo\" } accept") && !text.contains("forward"), "{text}");
}

#[test]
fn what_makes_no_sense() {
    let forward = [Listener::forward("127.0.0.1:3128".parse().unwrap())];
    let why = |listeners: &[Listener], from: &[&str], user| try_of(listeners, from, user).unwrap_err().to_string();
    assert!(why(&forward, &["lan"], None).contains("mode = \"transparent\""));
    let good = [listener("0.0.0.0:3129", Diversion::Redirect)];
    assert!(why(&good, &[], None).contains("--from INTERFACE"));
    for name in ["", "a b", "a\"", "-x", "a\nb", "$(id)"] {
        assert!(why(&good, &[], Some(name)).contains("user"), "{name:?}");
        assert!(why(&good, &["lan", name], None).contains("ip link"), "{name:?}");
    }
    assert!(why(&good, &["longer-than-a-name"], None).contains("ip link"));
    let here = [listener("127.0.0.1:3129", Diversion::Redirect)];
    assert!(why(&here, &["lan"], Some("tinaja")).contains("tproxy"));
}
