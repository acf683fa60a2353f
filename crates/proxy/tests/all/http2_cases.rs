//! The cases once more, with clients that speak HTTP/2: what is decided must not depend on how the request came. The files
//! are those of `attacks.rs`; `docs/http-attacks.md` says of each that is not played here why HTTP/2 has no such thing.

use std::collections::BTreeSet;

use crate::script::{Over, play_file_over};

macro_rules! cases {
    ($($name:ident)*) => {
        const CASES: &[&str] = &[$(stringify!($name)),*];
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
    c03_underscores
    c03_overrides
    c04_queries
    c05_errors_are_brief
    c05_errors_are_not_stored
    c05_errors_of_one_client
    c05_limits_first
    c06_extensions
    c07_garbage_in_accept_encoding
    c07_variants
    c07_vary_by_cookie
    c07_vary_by_the_client_s_address
    c07_vary_that_comes_later
    c07_vary_too_much
    c08_lying_content_range
    c08_mixed_validators
    c08_ranges
    c09_age_of_what_is_kept_no_more
    c09_head_that_differs
    c09_head_without_validator
    c09_not_modified_that_lies
    c10_large_heads
    c11_fresh_all_the_same
    c11_malformed_cache_control
    c11_stale_at_once
    c12_leader_authorised
    c12_leader_is_private
    c12_leader_leaves
    c12_leader_leaves_amid_the_body
    c12_leader_stalls
    c12_origin_dies
    c12_validation_turns_private
    c13_invalidation_across_origins
    c13_purge
    c15_breach
    f01_inward_addresses
    f01_the_origin_itself
    f02_loops
    f02_max_forwards
    f02_via
    f03_connection_names
    f03_connection_names_forwarded_for
    f03_error_pages
    f03_pages_tell_nothing_inside
    f03_proxy_authorization
    f04_long_connection
    f04_long_lists
    f04_many_chunks
    f05_idle
    f05_silent_origins
    f05_sizes
    f05_sizes_within
    f05_slow_bodies
    f05_slow_readers
    f06_log_fields
    f07_no_tls
    f09_panic
    h01_both_lengths
    h02_mutated_transfer_encoding
    h02_names_that_only_look_alike
    h02_one_form_of_chunked
    h03_content_length
    h06_upgrade_unasked
    h07_unread_bodies
    h08_bodies_where_none_belong
    h08_expect
    h08_final_before_the_body
    h08_head_with_a_body
    h08_stray_100
    h09_long_methods
    h09_malformed_heads
    h10_authorities
    h10_one_authority
    h11_bodies_where_none_belong
    h11_both_lengths
    h11_chunked_answers
    h11_chunked_answers_bare
    h11_chunked_answers_control
    h11_chunks_without_size
    h11_closed_without_an_answer
    h11_codings_and_names
    h11_ended_by_close
    h11_endless_head
    h11_control_bytes_in_a_reason
    h11_framing_in_doubt
    h11_not_modified_unasked
    h11_one_length_twice
    h11_repaired_heads
    h11_short_bodies
    h12_connections_that_end
    h12_surplus
}

#[test]
fn every_file_that_names_http2_is_played() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let named = paths.filter(|path| std::fs::read_to_string(path).unwrap().contains("\nover http/1.1 and http/2\n"));
    let named: BTreeSet<_> = named.map(|path| path.file_stem().unwrap().to_str().unwrap().replace('-', "_")).collect();
    assert_eq!(named, CASES.iter().map(|name| (*name).to_owned()).collect());
}
