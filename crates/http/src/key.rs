//! Names of stored responses, made from parts so that no part can pass for another.

/// Joins parts into one name, each with its length before it: `4:http,1:a,1:/,`. Two lists of parts have the same
/// name only if they are the same, whatever bytes are in them.
pub fn join<P: AsRef<[u8]>>(parts: &[P]) -> Vec<u8> {
    let mut key = Vec::with_capacity(parts.iter().map(|part| part.as_ref().len() + 6).sum());
    for part in parts {
        let part = part.as_ref();
        key.extend_from_slice(part.len().to_string().as_bytes());
        key.push(b':');
        key.extend_from_slice(part);
        key.push(b',');
    }
    key
}

/// The parts of a name that [`join`] made; `None` for any other bytes.
pub fn split(key: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let colon = rest.iter().position(|byte| *byte == b':')?;
        let (digits, behind) = rest.split_at_checked(colon)?;
        let length: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
        // One way to write a number: no sign, no zeros before it.
        if length.to_string().as_bytes() != digits {
            return None;
        }
        let (part, behind) = behind.get(1..)?.split_at_checked(length)?;
        rest = behind.strip_prefix(b",")?;
        parts.push(part);
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names() {
        for (parts, name) in [
            (vec![], ""),
            (vec![""], "0:,"),
            (vec!["", ""], "0:,0:,"),
            (vec!["http", "a", "/"], "4:http,1:a,1:/,"),
            (vec!["a,1:b"], "5:a,1:b,"),
        ] {
            assert_eq!(join(&parts), name.as_bytes());
            assert_eq!(split(name.as_bytes()).unwrap(), parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>());
        }
        for name in ["1:a", "1:ab,", "2:a,", ":a,", "+1:a,", "01:a,", "a", "1:a,x", "99999999999999999999:a,"] {
            assert_eq!(split(name.as_bytes()), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_two_lists_share_a_name(parts in proptest::collection::vec("[0-9:,a]{0,6}", 0..5)) {
            let name = join(&parts);
            let found: Vec<_> = split(&name).unwrap().iter().map(|part| part.to_vec()).collect();
            prop_assert_eq!(found, parts.iter().map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>());
        }
    }
}
