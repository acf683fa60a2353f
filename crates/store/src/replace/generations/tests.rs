//! The policy by itself: tokens are bounded, nothing divides by zero, it learns, and it learns anew.

use super::*;

const DISK: u64 = 64 << 20;
const SEGMENT: u64 = 1 << 20;
const SIZE: u64 = 1000;

fn policy() -> Generations {
    Generations::new(DISK, SEGMENT, Value::Objects)
}

/// A full segment of objects of [`SIZE`].
fn full(log: Log, born: u64) -> Segment {
    Segment { log, born, live: (SEGMENT / SIZE) as u32, live_bytes: SEGMENT }
}

#[test]
fn records_go_by_size_and_generation() {
    let policy = policy();
    let logs: Vec<_> = [100, 5000, 10_000, 100_000, 300_000].map(|bytes| policy.log_of_new(bytes, false)).to_vec();
    assert_eq!(logs, [0, 2, 4, 6, 8].map(Log));
    assert_eq!(policy.log_of_new(100, true), Log(1), "what returns is a generation higher");
    assert_eq!([0, 1, 3].map(|hits| policy.log_of_kept(Log(2), 5000, hits)), [Log(2), Log(3), Log(3)]);
    assert_eq!(
        (policy.logs(), policy.log_of_kept(Log(8), 300_000, 3)),
        (12, Log(9)),
        "large ones have two generations"
    );
    let large = [SEGMENT, SEGMENT + 1, 99 * SEGMENT];
    assert_eq!(large.map(|bytes| policy.log_of_large(Some(bytes), false)), [8, 10, 10].map(Log));
    assert_eq!(large.map(|bytes| policy.log_of_large(Some(bytes), true)), [9, 11, 11].map(Log));
    assert_eq!(policy.log_of_large(None, false), Log(10), "where nobody knows, they are many");
    assert_eq!([8, 9, 10, 11].map(|log| policy.shape().generation(Log(log))), [0, 1, 0, 1]);
    let wide = Shape { classes: 2, generations: 3, large: 4, large_generations: 2 };
    let sizes = [1, 2, 4, 5, 16, 17, 999].map(|segments| wide.log_of_large(segments * SEGMENT, SEGMENT, 0));
    assert_eq!(sizes, [6, 8, 8, 10, 10, 12, 12].map(Log));
    assert_eq!((wide.logs(), wide.class_of_large(Log(13)), wide.class_of_large(Log(5))), (14, Some(3), None));
    for classes in 0..9 {
        for generations in 0..9 {
            let shape = Some(Shape { classes, generations, large: classes, large_generations: generations });
            let policy = Generations::with(DISK, SEGMENT, Value::Objects, Parts { shape, ..Parts::default() });
            let most = [0, 1, 5000, 100_000, u64::MAX].map(|bytes| policy.log_of_new(bytes, true).0).into_iter().max();
            assert!(usize::from(most.unwrap()) < policy.logs());
        }
    }
}

#[test]
fn tokens_are_bounded_however_much_was_saved_up() {
    let policy = policy();
    policy.stored(1 << 40);
    let worthless = Segment { live: 0, live_bytes: 0, ..full(Log(0), 0) };
    let mut kept = 0;
    while policy.keeps(&worthless, SIZE, 3) {
        kept += SIZE;
    }
    assert_eq!((kept, policy.spent()), (kept, kept));
    assert!((2 * SEGMENT - SIZE..=2 * SEGMENT).contains(&kept), "{kept}: what the bucket holds, and no more");
    for _ in 0..10_000 {
        policy.stored(SIZE);
        kept += if policy.keeps(&worthless, SIZE, 1) { SIZE } else { 0 };
    }
    assert!(kept <= 2 * SEGMENT + 9 * 10_000 * SIZE / 100, "{kept}");
}

#[test]
fn snapshots_are_paid_first() {
    let policy = policy();
    policy.stored(1 << 40);
    policy.pay(100 << 20);
    let worthless = Segment { live: 0, live_bytes: 0, ..full(Log(0), 0) };
    assert!(!policy.keeps(&worthless, SIZE, 3));
    policy.stored(20 << 20);
    assert!(!policy.keeps(&worthless, SIZE, 3), "1.8 MB were earned, and 2 are owed");
    policy.stored(20 << 20);
    assert!(policy.keeps(&worthless, SIZE, 3));
}

