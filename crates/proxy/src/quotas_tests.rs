use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn quotas(rate: u32, burst: u32, requests: u32, fetches: u32) -> (Arc<Quotas>, Instant) {
    let now = Instant::now();
    let (client_rate, client_burst, client_requests, client_fetches) = (rate, burst, requests, fetches);
    let limits = Limits { client_rate, client_burst, client_requests, client_fetches, ..Limits::default() };
    (Quotas::new(&limits, now), now)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_burst_is_spent_and_comes_back_at_its_rate() {
    let (quotas, now) = quotas(2, 5, 0, 0);
    let client = ip("192.0.2.1");
    let ask = |at: Duration| quotas.request(client, now + at).map(drop);
    let over = |retry_seconds| Err(Over { excess: Excess::Rate, retry_seconds });
    for _ in 0..5 {
        assert_eq!(ask(Duration::ZERO), Ok(()));
    }
    assert_eq!(ask(Duration::ZERO), over(1));
    assert_eq!(ask(SECOND / 2 - Duration::from_nanos(1)), over(1), "half a second is one request");
    assert_eq!((ask(SECOND / 2), ask(SECOND / 2)), (Ok(()), over(1)));
    // Those that are refused cost nothing, and no burst is larger than it is.
    assert_eq!((0..20).filter(|_| ask(100 * SECOND).is_ok()).count(), 5);
    // Its neighbour's is its own, and an address of IPv4 is one client in both of its forms.
    assert!(quotas.request(ip("192.0.2.2"), now).is_ok());
    assert_eq!(quotas.request(ip("::ffff:192.0.2.1"), now + 100 * SECOND).map(drop), over(1));
    assert_eq!(quotas.refused()[0], ("rate", 19));
}

#[test]
fn whoever_has_none_to_spare_is_told_when_it_may_come_again() {
    let (quotas, now) = quotas(1, 1, 0, 0);
    let slow = Limits { client_rate: 1, client_burst: 1, ..Limits::default() };
    assert_eq!(Quotas::new(&slow, now).interval, SECOND);
    assert!(quotas.request(ip("192.0.2.1"), now).is_ok());
    let over = quotas.request(ip("192.0.2.1"), now).map(drop).unwrap_err();
    assert_eq!(over.retry_seconds, 1);
    assert!(quotas.request(ip("192.0.2.1"), now + SECOND).is_ok());
}

#[test]
fn what_is_in_progress_counts_until_it_ends() {
    let (quotas, now) = quotas(0, 1, 2, 1);
    let client = ip("192.0.2.1");
    let one = quotas.request(client, now).unwrap();
    let two = quotas.request(client, now).unwrap();
    let over = |excess| Over { excess, retry_seconds: 1 };
    assert_eq!(quotas.request(client, now).map(drop), Err(over(Excess::Requests)));
    let fetch = quotas.fetch(client).unwrap();
    assert_eq!(quotas.fetch(client).map(drop), Err(over(Excess::Fetches)));
    assert!(quotas.fetch(ip("192.0.2.2")).is_ok());
    drop(one);
    let one = quotas.request(client, now).unwrap();
    drop((one, two, fetch));
    assert!((0..3).all(|_| quotas.request(client, now).is_ok() && quotas.fetch(client).is_ok()));
}

#[test]
fn a_network_of_ipv6_is_one_client_and_its_site_has_sixteen_times_as_much() {
    let (quotas, now) = quotas(1, 2, 2, 0);
    let held: Vec<_> = (1..3).map(|host| quotas.request(ip(&format!("2001:db8::{host}")), now).unwrap()).collect();
    assert!(quotas.request(ip("2001:db8::7"), now).is_err(), "another address of the same network");
    let more: Vec<_> = (1..16u16)
        .flat_map(|network| [(network, 1), (network, 2)])
        .map(|(network, host)| quotas.request(ip(&format!("2001:db8:0:{network:x}::{host}")), now).unwrap())
        .collect();
    let over = quotas.request(ip("2001:db8:0:ffff::1"), now).map(drop).unwrap_err();
    assert_eq!(over.excess, Excess::Requests, "the site has all that it may");
    assert!(quotas.request(ip("2001:db8:1::1"), now).is_ok(), "the next site");
    drop((held, more));
    // What the site was refused was taken of none: its networks have nothing in progress.
    let all: u32 = quotas.sets.iter().flat_map(|set| *set.lock()).map(|slot| slot.requests).sum();
    assert_eq!(all, 0);
    assert_eq!(quotas.request(ip("2001:db8:0:ffff::1"), now).map(drop).unwrap_err().excess, Excess::Rate);
    assert!(quotas.request(ip("2001:db8:0:ffff::1"), now + 2 * SECOND).is_ok());
}

/// A million addresses take no more than there is, and what is in progress stays counted meanwhile.
#[test]
fn a_flood_of_addresses_is_held_in_what_there_is() {
    let (quotas, now) = quotas(1, 1, 4, 0);
    let client = ip("192.0.2.1");
    let held: Vec<_> = (0..4u64).map(|second| quotas.request(client, now + SECOND * second as u32).unwrap()).collect();
    let flood = |number: u32| IpAddr::from((0x0a00_0000 + number).to_be_bytes());
    assert!((0..1_000_000).all(|number| quotas.request(flood(number), now + 9 * SECOND).is_ok()));
    let over = quotas.request(client, now + 99 * SECOND).map(drop).unwrap_err();
    assert_eq!(over.excess, Excess::Requests);
    drop(held);
    let bytes = quotas.sets.len() * size_of::<Mutex<[Slot; WAYS]>>();
    println!("{bytes} bytes for {} clients", quotas.sets.len() * WAYS);
    assert!(bytes <= 2_300_000 && quotas.sets.capacity() == SETS, "{bytes} bytes");
}

/// So many clients that each set is full, by whatever secret they are shared out: of 200,000 one set in a run of four had a place left.
#[test]
fn where_all_have_something_in_progress_more_is_let_through_and_counted() {
    let (quotas, now) = quotas(0, 1, 1, 0);
    let all: Vec<_> =
        (0..500_000u32).map(|number| quotas.request(IpAddr::from(number.to_be_bytes()), now).unwrap()).collect();
    let held = all.iter().filter(|taken| taken.of.is_some()).count();
    assert_eq!(held, SETS * WAYS);
    assert_eq!(quotas.uncounted() as usize, all.len() - held);
    drop(all);
    assert!(quotas.sets.iter().all(|set| set.lock().iter().all(|slot| slot.requests == 0)));
}

#[test]
fn where_nobody_is_limited_nothing_is_held() {
    let (quotas, now) = quotas(0, 100, 0, 0);
    assert_eq!(quotas.sets.capacity(), 0);
    assert!((0..1000).all(|_| quotas.request(ip("192.0.2.1"), now).is_ok() && quotas.fetch(ip("192.0.2.1")).is_ok()));
}

#[test]
fn what_goes_on_is_counted_and_never_refused() {
    let (quotas, _) = quotas(0, 0, 0, 2);
    let client = ip("192.0.2.1");
    let first = quotas.fetch(client).unwrap();
    let rest = [quotas.fetch_on(client), quotas.fetch_on(client)];
    assert_eq!(quotas.fetch(client).map(drop), Err(Over { excess: Excess::Fetches, retry_seconds: 1 }));
    drop((first, rest));
    assert!(quotas.fetch(client).is_ok());
    assert_eq!(quotas.refused()[2], ("fetches", 1));
}
