use super::*;

fn id(n: u64) -> (Digest, Key) {
    let key = Key::from_name(&n.to_le_bytes());
    (Digest(*key.digest()), key)
}

const KINDS: [fn(u64) -> HotObjects; 2] = [HotObjects::new, HotObjects::yielding];

#[test]
fn the_budget_holds_and_the_least_recently_used_leave() {
    for make in KINDS {
        let hot = make(1 << 20);
        let body = Bytes::from(vec![1; 4000]);
        for n in 0..1000 {
            let (id, key) = id(n);
            hot.insert(&id, &key, b"head", (&body[..]).into(), Place(n), || true);
            assert!(hot.bytes() <= 1 << 20);
            let first = self::id(0);
            assert!(hot.get(&first.0, &first.1).is_some() || hot.taken() > 0, "used all the time");
        }
        assert!(hot.bytes() > 900_000);
        assert!(hot.get(&id(1).0, &id(1).1).is_none());
    }
}

#[test]
fn pages_name_every_object_once() {
    for make in KINDS {
        let hot = make(1 << 20);
        for n in 0..100 {
            let (id, key) = id(n);
            hot.insert(&id, &key, b"head", vec![0; n as usize].into(), Place(n), || true);
        }
        (0..100).step_by(3).for_each(|n| hot.remove(&id(n).0));
        let (mut listed, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let (page, next) = hot.page(at, 5);
            assert!(page.len() <= 5);
            listed.extend(page.into_iter().map(|object| (object.place.0, object.body_bytes, object.key)));
            from = next;
        }
        listed.sort_by_key(|(n, ..)| *n);
        let expected: Vec<_> = (0..100).filter(|n| n % 3 > 0).map(|n| (n, n, id(n).1)).collect();
        assert!(listed == expected || hot.taken() > 0);
    }
}

#[test]
fn what_is_too_large_stale_or_another_key_is_not_served() {
    for make in KINDS {
        let hot = make(1 << 20);
        let ((a, key), (_, other)) = (id(1), id(2));
        hot.insert(&a, &key, b"", vec![0; 100_000].into(), Place(0), || true);
        hot.insert(&a, &key, b"", vec![].into(), Place(0), || false);
        assert!(hot.get(&a, &key).is_none());
        hot.insert(&a, &key, b"h", b"b"[..].into(), Place(9), || true);
        assert!(hot.get(&a, &other).is_none());
        let found = hot.get(&a, &key);
        assert!(found == Some(("h".into(), "b".into(), Place(9))) || hot.taken() > 0);
        hot.remove(&a);
        assert_eq!((hot.get(&a, &key), hot.bytes()), (None, 0));
    }
}

#[test]
fn what_the_kernel_took_is_a_miss_and_its_room_is_used_again() {
    let hot = HotObjects::yielding(1 << 20);
    let body = Bytes::from(vec![5; 10_000]);
    for n in 0..50 {
        let (id, key) = id(n);
        hot.insert(&id, &key, b"head", (&body[..]).into(), Place(n), || true);
    }
    for shard in &hot.shards {
        let shard = shard.lock();
        let lent = shard.found.values().filter_map(|at| match &shard.order.get(*at)?.kept {
            Kept::Lent(lent) => Some(lent),
            Kept::Here(..) => None,
        });
        lent.for_each(|lent| shard.yielding.as_ref().unwrap().take(lent));
    }
    assert!((0..50).map(id).all(|(id, key)| hot.get(&id, &key).is_none()));
    assert_eq!((hot.taken(), hot.bytes()), (50, 0));
    let (id, key) = id(1);
    hot.insert(&id, &key, b"head", (&body[..]).into(), Place(1), || true);
    assert!(hot.get(&id, &key).is_some_and(|(_, found, _)| found == body) || hot.taken() > 50);
}
/// Slow readers of ever other objects would otherwise hold any number of bodies that have left.
#[test]
fn what_is_read_counts_until_its_last_reader_has_gone() {
    let hot = HotObjects::new(4 << 20);
    let keep = |n: u64, len: usize| {
        let (id, key) = id(n);
        hot.insert(&id, &key, b"head", vec![n as u8; len].into(), Place(n), || true);
        hot.get(&id, &key).map(|(_, body, _)| body)
    };
    let slow: Vec<_> = (0..1000).map_while(|n| keep(n, 16_000)).collect();
    assert_eq!(slow.len(), 1000, "short ones count no longer than they are here");
    let slow: Vec<_> = (0..1000).filter_map(|n| keep(n, 50_000)).collect();
    let read: usize = slow.iter().map(Bytes::len).sum();
    assert!(slow.len() > 70 && read <= 4 << 20, "{} of {read} bytes", slow.len());
    assert!(hot.bytes() <= 4 << 20);
    drop(slow);
    assert_eq!((0..1000).filter_map(|n| keep(n, 50_000)).count(), 1000);
    assert!(hot.bytes() <= 4 << 20);
    (0..1000).for_each(|n| hot.remove(&id(n).0));
    assert_eq!(hot.bytes(), 0);
}

#[test]
fn a_long_object_is_collected_when_it_is_read_again_and_within_bounds() {
    let hot = HotObjects::new(64 << 20);
    let ([a, b], long) = ([id(1).0, id(2).0], 512 << 10);
    assert!(hot.collects(&a, long).is_none() && hot.collects(&b, long).is_none(), "read once");
    let shares: Vec<_> = (0..100).map_while(|_| hot.collects(&a, long)).collect();
    assert_eq!(shares.len(), 16, "an eighth of the budget");
    drop(shares);
    assert!(hot.collects(&b, long).is_some());
    assert!(hot.collects(&b, 1 << 20).is_none(), "it would not be kept");
    let yielding = HotObjects::yielding(64 << 20);
    assert!((0..3).all(|_| yielding.collects(&a, 1000).is_none()), "each hit would be a copy of all of it");
    let none = HotObjects::new(0);
    assert!((0..3).all(|_| none.collects(&a, 1000).is_none()));
}
