//! Settings that are one of a few words.

use std::str::FromStr;

/// A value for which a setting has words.
pub trait Words: Copy {
    /// What a text that is none of them is, as in `is not a role`.
    const WRONG: &'static str;

    /// Each word and what it means.
    fn words() -> Vec<(&'static str, Self)>;

    /// What else there is to say of a text that is none of them; nothing by default.
    fn besides(_text: &str) -> &'static str {
        ""
    }
}

/// Such a value, as it is read.
///
/// Errors: another word; with those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<T>(pub T);

impl<T: Words> FromStr for Word<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = T::words();
        if let Some((_, meant)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Word(*meant));
        }
        let quoted: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let choice = match quoted.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => quoted.concat(),
        };
        Err(format!("{text:?} {}; use {choice}{}", T::WRONG, T::besides(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Size(u8);

    impl Words for Size {
        const WRONG: &'static str = "is not a size";

        fn words() -> Vec<(&'static str, Self)> {
            vec![("small", Size(1)), ("middle", Size(2)), ("large", Size(3))]
        }

        fn besides(text: &str) -> &'static str {
            if text == "huge" { ", or buy a disk" } else { "" }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Only;

    impl Words for Only {
        const WRONG: &'static str = "is not the one";

        fn words() -> Vec<(&'static str, Self)> {
            vec![("this", Only)]
        }
    }

    #[test]
    fn words_are_read_or_told() {
        assert_eq!("middle".parse(), Ok(Word(Size(2))));
        assert_eq!("this".parse(), Ok(Word(Only)));
        for (text, why) in [
            ("Small", "\"Small\" is not a size; use \"small\", \"middle\" or \"large\""),
            ("", "\"\" is not a size; use \"small\", \"middle\" or \"large\""),
            ("huge", "\"huge\" is not a size; use \"small\", \"middle\" or \"large\", or buy a disk"),
        ] {
            assert_eq!(text.parse::<Word<Size>>().unwrap_err(), why);
        }
        assert_eq!("that".parse::<Word<Only>>().unwrap_err(), "\"that\" is not the one; use \"this\"");
    }
}
