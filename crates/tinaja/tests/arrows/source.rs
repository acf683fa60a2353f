//! What a source file uses of its own crate: read as text, without what is no code of the program.

/// Text without comments, strings, characters and what is compiled for tests only: each byte of these is a space, and lines
/// stay as they are.
pub struct Source {
    text: Vec<u8>,
    /// Files that are compiled for tests only, as `mod` or `path` names them.
    pub test_files: Vec<String>,
}

/// A path that begins at the crate's root, and the line it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The first name behind `crate::`.
    pub name: String,
    pub line: usize,
}

impl Source {
    pub fn of(text: &str) -> Self {
        let plain = without_words(text.as_bytes());
        let mut source = Source { text: plain, test_files: Vec::new() };
        source.leave_out_tests(text);
        source
    }

    /// Names of the modules that this file declares and that lie in files of their own.
    pub fn modules(&self) -> Vec<String> {
        let words = self.words();
        let of = |window: &[(usize, String)]| match window {
            [(_, word), (_, name), (_, end)] if word == "mod" && end == ";" => Some(name.clone()),
            _ => None,
        };
        words.windows(3).filter_map(of).collect()
    }

    /// What it uses of its crate, as a module that lies so deep: 0 is the root, 1 a file beside it. With a `folder` of the
    /// crate's, depths are below that, and so are the names that count.
    pub fn uses(&self, depth: usize, folder: Option<&str>) -> Vec<Use> {
        let words = self.words();
        let word = |at: usize| words.get(at).map_or("", |(_, word)| word.as_str());
        let mut uses = Vec::new();
        // Where each module that is written out here ends, by the number of open braces.
        let (mut braces, mut inner) = (0_usize, Vec::new());
        for at in 0..words.len() {
            match word(at) {
                "{" => braces += 1,
                "}" => {
                    braces = braces.saturating_sub(1);
                    inner.pop_if(|open| *open == braces);
                }
                "mod" if word(at + 2) == "{" => inner.push(braces),
                _ => {}
            }
            let begins = at.checked_sub(1).is_none_or(|before| !matches!(word(before), "::" | "$"));
            let behind = match word(at) {
                "crate" if begins => Some((at + 1, true)),
                "self" | "super" if begins => {
                    let from = at + if word(at) == "self" && word(at + 1) == "::" { 2 } else { 0 };
                    let supers =
                        (0..).take_while(|n| word(from + 2 * n) == "super" && word(from + 2 * n + 1) == "::").count();
                    let up = depth + inner.len();
                    // One more than to the folder's top is the crate's root.
                    let is_root = if folder.is_some() { supers > up } else { supers >= up };
                    (supers > 0 && supers >= up).then_some((from + 2 * supers - 1, is_root))
                }
                _ => None,
            };
            let Some((colons, is_root)) = behind.filter(|(colons, _)| word(*colons) == "::") else { continue };
            uses.extend(match folder {
                Some(folder) if is_root => names_below(&words, colons + 1, folder),
                _ => names(&words, colons + 1),
            });
        }
        uses.iter_mut().for_each(|used| used.line = self.line(used.line));
        uses
    }

    /// The number of the line with this byte.
    pub fn line(&self, at: usize) -> usize {
        1 + self.text.iter().take(at).filter(|byte| **byte == b'\n').count()
    }

    /// Names, numbers, `::` and single signs, each with where it begins.
    pub fn words(&self) -> Vec<(usize, String)> {
        let mut words: Vec<(usize, String)> = Vec::new();
        let mut at = 0;
        while let Some(&byte) = self.text.get(at) {
            let rest = self.text.get(at..).unwrap_or_default();
            let length = match byte {
                _ if is_name(byte) => rest.iter().take_while(|byte| is_name(**byte)).count(),
                b':' if rest.starts_with(b"::") => 2,
                _ => 1,
            };
            let word = rest.get(..length).unwrap_or_default();
            if !byte.is_ascii_whitespace() {
                words.push((at, String::from_utf8_lossy(word).into_owned()));
            }
            at += length;
        }
        words
    }

    /// Blank each item with an attribute that says it is there for tests only.
    fn leave_out_tests(&mut self, original: &str) {
        let words = self.words();
        let word = |at: usize| words.get(at).map_or("", |(_, word)| word.as_str());
        let mut at = 0;
        while at < words.len() {
            let (begin, mut tests) = (at, false);
            while word(at) == "#" && word(at + 1) == "[" {
                let end = closing(&words, at + 1);
                let inside: String = (at + 2..end).map(word).collect();
                tests |= inside == "cfg(test)" || inside.starts_with("cfg(all(test,");
                at = end + 1;
            }
            if !tests {
                at = at.max(begin + 1);
                continue;
            }
            let end = end_of_item(&words, at);
            let from = words.get(begin).map_or(0, |(from, _)| *from);
            let to = words.get(end).map_or(self.text.len(), |(to, word)| to + word.len());
            let item = original.get(from..to).unwrap_or_default();
            if let Some(module) = (at..end).find(|at| word(*at) == "mod").filter(|at| word(at + 2) == ";") {
                let path = item.split("path = \"").nth(1).and_then(|rest| rest.split('"').next());
                self.test_files.push(path.map_or(format!("{}.rs", word(module + 1)), str::to_owned));
            }
            blank(self.text.get_mut(from..to).unwrap_or_default());
            at = end + 1;
        }
    }
}

