//! `[cluster]`: other machines with the same cache.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Deserialize;
use tinaja_cluster::Joining;
use tinaja_cluster::disks::Disks;
use tinaja_cluster::limits::MAX_DISK_COPIES;
use tinaja_cluster::members::Role;
use tinaja_cluster::scheme::{Scheme, Small};
use tinaja_cluster::tls::Files;

use super::file::Name;
use super::words::{Word, Words};
use crate::values::{Address, Limit, Size, Text};

/// `[cluster]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCluster {
    #[serde(default)]
    name: Option<Text<Name>>,
    node: Text<Name>,
    listen: Text<Address>,
    #[serde(default)]
    advertise: Option<Text<Address>>,
    #[serde(default)]
    seeds: Vec<String>,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    #[serde(default)]
    scheme: Option<Text<Word<SchemeName>>>,
    #[serde(default)]
    small_objects: Option<Text<Size>>,
    #[serde(default)]
    small_scheme: Option<Text<Word<SmallName>>>,
    #[serde(default)]
    memory: Option<Text<Size>>,
    #[serde(default)]
    object_size: Option<Text<Size>>,
    #[serde(default)]
    role: Option<Text<Word<Role>>>,
    #[serde(default)]
    disk: Option<Text<Word<DiskName>>>,
    #[serde(default)]
    copies: Option<usize>,
    #[serde(default)]
    one_sided: Vec<String>,
    #[serde(default)]
    patience: Option<Text<Limit>>,
}

/// A scheme's name in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemeName {
    Bcc,
    Ccwr,
    Mtacc,
    Hybcc,
}

impl Words for SchemeName {
    const WRONG: &'static str = "is not a scheme";

    fn words() -> Vec<(&'static str, Self)> {
        vec![
            ("bcc", SchemeName::Bcc),
            ("ccwr", SchemeName::Ccwr),
            ("mtacc", SchemeName::Mtacc),
            ("hybcc", SchemeName::Hybcc),
        ]
    }
}

/// What hybcc does with small objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SmallName(Small);

impl Words for SmallName {
    const WRONG: &'static str = "is no scheme for small objects";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("bcc", SmallName(Small::AsBcc)), ("ccwr", SmallName(Small::AsCcwr))]
    }
}

impl Words for Role {
    const WRONG: &'static str = "is not a role";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("proxy", Role::Proxy), ("passive", Role::Passive)]
    }
}

/// On whose disks objects lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskName {
    Own,
    Home,
}

impl Words for DiskName {
    const WRONG: &'static str = "does not say on whose disks objects lie";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("own", DiskName::Own), ("home", DiskName::Home)]
    }
}

impl FileCluster {
    /// As the cluster takes it.
    ///
    /// Errors: what does not go together.
    pub fn joining(self) -> Result<Joining> {
        let default = Joining::default();
        let scheme = self.scheme.map_or(SchemeName::Ccwr, |Text(Word(scheme))| scheme);
        let of_hybcc = [("small_objects", self.small_objects.is_some()), ("small_scheme", self.small_scheme.is_some())];
        if let Some((name, _)) = of_hybcc.iter().find(|(_, is_set)| *is_set && scheme != SchemeName::Hybcc) {
            bail!("[cluster] {name} is for scheme = \"hybcc\" alone: leave it out");
        }
        let disks = match (self.disk.map(|Text(Word(disk))| disk), self.copies) {
            (Some(DiskName::Home), copies) => Disks::Home { copies: copies.unwrap_or(1) },
            (_, None | Some(1)) => Disks::Own,
            (_, Some(_)) => {
                bail!("[cluster] copies is for disk = \"home\" alone: leave it out, or set disk = \"home\"")
            }
        };
        if let Disks::Home { copies } = disks
            && !(1..=MAX_DISK_COPIES).contains(&copies)
        {
            bail!("[cluster] copies is {copies}; use a number from 1 to {MAX_DISK_COPIES}");
        }
        let size = |given: Option<Text<Size>>, default| given.map_or(default, |Text(Size(bytes))| bytes);
        let small_bytes = u32::try_from(size(self.small_objects, 8 << 10)).unwrap_or(u32::MAX);
        let small = self.small_scheme.map_or(Small::AsBcc, |Text(Word(SmallName(small)))| small);
        let Text(Name(node)) = self.node;
        let Text(Address(listen)) = self.listen;
        let advertise = self.advertise.map(|Text(Address(address))| address);
        if listen.ip().is_unspecified() && advertise.is_none() {
            bail!(
                "[cluster] listen is every address of this machine: say with advertise which of them the other nodes use"
            );
        }
        let patience = self.patience.map_or(default.patience, |Text(Limit(limit))| limit);
        if !(Duration::from_millis(10)..=Duration::from_secs(10)).contains(&patience) {
            bail!("[cluster] patience is {patience:?}; use a time from 10ms to 10s");
        }
        if let Some(seed) =
            self.seeds.iter().find(|seed| seed.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()))
        {
            bail!("[cluster] seeds: {seed:?} is no address; write HOST:PORT, as in \"10.0.0.2:7946\"");
        }
        if let Some(way) = self.one_sided.iter().find(|way| way.is_empty() || way.contains([',', ' '])) {
            bail!(
                "[cluster] one_sided: {way:?} is no way to read memory; use \"memory\", or an interface as in \"mlx5_0:1\""
            );
        }
        Ok(Joining {
            cluster: self.name.map_or(default.cluster, |Text(Name(name))| name),
            node,
            listen,
            advertise,
            seeds: self.seeds,
            files: Files { ca: self.ca, certificate: self.certificate, key: self.key },
            scheme: match scheme {
                SchemeName::Bcc => Scheme::Bcc,
                SchemeName::Ccwr => Scheme::Ccwr,
                SchemeName::Mtacc => Scheme::Mtacc,
                SchemeName::Hybcc => Scheme::Hybcc { small_bytes, small },
            },
            memory_bytes: size(self.memory, default.memory_bytes),
            object_bytes: size(self.object_size, default.object_bytes),
            role: self.role.map_or(default.role, |Text(Word(role))| role),
            disks,
            one_sided: self.one_sided,
            patience,
            protocol: default.protocol,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes whose rules for small objects differ are refused: each word is a scheme of its own.
    #[test]
    fn the_rule_for_small_objects_is_part_of_the_scheme() {
        let scheme = |more: &str| {
            let text = format!(
                "node = \"n\"\nlisten = \"127.0.0.1:1\"\nca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\nscheme = \"hybcc\"\n{more}"
            );
            toml::from_str::<FileCluster>(&text).unwrap().joining().unwrap().scheme
        };
        let hybcc = |small| Scheme::Hybcc { small_bytes: 8 << 10, small };
        assert_eq!(scheme(""), hybcc(Small::AsBcc));
        assert_eq!(scheme("small_scheme = \"bcc\""), hybcc(Small::AsBcc));
        assert_eq!(scheme("small_scheme = \"ccwr\""), hybcc(Small::AsCcwr));
    }
}
