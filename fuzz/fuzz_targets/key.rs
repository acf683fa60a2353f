//! Names of stored responses: parts come back as they went in, and no other bytes are a name.
#![no_main]

use tinaja_http::key::{join, split};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let parts: Vec<&[u8]> = data.split(|byte| *byte == 0xff).collect();
    assert_eq!(split(&join(&parts)).as_deref(), Some(parts.as_slice()));
    if let Some(parts) = split(data) {
        assert_eq!(join(&parts), data);
    }
});
