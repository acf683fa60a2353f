//! A store that says nothing, as on a disk that stalls: clients have their answers all the same.
//!
//! Which variants a URL has was once noted under one lock, for as long as the disk took: one stalled lookup held up every
//! answer with a Vary.

use std::sync::Arc;

use crate::support::{Altered, Origin, Proxy, reply};

#[test]
fn answers_that_vary_pass_without_being_stored() {
    let origin = Origin::start(|request, stream| {
        let language = request.field("accept-language").unwrap();
        reply(stream, request, 200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", language.as_bytes())
    });
    let proxy = Proxy::over(Arc::new(Altered::stuck()), |_| {});
    std::thread::scope(|scope| {
        for (path, language) in [("/a", "en"), ("/a", "sw"), ("/a", "de"), ("/b", "en"), ("/c", "en")] {
            let (proxy, origin) = (&proxy, &origin);
            scope.spawn(move || {
                let answer = proxy.get_with(&origin.url(path), &format!("Accept-Language: {language}\r\n"));
                assert_eq!((answer.status, answer.text().as_str()), (200, language), "{path}");
                assert!(!answer.field("cache-status").contains("stored"), "{}", answer.head);
            });
        }
    });
    assert_eq!(proxy.store.stats().live_objects, 0);
}
