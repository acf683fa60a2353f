use http::{HeaderMap, HeaderName};
use tinaja_http::message::Fields;

use super::*;

fn hosts(text: &str) -> Vec<HostPattern> {
    text.split_whitespace().map(|host| host.parse().unwrap()).collect()
}

fn rule(number: usize, hosts_: &str, paths: &str) -> KeyRule {
    let paths = paths.split_whitespace().map(|path| path.parse().unwrap()).collect();
    KeyRule { hosts: hosts(hosts_), paths, query: Query::Nothing, number, ..KeyRule::default() }
}

#[test]
fn the_first_that_fits() {
    let rules = KeyRules::new(vec![
        rule(1, "a.example", "/img/* *.iso"),
        KeyRule { paths: vec![PathPattern::Regex("^/v[0-9]+/".into())], ..rule(2, "", "") },
        rule(3, "*.example", ""),
    ])
    .unwrap();
    for (host, path, expected) in [
        ("a.example", "/img/x?y", Some(1)),
        ("a.example", "/x?y=.iso", Some(3)),
        ("b.example", "/img/x", Some(3)),
        ("example", "/v1/", Some(2)),
        ("a.example", "/v1/x.iso", Some(1)),
        ("example", "/x", None),
        ("a.example", "*", None),
    ] {
        assert_eq!(rules.find(host, path).map(|found| found.rule.number), expected, "{host} {path}");
    }
    assert_eq!((rules.len(), KeyRules::default().len()), (3, 0));
    assert!(KeyRules::default().find("a", "/").is_none() && KeyRules::default().is_empty());
    assert_eq!(KeyRules::new(vec![rule(1, "a", "/")]), KeyRules::new(vec![rule(1, "a", "/")]));
    assert_ne!(KeyRules::new(vec![rule(1, "a", "/")]), KeyRules::new(vec![rule(1, "b", "/")]));
}

#[test]
fn rules_that_never_fit() {
    for (first, second, never) in [
        (rule(1, "", ""), rule(2, "a", "/"), true),
        (rule(1, "*.a b", "/x*"), rule(2, "c.a b", "/x /xy*"), true),
        (rule(1, "*.a b", "/x*"), rule(2, "c.a d", "/x"), false),
        (rule(1, "a", ""), rule(2, "", ""), false),
        (rule(1, "*.a", ""), rule(2, "*.b.a", ""), true),
        (rule(1, "*.b.a", ""), rule(2, "*.a", ""), false),
    ] {
        let read = KeyRules::new(vec![first.clone(), second.clone()]);
        let expected = never.then(|| BadKeyRules { at: 1, why: BadKeyRule::NeverFits("key rule 1".into()) });
        assert_eq!(read.err(), expected, "{first:?} {second:?}");
    }
    let many = (0..4097).map(|number| rule(number, &format!("h{number}"), "")).collect();
    let error = KeyRules::new(many).unwrap_err();
    assert_eq!((error.at, error.why), (4096, BadKeyRule::Urls(BadUrls::TooMany)));
}

#[test]
fn hosts_of_a_fold_are_one_rules() {
    let folded =
        KeyRule { fold_host: Some("C".parse().unwrap()), query: Query::All, ..rule(1, "a *.b", "") }.completed();
    assert_eq!(folded.hosts, hosts("a *.b c"));
    let below = KeyRule { fold_host: Some("x.b".parse().unwrap()), ..rule(1, "*.b", "") };
    assert_eq!(below.clone().completed(), below);
    let rules = KeyRules::new(vec![folded]).unwrap();
    for (host, others) in [("a", vec!["c"]), ("*.x.b", vec!["c"]), ("d", vec![]), ("c", vec!["c"])] {
        assert_eq!(rules.other_hosts(&host.parse().unwrap()), others, "{host}");
    }
}

