use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::config::{Listener, Mode, behind};
use crate::origin::Upstream;

fn group(origins: usize, balance: Balance, fails: u32) -> Arc<Group> {
    let origins = (0..origins).map(|n| format!("http://o{n}").parse().unwrap()).collect();
    let upstream = Upstream { origins, balance, fails, tries: 9, .."http://x".parse::<Upstream>().unwrap() };
    let reach = Arc::new(Reach::anywhere(&Trust::default(), &Limits::default(), 1, Clock::system()));
    let behind = Arc::new(Behind { route: "*".into(), upstream });
    Arc::new(Group::new(behind, &HashMap::new(), reach))
}

fn first(group: &Arc<Group>, key: &str) -> String {
    let attempt = group.course(key.as_bytes()).next(true).unwrap();
    let url = attempt.backend.url.to_string();
    attempt.succeeded();
    url
}

fn fail(group: &Arc<Group>, index: usize) {
    let attempt = group.members[index].enter(group.reach.clock.now(), group.rules(), true);
    attempt.unwrap().failed(&Failure::OriginTimeout);
}

#[test]
fn the_first_that_is_up() {
    let group = group(3, Balance::First, 1);
    assert_eq!(first(&group, "a"), "http://o0");
    fail(&group, 0);
    assert_eq!(first(&group, "a"), "http://o1");
    fail(&group, 1);
    fail(&group, 2);
    assert!(group.course(b"a").next(true).is_none() && group.course(b"a").next(false).is_none());
    let text = group.none_left().to_string();
    assert!(text.contains("None of the 3 origins") && text.contains("did not answer in time"), "{text}");
}

#[test]
fn in_turn_and_without_those_that_are_out() {
    let group = group(3, Balance::RoundRobin, 1);
    let count = |n: usize| {
        let mut counts = BTreeMap::new();
        (0..n).for_each(|_| *counts.entry(first(&group, "a")).or_insert(0) += 1);
        counts.into_values().collect::<Vec<_>>()
    };
    assert_eq!(count(30), [10, 10, 10]);
    fail(&group, 1);
    assert_eq!(count(30), [15, 15]);
}

#[test]
fn each_key_to_one_and_the_others_keep_theirs() {
    let group = group(3, Balance::Hash, 1);
    let keys: Vec<String> = (0..300).map(|n| format!("/{n}")).collect();
    let before: Vec<String> = keys.iter().map(|key| first(&group, key)).collect();
    for n in 0..3 {
        let its = before.iter().filter(|url| **url == format!("http://o{n}")).count();
        assert!((60..140).contains(&its), "{its} of 300");
    }
    fail(&group, 1);
    for (key, before) in keys.iter().zip(&before) {
        let now = first(&group, key);
        assert_eq!(now == *before, before != "http://o1", "{key}");
    }
}

#[test]
fn each_origin_once_and_no_more_than_the_tries() {
    let group = group(5, Balance::First, 9);
    let mut course = group.course(b"a");
    let tried: Vec<String> =
        std::iter::from_fn(|| course.next(true)).map(|attempt| attempt.backend.url.to_string()).collect();
    assert_eq!(tried.len(), 5);
    assert!(tried.iter().enumerate().all(|(index, url)| !tried[..index].contains(url)));
    let few = Upstream { tries: 2, ..group.behind.upstream.clone() };
    let behind = Arc::new(Behind { route: "*".into(), upstream: few });
    let group = Arc::new(Group::new(behind, &HashMap::new(), group.reach.clone()));
    let mut course = group.course(b"a");
    assert_eq!(std::iter::from_fn(|| course.next(true)).count(), 2);
}

#[test]
fn one_request_tries_what_is_out_unless_it_cannot_be_repeated() {
    let mut group = group(2, Balance::First, 1);
    let behind = Behind {
        upstream: Upstream { rest: Duration::ZERO, ..group.behind.upstream.clone() },
        ..(*group.behind).clone()
    };
    group = Arc::new(Group::new(Arc::new(behind), &HashMap::new(), group.reach.clone()));
    fail(&group, 0);
    let url = |attempt: &Attempt| attempt.backend.url.to_string();
    assert_eq!(url(&group.course(b"a").next(false).unwrap()), "http://o1");
    let trial = group.course(b"a").next(true).unwrap();
    assert_eq!(url(&trial), "http://o0");
    assert_eq!(url(&group.course(b"a").next(true).unwrap()), "http://o1", "one at a time");
    drop(trial);
    assert_eq!(url(&group.course(b"a").next(true).unwrap()), "http://o0", "the trial was given up");
    fail(&group, 1);
    assert!(group.course(b"a").next(false).is_some(), "nothing else is left");
}

#[test]
fn a_reload_keeps_what_is_known_of_origins_that_stay() {
    let limits = Limits::default();
    let listener = |origins: &[&str], rest| {
        let origins = origins.iter().map(|url| url.parse().unwrap()).collect();
        let upstream = Upstream { origins, fails: 1, rest, ..Upstream::from("http://x".parse::<OriginUrl>().unwrap()) };
        let mode = Mode::Reverse(crate::routes::Routes::new(vec![], Some(upstream)).unwrap());
        Listener { mode, ..Listener::forward("127.0.0.1:1".parse().unwrap()) }
    };
    let groups = Groups::default();
    let of = |listener: &Listener| {
        groups.exchange(
            groups
                .prepare(behind(std::slice::from_ref(listener)), &Trust::default(), &limits, &Clock::system())
                .unwrap(),
        );
        groups.all()[0].clone()
    };
    let before = of(&listener(&["http://a", "http://b"], Duration::from_secs(60)));
    fail(&before, 0);
    let after = of(&listener(&["http://c", "http://b", "http://a"], Duration::from_secs(30)));
    assert_eq!(after.members.iter().map(|member| member.is_up()).collect::<Vec<_>>(), [true, true, false]);
    let gone = of(&listener(&["http://b"], Duration::from_secs(60)));
    assert_eq!(gone.members.len(), 1);
    // Requests from before the reload find their origins still.
    assert_eq!(groups.of(&before.behind, &Trust::default(), &limits, &Clock::system()).unwrap().members.len(), 2);
    assert_eq!(groups.all().len(), 1);
}