#[test]
fn nothing_divides_by_zero() {
    for (disk, segment) in [(0, 0), (1, 1), (1, u64::MAX), (u64::MAX, 1), (DISK, SEGMENT)] {
        for value in [Value::Objects, Value::Bytes, Value::Balanced] {
            let policy = Generations::new(disk, segment, value);
            let empty = Segment { log: Log(0), born: u64::MAX, live: 0, live_bytes: 0 };
            let odd = Segment { log: Log(255), born: 0, live: u32::MAX, live_bytes: u64::MAX };
            let large = Segment { log: policy.log_of_large(None, false), born: 0, live: 0, live_bytes: 9000 };
            policy.learn([empty, odd, large].into_iter());
            assert!(policy.victim([empty, odd, large].into_iter()).is_some());
            policy.hit(Log(255), u64::MAX);
            policy.hit(Log(0), 0);
            for bytes in [0, 1, u64::MAX] {
                policy.log_of_new(bytes, true);
                policy.keeps(&empty, bytes, 255);
                policy.stored(bytes);
                policy.pay(bytes);
            }
            policy.learn([empty, odd, large].into_iter());
            assert!(policy.victim(std::iter::empty()).is_none());
        }
    }
}

#[test]
fn of_objects_of_one_size_the_oldest_leave_first() {
    let policy = policy();
    let segments: Vec<_> = (0..64).map(|number| full(Log(0), number * SEGMENT)).collect();
    for number in 0..64 {
        policy.stored(SEGMENT);
        policy.learn(segments[..=number].iter().copied());
    }
    let generation = [full(Log(0), 40 * SEGMENT), full(Log(1), 0)];
    assert_eq!(policy.victim(generation.into_iter()), Some(Log(1)), "of two that nobody asks for the older one");
}

/// Two logs of one class; hits come for what `hot` says. As many laps as `laps`.
fn run(policy: &Generations, hot: Log, laps: u64) {
    for _ in 0..laps * 64 {
        let now = policy.stored(SEGMENT);
        let segments = [Log(0), Log(2)].map(|log| full(log, now.saturating_sub(DISK / 2)));
        (0..100).for_each(|_| policy.hit(hot, DISK / 2));
        assert!(policy.is_time_to_learn());
        policy.learn(segments.into_iter());
        assert!(!policy.is_time_to_learn());
    }
}

#[test]
fn a_load_that_changes_is_learned_anew() {
    let policy = policy();
    let oldest = || [Log(0), Log(2)].map(|log| full(log, policy.now() - DISK / 2)).into_iter();
    run(&policy, Log(0), 3);
    assert_eq!(policy.victim(oldest()), Some(Log(2)));
    run(&policy, Log(2), 3);
    assert_eq!(policy.victim(oldest()), Some(Log(0)));
}

#[test]
fn what_is_hit_is_kept_if_it_is_worth_more_than_what_leaves() {
    let policy = policy();
    let now = || policy.now();
    // What was kept before is asked for often, and what is new seldom.
    for _ in 0..256 {
        policy.stored(SEGMENT);
        (0..400).for_each(|_| policy.hit(Log(1), 0));
        policy.learn([full(Log(1), now()), full(Log(0), now() / 2)].into_iter());
    }
    let (cold, hot) = (full(Log(0), now() / 2), full(Log(1), now()));
    assert!(policy.keeps(&cold, SIZE, 1));
    assert!(!policy.keeps(&cold, SIZE, 0), "it was not hit");
    assert!(!policy.keeps(&hot, SIZE * 10, 1), "ten of those that leave are worth more");
    assert!(!policy.keeps(&cold, SEGMENT, 3), "it is large");
}

#[test]
fn bytes_are_worth_more_where_bytes_count() {
    let small = Segment { log: Log(0), born: 0, live: 1000, live_bytes: SEGMENT };
    let few = Segment { log: Log(6), born: 0, live: 10, live_bytes: SEGMENT };
    let victim = |value| {
        let policy = Generations::new(DISK, SEGMENT, value);
        policy.stored(DISK / 2);
        // Half as many hits for each object in the log of large ones.
        (0..1000).for_each(|_| policy.hit(Log(0), DISK / 4));
        (0..5).for_each(|_| policy.hit(Log(6), DISK / 4));
        policy.learn([small, few].into_iter());
        policy.victim([small, few].into_iter())
    };
    assert_eq!([Value::Objects, Value::Bytes].map(victim), [Some(Log(6)), Some(Log(0))]);
}

