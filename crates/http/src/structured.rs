//! Dictionaries of structured fields (RFC 8941 3.2 and 4.2.2), as far as caching needs them.

/// The value of a member. Parameters, and the insides of what no cache directive uses, are checked and dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Integer(i64),
    Boolean(bool),
    Token(String),
    String(String),
    /// A decimal, a byte sequence or an inner list.
    Other,
}

/// Reads a dictionary in linear time; of a key that comes twice the last value counts, at the first one's place.
/// `None` where any part of it is malformed: RFC 8941 4.2 leaves nothing of such a field. Empty text is an empty
/// dictionary.
pub(crate) fn dictionary(text: &str) -> Option<Vec<(String, Value)>> {
    let mut cursor = Cursor { rest: text.trim_matches(' ') };
    let mut members: Vec<(String, Value)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    while !cursor.rest.is_empty() {
        let key = cursor.key()?;
        let value = if cursor.take('=') { cursor.item_or_list()? } else { Value::Boolean(true) };
        cursor.parameters()?;
        let place = *places.entry(key.clone()).or_insert(members.len());
        match members.get_mut(place) {
            Some(member) => member.1 = value,
            None => members.push((key, value)),
        }
        cursor.skip(&[' ', '\t']);
        if cursor.rest.is_empty() {
            break;
        }
        let more = cursor.take(',');
        cursor.skip(&[' ', '\t']);
        if !more || cursor.rest.is_empty() {
            return None;
        }
    }
    Some(members)
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip(&mut self, blanks: &[char]) {
        self.rest = self.rest.trim_start_matches(blanks);
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<String> {
        if !self.rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '*') {
            return None;
        }
        Some(self.take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.*".contains(c)).to_owned())
    }

    /// `;key` or `;key=value`, any number of them (RFC 8941 4.2.3.2).
    fn parameters(&mut self) -> Option<()> {
        while self.take(';') {
            self.skip(&[' ']);
            self.key()?;
            if self.take('=') {
                self.item()?;
            }
        }
        Some(())
    }

    fn item_or_list(&mut self) -> Option<Value> {
        if !self.take('(') {
            return self.item();
        }
        loop {
            self.skip(&[' ']);
            if self.take(')') {
                return Some(Value::Other);
            }
            self.item()?;
            self.parameters()?;
            if !self.rest.starts_with([' ', ')']) {
                return None;
            }
        }
    }

    /// One bare item (RFC 8941 4.2.3.1).
    fn item(&mut self) -> Option<Value> {
        match self.rest.chars().next()? {
            '-' | '0'..='9' => self.number(),
            '"' => self.string().map(Value::String),
            '*' | 'a'..='z' | 'A'..='Z' => {
                let token = |c: char| u8::try_from(c).is_ok_and(crate::words::is_token_byte) || ":/".contains(c);
                Some(Value::Token(self.take_while(token).to_owned()))
            }
            ':' => {
                self.take(':');
                self.take_while(|c| c.is_ascii_alphanumeric() || "+/=".contains(c));
                self.take(':').then_some(Value::Other)
            }
            '?' => {
                self.take('?');
                (self.take('1').then_some(true)).or_else(|| self.take('0').then_some(false)).map(Value::Boolean)
            }
            _ => None,
        }
    }

    /// Up to 15 digits, or up to 12, a point and one to three more.
    fn number(&mut self) -> Option<Value> {
        let minus = self.take('-');
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        if self.take('.') {
            let decimals = self.take_while(|c| c.is_ascii_digit());
            return (digits.len() <= 12 && (1..=3).contains(&decimals.len())).then_some(Value::Other);
        }
        let number: i64 = digits.parse().ok()?;
        Some(Value::Integer(if minus { -number } else { number }))
    }

    fn string(&mut self) -> Option<String> {
        self.take('"');
        let mut string = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(string);
                }
                '\\' => string.push(chars.next().map(|(_, c)| c).filter(|c| "\"\\".contains(*c))?),
                ' '..='~' => string.push(c),
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries() {
        let member = |key: &str, value: Value| (key.to_owned(), value);
        for (text, expected) in [
            ("", vec![]),
            ("  ", vec![]),
            ("a", vec![member("a", Value::Boolean(true))]),
            ("a=?0, b=?1", vec![member("a", Value::Boolean(false)), member("b", Value::Boolean(true))]),
            ("max-age=60", vec![member("max-age", Value::Integer(60))]),
            ("a=-5;x=1;y", vec![member("a", Value::Integer(-5))]),
            ("a=1 ,\tb=2", vec![member("a", Value::Integer(1)), member("b", Value::Integer(2))]),
            ("a=1,b=2,a=3", vec![member("a", Value::Integer(3)), member("b", Value::Integer(2))]),
            ("a=\"x\\\"y, z\"", vec![member("a", Value::String("x\"y, z".into()))]),
            ("a=t:o/k*", vec![member("a", Value::Token("t:o/k*".into()))]),
            ("a=1.5", vec![member("a", Value::Other)]),
            ("a=:aGk=:", vec![member("a", Value::Other)]),
            ("a=( \"x\";q=1 2  z ), b", vec![member("a", Value::Other), member("b", Value::Boolean(true))]),
            ("a=()", vec![member("a", Value::Other)]),
        ] {
            assert_eq!(dictionary(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn malformed() {
        for text in [
            ",",
            "a,",
            "a=,",
            "a= 1",
            "A=1",
            "a=1 b=2",
            "a=1;",
            "a=1;B",
            "a=?2",
            "a=?",
            "a=\"x",
            "a=\"\\x\"",
            "a=\"é\"",
            "a=1.",
            "a=1.2345",
            "a=1234567890123456",
            "a=1234567890123.5",
            "a=-",
            "a=(1",
            "a=(1\"x\")",
            "a=:x",
            "a=é",
            "1=a",
            "a=@1",
            "\ta",
            "a=1,,b",
        ] {
            assert_eq!(dictionary(text), None, "{text}");
        }
    }
}
