use super::own::tests::having;
use super::*;

fn asked(method: &str, port: u16) -> Asked<'_> {
    Asked { client: "192.0.2.7".parse().unwrap(), method, port, upgrade: None }
}

fn check(rules: &Rules, address: &str) -> bool {
    rules.check_address(asked("GET", 80), address.parse().unwrap(), &having(&[])).is_ok()
}

#[test]
fn refused_by_default() {
    let rules = Rules::default();
    for address in [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "169.254.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.0.1",
        "198.18.0.1",
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.1",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "100::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:1::1",
        "5f00::1",
        "3fff::1",
        // Relays and servers that are nearest to the proxy.
        "192.88.99.1",
        "192.31.196.1",
        "192.175.48.6",
        "192.52.193.1",
        "2620:4f:8000::6",
        "2001:4:112::6",
        "2001:3::1",
        // Protocols, benchmarks, identifiers.
        "2001:1::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:30::1",
        "2001:1ff:ffff::1",
        "100:0:0:1::1",
        // A cloud's.
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "64:ff9b::a83f:8110",
    ] {
        assert!(!check(&rules, address), "{address}");
    }
    for address in [
        "1.1.1.1",
        "93.184.216.34",
        "172.32.0.1",
        "100.128.0.1",
        "169.253.0.1",
        "192.0.1.1",
        "192.88.98.1",
        "192.88.100.1",
        "168.63.129.15",
        "168.63.129.17",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2620:4f:8001::1",
        "2606:4700::1111",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
        "2002:101:101::1",
    ] {
        assert!(check(&rules, address), "{address}");
    }
}

#[test]
fn opened() {
    let mut rules = Rules::default();
    rules.push(Rule::allow_destination("10.0.0.0/8".parse().unwrap()));
    rules.push(Rule::allow_destination("::1".parse().unwrap()));
    rules.push(Rule::allow_connect_port(8443));
    for (address, allowed) in
        [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("64:ff9b::a01:203", true), ("::1", true), ("127.0.0.1", false)]
    {
        assert_eq!(check(&rules, address), allowed, "{address}");
    }
    assert!(rules.check_request(asked("CONNECT", 8443)).is_ok());
    // Each flag opens its own, whatever stands beside it.
    assert!(rules.check_address(asked("CONNECT", 8443), "10.1.2.3".parse().unwrap(), &having(&[])).is_ok());
    assert!(rules.check_address(asked("CONNECT", 8443), "127.0.0.1".parse().unwrap(), &having(&[])).is_err());
    assert!(rules.check_request(asked("GET", 25)).is_err());
}

#[test]
fn ports() {
    let rules = Rules::default();
    for (port, tunnel, plain) in [
        (443, true, true),
        (563, true, false),
        (80, false, true),
        (22, false, false),
        (25, false, false),
        (1024, false, false),
        (8080, false, true),
        (65535, false, true),
    ] {
        assert_eq!(rules.check_request(asked("CONNECT", port)).is_ok(), tunnel, "{port}");
        assert_eq!(rules.check_request(asked("GET", port)).is_ok(), plain, "{port}");
    }
}

#[test]
fn refusals_name_the_flag() {
    let address = "127.0.0.1".parse().unwrap();
    let denied = Rules::default().check_address(asked("GET", 80), address, &having(&[])).unwrap_err().to_string();
    assert!(denied.contains("loopback") && denied.contains("--allow-destination 127.0.0.1"), "{denied}");
    let denied = Rules::default().check_request(asked("CONNECT", 25)).unwrap_err().to_string();
    assert!(denied.contains("--allow-connect-port 25"), "{denied}");
}

fn rule(action: Action, clients: &str, methods: &str, ports: &str, destinations: &str) -> Rule {
    let networks = |text: &str| text.split_whitespace().map(|network| network.parse().unwrap()).collect();
    Rule {
        action,
        clients: networks(clients),
        methods: methods.split_whitespace().map(str::to_owned).collect(),
        ports: ports.split_whitespace().map(|ports| ports.parse().unwrap()).collect(),
        destinations: networks(destinations),
        upgrades: Vec::new(),
    }
}

