//! The cases of caching, poisoning and operation once more, with clients that speak HTTP/2: what is decided must not
//! depend on how the request came. The files are those of `attacks.rs`.
//!
//! Not played are those that look at heads or times of HTTP/1 itself, at `Via: 1.1`, or at a connection that is closed behind an
//! answer: over HTTP/2 it goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod script;
mod support;

use script::{Over, play_file_over};

macro_rules! cases {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                if let Err(error) = play_file_over(&stringify!($name).replace('_', "-"), Over::Http2) {
                    panic!("{error}");
                }
            }
        )*
    };
}

cases! {
    c01_other_host
    c01_other_port
    c01_other_scheme
    c02_delimiters
    c03_cookies
    c03_more_overrides
    c03_overrides
    c04_queries
    c05_errors_are_not_stored
    c06_extensions
    c07_garbage_in_accept_encoding
    c07_variants
    c07_vary_too_much
    c08_lying_content_range
    c08_mixed_validators
    c08_ranges
    c09_head_that_differs
    c09_not_modified_that_lies
    c10_large_heads
    c11_fresh_all_the_same
    c11_stale_at_once
    c12_leader_authorised
    c12_leader_is_private
    c12_leader_leaves
    c12_leader_leaves_amid_the_body
    c12_leader_stalls
    c12_origin_dies
    c12_validation_turns_private
    c13_invalidation_across_origins
    f02_max_forwards
    f03_connection_names
    f03_connection_names_forwarded_for
    f03_proxy_authorization
    f04_long_connection
    f04_long_lists
    f04_many_chunks
    f05_silent_origins
    f05_sizes_within
    f05_slow_readers
    f07_no_tls
    f09_panic
}
