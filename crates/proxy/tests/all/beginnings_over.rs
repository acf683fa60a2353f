//! Whoever asked anew for an object that was stored whole, and left when some of the answer had come, had the cache throw away the whole
//! object for that beginning: the next client paid for all of it, and with the origin away nobody got it any more.
//! A beginning takes the place of nothing that is whole.

use std::sync::atomic::Ordering::SeqCst;

use crate::beginnings::{READ, asked_from, leave, whole};
use crate::parts::{FRESH, File, LENGTH, STALE, bytes_of, part};
use crate::support::{Proxy, Response};

fn is_old_whole(answer: &Response) -> bool {
    answer.status == 200 && answer.body == bytes_of(0, 0..LENGTH)
}

/// All of it is stored, and its origin has another since.
fn stored_and_changed(fields: &str) -> (File, crate::support::Origin, Proxy, String) {
    let file = File::new(fields);
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/x");
    whole(&proxy, &file, &url);
    proxy.has_stored(1);
    file.change();
    (file, origin, proxy, url)
}

#[test]
fn what_is_fresh_stays_when_one_that_loads_it_anew_leaves() {
    for asks in ["Cache-Control: no-cache\r\n", "Cache-Control: max-age=0\r\n", "Pragma: no-cache\r\n"] {
        let (file, origin, proxy, url) = stored_and_changed(FRESH);
        leave(&proxy, &origin, &file, &url, asks);
        assert!(file.sent() > LENGTH + READ as u64, "{asks} {}", file.sent());
        let hit = proxy.get(&url);
        assert!(hit.is_hit() && is_old_whole(&hit), "{asks} {}", hit.head);
    }
}

#[test]
fn what_is_stale_stays_for_whoever_takes_it() {
    let soon = "Cache-Control: max-age=0, stale-while-revalidate=600\r\n";
    let if_error = "Cache-Control: max-age=0, stale-if-error=600\r\n";
    let takes = "Cache-Control: max-stale\r\n";
    for (fields, asks) in [(STALE, takes), (soon, takes), (if_error, takes), (if_error, "")] {
        let (file, origin, proxy, url) = stored_and_changed(fields);
        leave(&proxy, &origin, &file, &url, "Cache-Control: no-cache\r\n");
        file.0.dead.store(true, SeqCst);
        let answer = proxy.get_with(&url, asks);
        assert!(is_old_whole(&answer), "{fields} {asks} {}", answer.head);
    }
}

/// The request found nothing that it might have. What its answer would have stood in the place of is found by others.
#[test]
fn variants_stay_when_an_answer_that_does_not_vary_is_left() {
    let file = File::new(&format!("{FRESH}Vary: X-Kind\r\n"));
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/x");
    assert!(is_old_whole(&proxy.get_with(&url, "X-Kind: a\r\n")));
    proxy.has_stored(2);
    file.set(FRESH);
    leave(&proxy, &origin, &file, &url, "X-Kind: b\r\n");
    let hit = proxy.get_with(&url, "X-Kind: a\r\n");
    assert!(hit.is_hit() && is_old_whole(&hit), "{}", hit.head);
}

/// What is in pieces is not whole: of another version they give way, and of the same one they stay.
#[test]
fn pieces_of_another_version_give_way() {
    for changes in [true, false] {
        let file = File::new(STALE);
        let (origin, proxy) = (file.origin(), Proxy::forward());
        let url = origin.url("/x");
        part(&proxy, &file, &url, 4_900_000..LENGTH);
        proxy.has_stored(3);
        if changes {
            file.change();
        }
        leave(&proxy, &origin, &file, &url, "");
        let moved = whole(&proxy, &file, &url);
        assert!(moved <= LENGTH - READ as u64, "{changes} {moved}");
        if changes {
            assert_eq!(moved, LENGTH - asked_from(&origin));
        } else {
            assert!(moved <= 4_900_000 - READ as u64, "{moved}");
        }
    }
}