#[test]
fn upgrades_are_opened_by_name() {
    use Action::{Allow, Deny};
    let about =
        |action, clients: &str| Rule { upgrades: vec!["websocket".into()], ..rule(action, clients, "", "", "") };
    let get = asked("GET", 80);
    assert_eq!(Rules::default().opens_upgrade(get, "websocket"), Ok(false));
    let broad = Rules::from(vec![rule(Allow, "", "", "", "")]);
    assert_eq!(broad.opens_upgrade(get, "websocket"), Ok(false), "it does not name it");
    let rules =
        Rules::from(vec![about(Deny, "192.0.2.7"), about(Allow, ""), rule(Deny, "198.51.100.0/24", "", "", "")]);
    let of = |client: &str| Asked { client: client.parse().unwrap(), ..get };
    assert_eq!(rules.opens_upgrade(get, "WebSocket"), Err(Denied::Rule(1)));
    assert_eq!(rules.opens_upgrade(of("192.0.2.8"), "WebSocket"), Ok(true));
    assert_eq!(rules.opens_upgrade(of("192.0.2.8"), "tcp"), Ok(false), "another protocol");
    // They are about nothing else.
    assert_eq!(rules.check_request(get), Ok(()));
    assert_eq!(rules.check_request(of("198.51.100.1")), Err(Denied::Rule(3)));
    // What stands behind the first deny that fits opens nothing.
    let late = Rules::from(vec![rule(Deny, "", "POST", "", ""), about(Allow, "")]);
    assert_eq!(late.opens_upgrade(get, "websocket"), Ok(true));
    assert_eq!(late.opens_upgrade(asked("POST", 80), "websocket"), Err(Denied::Rule(1)));
}

/// A rule for some addresses does not hide one about upgrades that stands behind it.
#[test]
fn upgrades_are_judged_again_by_address() {
    use Action::{Allow, Deny};
    let about = |action| Rule { upgrades: vec!["websocket".into()], ..rule(action, "", "", "", "") };
    let rules = Rules::from(vec![rule(Allow, "", "", "", "10.0.0.0/8"), about(Deny)]);
    let get = asked("GET", 80);
    let check = |rules: &Rules, protocols: &[&str], address: &str| {
        rules.check_upgrades(get, protocols.iter().copied(), address.parse().unwrap())
    };
    assert_eq!(rules.opens_upgrade(get, "websocket"), Ok(false), "it may be an address that is allowed");
    for (protocols, address, verdict) in [
        (&["websocket"][..], "1.1.1.1", Err(Denied::Rule(2))),
        (&["tcp", "WebSocket"], "1.1.1.1", Err(Denied::Rule(2))),
        (&["tcp"], "1.1.1.1", Ok(())),
        (&[], "1.1.1.1", Ok(())),
        // The rule before it allows all that goes there.
        (&["websocket"], "10.0.0.1", Ok(())),
    ] {
        assert_eq!(check(&rules, protocols, address), verdict, "{protocols:?} {address}");
    }
    // One that opens it for some addresses only, before one that denies it.
    let rules = Rules::from(vec![rule(Deny, "", "", "", "10.0.0.0/8"), about(Allow), rule(Deny, "", "", "", "")]);
    assert_eq!(rules.opens_upgrade(get, "websocket"), Ok(true));
    assert_eq!(check(&rules, &["websocket"], "1.1.1.1"), Ok(()));
    assert_eq!(check(&rules, &["websocket"], "10.0.0.1"), Err(Denied::Rule(1)));
}

