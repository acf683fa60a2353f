//! The strings of a JSON document and where they stand, in one pass and bounded memory.
//!
//! It is no judge of what is valid: of what is malformed it finds some strings or none, and its reader must not trust it with more.

/// Bytes of a string at most; of a longer one nothing is told. URLs are shorter.
pub(super) const MOST_TEXT: usize = 4096;

/// Values that are deeper are passed over.
const MOST_DEPTH: usize = 6;

/// Keys that readers know. All others are "", as the places in a list are.
const KEYS: [&str; 16] = [
    "files",
    "url",
    "hashes",
    "sha256",
    "sha512",
    "core-metadata",
    "dist-info-metadata",
    "versions",
    "dist",
    "tarball",
    "integrity",
    "name",
    "vers",
    "cksum",
    "dl",
    "meta",
];

/// What is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A string that is a value; its keys, from the outermost on.
    Text(&'a [&'static str], &'a str),
    /// The end of an object or a list; its keys.
    End(&'a [&'static str]),
}

/// Reads one document, or one after the other. Memory: some 5 KB at most.
#[derive(Debug, Default)]
pub(super) struct Json {
    lines: bool,
    depth: usize,
    keys: [&'static str; MOST_DEPTH],
    inside: Inside,
    /// The string that is read, or that was read last.
    text: Vec<u8>,
    /// Its text is known.
    is_known: bool,
    /// It may be a key, or a value.
    is_open: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    Text,
    /// Behind a backslash.
    Escape,
    /// Behind `\u`: so many digits are missing, and those that came say this.
    Unicode(u8, u32),
}

impl Json {
    /// Reads lines of which each is a document, whatever came of the one before.
    pub fn of_lines() -> Json {
        Json { lines: true, ..Json::default() }
    }

