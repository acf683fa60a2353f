use super::*;

const TTL: fn(u64) -> Orders = |seconds| Orders { ttl_seconds: Some(seconds), ..Orders::default() };

fn list<T: std::str::FromStr<Err = BadPattern>>(text: &str) -> Vec<T> {
    text.split_whitespace().map(|one| one.parse().unwrap()).collect()
}

/// A rule that is told from others by its lifetime.
fn rule(ttl: u64, hosts: &str, paths: &str, statuses: &str, types: &str) -> CacheRule {
    let lists = (list(hosts), list(paths), list(statuses), list(types));
    let (hosts, paths, statuses, types) = lists;
    CacheRule { hosts, paths, statuses, types, number: ttl as usize, ..CacheRule::new(TTL(ttl)) }
}

fn regex(ttl: u64, expression: &str) -> CacheRule {
    CacheRule { paths: vec![PathPattern::Regex(expression.into())], ..rule(ttl, "", "", "", "") }
}

fn found(rules: &CacheRules, host: &str, path: &str, status: u16, media_type: &str, bytes: Option<u64>) -> Option<u64> {
    let mut response = HeaderMap::new();
    response.insert(CONTENT_TYPE, media_type.parse().unwrap());
    if let Some(bytes) = bytes {
        response.insert(CONTENT_LENGTH, bytes.into());
    }
    let status = StatusCode::from_u16(status).unwrap();
    rules.find(Seen { host, path, status, response: &response })?.orders.ttl_seconds
}

#[test]
fn the_first_that_fits_decides() {
    let sized = CacheRule { min_bytes: Some(10), max_bytes: Some(20), ..rule(6, "", "", "", "") };
    let rules = vec![
        rule(1, "a.example *.b.example", "/img/* *.iso", "", ""),
        rule(2, "", "/exact", "200 5xx", ""),
        rule(3, "", "", "", "image/* text/html"),
        regex(4, r"/v\d+/"),
        rule(5, "a.example", "", "404", ""),
        sized,
        rule(7, "[::1]", "", "", ""),
    ];
    let rules = CacheRules::new(rules).unwrap();
    for (host, path, status, media_type, bytes, expected) in [
        ("a.example", "/img/x", 200, "", None, Some(1)),
        ("a.example", "/img/x?y", 404, "", None, Some(1)),
        ("a.example", "/img", 200, "", None, None),
        ("a.example", "/x.iso?y=.zip", 200, "", None, Some(1)),
        ("a.example", "/x?y=.iso", 200, "", None, None),
        ("x.y.b.example", "/x.iso", 200, "", None, Some(1)),
        ("b.example", "/x.iso", 200, "", None, None),
        ("ab.example", "/x.iso", 200, "", None, None),
        ("c", "/exact", 200, "", None, Some(2)),
        ("c", "/exact/", 200, "", None, None),
        ("c", "/exact", 503, "image/png", None, Some(2)),
        ("c", "/exact", 404, "IMAGE/PNG", None, Some(3)),
        ("c", "/exact", 404, "text/html; charset=utf-8", None, Some(3)),
        ("c", "/exact", 404, "text/htmlx", None, None),
        ("c", "/a/v12/b", 200, "", None, Some(4)),
        ("c", "/a/v/b", 200, "", None, None),
        ("a.example", "/", 404, "", None, Some(5)),
        ("c", "/", 200, "", Some(9), None),
        ("c", "/", 200, "", Some(10), Some(6)),
        ("c", "/", 200, "", Some(20), Some(6)),
        ("c", "/", 200, "", Some(21), None),
        ("::1", "/", 200, "", None, Some(7)),
    ] {
        assert_eq!(
            found(&rules, host, path, status, media_type, bytes),
            expected,
            "{host} {path} {status} {media_type}"
        );
    }
    assert_eq!(rules.len(), 7);
    assert_eq!(found(&CacheRules::default(), "a", "/", 200, "", None), None);
}