/// What counts of two requests is told apart, wherever its bytes are.
#[test]
fn additions() {
    let added = |what: &[&str], fields: &[(&'static str, &str)]| {
        let add = what.iter().map(|one| one.parse().unwrap()).collect();
        let cookies = what.iter().filter_map(|one| one.strip_prefix("cookie:").map(str::to_owned)).collect();
        let rules = KeyRules::new(vec![KeyRule { add, cookies: Some(cookies), ..rule(1, "", "") }]).unwrap();
        let mut request = Fields::default();
        for (name, value) in fields {
            request.append(HeaderName::from_static(name), *value).unwrap();
        }
        let found = rules.find("a", "/").unwrap();
        found.change(&mut request).unwrap();
        found.added(request.as_map()).unwrap()
    };
    let both = ["header:a", "cookie:b"];
    let requests: [&[(&'static str, &str)]; 8] = [
        &[],
        &[("a", "")],
        &[("a", "1")],
        &[("a", "b=1")],
        &[("cookie", "b=1")],
        &[("cookie", "b=1; b=2")],
        &[("a", "1"), ("cookie", "b=1")],
        &[("a", "1b=1")],
    ];
    let all: Vec<_> = requests.iter().map(|fields| added(&both, fields)).collect();
    for (index, one) in all.iter().enumerate() {
        assert!(!all[..index].contains(one), "{:?}", requests[index]);
    }
    assert_eq!(added(&both, &[("cookie", "x=1;b=1")]), all[4]);
    assert_eq!(added(&both, &[("cookie", "b=1"), ("connection", "cookie")]), all[0], "it is not sent on");
    // Some servers take all between quotes for one value: it is not the same as the cookie by itself.
    let two = ["cookie:b", "cookie:c"];
    assert_ne!(added(&two, &[("cookie", "c=\"x; b=1; c=y\"")]), added(&two, &[("cookie", "b=1; c=y\"")]));
    assert_ne!(added(&["cookie:b"], &[("cookie", "b=1")]), added(&["cookie:b", "cookie:c"], &[("cookie", "b=1")]));
    // What means the same of Accept-Encoding is the same.
    let encoding = |value| added(&["header:accept-encoding"], &[("accept-encoding", value)]);
    assert_eq!(encoding("gzip,br"), encoding("br, GZIP"));
    let nothing = KeyRules::new(vec![rule(1, "", "")]).unwrap();
    assert_eq!(nothing.find("a", "/").unwrap().added(&HeaderMap::new()), None);
}

/// Nodes with one name for a URL, and other rules about its fields, do not take each other's answers.
#[test]
fn what_counts_besides_the_name() {
    let counts = |rule: KeyRule| {
        let rules = KeyRules::new(vec![rule]).unwrap();
        let found = rules.find("a", "/").unwrap();
        found.counts(found.added(&HeaderMap::new()))
    };
    let plain = || rule(1, "", "");
    let words = |words: &[(&str, &str)]| {
        let words = words.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect();
        KeyRule { normalize: vec![("accept".parse().unwrap(), words)], ..plain() }
    };
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let fields = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
    let all = [
        KeyRule { cookies: list(&["a"]), ..plain() },
        KeyRule { cookies: list(&[]), ..plain() },
        KeyRule { encodings: list(&["a"]), ..plain() },
        KeyRule { encodings: list(&["a", "b"]), ..plain() },
        KeyRule { encodings: list(&["b", "a"]), ..plain() },
        KeyRule { drop_fields: fields(&["a"]), ..plain() },
        KeyRule { drop_fields: fields(&["a", "b"]), ..plain() },
        KeyRule { add: vec!["header:a".parse().unwrap()], ..plain() },
        KeyRule { add: vec!["header:b".parse().unwrap()], ..plain() },
        words(&[("a", "a")]),
        words(&[("a", "a"), ("", "b")]),
    ];
    let told: Vec<_> = all.iter().map(|rule| counts(rule.clone())).collect();
    for (index, one) in told.iter().enumerate() {
        assert!(one.is_some() && !told[..index].contains(one), "{:?}", all[index]);
        assert_eq!(counts(KeyRule { number: 2, hosts: hosts("a"), ..all[index].clone() }), *one);
    }
    assert_eq!(counts(KeyRule { drop_fields: fields(&["b", "a"]), ..plain() }), told[6]);
    // What a name says is in the name.
    assert_eq!((counts(plain()), counts(KeyRule { says_keep: true, ..rule(1, "", "") })), (None, None));
}

#[test]
fn words_are_read() {
    for text in ["", "A", "a.b", "a b", &"a".repeat(33)] {
        assert!(text.parse::<StoreId>().is_err(), "{text}");
    }
    assert_eq!("cdn-1".parse::<StoreId>().unwrap().host(), "cdn-1.store-id.invalid");
    for text in ["", "header:", "header:a b", "cookie:", "cookie:a b", "cookie:a=b", "Header:a", "a"] {
        assert!(text.parse::<Addition>().unwrap_err().to_string().contains("header:NAME"), "{text}");
    }
    for text in ["*.a", "a:80", "a b", ""] {
        assert!(text.parse::<FoldedHost>().is_err(), "{text}");
    }
    assert_eq!("[::1]".parse::<FoldedHost>().unwrap().host(), "::1");
}
