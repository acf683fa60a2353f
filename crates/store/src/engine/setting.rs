//! Settings of engines. Each is defined once, beside the engine that has it: flags, the configuration file, programs in C and
//! `--help` read the same definition.

use std::fmt;

/// What a setting takes. Every value is a number: a switch is 0 or 1, and a word its place among all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// On or off, and what each is called in a sentence.
    Switch {
        /// What 0 is called.
        off: &'static str,
        /// What 1 is called.
        on: &'static str,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A number in this range.
    Number {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A size in bytes. Which sizes there are the engine says.
    Bytes,
}

/// One setting, of one engine or of several.
#[derive(Debug)]
pub struct Setting {
    /// Its name, as a flag has it after two dashes. In a file `_` stands for `-`.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// What a value is called where flags are explained: `PERCENT`, `N`.
    pub value_name: &'static str,
    /// What it is for and its default, for `--help`. Empty for one that is no flag: the store sets it itself.
    pub help: &'static str,
    /// Whether it is written on the disk: a cache keeps what it was made with, and another value is refused.
    pub lasts: bool,
    /// What a cache that was made with another value "was made with", before the value: `hashes of`.
    pub made_with: &'static str,
    /// What follows the value there: `bits`.
    pub unit: &'static str,
    /// What is said of an engine that does not have it, after the engine's name.
    pub missing: &'static str,
    /// What is said of a number out of range; `{}` stands for the number. Empty where the engine says it itself.
    pub out_of_range: &'static str,
    /// The value that asks for nothing, so that it is no fault to give it to an engine without the setting.
    pub nothing: Option<u64>,
}

impl Setting {
    /// A value in words: `8 bits`, `on`, `bytes`.
    pub fn in_words(&self, value: u64) -> String {
        match self.takes {
            Takes::Switch { off, .. } if value == 0 => off.to_owned(),
            Takes::Switch { on, .. } => on.to_owned(),
            Takes::OneOf(words) => self.word(value, words).to_owned(),
            Takes::Number { .. } | Takes::Bytes => format!("{value} {}", self.unit).trim_end().to_owned(),
        }
    }

    fn word(&self, value: u64, words: &[&'static str]) -> &'static str {
        usize::try_from(value).ok().and_then(|at| words.get(at).copied()).unwrap_or("?")
    }

    /// What is wrong with a value whatever the engine, and what to do about it; `None` if nothing is.
    pub fn refusal(&self, value: u64) -> Option<String> {
        let (least, most) = match self.takes {
            Takes::Number { least, most } => (least, most),
            Takes::OneOf(words) if words.get(usize::try_from(value).unwrap_or(usize::MAX)).is_none() => {
                let (name, most, words) = (self.name, words.len().saturating_sub(1), words.join(", "));
                return Some(format!("{name} {value} is none of {words}: choose 0 to {most}, or leave it out"));
            }
            Takes::OneOf(_) | Takes::Switch { .. } | Takes::Bytes => return None,
        };
        if self.out_of_range.is_empty() {
            return None;
        }
        let wrong = || self.out_of_range.replace("{}", &value.to_string());
        (!(least..=most).contains(&value)).then(|| format!("{}: choose {least} to {most}, or leave it out", wrong()))
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Setting {}

/// Settings as they were said. What is not in them was not said: the engine's default holds, or what the disk was made
/// with. Memory: 16 bytes each.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(Vec<(&'static Setting, u64)>);

impl Settings {
    /// Nothing said.
    pub const fn new() -> Self {
        Settings(Vec::new())
    }

    /// The same with this said.
    #[must_use]
    pub fn with(mut self, setting: &'static Setting, value: u64) -> Self {
        self.set(setting, value);
        self
    }

    /// Say this.
    pub fn set(&mut self, setting: &'static Setting, value: u64) {
        match self.0.binary_search_by_key(&setting.name, |(other, _)| other.name) {
            Ok(at) => self.0.get_mut(at).into_iter().for_each(|said| said.1 = value),
            Err(at) => self.0.insert(at, (setting, value)),
        }
    }

    /// What was said of this.
    pub fn get(&self, setting: &Setting) -> Option<u64> {
        self.0.iter().find(|(other, _)| *other == setting).map(|(_, value)| *value)
    }

    /// Whether a switch was said to be on.
    pub fn is_on(&self, setting: &Setting) -> bool {
        self.get(setting) == Some(1)
    }

    /// All that was said, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, u64)> + '_ {
        self.0.iter().copied()
    }

    /// These, and of what they do not say what `others` say.
    #[must_use]
    pub fn over(mut self, others: &Settings) -> Self {
        for (setting, value) in others.iter() {
            if self.get(setting).is_none() {
                self.set(setting, value);
            }
        }
        self
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(setting, value)| (setting.name, value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PERCENT: Setting = Setting {
        name: "percent",
        takes: Takes::Number { least: 1, most: 100 },
        value_name: "N",
        help: "",
        lasts: false,
        made_with: "",
        unit: "percent",
        missing: "",
        out_of_range: "{} percent is not possible",
        nothing: None,
    };
    static SWITCH: Setting = Setting {
        name: "a-switch",
        takes: Takes::Switch { off: "off", on: "on" },
        value_name: "true|false",
        help: "",
        lasts: true,
        made_with: "switching",
        unit: "",
        missing: "",
        out_of_range: "",
        nothing: Some(0),
    };

    #[test]
    fn what_was_said_is_found_and_what_was_not_is_not() {
        let said = Settings::new().with(&PERCENT, 7).with(&SWITCH, 1).with(&PERCENT, 9);
        assert_eq!((said.get(&PERCENT), said.is_on(&SWITCH)), (Some(9), true));
        assert_eq!(said, Settings::new().with(&SWITCH, 1).with(&PERCENT, 9), "in whatever order");
        assert_eq!(Settings::new().get(&PERCENT), None);
        assert_eq!(format!("{said:?}"), r#"{"a-switch": 1, "percent": 9}"#);
        let over = Settings::new().with(&PERCENT, 1).over(&said);
        assert_eq!((over.get(&PERCENT), over.get(&SWITCH)), (Some(1), Some(1)));
    }

    #[test]
    fn a_number_out_of_range_is_refused_with_what_to_do() {
        assert_eq!((PERCENT.refusal(1), PERCENT.refusal(100), SWITCH.refusal(5)), (None, None, None));
        let refused = PERCENT.refusal(101).unwrap();
        assert_eq!(refused, "101 percent is not possible: choose 1 to 100, or leave it out");
        // A program that gave a number beyond the words got the first of them, without a word said.
        let words = Setting { name: "value", takes: Takes::OneOf(&["objects", "bytes"]), ..SWITCH };
        assert_eq!((words.refusal(0), words.refusal(1)), (None, None));
        let refused = words.refusal(2).unwrap();
        assert_eq!(refused, "value 2 is none of objects, bytes: choose 0 to 1, or leave it out");
        assert_eq!((PERCENT.in_words(3), SWITCH.in_words(1)), ("3 percent".into(), "on".into()));
    }
}