#[test]
fn the_first_that_fits_decides() {
    use Action::{Allow, Deny};
    let rules = Rules::from(vec![
        rule(Deny, "", "", "", "203.0.114.0/24 10.0.0.0/8"),
        rule(Allow, "192.0.2.0/24", "GET HEAD", "", ""),
        rule(Allow, "192.0.2.7", "", "8000-8999", ""),
        rule(Deny, "", "", "", ""),
    ]);
    let other = Asked { client: "198.51.100.1".parse().unwrap(), ..asked("GET", 80) };
    let mapped = Asked { client: "::ffff:192.0.2.7".parse().unwrap(), ..asked("GET", 80) };
    for (asked, address, verdict) in [
        (asked("GET", 80), "1.1.1.1", None),
        (mapped, "1.1.1.1", None),
        (asked("GET", 80), "203.0.114.9", Some(1)),
        (asked("GET", 80), "64:ff9b::203.0.114.9", Some(1)),
        (asked("POST", 80), "1.1.1.1", Some(4)),
        (asked("POST", 8080), "1.1.1.1", None),
        (asked("get", 80), "1.1.1.1", Some(4)),
        (other, "1.1.1.1", Some(4)),
    ] {
        let denied = rules.check_address(asked, address.parse().unwrap(), &having(&[])).err();
        assert_eq!(denied, verdict.map(Denied::Rule), "{asked:?} {address}");
        let early = rules.check_request(asked).err();
        assert_eq!(early, verdict.filter(|number| *number != 1).map(Denied::Rule), "{asked:?} early");
    }
}

#[test]
fn only_what_is_named_is_opened() {
    use Action::{Allow, Deny};
    let address = |text: &str| text.parse().unwrap();
    // Everything for these clients: still nothing private, no tunnel to port 22.
    let broad = Rules::from(vec![rule(Allow, "192.0.2.0/24", "", "", ""), rule(Deny, "", "", "", "")]);
    assert!(broad.check_address(asked("GET", 80), address("1.1.1.1"), &having(&[])).is_ok());
    assert!(broad.check_address(asked("GET", 80), address("10.0.0.1"), &having(&[])).is_err());
    assert!(broad.check_request(asked("CONNECT", 22)).is_err());
    // A list of ports for requests opens no tunnels to them.
    let ports = Rules::from(vec![rule(Allow, "", "", "21 80", "")]);
    assert!(ports.check_request(asked("GET", 21)).is_ok());
    assert!(ports.check_request(asked("CONNECT", 80)).is_err());
    // A deny ends the reading: what stands below it opens nothing.
    let below = Rules::from(vec![
        rule(Allow, "192.0.2.7", "", "", ""),
        rule(Deny, "", "", "", "10.0.0.0/8"),
        rule(Allow, "", "", "", "10.0.0.0/8"),
    ]);
    assert!(matches!(
        below.check_address(asked("GET", 80), address("10.0.0.1"), &having(&[])),
        Err(Denied::Address { .. })
    ));
    // A port that is open at one place only.
    let one = Rules::from(vec![rule(Allow, "", "", "25", "10.0.0.1")]);
    assert!(one.check_request(asked("GET", 25)).is_ok());
    assert!(one.check_address(asked("GET", 25), address("10.0.0.1"), &having(&[])).is_ok());
    assert_eq!(one.check_address(asked("GET", 25), address("1.1.1.1"), &having(&[])), Err(Denied::PlainPort(25)));
}

#[test]
fn purging_needs_a_rule_that_names_it() {
    use Action::{Allow, Deny};
    let purge = asked("PURGE", 80);
    let refused = Err(Denied::Purge(Purging::Purge));
    let banning = Rules::from(vec![rule(Allow, "", "PURGE", "", "")]).check_purge(asked("BAN", 80));
    assert_eq!(banning, Err(Denied::Purge(Purging::Ban)), "each by its name");
    assert!(
        banning
            .unwrap_err()
            .to_string()
            .starts_with("BAN is not allowed. To allow it, add an allow rule with method BAN")
    );
    assert_eq!(Rules::from(vec![rule(Allow, "", "BAN", "", "")]).check_purge(asked("BAN", 80)), Ok(()));
    for (rules, verdict) in [
        (vec![], refused.clone()),
        (vec![rule(Allow, "192.0.2.7", "", "", "")], refused.clone()),
        (vec![rule(Allow, "", "GET", "", "")], refused.clone()),
        (vec![rule(Allow, "", "PURGE", "", "10.0.0.0/8")], refused.clone()),
        (vec![rule(Allow, "192.0.2.7", "GET PURGE", "", "")], Ok(())),
        (vec![rule(Allow, "192.0.2.8", "PURGE", "", ""), rule(Deny, "", "", "", "")], Err(Denied::Rule(2))),
        (vec![rule(Deny, "", "PURGE", "", ""), rule(Allow, "", "PURGE", "", "")], Err(Denied::Rule(1))),
    ] {
        assert_eq!(Rules::from(rules.clone()).check_purge(purge), verdict, "{rules:?}");
    }
}

