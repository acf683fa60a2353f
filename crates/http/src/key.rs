//! Names of stored responses, made from parts so that no part can pass for another.

/// Joins parts into one name, each with its length before it: `4:http,1:a,1:/,`. Two lists of parts have the same
/// name only if they are the same, whatever bytes are in them.
pub fn join<P: AsRef<[u8]>>(parts: &[P]) -> Vec<u8> {
    let mut key = Vec::with_capacity(parts.iter().map(|part| part.as_ref().len() + 6).sum());
    for part in parts {
        let part = part.as_ref();
        push_decimal(part.len(), &mut key);
        key.push(b':');
        key.extend_from_slice(part);
        key.push(b',');
    }
    key
}

/// Writes a number, without memory of its own: this is done for each request.
fn push_decimal(number: usize, key: &mut Vec<u8>) {
    if number > 9 {
        push_decimal(number / 10, key);
    }
    key.push(b'0' + (number % 10) as u8);
}

/// The parts of a name that [`join`] made of `N`; `None` for any other bytes.
pub fn split<const N: usize>(key: &[u8]) -> Option<[&[u8]; N]> {
    let mut parts = [&[][..]; N];
    let mut rest = key;
    for part in &mut parts {
        let (length, behind) = read_decimal(rest)?;
        let behind = behind.strip_prefix(b":")?;
        let next;
        (*part, next) = behind.split_at_checked(length)?;
        rest = next.strip_prefix(b",")?;
    }
    rest.is_empty().then_some(parts)
}

/// The number that bytes begin with, as [`push_decimal`] writes it and in no other way: no sign, no zeros before it. And what follows.
fn read_decimal(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (mut number, mut rest) = (0_usize, bytes);
    while let [digit @ b'0'..=b'9', behind @ ..] = rest {
        number = number.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?;
        rest = behind;
    }
    let digits = bytes.len() - rest.len();
    let is_written_so = digits > 0 && (digits == 1 || !bytes.starts_with(b"0"));
    is_written_so.then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names() {
        fn both<const N: usize>(parts: [&str; N], name: &str) {
            assert_eq!(join(&parts), name.as_bytes());
            assert_eq!(split(name.as_bytes()), Some(parts.map(str::as_bytes)));
        }
        both([], "");
        both([""], "0:,");
        both(["", ""], "0:,0:,");
        both(["http", "a", "/"], "4:http,1:a,1:/,");
        both(["a,1:b"], "5:a,1:b,");
        both([&"x".repeat(1230)], &format!("1230:{},", "x".repeat(1230)));
        for name in ["1:a", "1:ab,", "2:a,", ":a,", "+1:a,", "01:a,", "a", "1:a,x", "99999999999999999999:a,", ""] {
            assert_eq!(split::<1>(name.as_bytes()), None, "{name}");
        }
        assert_eq!(split::<1>(b"0:,0:,"), None, "more parts");
        assert_eq!(split::<3>(b"0:,0:,"), None, "fewer parts");
    }

    proptest! {
        #[test]
        fn no_two_lists_share_a_name(parts in proptest::array::uniform4("[0-9:,a]{0,6}")) {
            let name = join(&parts);
            prop_assert_eq!(split(&name), Some(parts.each_ref().map(|part| part.as_bytes())));
            prop_assert_eq!(split::<3>(&name), None);
            prop_assert_eq!(split::<5>(&name), None);
        }
    }
}
