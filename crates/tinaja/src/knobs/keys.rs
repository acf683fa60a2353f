//! Reading a file in which settings of engines stand among others.

use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use tinaja_store::engines::{Setting, Settings, Takes};

use super::{all, key};
use crate::values::{Size, Text};

/// Reads a table, and what it says of settings of engines.
///
/// Errors: those of the type that is read; a key that is neither that type's nor a setting's; a value that a setting does
/// not take. All of them say where, as far as the table does.
pub fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(table: D) -> Result<(T, Settings), D::Error> {
    let mut settings = Settings::new();
    let read = T::deserialize(Rest { inner: table, fields: &[], settings: &mut settings })?;
    Ok((read, settings))
}

/// A table, its visitor, or the access to its keys: without the settings of engines, which go their own way.
struct Rest<'a, T> {
    inner: T,
    /// The keys that whoever reads the rest knows.
    fields: &'static [&'static str],
    settings: &'a mut Settings,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Rest<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let Rest { inner, settings, .. } = self;
        inner.deserialize_struct(name, fields, Rest { inner: visitor, fields, settings })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Rest<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let Rest { inner, fields, settings } = self;
        inner.visit_map(Rest { inner: map, fields, settings })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        loop {
            match self.inner.next_key_seed(KeySeed { of_others: &mut seed, fields: self.fields })? {
                None => return Ok(None),
                Some(Key::Other(key)) => return Ok(Some(key)),
                Some(Key::Setting(setting)) => {
                    let value = self.inner.next_value_seed(ValueSeed(setting))?;
                    self.settings.set(setting, value);
                }
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

enum Key<T> {
    Setting(&'static Setting),
    Other(T),
}

struct KeySeed<'a, K> {
    /// Used up by the first key that is no setting's.
    of_others: &'a mut Option<K>,
    fields: &'static [&'static str],
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<'_, K> {
    type Value = Key<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let name = String::deserialize(deserializer)?;
        if let Some(setting) = all().find(|setting| key(setting) == name) {
            return Ok(Key::Setting(setting));
        }
        match self.of_others.take().filter(|_| self.fields.contains(&name.as_str())) {
            Some(seed) => {
                let name: StringDeserializer<D::Error> = name.into_deserializer();
                seed.deserialize(name).map(Key::Other)
            }
            None => Err(D::Error::custom(unknown(&name, self.fields))),
        }
    }
}

/// As serde says it, which does not know of settings.
fn unknown(name: &str, fields: &[&str]) -> String {
    let known = fields.iter().map(|field| (*field).to_owned()).chain(all().map(key));
    let known: Vec<_> = known.map(|name| format!("`{name}`")).collect();
    format!("unknown field `{name}`, expected one of {}", known.join(", "))
}

struct ValueSeed(&'static Setting);

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        match self.0.takes {
            Takes::Switch { .. } => bool::deserialize(deserializer).map(u64::from),
            Takes::OneOf(words) => {
                let word = String::deserialize(deserializer)?;
                let at = words.iter().position(|other| *other == word);
                at.map(|at| at as u64)
                    .ok_or_else(|| D::Error::custom(format!("{word:?} is none of {}", words.join(", "))))
            }
            Takes::Bytes => Text::deserialize(deserializer).map(|Text(Size(bytes))| bytes),
            Takes::Number { least, most } => {
                let number = i64::deserialize(deserializer)?;
                let within = u64::try_from(number).ok().filter(|number| (least..=most).contains(number));
                within.ok_or_else(|| D::Error::custom(format!("{number} is not from {least} to {most}")))
            }
        }
    }
}
