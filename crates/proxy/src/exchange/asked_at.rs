//! What a neighbour is told of an answer beside its fields: when its origin was asked, counted in bans, and what that calls it.

use http::HeaderValue;

use crate::bans::{Stamp, Tags};

/// Bytes of a number in hexadecimal.
const HEX: usize = 16;
/// Of more tags than that a neighbour is told that there are many, so that any purge of a tag hits its copy: they would take more than 4 KiB of a head.
const MOST_TOLD: usize = 256;

/// Which bans had been made when an answer's origin was asked, and the answer's tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AskedAt {
    pub stamp: Stamp,
    pub tags: Tags,
}

impl AskedAt {
    /// As a field's value: numbers of 16 hexadecimal digits, of which the first is the stamp, and a `+` at the end if there are more tags.
    pub fn value(&self) -> String {
        let many = self.tags.unlisted || self.tags.hashes().count() > MOST_TOLD;
        let mut value = format!("{:016x}", self.stamp.0);
        for tag in self.tags.hashes().take(if many { 0 } else { MOST_TOLD }) {
            value += &format!("{tag:016x}");
        }
        if many { value + "+" } else { value }
    }

    /// What a neighbour says. Of what makes no sense all bans count, and any tag may be meant.
    pub fn of(value: Option<&HeaderValue>) -> AskedAt {
        let of_text = |text: &str| {
            let (digits, many) = text.strip_suffix('+').map_or((text, false), |digits| (digits, true));
            let numbers = digits.as_bytes().chunks(HEX).map(|number| {
                let is_number = number.len() == HEX && number.iter().all(u8::is_ascii_hexdigit);
                u64::from_str_radix(std::str::from_utf8(number).ok().filter(|_| is_number)?, 16).ok()
            });
            let numbers = numbers.collect::<Option<Vec<u64>>>()?;
            let (stamp, tags) = numbers.split_first()?;
            (tags.len() <= MOST_TOLD).then(|| AskedAt { stamp: Stamp(*stamp), tags: Tags::hashed(tags.to_vec(), many) })
        };
        let told = value.and_then(|value| value.to_str().ok()).and_then(of_text);
        told.unwrap_or_else(|| AskedAt { stamp: Stamp::default(), tags: Tags::hashed(Vec::new(), true) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_is_heard() {
        let heard = |text: &str| AskedAt::of(HeaderValue::from_str(text).ok().as_ref());
        for tags in [Tags::default(), Tags::hashed(vec![7, u64::MAX], false), Tags::hashed((0..256).collect(), false)] {
            let told = AskedAt { stamp: Stamp(0x0123_4567_89ab_cdef), tags };
            assert_eq!(heard(&told.value()), told);
        }
        let unknown = AskedAt { stamp: Stamp::default(), tags: Tags::hashed(Vec::new(), true) };
        let many = AskedAt { stamp: Stamp(5), tags: Tags::hashed((0..257).collect(), false) };
        assert_eq!(heard(&many.value()), AskedAt { stamp: Stamp(5), ..unknown.clone() });
        for nonsense in
            ["", "+", "5", "000000000000000x", "+000000000000000", "00000000000000050", &"0".repeat(16 * 300)]
        {
            assert_eq!(heard(nonsense), unknown, "{nonsense}");
        }
        assert_eq!(AskedAt::of(None), unknown);
    }
}
