//! Dictionaries of structured fields (RFC 8941 3.2 and 4.2.2), as far as caching needs them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;

use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser, Version};

/// The value of a member. Parameters, and the insides of what no cache directive uses, are checked and dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Integer(i64),
    Boolean(bool),
    Token(&'a str),
    String(Cow<'a, str>),
    /// A decimal, a byte sequence or an inner list.
    Other,
}

/// Reads a dictionary in linear time; of a key that comes twice the last value counts, at the first one's place.
/// `None` where any part of it is malformed: RFC 8941 4.2 leaves nothing of such a field. Empty text is an empty
/// dictionary.
pub(crate) fn dictionary(text: &str) -> Option<Vec<(&str, Value<'_>)>> {
    // What RFC 9651 added, dates and display strings, is malformed in the fields of RFC 9213.
    Parser::new(text).with_version(Version::Rfc8941).parse_dictionary_with_visitor(Members::default()).ok()
}

#[derive(Default)]
struct Members<'a> {
    members: Vec<(&'a str, Value<'a>)>,
    places: HashMap<&'a str, usize>,
}

struct Member<'m, 'a>(Option<&'m mut Value<'a>>);

impl<'a> DictionaryVisitor<'a> for Members<'a> {
    type Out = Vec<(&'a str, Value<'a>)>;
    type Error = Infallible;

    fn entry(&mut self, key: &'a KeyRef) -> Result<impl EntryVisitor<'a>, Infallible> {
        let key = key.as_str();
        let place = *self.places.entry(key).or_insert(self.members.len());
        if place == self.members.len() {
            self.members.push((key, Value::Other));
        }
        Ok(Member(self.members.get_mut(place).map(|(_, value)| value)))
    }

    fn finish(self) -> Result<Self::Out, Infallible> {
        Ok(self.members)
    }
}

impl<'a> EntryVisitor<'a> for Member<'_, 'a> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'a>, Infallible> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'a>, Infallible> {
        if let Some(value) = self.0 {
            *value = Value::Other;
        }
        Ok(Ignored)
    }
}

impl<'a> ItemVisitor<'a> for Member<'_, 'a> {
    type Out = ();
    type Error = Infallible;

    fn bare_item(self, item: BareItemFromInput<'a>) -> Result<impl ParameterVisitor<'a, Out = ()>, Infallible> {
        if let Some(value) = self.0 {
            *value = match item {
                BareItemFromInput::Integer(integer) => Value::Integer(integer.into()),
                BareItemFromInput::Boolean(boolean) => Value::Boolean(boolean),
                BareItemFromInput::String(Cow::Borrowed(string)) => Value::String(Cow::Borrowed(string.as_str())),
                BareItemFromInput::String(Cow::Owned(string)) => Value::String(Cow::Owned(string.into())),
                BareItemFromInput::Token(token) => Value::Token(token.as_str()),
                _ => Value::Other,
            };
        }
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries() {
        let member = |key: &'static str, value: Value<'static>| (key, value);
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
            ("a=t:o/k*", vec![member("a", Value::Token("t:o/k*"))]),
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
            "a=:b:",
            "a=:=aGk:",
            "a=:a=Gk:",
            "a=é",
            "1=a",
            "a=@1",
            "a=%\"x\"",
            "\ta",
            "a=1,,b",
        ] {
            assert_eq!(dictionary(text), None, "{text}");
        }
    }
}