#[test]
fn rules_that_make_no_sense() {
    use BadCacheRule::{Idle, Lifetime, Lifetimes, Never, NeverFits, Sizes, Urls};
    let orders = |orders| CacheRule::new(orders);
    let never = Orders { store: Storing::Never, ..Orders::default() };
    let overriding = |one| Orders { overrides: [one].into_iter().collect(), ..Orders::default() };
    let any = || rule(1, "", "", "", "");
    let one = String::from("cache rule 1");
    let bounds = |least, most| CacheRule { min_bytes: Some(least), max_bytes: Some(most), ..any() };
    let huge = format!("(a{{1,200}}){{1,{}}}", 200);
    for (rules, at, why) in [
        (vec![orders(Orders { min_seconds: 2, max_seconds: 1, ..Orders::default() })], 0, Lifetimes),
        (vec![orders(Orders { min_seconds: 200, ..TTL(100) })], 0, Lifetime),
        (vec![orders(Orders { max_seconds: 50, ..TTL(100) })], 0, Lifetime),
        (vec![orders(Orders { store: Storing::Never, ..TTL(100) })], 0, Never),
        (vec![orders(Orders { ignores_reload: true, ..never })], 0, Never),
        (vec![orders(overriding(Override::Lifetime))], 0, Idle("lifetime", "ttl")),
        (vec![orders(overriding(Override::Status))], 0, Idle("status", "ttl")),
        (vec![orders(overriding(Override::MustRevalidate))], 0, Idle("must-revalidate", "grace")),
        (vec![bounds(2, 1)], 0, Sizes),
        (vec![any(), any()], 1, NeverFits(one.clone())),
        (vec![any(), rule(2, "a", "/b*", "", "")], 1, NeverFits(one.clone())),
        (vec![rule(1, "*.a b", "", "", ""), rule(2, "x.a b", "/c", "", "")], 1, NeverFits(one.clone())),
        (vec![rule(1, "*.a", "", "", ""), rule(2, "*.x.a", "", "", "")], 1, NeverFits(one.clone())),
        (vec![rule(1, "", "/a*", "", ""), rule(2, "", "/ab* /a", "200", "")], 1, NeverFits(one.clone())),
        (vec![rule(1, "", "*.c", "", ""), rule(2, "", "*b.c /x.c", "", "")], 1, NeverFits(one.clone())),
        (vec![rule(1, "", "", "2xx 404", ""), rule(2, "", "", "204 404", "")], 1, NeverFits(one.clone())),
        (vec![rule(1, "", "", "", "image/*"), rule(2, "", "", "", "image/png")], 1, NeverFits(one.clone())),
        (vec![regex(1, "a+"), regex(2, "a+")], 1, NeverFits(one.clone())),
        (vec![bounds(1, 9), bounds(2, 8)], 1, NeverFits(one)),
        (vec![regex(1, &huge)], 0, Urls(BadUrls::RegexTooLarge(huge.clone()))),
    ] {
        assert_eq!(CacheRules::new(rules.clone()).unwrap_err(), BadCacheRules { at, why }, "{rules:?}");
    }
    let error = CacheRules::new(vec![regex(1, "a("), any()]).unwrap_err().to_string();
    assert!(error.contains("\"a(\" is not a regular expression: unclosed group"), "{error}");
    let error = CacheRules::new(vec![regex(1, &"ab".repeat(100_000))]).unwrap_err().to_string();
    assert!(error.len() < 250 && error.contains("ab...\" is too large"), "{error}");
    let many: Vec<CacheRule> = (0..1000).map(|number| regex(1, &format!("{number}(a{{1,40}}){{1,9}}"))).collect();
    assert_eq!(CacheRules::new(many).err().map(|error| error.why), Some(BadCacheRule::Urls(BadUrls::PathsTooLarge)));
}

#[test]
fn rules_that_overlap_and_still_fit() {
    for (one, other) in [
        (rule(1, "*.a", "", "", ""), rule(2, "a", "", "", "")),
        (rule(1, "a", "", "", ""), rule(2, "a b", "", "", "")),
        (rule(1, "", "/ab*", "", ""), rule(2, "", "/a*", "", "")),
        (rule(1, "", "", "200", ""), rule(2, "", "", "2xx", "")),
        (rule(1, "", "", "", "image/png"), rule(2, "", "", "", "")),
        (CacheRule { min_bytes: Some(0), ..rule(1, "", "", "", "") }, rule(2, "", "", "", "")),
    ] {
        assert_eq!(CacheRules::new(vec![one, other]).unwrap().len(), 2);
    }
}

