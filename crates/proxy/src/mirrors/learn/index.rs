//! Indexes of each kind: what they say of files, piece by piece. No I/O, no table, no URLs: links are as they are written.

use super::html::{Attribute, Html};
use super::json::{Found, Json};
use super::packages::Packages;
use crate::mirrors::sum::{Hash, Sum};

/// What an index says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// What is behind this link, whole or relative.
    Link(&'a str, Sum),
    /// What is at this path below the archive, as it is: no escapes.
    File(&'a str, Sum),
    /// A crate of this name and version, and its SHA-256 in hexadecimal digits.
    Crate(&'a str, &'a str, &'a str),
    /// Where crates are.
    Downloads(&'a str),
}

/// Reads one index. Memory: some 20 KB at most, and what [`super::unpack`] takes where it is compressed.
#[derive(Debug)]
pub(super) enum Index {
    /// A page of Python's simple index (PEP 503).
    Page(Html),
    /// The same in JSON (PEP 691).
    Project(Json, Project),
    /// A document of npm's registry.
    Document(Json, Document),
    /// Lines of Cargo's sparse index.
    Crates(Json, Crate),
    /// Its `config.json`.
    Config(Json),
    /// An archive's `Packages`.
    Packages(Packages),
}

/// One file of a project.
#[derive(Debug, Default)]
pub(super) struct Project {
    url: Option<String>,
    sum: Option<Sum>,
    /// Of what is beside it (PEP 658).
    metadata: Option<Sum>,
}

/// One version of a package.
#[derive(Debug, Default)]
pub(super) struct Document {
    tarball: Option<String>,
    sum: Option<Sum>,
}

/// One version of a crate.
#[derive(Debug, Default)]
pub(super) struct Crate {
    name: Option<String>,
    version: Option<String>,
    hex: Option<String>,
}

impl Index {
    pub fn project() -> Index {
        Index::Project(Json::default(), Project::default())
    }

    pub fn document() -> Index {
        Index::Document(Json::default(), Document::default())
    }

    pub fn crates() -> Index {
        Index::Crates(Json::of_lines(), Crate::default())
    }

    /// Reads the next piece.
    pub fn push(&mut self, piece: &[u8], say: &mut dyn FnMut(Said<'_>)) {
        match self {
            Index::Page(html) => html.push(piece, &mut |attributes| anchor(attributes, say)),
            Index::Project(json, project) => json.push(piece, &mut |found| project.take(found, say)),
            Index::Document(json, document) => json.push(piece, &mut |found| document.take(found, say)),
            Index::Crates(json, of) => json.push(piece, &mut |found| of.take(found, say)),
            Index::Config(json) => json.push(piece, &mut |found| {
                if let Found::Text(["dl"], text) = found {
                    say(Said::Downloads(text));
                }
            }),
            Index::Packages(packages) => packages.push(piece, &mut |file, sum| say(Said::File(file, sum))),
        }
    }

    /// Whether it was not read, for others are, and is to be read the next time.
    pub fn is_put_off(&self) -> bool {
        matches!(self, Index::Packages(packages) if packages.is_put_off())
    }

    /// There are no more pieces.
    pub fn end(&mut self, say: &mut dyn FnMut(Said<'_>)) {
        match self {
            Index::Packages(packages) => packages.end(&mut |file, sum| say(Said::File(file, sum))),
            Index::Crates(json, of) => json.push(b"\n", &mut |found| of.take(found, say)),
            _ => {}
        }
    }
}

/// `sha256=00ff...`, as fragments and attributes have it.
fn assigned(text: &str) -> Option<Sum> {
    let (name, hex) = text.split_once('=')?;
    Sum::hex(Hash::named(name)?, hex)
}

fn anchor(attributes: &[Attribute], say: &mut dyn FnMut(Said<'_>)) {
    let value = |wanted: &str| attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let Some(href) = value("href") else { return };
    let (url, fragment) = href.split_once('#').unwrap_or((href, ""));
    if let Some(sum) = fragment.split('&').find_map(assigned) {
        say(Said::Link(url, sum));
    }
    let metadata = ["data-core-metadata", "data-dist-info-metadata"].into_iter().find_map(value);
    if let Some(sum) = metadata.and_then(assigned) {
        say(Said::Link(&format!("{url}.metadata"), sum));
    }
}

impl Project {
    fn take(&mut self, found: Found<'_>, say: &mut dyn FnMut(Said<'_>)) {
        match found {
            Found::Text(["files", "", "url"], text) => self.url = Some(text.to_owned()),
            // As pages have it; another is taken where there is none.
            Found::Text(["files", "", "hashes", "sha256"], hex) => self.sum = Sum::hex(Hash::Sha256, hex).or(self.sum),
            Found::Text(["files", "", "hashes", "sha512"], hex) => self.sum = self.sum.or(Sum::hex(Hash::Sha512, hex)),
            Found::Text(["files", "", "core-metadata" | "dist-info-metadata", "sha256"], hex) => {
                self.metadata = Sum::hex(Hash::Sha256, hex);
            }
            Found::End(["files", ""]) => {
                let Project { url, sum, metadata } = std::mem::take(self);
                let Some(url) = url else { return };
                sum.into_iter().for_each(|sum| say(Said::Link(&url, sum)));
                metadata.into_iter().for_each(|sum| say(Said::Link(&format!("{url}.metadata"), sum)));
            }
            _ => {}
        }
    }
}

impl Document {
    /// Only what the registry itself says of its versions: all else in a document may be its publisher's.
    fn take(&mut self, found: Found<'_>, say: &mut dyn FnMut(Said<'_>)) {
        match found {
            Found::Text(["versions", _, "dist", "tarball"] | ["dist", "tarball"], text) => {
                self.tarball = Some(text.to_owned());
            }
            Found::Text(["versions", _, "dist", "integrity"] | ["dist", "integrity"], text) => {
                self.sum = Sum::sri(text);
            }
            Found::End(["versions", _, "dist"] | ["dist"]) => {
                let Document { tarball, sum } = std::mem::take(self);
                if let (Some(tarball), Some(sum)) = (tarball, sum) {
                    say(Said::Link(&tarball, sum));
                }
            }
            _ => {}
        }
    }
}

impl Crate {
    fn take(&mut self, found: Found<'_>, say: &mut dyn FnMut(Said<'_>)) {
        match found {
            Found::Text(["name"], text) => self.name = Some(text.to_owned()),
            Found::Text(["vers"], text) => self.version = Some(text.to_owned()),
            Found::Text(["cksum"], text) => self.hex = Some(text.to_owned()),
            Found::End([]) => {
                if let Crate { name: Some(name), version: Some(version), hex: Some(hex) } = std::mem::take(self) {
                    say(Said::Crate(&name, &version, &hex));
                }
            }
            _ => {}
        }
    }
}

/// Where a crate is, by an index's `dl`: a template, or what comes before its name and version.
pub(super) fn crate_url(dl: &str, name: &str, version: &str, hex: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let marks = ["{crate}", "{version}", "{prefix}", "{lowerprefix}", "{sha256-checksum}"];
    if !marks.iter().any(|mark| dl.contains(mark)) {
        return Some(format!("{dl}/{name}/{version}/download"));
    }
    let url = dl.replace("{crate}", name).replace("{version}", version).replace("{prefix}", &prefix(name)?);
    Some(url.replace("{lowerprefix}", &prefix(&lower)?).replace("{sha256-checksum}", hex))
}

/// The folders that a crate is in, in an index.
fn prefix(name: &str) -> Option<String> {
    match name.len() {
        0 => None,
        1 => Some("1".to_owned()),
        2 => Some("2".to_owned()),
        3 => Some(format!("3/{}", name.get(..1)?)),
        _ => Some(format!("{}/{}", name.get(..2)?, name.get(2..4)?)),
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