    /// Reads the next piece.
    pub fn push(&mut self, mut piece: &[u8], find: &mut dyn FnMut(Found<'_>)) {
        while let Some((byte, rest)) = piece.split_first() {
            if self.inside == Inside::Text {
                let is_mark = |byte: &u8| matches!(byte, b'"' | b'\\' | b'\n');
                let plain = piece.iter().position(is_mark).unwrap_or(piece.len());
                if plain > 0 {
                    let (plain, rest) = piece.split_at(plain);
                    self.take(plain);
                    piece = rest;
                    continue;
                }
            }
            piece = rest;
            match self.inside {
                _ if *byte == b'\n' && self.lines => {
                    *self = Json { lines: true, text: std::mem::take(&mut self.text), ..Json::default() };
                }
                Inside::Nothing => self.outside(*byte, find),
                Inside::Text => match byte {
                    b'"' => self.inside = Inside::Nothing,
                    b'\\' => self.inside = Inside::Escape,
                    _ => self.is_known = false,
                },
                Inside::Escape => self.escape(*byte),
                Inside::Unicode(left, value) => self.unicode(*byte, left, value),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.is_known &= self.text.len() + bytes.len() <= MOST_TEXT;
        if self.is_known {
            self.text.extend_from_slice(bytes);
        }
    }

    fn escape(&mut self, byte: u8) {
        self.inside = Inside::Text;
        match byte {
            b'"' | b'\\' | b'/' => self.take(&[byte]),
            b'u' => self.inside = Inside::Unicode(4, 0),
            // No URL has a line's end in it.
            _ => self.is_known = false,
        }
    }

    fn unicode(&mut self, byte: u8, left: u8, value: u32) {
        let Some(digit) = char::from(byte).to_digit(16) else {
            (self.inside, self.is_known) = (Inside::Text, false);
            return;
        };
        let value = value << 4 | digit;
        self.inside = if left > 1 { Inside::Unicode(left - 1, value) } else { Inside::Text };
        if left == 1 {
            match u8::try_from(value).ok().filter(u8::is_ascii) {
                Some(letter) => self.take(&[letter]),
                None => self.is_known = false,
            }
        }
    }

    fn outside(&mut self, byte: u8, find: &mut dyn FnMut(Found<'_>)) {
        match byte {
            b'"' => {
                self.text.clear();
                (self.inside, self.is_known, self.is_open) = (Inside::Text, true, true);
            }
            b':' => {
                let key = KEYS.iter().find(|key| self.is_known && self.is_open && key.as_bytes() == self.text);
                self.set_key(key.copied().unwrap_or_default());
                self.is_open = false;
            }
            b'{' | b'[' => {
                (self.depth, self.is_open) = (self.depth.saturating_add(1), false);
                self.set_key("");
            }
            b',' => {
                self.end_value(find);
                self.set_key("");
            }
            b'}' | b']' => {
                self.end_value(find);
                self.depth = self.depth.saturating_sub(1);
                if let Some(keys) = self.keys.get(..self.depth) {
                    find(Found::End(keys));
                }
            }
            _ => {}
        }
    }

    fn set_key(&mut self, key: &'static str) {
        if let Some(place) = self.depth.checked_sub(1).and_then(|at| self.keys.get_mut(at)) {
            *place = key;
        }
    }

    /// A string that no colon has followed was a value.
    fn end_value(&mut self, find: &mut dyn FnMut(Found<'_>)) {
        let is_text = std::mem::take(&mut self.is_open) && self.is_known;
        if let (true, Some(keys), Ok(text)) = (is_text, self.keys.get(..self.depth), std::str::from_utf8(&self.text)) {
            find(Found::Text(keys, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found, whatever pieces it comes in.
    fn found(document: &str, lines: bool) -> Vec<String> {
        let mut all: Option<Vec<String>> = None;
        for size in [1, 2, 3, 7, document.len().max(1)] {
            let (mut json, mut one) = (Json { lines, ..Json::default() }, Vec::new());
            for piece in document.as_bytes().chunks(size) {
                json.push(piece, &mut |found| match found {
                    Found::Text(keys, text) => one.push(format!("{}={text}", keys.join("."))),
                    Found::End(keys) => one.push(format!("{};", keys.join("."))),
                });
            }
            assert!(all.as_ref().is_none_or(|all| *all == one), "pieces of {size}: {document}");
            all = Some(one);
        }
        all.unwrap()
    }

    #[test]
    fn strings_and_where_they_stand() {
        for (document, expected) in [
            (
                r#"{"files":[{"url":"a","x":1,"hashes":{"sha256":"b"}}]}"#,
                "files..url=a files..hashes.sha256=b files..hashes; files.; files; ;",
            ),
            (r#"{"name" : "a\/b\u0026\"\\" , "other":"c"}"#, r#"name=a/b&"\ =c ;"#),
            (r#"{"name":"\u00e4","vers":"a\nb","dl":"\uzz","cksum":"1"}"#, "cksum=1 ;"),
            (r#"["name","a"]"#, "=name =a ;"),
            (r#"{"name":{"name":"a"},"url":"b"}"#, "name.name=a name; url=b ;"),
            (r#"{"a:b,{":"}]","name":"c"}"#, "=}] name=c ;"),
            ("", ""),
            ("]}},:\"", "; ; ;"),
        ] {
            let found = found(document, false).join(" ");
            assert_eq!(
                found.replace(" ;", ";").trim_start_matches(';'),
                expected.replace(" ;", ";").trim_start_matches(';'),
                "{document}"
            );
        }
    }

    #[test]
    fn lines_are_told_apart() {
        let document = "{\"name\":\"a\"}\n{\"name\":\"b\n{\"name\":\"c\"}\n[[[{\n{\"name\":\"d\"}";
        let found: Vec<String> = found(document, true).into_iter().filter(|found| found.contains('=')).collect();
        assert_eq!(found, ["name=a", "name=c", "name=d"]);
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_passed_over_and_held_by_nobody() {
        let mut json = Json::default();
        let mut count = 0;
        let mut push = |json: &mut Json, text: &str| json.push(text.as_bytes(), &mut |_| count += 1);
        push(&mut json, "{\"name\":\"");
        let much = "x".repeat(1 << 20);
        for _ in 0..64 {
            push(&mut json, &much);
            assert!(json.text.capacity() <= 2 * MOST_TEXT);
        }
        push(&mut json, "\",\"vers\":\"1\",");
        push(&mut json, &"[".repeat(1 << 20));
        push(&mut json, "\"a\",\"b\"");
        push(&mut json, &"]".repeat(1 << 20));
        push(&mut json, ",\"dl\":\"2\"}");
        // Two strings, the ends of what is not too deep, and its own.
        assert_eq!(count, 2 + (MOST_DEPTH - 1) + 1 + 1);
    }
}
