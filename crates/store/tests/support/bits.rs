//! Which bits of a disk a test flips.

use std::time::{SystemTime, UNIX_EPOCH};

use tinaja_store::device::Medium;

/// The seed of this run, printed; and every how many bytes a bit is flipped, 0 for every bit of every byte.
pub fn chosen(step: usize) -> (u64, usize) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed = std::env::var("TINAJA_SEED").ok().map_or_else(now, |seed| seed.parse().expect("a number"));
    let step = match std::env::var("TINAJA_BITS").as_deref() {
        Ok("all") => 0,
        Ok(step) => step.parse::<usize>().expect("a number or `all`").max(1),
        Err(_) => step,
    };
    println!("TINAJA_SEED={seed} TINAJA_BITS={}", if step == 0 { "all".into() } else { step.to_string() });
    (seed, step)
}

fn mixed(seed: u64, n: u64) -> u64 {
    let mut mixed = (seed ^ n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^= mixed >> 31;
    mixed.wrapping_mul(0x94D0_49BB_1331_11EB) >> 33
}

/// The bits to flip of a medium: of the blocks in use only, the others are never looked at.
pub fn bits(whole: &[u8], (seed, step): (u64, usize)) -> Vec<usize> {
    let used = whole.chunks(512).enumerate().filter(|(_, block)| block.iter().any(|&byte| byte != 0));
    let bytes = used.flat_map(|(block, _)| block * 512..(block + 1) * 512);
    if step == 0 {
        return bytes.flat_map(|byte| byte * 8..byte * 8 + 8).collect();
    }
    bytes
        .filter(|&byte| mixed(seed, (byte / step) as u64) as usize % step == byte % step)
        .map(|byte| byte * 8 + (mixed(seed + 1, byte as u64) % 8) as usize)
        .collect()
}

/// Another medium with the same bytes but for one bit, if one is named.
pub fn flipped(whole: &Medium, bit: Option<usize>) -> Medium {
    let medium = whole.copy();
    if let Some(bit) = bit {
        let mut byte = [0];
        assert!(medium.read(bit / 8, &mut byte));
        assert!(medium.write(bit / 8, &[byte[0] ^ 1 << (bit % 8)]));
    }
    medium
}
