use super::*;
use crate::routes::Routes;

fn reverse(origin: &str) -> Arc<Listener> {
    let mode = Mode::Reverse(Routes::to(origin.parse().unwrap()));
    Arc::new(Listener { mode, ..Listener::forward("127.0.0.1:80".parse().unwrap()) })
}

#[test]
fn a_url_is_found_under_the_keys_of_each_kind_of_proxy() {
    let listeners = [reverse("http://10.0.0.1:81"), reverse("http://10.0.0.1:81"), reverse("https://b")];
    let url: Url = "HTTP://A.example:80/x?y".parse().unwrap();
    let keys: Vec<String> = url.keys(&listeners).iter().map(|key| key.primary().escape_ascii().to_string()).collect();
    let expected = [
        "4:http,9:a.example,2:80,0:,4:/x?y,",
        "4:http,8:10.0.0.1,2:81,9:a.example,4:/x?y,",
        "4:http,8:10.0.0.1,2:81,17:https://a.example,4:/x?y,",
        "5:https,1:b,3:443,9:a.example,4:/x?y,",
        "5:https,1:b,3:443,17:https://a.example,4:/x?y,",
    ];
    assert_eq!(keys, expected);
    assert!(keys.iter().all(|key| url.is_of(key.as_bytes())));
    for other in ["http://a.example/x", "http://a.example:81/x?y", "http://b.example/x?y"] {
        assert!(!keys.iter().any(|key| other.parse::<Url>().unwrap().is_of(key.as_bytes())), "{other}");
    }
    // Behind something that speaks TLS for it, a reverse proxy's site is the same.
    assert!("https://a.example/x?y".parse::<Url>().unwrap().is_of(keys[1].as_bytes()));
    assert!(!"https://a.example/x?y".parse::<Url>().unwrap().is_of(keys[0].as_bytes()));
    assert!(!url.is_of(b"") && !url.is_of(b"4:http,"));
    // What has a store id is purged by that in a stopped cache, too.
    let id: Url = "http://cdn.store-id.invalid/x".parse().unwrap();
    for (site, port, is_its) in [("forward", 80, true), ("reverse/00112233aabbccdd", 80, true), ("forward", 81, false)]
    {
        let destination = Destination { tls: false, host: "cdn.store-id.invalid".into(), port };
        let name = Name::of(&destination, &format!("store-id:/{site}"), "/x");
        assert_eq!((id.is_of(name.primary()), url.is_of(name.primary())), (is_its, false), "{site} {port}");
    }
}

/// A purge names a URL as a request for it is named, and takes what was stored before there was a rule.
#[test]
fn a_url_is_found_under_the_names_of_key_rules() {
    use crate::key_rules::{KeyRule, KeyRules, Query};
    let rule = KeyRule {
        hosts: vec!["a.example".parse().unwrap()],
        query: Query::Nothing,
        fold_host: Some("b.example".parse().unwrap()),
        ..KeyRule::default()
    };
    let key_rules = KeyRules::new(vec![rule.completed()]).unwrap();
    let with = |listener: Listener| Arc::new(Listener { key_rules: key_rules.clone(), ..listener });
    let forward = with(Listener::forward("127.0.0.1:80".parse().unwrap()));
    let reverse = with((*reverse("http://10.0.0.1:81")).clone());
    let keys = |listener: &Arc<Listener>| {
        let url: Url = "http://a.example:8080/x?y".parse().unwrap();
        let keys = url.keys(std::slice::from_ref(listener));
        keys.iter().map(|key| key.primary().escape_ascii().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&forward), ["4:http,9:a.example,4:8080,0:,4:/x?y,", "4:http,9:b.example,4:8080,0:,2:/x,"]);
    assert_eq!(
        keys(&reverse)[1..],
        [
            "4:http,8:10.0.0.1,2:81,14:b.example:8080,2:/x,",
            "4:http,8:10.0.0.1,2:81,22:https://b.example:8080,2:/x,",
            "4:http,8:10.0.0.1,2:81,14:a.example:8080,4:/x?y,",
            "4:http,8:10.0.0.1,2:81,22:https://a.example:8080,4:/x?y,",
        ]
    );
}

#[test]
fn what_is_no_url() {
    for text in ["", "/x", "a.example", "ftp://a/", "http://", "http://a/ b", "http://a/\r\nX: y", "http://u@a/", "*"] {
        assert!(text.parse::<Url>().unwrap_err().to_string().contains("http://www.example.org"), "{text}");
    }
}
