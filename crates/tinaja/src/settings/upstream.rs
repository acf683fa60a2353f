//! How a route's origins are asked: `[listener.upstream]` and `[listener.route.upstream]`, as written and as meant.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use tinaja_proxy::{Balance, CertificateFiles, Check, OriginTls, OriginUrl, Upstream};

use super::words::{Word, Words};
use crate::values::{Limit, Number, Text};

/// The settings of one route's origins. What is not there keeps its default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileUpstream {
    balance: Option<Text<Word<Balance>>>,
    tries: Option<Number<1, 10>>,
    retry_within: Option<Text<Limit>>,
    fails: Option<Number<1, 1000>>,
    rest: Option<Text<Limit>>,
    check: Option<Text<Path>>,
    check_interval: Option<Text<Limit>>,
    check_passes: Option<Number<1, 1000>>,
    connect: Option<Text<Limit>>,
    origin_stall: Option<Text<Limit>>,
    keep: Option<Number<0, 10_000>>,
    keep_for: Option<Text<Limit>>,
    http2: Option<bool>,
    authority: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Words for Balance {
    const WRONG: &'static str = "is not a balancing method";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("first", Balance::First), ("round-robin", Balance::RoundRobin), ("hash", Balance::Hash)]
    }
}

/// A path that is asked for as it stands.
#[derive(Clone, Debug)]
struct Path(String);

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        let path = plain.then(|| Path(text.to_owned()));
        path.ok_or_else(|| format!("{text:?} is not a path to request; write it as in /healthz"))
    }
}

/// The origins of a route, if it has any: one, or a list, and how they are asked.
///
/// Errors: settings that do not go together, with what to do.
pub fn upstream(
    origin: Option<OriginUrl>,
    origins: Option<Vec<OriginUrl>>,
    file: Option<FileUpstream>,
) -> Result<Option<Upstream>, String> {
    let origins = match (origin, origins) {
        (Some(_), Some(_)) => return Err("origin and origins are both set: put all of them into the list".into()),
        (Some(origin), None) => vec![origin],
        (None, Some(origins)) => origins,
        (None, None) if file.is_some() => return Err("upstream is set but there are no origins: name some".into()),
        (None, None) => return Ok(None),
    };
    let Some(first) = origins.first().cloned() else {
        return Err("the list of origins is empty; name at least one, as in http://127.0.0.1:8080".into());
    };
    let default = Upstream { origins, ..Upstream::from(first) };
    file.unwrap_or_default().over(default).map(Some)
}

impl FileUpstream {
    fn over(self, default: Upstream) -> Result<Upstream, String> {
        let time = |set: Option<Text<Limit>>| set.map(|Text(Limit(time))| time);
        let check = match self.check {
            Some(Text(Path(path))) => {
                let default = Check::of(path);
                let interval = time(self.check_interval).unwrap_or(default.interval);
                let passes = self.check_passes.map_or(default.passes, |Number(passes)| passes);
                Some(Check { interval, passes, ..default })
            }
            None if self.check_interval.is_some() || self.check_passes.is_some() => {
                return Err("nothing is checked: set check to the path to request, as in \"/healthz\"".into());
            }
            None => None,
        };
        let certificate = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            (None, None) => None,
            _ => return Err("certificate and key belong together: name both files, or neither".into()),
        };
        let tls = OriginTls { authority: self.authority, certificate };
        if tls != OriginTls::default() && !default.origins.iter().any(|origin| origin.to_string().starts_with("https:"))
        {
            return Err("authority, certificate and key need an origin with https, and there is none".into());
        }
        Ok(Upstream {
            balance: self.balance.map_or(default.balance, |Text(Word(balance))| balance),
            tries: self.tries.map_or(default.tries, |Number(tries)| tries),
            retry_within: time(self.retry_within).unwrap_or(default.retry_within),
            fails: self.fails.map_or(default.fails, |Number(fails)| fails),
            rest: time(self.rest).unwrap_or(default.rest),
            check,
            connect: time(self.connect),
            stall: time(self.origin_stall),
            keep: self.keep.map_or(default.keep, |Number(keep)| keep as usize),
            keep_for: time(self.keep_for).unwrap_or(default.keep_for),
            http2: self.http2.unwrap_or(default.http2),
            tls,
            origins: default.origins,
        })
    }
}