#[test]
fn patterns_are_read_or_refused() {
    for text in ["a.example", "*.a.example", "192.0.2.1", "::1", "[::1]", "A.Example"] {
        text.parse::<HostPattern>().unwrap();
    }
    for text in ["", "a:80", "*", "*.", "a/b", "http://a", "*.*.a", "a*"] {
        assert!(text.parse::<HostPattern>().unwrap_err().to_string().contains("*.example.org"), "{text}");
    }
    for text in ["/", "/a", "/a*", "/*", "*.iso", "*b"] {
        text.parse::<PathPattern>().unwrap();
    }
    for text in ["", "a", "*", "*a*", "/a*b", "/a?b", "a*", "/ä", "/a b", "/a#"] {
        assert!(text.parse::<PathPattern>().unwrap_err().to_string().contains("path_regex"), "{text}");
    }
    for text in ["", "99", "100", "600", "+200", "2x", "1xx", "6xx", "xx", "+2xx"] {
        assert!(text.parse::<StatusPattern>().unwrap_err().to_string().contains("4xx"), "{text}");
    }
    for text in ["", "text", "*/*", "text/", "/html", "a b/c"] {
        assert!(text.parse::<TypePattern>().unwrap_err().to_string().contains("image/*"), "{text}");
    }
}

/// What each path of a mirror is, by its shape; and nothing on hosts that are not listed.
#[test]
fn packages() {
    let mut rules = Preset::Packages.rules(&list("mirror.example"));
    rules.iter_mut().for_each(|rule| rule.number = 1);
    let rules = CacheRules::new(rules).unwrap();
    assert_eq!(rules.len(), 1);
    let orders = |host: &str, path: &str, status| {
        let response = HeaderMap::new();
        let status = StatusCode::from_u16(status).unwrap();
        rules.find(Seen { host, path, status, response: &response }).map(|rule| rule.orders)
    };
    for path in [
        "/debian/pool/main/h/hello/hello_2.10-3_amd64.deb",
        "/debian/pool/main/h/hello/hello_2.10.orig.tar.xz",
        "/debian/dists/bookworm/main/binary-amd64/by-hash/SHA256/0123456789abcdef",
        "/packages/ab/cd/six-1.16.0-py2.py3-none-any.whl",
        "/packages/ab/cd/six-1.16.0-py2.py3-none-any.whl.metadata",
        "/packages/ab/cd/six-1.16.0.tar.gz",
        "/crates/serde/serde-1.0.0.crate",
        "/api/v1/crates/serde/1.0.0/download",
        "/lodash/-/lodash-4.17.21.tgz",
        "/@types/node/-/node-20.0.0.tgz",
        "/v2/library/debian/blobs/sha256:0123456789abcdef",
        "/golang.org/x/text/@v/v0.3.0.zip",
        "/golang.org/x/text/@v/v0.3.0.mod",
        "/golang.org/x/text/@v/v0.3.0.info",
    ] {
        let kept = orders("mirror.example", path, 200).unwrap();
        assert!(kept.ttl_seconds.is_some() && kept.ignores_reload && kept.overrides.is_empty(), "{path}");
        assert_eq!(orders("other.example", path, 200), None, "{path}");
        assert!(orders("mirror.example", path, 404).is_none_or(|orders| orders.ttl_seconds.is_none()), "{path}");
    }
    for path in [
        "/debian/dists/bookworm/InRelease",
        "/debian/dists/bookworm/main/binary-amd64/Packages.xz",
        "/flat/Release",
        "/flat/./Packages",
        "/flat/Packages.gz",
        "/simple/six/",
        "/mirror/pypi/simple/six/",
        "/config.json",
        "/se/rd/serde",
        "/3/l/log",
        "/1/a",
        "/golang.org/x/text/@v/list",
        "/golang.org/x/text/@latest",
        "/v2/library/debian/manifests/latest",
        "/v2/library/debian/tags/list",
    ] {
        let validated = orders("mirror.example", path, 200).unwrap();
        assert_eq!(
            (validated.max_seconds, validated.grace_seconds, validated.ignores_reload),
            (0, Some(0), false),
            "{path}"
        );
    }
    for path in ["/", "/backup.tgz", "/six-1.16.0.tar.gz", "/lodash", "/hello.deb", "/v2/", "/blobs/sha256:ab"] {
        assert_eq!(orders("mirror.example", path, 200), None, "{path}");
    }
}