#[test]
fn ports_are_read_or_refused() {
    for text in ["80", "8000-8999", "1-65535", "443-443"] {
        text.parse::<Ports>().unwrap();
    }
    for text in ["", "0", "-", "80-", "-80", "90-80", "65536", "+80", "http", "80 81", "0-80"] {
        let error = text.parse::<Ports>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")) && error.contains("8000-8999"), "{error}");
    }
}

/// Whoever asked for the machine's public address came over loopback to services that let nobody else in.
#[test]
fn the_machines_own_addresses() {
    let own = having(&["198.41.0.4", "2606:4700::77", "10.0.0.9"]);
    let verdict = |rules: &Rules, address: &str| rules.check_address(asked("GET", 80), address.parse().unwrap(), &own);
    for address in ["198.41.0.4", "::ffff:198.41.0.4", "64:ff9b::c629:4", "2002:c629:4::1", "2606:4700::77"] {
        let denied = verdict(&Rules::default(), address).unwrap_err().to_string();
        assert!(denied.contains("an address of this machine") && denied.contains("--allow-destination"), "{denied}");
    }
    assert!(verdict(&Rules::default(), "198.41.0.5").is_ok());
    // A rule that trusts the client opens none of them; one that names them does.
    let trusting = Rules::from(vec![rule(Action::Allow, "192.0.2.0/24", "", "", "")]);
    assert!(verdict(&trusting, "198.41.0.4").is_err() && verdict(&trusting, "198.41.0.5").is_ok());
    let naming = Rules::from(vec![Rule::allow_destination("198.41.0.4".parse().unwrap())]);
    assert!(verdict(&naming, "198.41.0.4").is_ok() && verdict(&naming, "2606:4700::77").is_err());
}

#[test]
fn open_proxies() {
    use crate::config::Listener;
    use Action::{Allow, Deny};
    let is_open = |address: &str, rules: Vec<Rule>| {
        Listener { rules: Rules::from(rules), ..Listener::forward(address.parse().unwrap()) }.is_open_to_all()
    };
    let mine = || rule(Allow, "192.168.0.0/16 fd00::/8", "", "", "");
    let all_else = || rule(Deny, "", "", "", "");
    for (address, rules, open) in [
        ("0.0.0.0:3128", vec![], true),
        ("[::]:3128", vec![], true),
        ("198.41.0.4:3128", vec![], true),
        ("127.0.0.1:3128", vec![], false),
        ("192.168.1.1:3128", vec![], false),
        ("0.0.0.0:3128", vec![mine(), all_else()], false),
        // All are let in that no rule keeps out.
        ("0.0.0.0:3128", vec![mine()], true),
        ("0.0.0.0:3128", vec![Rule::allow_destination("10.0.0.0/8".parse().unwrap())], true),
        ("0.0.0.0:3128", vec![rule(Deny, "203.0.113.0/24", "", "", "")], true),
        ("0.0.0.0:3128", vec![rule(Deny, "0.0.0.0/0 ::/0", "", "", "")], false),
        ("0.0.0.0:3128", vec![mine(), rule(Deny, "", "GET HEAD POST", "", "")], true),
    ] {
        assert_eq!(is_open(address, rules.clone()), open, "{address} {rules:?}");
    }
    let origin = "http://127.0.0.1:1".parse().unwrap();
    assert!(!Listener::reverse("0.0.0.0:80".parse().unwrap(), origin).is_open_to_all());
}
