//! Settings of engines as flags and as keys of the configuration file. Both are made of the registry: none is named here.

mod keys;

use clap::builder::{BoolValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use tinaja_store::engines::{self, Setting, Settings, Takes};

use crate::values::Size;

pub use keys::read;

/// What flags say of engines' settings.
#[derive(Clone, Debug, Default)]
pub struct Knobs(pub Settings);

/// The settings that users may say, by name. The others the store sets itself.
fn all() -> impl Iterator<Item = &'static Setting> {
    engines::built_in().settings().into_iter().filter(|setting| !setting.help.is_empty())
}

/// What a setting is called in a file.
fn key(setting: &Setting) -> String {
    setting.name.replace('-', "_")
}

/// What nobody need say: values that ask for nothing, of settings that are not written on the disk.
pub fn defaults() -> Settings {
    let asks_nothing = |setting: &'static Setting| Some((setting, setting.nothing?));
    let all = all().filter(|setting| !setting.lasts).filter_map(asks_nothing);
    all.fold(Settings::new(), |defaults, (setting, value)| defaults.with(setting, value))
}

/// What `--engine` is for, with a line for each engine.
pub fn engines_help() -> String {
    let all = engines::built_in();
    let mut help = "Storage engine. Default: the engine that the cache was created with, or for a new one what finds the most with \
                    --memory: generational. The engines are:"
        .to_owned();
    for engine in all.iter() {
        help.push_str(&format!("\n- {engine}: {}", engine.about));
    }
    help
}

fn flag(setting: &'static Setting) -> Arg {
    let help = format!("{}. Only with {}", setting.help, engines::built_in().with_setting(setting));
    let flag = Arg::new(setting.name).long(setting.name).value_name(setting.value_name).help(help);
    match setting.takes {
        Takes::Switch { .. } => flag.value_parser(BoolValueParser::new().map(u64::from)),
        Takes::Number { least, most } => flag.value_parser(value_parser!(u64).range(least..=most)),
        Takes::OneOf(words) => flag.value_parser(PossibleValuesParser::new(words).map(|word| {
            // clap lets no other word through.
            words.iter().position(|other| **other == word).unwrap_or_default() as u64
        })),
        Takes::Bytes => flag.value_parser(|text: &str| text.parse().map(|Size(bytes)| bytes)),
    }
}

impl Args for Knobs {
    fn augment_args(command: Command) -> Command {
        command.args(all().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Knobs::augment_args(command)
    }
}

impl FromArgMatches for Knobs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut knobs = Knobs::default();
        knobs.update_from_arg_matches(matches)?;
        Ok(knobs)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in all() {
            if let Some(value) = matches.get_one(setting.name) {
                self.0.set(setting, *value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_registry() {
        let command = Knobs::augment_args(Command::new("test"));
        for setting in engines::built_in().settings() {
            let flag = command.get_arguments().find(|flag| flag.get_long() == Some(setting.name));
            // The store sets the others itself.
            assert_eq!(flag.is_some(), !setting.help.is_empty(), "{}", setting.name);
            let help = flag.map_or(String::new(), |flag| flag.get_help().unwrap().to_string());
            assert!(help.starts_with(setting.help), "{help}");
        }
        let said = |words: &[&str]| {
            let words = ["test"].iter().chain(words);
            command.clone().try_get_matches_from(words).and_then(|matches| Knobs::from_arg_matches(&matches))
        };
        assert_eq!(said(&[]).unwrap().0, Settings::new());
        for setting in all() {
            let (good, value, bad) = match setting.takes {
                Takes::Switch { .. } => ("true".to_owned(), 1, "2".to_owned()),
                Takes::Number { least, most } => {
                    (least.to_string(), least, most.checked_add(1).map_or("many".to_owned(), |more| more.to_string()))
                }
                Takes::OneOf(words) => (words[1].to_owned(), 1, "more".to_owned()),
                Takes::Bytes => ("8KiB".to_owned(), 8192, "many".to_owned()),
            };
            let flag = format!("--{}", setting.name);
            assert_eq!(said(&[&flag, &good]).unwrap().0, Settings::new().with(setting, value), "{flag}");
            assert!(said(&[&flag, &bad]).is_err(), "{flag} {bad}");
        }
    }

    #[test]
    fn every_engine_has_its_line() {
        let help = engines_help();
        for engine in engines::built_in().iter() {
            let line = format!("- {engine}: {}", engine.about);
            assert!(help.lines().any(|other| other == line), "{line} in {help}");
        }
        assert!(help.contains("generational. The engines are:"), "{help}");
    }
}