/// Of an object of eight segments each one was worth an eighth of its hits times an eighth of its bytes: large objects left eight
/// times too soon, and fewer of their bytes were found than by a queue.
#[test]
fn an_object_of_many_segments_counts_by_all_its_bytes() {
    let policy = Generations::new(DISK, SEGMENT, Value::Bytes);
    let log = policy.log_of_large(Some(8 * SEGMENT), false);
    policy.stored_in(log, 8 * SEGMENT);
    policy.stored(DISK / 2);
    let large = Segment { log, born: 0, live: 0, live_bytes: SEGMENT };
    let small = Segment { log: Log(6), born: 0, live: 10, live_bytes: SEGMENT };
    // For four objects of eight segments each a hundred hits each, for 320 of a tenth of a segment some sixty.
    (0..400).for_each(|_| policy.hit(log, DISK / 4));
    (0..20_000).for_each(|_| policy.hit(Log(6), DISK / 4));
    policy.learn([[large; 32], [small; 32]].into_iter().flatten());
    let oldest = [large, small].map(|segment| Segment { born: DISK / 4, ..segment });
    assert_eq!(policy.victim(oldest.into_iter()), Some(Log(6)));
}

/// A class of which nothing was stored since the start was worth nothing, and left first whatever its hits were.
#[test]
fn large_objects_are_worth_something_before_their_mean_is_known() {
    let policy = policy();
    policy.stored(DISK / 2);
    let log = policy.log_of_large(Some(3 * SEGMENT), false);
    let large = Segment { log, born: 0, live: 0, live_bytes: SEGMENT };
    let cold = Segment { log: Log(6), born: 0, live: 3, live_bytes: SEGMENT };
    (0..1000).for_each(|_| policy.hit(log, DISK / 2));
    policy.learn([large, cold].into_iter());
    assert_eq!(policy.victim([large, cold].into_iter()), Some(Log(6)));
    policy.stored_in(log, 3 * SEGMENT);
    policy.stored_in(Log(6), SIZE);
    policy.learn([large, cold].into_iter());
    assert_eq!(policy.victim([large, cold].into_iter()), Some(Log(6)));
}

/// A lap of a large disk takes weeks: a restart that forgot what was learned would cost hits for as long.
#[test]
fn what_was_learned_survives_a_stop() {
    let policy = policy();
    let segments = || (0..8).map(|log| full(Log(log), 0));
    for round in 0..40 {
        (0..300).for_each(|_| policy.hit(Log(round % 3), policy.now()));
        (0..SEGMENT / SIZE).for_each(|_| _ = policy.stored(SIZE));
        policy.learn(segments());
    }
    policy.stored_in(Log(8), 5 * SEGMENT);
    let worths = |policy: &Generations| {
        let large = Segment { live: 0, ..full(Log(8), policy.now()) };
        let worths: Vec<_> = segments().chain([large]).map(|segment| policy.worth_of_one(&segment, 0)).collect();
        (policy.victim(segments()), worths)
    };
    let saved = policy.save();
    assert_eq!(saved.len(), Generations::saved_bytes(DISK / SEGMENT));
    let after = Generations::new(DISK, SEGMENT, Value::Objects);
    after.resume(policy.now());
    let (victim, learned) = worths(&policy);
    assert_ne!(worths(&after).0, victim);
    assert!(after.recall(&[saved.clone(), vec![0; 4000]].concat()));
    let (same, recalled) = worths(&after);
    assert_eq!(same, victim);
    assert!(
        learned.iter().zip(&recalled).all(|(one, other)| (one / other - 1.0).abs() < 1e-4),
        "{learned:?} {recalled:?}"
    );
    assert!(!after.recall(&saved[..saved.len() - 1]) && worths(&after).1 == recalled);
    let smaller = Generations::new(DISK / 4, SEGMENT, Value::Objects);
    assert!(!smaller.recall(&saved), "another shape");
}
