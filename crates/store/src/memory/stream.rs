//! Copies of many bytes into a buffer that the processor will not look at again.

/// From this length on a copy goes past the processor's caches: shorter ones are cheaper through them.
const LONG: usize = 4096;

/// Copy `from` to the front of `to`, as far as both reach. What is long goes past the caches: a batch on its way to the
/// disk is larger than they are, and would be fetched into them line by line only to be overwritten.
pub fn copy(to: &mut [u8], from: &[u8]) {
    let len = to.len().min(from.len());
    let (Some(to), Some(from)) = (to.get_mut(..len), from.get(..len)) else { return };
    if len >= LONG { past_the_caches(to, from) } else { to.copy_from_slice(from) }
}

#[cfg(not(target_arch = "x86_64"))]
fn past_the_caches(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
fn past_the_caches(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    // SAFETY: any 16 bytes are a vector.
    let (first, lines, last) = unsafe { to.align_to_mut::<[__m128i; 4]>() };
    let (from_first, rest) = from.split_at(first.len());
    let (from_lines, from_last) = rest.split_at(size_of_val(lines));
    first.copy_from_slice(from_first);
    last.copy_from_slice(from_last);
    for (line, from) in lines.iter_mut().zip(from_lines.chunks_exact(64)) {
        let (line, from) = (line.as_mut_ptr(), from.as_ptr().cast::<__m128i>());
        // SAFETY: `line` and `from` are 64 bytes each; `line` is aligned to 16, `from` need not be. SSE2 is part of x86-64.
        unsafe {
            // One by one: `map` over an array is ten calls for each line where it is not inlined.
            _mm_stream_si128(line, _mm_loadu_si128(from));
            _mm_stream_si128(line.add(1), _mm_loadu_si128(from.add(1)));
            _mm_stream_si128(line.add(2), _mm_loadu_si128(from.add(2)));
            _mm_stream_si128(line.add(3), _mm_loadu_si128(from.add(3)));
        }
    }
    // SAFETY: as above. Such stores are not ordered with others until this.
    unsafe { _mm_sfence() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_and_no_other_touched() {
        let from: Vec<u8> = (0..3 * LONG).map(|n| ((n * 31) >> 3) as u8).collect();
        for (start, skip, len) in
            [(0, 0, 0), (1, 0, 100), (0, 0, LONG), (3, 5, LONG), (17, 1, LONG + 77), (63, 0, 2 * LONG)]
        {
            let mut to = vec![7; 3 * LONG];
            copy(&mut to[start..start + len], &from[skip..skip + len]);
            assert!(to[start..start + len] == from[skip..skip + len]);
            assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 7));
        }
        let mut short = [0; 3];
        copy(&mut short, &[1; 9]);
        assert_eq!(short, [1; 3]);
    }
}
