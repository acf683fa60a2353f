//! The cases of `docs/http-attacks.md`, each a file in `tests/cases` with both ends written down.

use std::collections::BTreeSet;

use crate::script::{Case, Over, play_file, play_text};

/// One test for each case file, `h01_both_lengths` for `h01-both-lengths.case`.
macro_rules! cases {
    ($($name:ident)*) => {
        const CASES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                if let Err(error) = play_file(&stringify!($name).replace('_', "-")) {
                    panic!("{error}");
                }
            }
        )*
    };
}

cases! {
    h11_codings_and_names
    h11_both_lengths
    c15_breach
    f09_panic
    f04_long_connection
    f03_connection_names
    f03_connection_names_forwarded_for
    f02_max_forwards
    c07_variants
    c07_variants_go_by_what_is_forwarded
    c03_more_overrides
    c03_underscores
    c01_other_host
    c01_other_port
    c01_other_scheme
    c02_delimiters
    c03_cookies
    c03_overrides
    c04_queries
    c05_errors_are_brief
    c05_errors_are_not_stored
    c05_errors_of_one_client
    c05_limits_first
    c06_extensions
    c07_garbage_in_accept_encoding
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
    f01_inward_addresses
    f01_the_origin_itself
    f02_loops
    f02_via
    f03_error_pages
    f03_pages_tell_nothing_inside
    f03_proxy_authorization
    f04_long_lists
    f04_many_chunks
    f05_connections
    f05_idle
    f05_silent_origins
    f05_sizes
    f05_sizes_within
    f05_slow_bodies
    f05_slow_heads
    f05_slow_readers
    f06_log_fields
    f06_log_lines
    f07_no_tls
    h01_both_lengths
    h02_mutated_transfer_encoding
    h02_names_that_only_look_alike
    h02_one_form_of_chunked
    h03_content_length
    h04_chunks
    h04_extensions_and_trailers_end_here
    h04_trailers
    h05_http_1_0
    h06_upgrade_not_taken
    h06_upgrade_unasked
    h07_refused_with_a_body
    h07_unread_bodies
    h08_bodies_where_none_belong
    h08_expect
    h08_final_before_the_body
    h08_head_with_a_body
    h08_stray_100
    h09_malformed_heads
    h09_malformed_request_lines
    h09_long_methods
    h09_versions
    h10_authorities
    h10_one_authority
    h11_bodies_where_none_belong
    h11_chunked_answers
    h11_chunked_answers_bare
    h11_chunked_answers_control
    h11_chunks_without_size
    h11_closed_without_an_answer
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
    h13_pipelining
}

#[test]
fn every_file_is_played() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<_> = names.filter_map(|name| Some(name.strip_suffix(".case")?.replace('-', "_"))).collect();
    assert_eq!(files, CASES.iter().map(|name| (*name).to_owned()).collect());
}

/// The table that people read names every case, and no other.
#[test]
fn every_file_is_in_the_table() {
    let table = include_str!("../../../../docs/http-attacks.md");
    let quoted = table.split('`').filter(|text| text.starts_with(['h', 'c', 'f']) && text.get(3..4) == Some("-"));
    let named: BTreeSet<_> = quoted.map(|name| name.replace('-', "_")).collect();
    assert_eq!(named, CASES.iter().map(|name| (*name).to_owned()).collect());
}

/// And says of each that HTTP/2 has not why.
#[test]
fn every_file_without_http2_is_explained() {
    let table = include_str!("../../../../docs/http-attacks.md").split("## Not over HTTP/2").nth(1).unwrap();
    let firsts = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let explained: BTreeSet<_> =
        firsts.flat_map(|cell| cell.split(['`', ',', ' '])).filter(|name| !name.is_empty()).collect();
    let text = |name: &str| {
        std::fs::read_to_string(format!("{}/tests/cases/{name}.case", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let names = CASES.iter().map(|name| name.replace('_', "-"));
    let without: BTreeSet<_> = names.filter(|name| !text(name).contains("\nover http/1.1 and http/2\n")).collect();
    assert_eq!(explained, without.iter().map(String::as_str).collect());
}

/// Those that the proxy does not pass yet must at least be scripts.
#[test]
fn every_open_file_is_understood() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/open");
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if let Err(error) = Case::parse(&std::fs::read_to_string(&path).unwrap(), Over::Http1) {
            panic!("{}: {error}", path.display());
        }
    }
}

/// A script that does not say what happens must fail, or no case proves anything.
#[test]
fn what_does_not_happen_is_noticed() {
    assert_eq!(play_text(EXCHANGE), Ok(()));
    for (from, to, why) in [
        ("| POST /x HTTP", "| POST /y HTTP", "not \"POST /y HTTP/1.1\""),
        ("| Via: 1.1 *", "| !Via", "it has via"),
        ("| Host: {host}\n| Via", "| Host: x\n| Via", "no host: x"),
        ("| X-A: b*d\n|\n", "| X-A: bd\n|\n", "no x-a: bd"),
        ("= hello\norigin sends", "= hell\norigin sends", "another body: hello"),
        ("origin sends", "origin 2 sends", "no such connection"),
        ("| 200\n", "| 201\n", "not 201, but 200"),
        ("| 200\n", "| 4*|500\n", "not 4*|500, but 200"),
        ("| 200\n", "| 200\n| !contains ell\n", "its body contains ell"),
        ("client a gets\n", "client a gets (cut)\n", "the body is whole"),
        ("client a gets\n| 200", "client a gets no whole answer\n| 200", "it is whole"),
        ("client a gets\n| 200\n|\n= hello", "client a is closed", "not closed, but sent: HTTP/1.1 200 OK"),
        ("client a gets\n| 200\n|\n= hello", "wait 500 ms", "a client got more than the case says: HTTP/1.1 200"),
        ("origin has 1", "origin has 2", "the origin has had 1 connections"),
        ("log has\n", "log has\n| !POST\n", "the log has"),
        ("origin 1 gets\n", "wait 500 ms\norigin gets no whole request\n", "it is whole"),
        ("| POST {/x}", "| POST {x}", "no such name: {x}"),
        ("origin has", "origin had", "not understood"),
    ] {
        let script = EXCHANGE.replacen(from, to, 1);
        assert_ne!(script, EXCHANGE, "{from:?} is not in it");
        let error = play_text(&script).expect_err(&format!("{to:?} passes"));
        assert!(error.contains(why), "{to:?}: {error}");
    }
}

const EXCHANGE: &str = "\
mode forward
over http/1.1
client a sends
| POST {/x} HTTP/1.1
| Host: {host}
| X-A: bcd
| Content-Length: 5
|
= hello
origin 1 gets
| POST /x HTTP/1.1
| Host: {host}
| Via: 1.1 *
| X-A: b*d
|
= hello
origin sends
| HTTP/1.1 200 OK
| Content-Length: 5
|
= hello
client a gets
| 200
|
= hello
origin has 1 connection
log has
| *POST http://{host}/x*
";
