//! Cookies of a request, one by one (RFC 6265 4.2.1).

/// The cookies of one Cookie field, names with their values. What has no `=` is a name without a value.
fn cookies(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty());
    pairs.map(|pair| match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => (pair.get(..at).unwrap_or_default().trim_ascii_end(), pair),
        None => (pair, pair),
    })
}

/// The cookies of this name, whole, in their order.
fn named<'a>(lines: impl Iterator<Item = &'a [u8]>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    lines.flat_map(cookies).filter(move |(own, _)| *own == name.as_bytes()).map(|(_, pair)| pair)
}

/// One Cookie field with the cookies of these names, in the order of the names; empty without any.
pub(super) fn only(lines: &[&[u8]], names: &[String]) -> Vec<u8> {
    let kept: Vec<&[u8]> = names.iter().flat_map(|name| named(lines.iter().copied(), name)).collect();
    kept.join(&b"; "[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_count() {
        let names = ["lang".to_owned(), "b".to_owned()];
        for (lines, kept) in [
            (vec!["a=1; lang=de; b=2"], "lang=de; b=2"),
            (vec!["b=2;lang=de", "c=3; b=4"], "lang=de; b=2; b=4"),
            (vec!["lang"], "lang"),
            (vec!["Lang=x; langx=1; =lang; ; lang ="], "lang ="),
            (vec!["a=\"x; lang=1\""], "lang=1\""),
            (vec![""], ""),
            (vec![], ""),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
            assert_eq!(String::from_utf8(only(&lines, &names)).unwrap(), kept);
            let again = only(&[kept.as_bytes()], &names);
            assert_eq!(again, kept.as_bytes(), "once more");
        }
    }
}