#[test]
fn rules_are_equal_by_what_they_say() {
    let rules = |ttl| CacheRules::new(vec![rule(ttl, "a", "", "", "")]).unwrap();
    assert_eq!(rules(1), rules(1));
    assert_ne!(rules(1), rules(2));
    assert_ne!(rules(1), CacheRules::default());
    assert!(!rules(1).may_ignore_reload() && !CacheRules::default().may_ignore_reload());
}

/// The matcher against reading one rule after the other; and no rule is refused that could have fitted.
#[test]
fn one_matcher_finds_what_a_walk_finds() {
    const HOSTS: [&str; 6] = ["a", "b.a", "c.b.a", "x", "*.a", "*.b.a"];
    const PATHS: [&str; 8] = ["/", "/a", "/a*", "/ab*", "*b", "*ab", "/*", "/ab"];
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        // The numbers of Knuth's MMIX; the upper half is random enough.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let host_fits = |pattern: &str, host: &str| match pattern.strip_prefix('*') {
        Some(domain) => host.ends_with(domain),
        None => host == pattern,
    };
    let path_fits = |pattern: &str, path: &str| match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(start), _) => path.starts_with(start),
        (_, Some(end)) => path.ends_with(end),
        _ => path == pattern,
    };
    let asked: Vec<(&str, &str)> = ["a", "b.a", "c.b.a", "d.c.b.a", "x", "y"]
        .into_iter()
        .flat_map(|host| ["/", "/a", "/ab", "/abab", "/b", "/cab", "/c"].map(|path| (host, path)))
        .collect();
    let (mut refused, mut kept) = (0, 0);
    for _ in 0..200 {
        let mut rules: Vec<(CacheRule, Vec<&str>, Vec<&str>)> = Vec::new();
        for number in 1..=8 {
            let hosts: Vec<&str> = (0..draw(3)).map(|_| HOSTS[draw(HOSTS.len())]).collect();
            let paths: Vec<&str> = (0..draw(3)).map(|_| PATHS[draw(PATHS.len())]).collect();
            let rule = rule(number, &hosts.join(" "), &paths.join(" "), "", "");
            let walk = |host: &str, path: &str, rules: &[(CacheRule, Vec<&str>, Vec<&str>)]| {
                let fits = |(_, hosts, paths): &&(CacheRule, Vec<&str>, Vec<&str>)| {
                    (hosts.is_empty() || hosts.iter().any(|pattern| host_fits(pattern, host)))
                        && (paths.is_empty() || paths.iter().any(|pattern| path_fits(pattern, path)))
                };
                rules.iter().find(fits).map(|(rule, ..)| rule.number as u64)
            };
            rules.push((rule, hosts, paths));
            let made = CacheRules::new(rules.iter().map(|(rule, ..)| rule.clone()).collect());
            for (host, path) in &asked {
                let expected = walk(host, path, &rules);
                match &made {
                    Ok(made) => assert_eq!(found(made, host, path, 200, "", None), expected, "{host} {path} {rules:?}"),
                    Err(_) => assert_ne!(expected, Some(number), "{host} {path}: refused, and fits: {rules:?}"),
                }
            }
            if made.is_err() {
                rules.pop();
                refused += 1;
            } else {
                kept += 1;
            }
        }
    }
    assert!(refused > 100 && kept > 100, "{refused} and {kept}");
}