/// The names of a folder's files in a path from the crate's root, or in each path of a list in braces. The folder's own name
/// stands for the folder itself.
fn names_below(words: &[(usize, String)], at: usize, folder: &str) -> Vec<Use> {
    let word = |at: usize| words.get(at).map_or("", |(_, word)| word.as_str());
    if word(at) != "{" {
        return match (word(at) == folder, word(at + 1)) {
            (true, "::") => names(words, at + 2),
            (true, _) => names(words, at),
            _ => Vec::new(),
        };
    }
    let (mut depth, mut begins, mut found) = (0, false, Vec::new());
    for at in at..closing(words, at) {
        match word(at) {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ if begins => found.extend(names_below(words, at, folder)),
            _ => {}
        }
        begins = depth == 1 && matches!(word(at), "{" | ",");
    }
    found
}

/// The first names of a path, or of each path of a list in braces, from here on.
fn names(words: &[(usize, String)], at: usize) -> Vec<Use> {
    let Some((place, word)) = words.get(at) else { return Vec::new() };
    if word != "{" {
        return vec![Use { name: word.clone(), line: *place }];
    }
    let (mut depth, mut first, mut found) = (0, true, Vec::new());
    for (place, word) in words.get(at..closing(words, at)).unwrap_or_default() {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => first = true,
            name if depth == 1 && first => {
                found.push(Use { name: name.to_owned(), line: *place });
                first = false;
            }
            _ => {}
        }
    }
    found
}

/// Where what opens here is closed.
fn closing(words: &[(usize, String)], open: usize) -> usize {
    let mut depth = 0;
    for (at, (_, word)) in words.iter().enumerate().skip(open) {
        match word.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    words.len()
}

/// Where the item that begins here ends: with a semicolon or a comma, or with its body.
fn end_of_item(words: &[(usize, String)], from: usize) -> usize {
    let is_use = words.iter().skip(from).take(6).any(|(_, word)| word == "use");
    let mut at = from;
    while let Some((_, word)) = words.get(at) {
        match word.as_str() {
            ";" | "," | "}" => return at,
            "{" if !is_use => return closing(words, at),
            "(" | "[" | "{" => at = closing(words, at) + 1,
            _ => at += 1,
        }
    }
    at
}

/// The text with a space for each byte of comments, strings and characters.
fn without_words(text: &[u8]) -> Vec<u8> {
    let mut plain = text.to_vec();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        let after_name = at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(|byte| is_name(*byte));
        let length = match byte {
            b'/' if rest.starts_with(b"//") => rest.iter().take_while(|byte| **byte != b'\n').count(),
            b'/' if rest.starts_with(b"/*") => comment(rest),
            b'"' => string(rest),
            b'r' | b'b' | b'c' if !after_name => raw_string(rest).unwrap_or(0),
            b'\'' => character(rest),
            _ => 0,
        };
        blank(plain.get_mut(at..at + length).unwrap_or_default());
        at += length.max(1);
    }
    plain
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// The length of a comment that may hold others.
fn comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(two) = rest.get(at..at + 2) {
        match two {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match rest.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            Some(_) => at += 1,
            None => return rest.len(),
        }
    }
}

/// The length of a string as in `r#"..."#`, with `b` or `c` before it or not; `None` where it is another word.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let letters = rest.iter().take(2).take_while(|byte| byte.is_ascii_lowercase()).count();
    let hashes = rest.iter().skip(letters).take_while(|byte| **byte == b'#').count();
    let open = letters + hashes;
    let raw = rest.get(..letters)?.ends_with(b"r");
    if !raw || rest.get(open) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let inside = rest.get(open + 1..)?;
    let end = inside.windows(close.len()).position(|window| window == close).unwrap_or(inside.len());
    Some(open + 1 + end + close.len())
}

/// The length of a character; 1 for the sign before a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => 3 + rest.iter().skip(3).take_while(|byte| **byte != b'\'').count() + 1,
        Some(_) => {
            let length = rest.iter().skip(2).take(4).position(|byte| *byte == b'\'');
            let whole = length.filter(|length| *length == 0 || rest.get(1).is_some_and(|byte| !byte.is_ascii()));
            whole.map_or(1, |length| length + 3)
        }
        None => 1,
    }
}
