//! Chunked bodies: where they end and what is refused, against a naive reader, whatever the pieces they come in.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tinaja_fuzz::compare_chunked(data, false));
