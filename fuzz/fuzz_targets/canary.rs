//! The canary: `chunked` with a fault planted in its reader. If this finds nothing, fuzzing here finds nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tinaja_fuzz::compare_chunked(data, true));
