//! Hosts that lie, in other ways than by a plain GET.
//!
//! A part of an object is kept, or its whole fetched behind it, apart from the whole. There a lie was not looked at: `GET /x` with somebody
//! else's Host and a range, at a server that the client may choose freely, filled the place of what that server's own address has.

use crate::support::network::{A, B};
use crate::transparent::{listener, with_network};

/// Neither parts nor what is fetched behind them are kept of a lie, under no name.
#[test]
fn a_part_of_a_lie_is_not_kept() {
    with_network("transparent_lies::a_part_of_a_lie_is_not_kept", |network| {
        network.settings("", &listener("redirect"));
        let _tinaja = network.start(&[]);
        network.divert(&[]);
        let part = ["-r", "0-0"];
        for host in ["a.test", "unknown.test", "b.test:81"] {
            let got = network.curl(B[0], "http://a.test/files/file", &["-r", "0-0", "-H", &format!("Host: {host}")]);
            assert_eq!((got.status, got.server.as_str(), got.body.as_str()), (206, "b", "b"), "{host}: {got:?}");
            assert!(got.cache_status.ends_with("detail=HOST_NOT_PROVED"), "{got:?}");
        }
        // Nobody was asked for more, and what is there is what its own name has.
        assert_eq!(network.asked("/files/file").len(), 3, "{:?}", network.asked("/files/file"));
        for (address, host, server) in [(A[0], "a.test", "a"), (B[0], "b.test", "b"), (B[0], B[0], "b")] {
            let got = network.curl(address, &format!("http://{host}/files/file"), &[]);
            assert_eq!((got.status, got.server.as_str(), got.is_hit()), (200, server, false), "{got:?}");
            assert_eq!(got.body, format!("{server}'s file"));
        }
        // An honest part is fetched as a whole, as ever.
        let got = network.curl(A[1], "http://a.test/files/file?honest", &part);
        assert_eq!((got.status, got.body.as_str()), (206, "a"), "{got:?}");
        network.logged(&["/files/file?honest"]);
    });
}

/// What an unsafe method changes is removed from the cache. A lie would have removed what the server's own address has.
#[test]
fn a_post_with_a_lie_removes_nothing() {
    with_network("transparent_lies::a_post_with_a_lie_removes_nothing", |network| {
        network.settings("", &listener("redirect"));
        let _tinaja = network.start(&[]);
        network.divert(&[]);
        let own = format!("http://{}/post", B[0]);
        assert!(!network.curl(B[0], &own, &[]).is_hit());
        let got = network.curl(B[0], "http://a.test/post", &["-d", "x"]);
        assert_eq!((got.status, got.server.as_str()), (200, "b"), "{got:?}");
        assert!(network.curl(B[0], &own, &[]).is_hit());
        // The truth removes it.
        assert_eq!(network.curl(B[0], &own, &["-d", "x"]).status, 200);
        assert!(!network.curl(B[0], &own, &[]).is_hit());
    });
}

/// While nobody is asked for anything no name is looked up, and what is stored is served.
#[test]
fn offline_serves_what_is_stored() {
    with_network("transparent_lies::offline_serves_what_is_stored", |network| {
        network.settings("", &listener("redirect"));
        let mut tinaja = network.start(&[]);
        network.divert(&[]);
        let url = "http://a.test/files/file";
        assert!(!network.curl(A[0], url, &[]).is_hit());
        assert!(tinaja.terminate().success(), "{}", network.said());
        let _tinaja = network.start(&["--offline"]);
        let got = network.curl(A[0], url, &[]);
        assert!(got.is_hit() && got.body == "a's file", "{got:?}");
        // The proof of the run before is gone, and names are looked up by nobody: what the client chose is not judged.
        let got = network.curl(B[0], url, &[]);
        assert!(got.is_hit() && got.body == "a's file", "{got:?}");
        assert_eq!(network.curl(A[0], "http://a.test/other", &[]).status, 504);
    });
}
