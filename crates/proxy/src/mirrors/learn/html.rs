//! The links of a page, in one pass and bounded memory.
//!
//! No parser of HTML: it looks for the start tags of anchors, as the pages of Python's simple index have them (PEP 503), wherever these stand.

/// Bytes of one tag at most. A longer one is passed over.
const MOST_TAG: usize = 8 * 1024;

/// An attribute's name, in lower case, and its value.
pub(super) type Attribute = (String, String);

/// Reads one page. Memory: 16 KB at most.
#[derive(Debug, Default)]
pub(super) struct Html {
    inside: bool,
    /// What came of the tag that is read, behind its `<`.
    tag: Vec<u8>,
    quote: Option<u8>,
    /// The page says that its links are relative to something else. Nothing is read from then on.
    pub has_base: bool,
}

/// One attribute after the other.
struct Attributes<'a>(&'a [u8]);

impl Html {
    /// Reads the next piece. Each anchor is found with its attributes.
    pub fn push(&mut self, mut piece: &[u8], find: &mut dyn FnMut(&[Attribute])) {
        while !self.has_base && !piece.is_empty() {
            if !self.inside {
                let Some(at) = piece.iter().position(|byte| *byte == b'<') else { return };
                piece = piece.get(at + 1..).unwrap_or_default();
                (self.inside, self.quote) = (true, None);
                self.tag.clear();
                continue;
            }
            let Some((byte, rest)) = piece.split_first() else { return };
            match (self.quote, byte) {
                (None, b'>') => {
                    self.inside = false;
                    self.end(find);
                }
                (None, b'"' | b'\'') => self.quote = Some(*byte),
                (Some(quote), byte) if *byte == quote => self.quote = None,
                _ => {}
            }
            if self.inside {
                self.tag.push(*byte);
                if !may_be_wanted(&self.tag) || self.tag.len() > MOST_TAG {
                    self.inside = false;
                    if *byte == b'<' {
                        // It is the next one's.
                        continue;
                    }
                }
            }
            piece = rest;
        }
    }

    fn end(&mut self, find: &mut dyn FnMut(&[Attribute])) {
        let (name, rest) =
            self.tag.split_at(self.tag.iter().position(u8::is_ascii_whitespace).unwrap_or(self.tag.len()));
        let attributes: Vec<_> = Attributes(rest).collect();
        if name.eq_ignore_ascii_case(b"a") {
            find(&attributes);
        } else if name.eq_ignore_ascii_case(b"base") && attributes.iter().any(|(name, _)| name == "href") {
            self.has_base = true;
        }
    }
}

/// Whether a tag that begins so may be an anchor, or what moves all links.
fn may_be_wanted(tag: &[u8]) -> bool {
    let name = tag.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'/');
    match name {
        Some(length) => tag.get(..length).is_some_and(is_wanted),
        None => ["a", "base"].iter().any(|name| {
            let begins = name.as_bytes().get(..tag.len());
            begins.is_some_and(|begins| begins.eq_ignore_ascii_case(tag))
        }),
    }
}

fn is_wanted(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"a") || name.eq_ignore_ascii_case(b"base")
}

impl Iterator for Attributes<'_> {
    type Item = Attribute;

    fn next(&mut self) -> Option<Attribute> {
        let Attributes(rest) = self;
        *rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return None;
        }
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'=';
        // Whatever stands first is of the name, so that each step gets further.
        let length = rest.iter().skip(1).position(is_end).map_or(rest.len(), |at| at + 1);
        let (name, behind) = rest.split_at(length);
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let behind = behind.trim_ascii_start();
        let Some(value) = behind.strip_prefix(b"=").map(<[u8]>::trim_ascii_start) else {
            *rest = behind;
            return Some((name, String::new()));
        };
        let (value, behind) = match value.split_first() {
            Some((quote @ (b'"' | b'\''), inner)) => {
                let end = inner.iter().position(|byte| byte == quote).unwrap_or(inner.len());
                let (value, behind) = inner.split_at(end);
                (value, behind.get(1..).unwrap_or_default())
            }
            _ => value.split_at(value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len())),
        };
        *rest = behind;
        Some((name, unescaped(&String::from_utf8_lossy(value))))
    }
}

/// A value with its references to characters resolved, as far as URLs have them.
fn unescaped(value: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(value.len()), value);
    while let Some((before, behind)) = rest.split_once('&') {
        text.push_str(before);
        rest = behind;
        let known = behind.split_once(';').filter(|(name, _)| name.len() <= 8).and_then(|(name, after)| {
            let number = match (name.strip_prefix("#x"), name.strip_prefix('#')) {
                (Some(hex), _) => u32::from_str_radix(hex, 16).ok(),
                (None, Some(decimal)) => decimal.parse().ok(),
                (None, None) => None,
            };
            let letter = match name {
                "amp" => Some('&'),
                "quot" => Some('"'),
                "apos" => Some('\''),
                "lt" => Some('<'),
                "gt" => Some('>'),
                _ => number.and_then(char::from_u32),
            };
            Some((letter?, after))
        });
        match known {
            Some((letter, after)) => {
                text.push(letter);
                rest = after;
            }
            None => text.push('&'),
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let mut all: Option<Vec<String>> = None;
        for size in [1, 2, 3, 5, page.len().max(1)] {
            let (mut html, mut one) = (Html::default(), Vec::new());
            for piece in page.as_bytes().chunks(size) {
                html.push(piece, &mut |attributes| {
                    let texts: Vec<_> = attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    one.push(texts.join(" "));
                });
            }
            assert!(all.as_ref().is_none_or(|all| *all == one), "pieces of {size}: {page}");
            all = Some(one);
        }
        all.unwrap()
    }

    #[test]
    fn anchors() {
        for (page, expected) in [
            ("<a href=\"x#y\">z</a>", vec!["href=x#y"]),
            ("<!DOCTYPE html><A\n HREF = 'x' data-y>z</A><a href=u>", vec!["href=x data-y=", "href=u"]),
            ("<a href=\"x?a&amp;b&#38;c&#x2B;&nbsp;&#xffffffff;\">", vec!["href=x?a&b&c+&nbsp;&#xffffffff;"]),
            ("<a title=\"a > b\" href='\"'>", vec!["title=a > b href=\""]),
            ("<<a href=x><abbr href=y><b href=z></a><area href=w><a/ href=v>", vec!["href=x"]),
            ("<a>", vec![""]),
            ("<a href=\"x\"<a href=y>", vec!["href=x <a= href=y"]),
            ("<a = == >", vec!["==="]),
            ("<a href=x><base href=y><a href=z>", vec!["href=x"]),
            ("<base target=x><a href=z>", vec!["href=z"]),
            ("<", vec![]),
        ] {
            let found = found(page);
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(
                found.iter().map(|found| found.trim()).collect::<Vec<_>>(),
                expected.iter().map(|found| found.trim()).collect::<Vec<_>>(),
                "{page}"
            );
        }
    }

    #[test]
    fn a_tag_without_an_end_is_given_up() {
        let (mut html, mut count) = (Html::default(), 0);
        html.push(b"<a href=\"", &mut |_| count += 1);
        for _ in 0..64 {
            html.push(&[b'x'; 1 << 20], &mut |_| count += 1);
            assert!(html.tag.capacity() <= 2 * MOST_TAG + 2);
        }
        html.push(b"\"><a href=y>", &mut |_| count += 1);
        assert_eq!(count, 1);
    }
}
