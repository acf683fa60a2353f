//! Names of stored responses: parts come back as they went in, and no other bytes are a name.
#![no_main]

use tinaja_http::key::{join, split};

/// The same of names with so many parts.
fn of<const N: usize>(data: &[u8], parts: &[&[u8]]) {
    let name = join(parts);
    assert_eq!(split::<N>(&name).as_ref().map(<[&[u8]; N]>::as_slice), (parts.len() == N).then_some(parts));
    if let Some(parts) = split::<N>(data) {
        assert_eq!(join(&parts), data);
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let parts: Vec<&[u8]> = data.split(|byte| *byte == 0xff).collect();
    of::<0>(data, &parts);
    of::<1>(data, &parts);
    of::<2>(data, &parts);
    of::<5>(data, &parts);
});
