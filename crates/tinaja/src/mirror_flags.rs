//! `--mirror`: sources of packages as flags, in place of a configuration file.

use std::str::FromStr;

use tinaja_proxy::mirrors::{Kind, ListedHost, Mirror, MirrorUrl};

/// One `--mirror`: `pip=https://index.example.org/simple/,files.example.org`.
#[derive(Clone, Debug)]
pub struct MirrorFlag {
    kind: Kind,
    origin: MirrorUrl,
    hosts: Vec<ListedHost>,
}

impl FromStr for MirrorFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let how = "write it as in pip=https://index.example.org/simple/,files.example.org";
        let (kind, rest) = text.split_once('=').ok_or_else(|| format!("{text:?} is not a mirror; {how}"))?;
        let mut parts = rest.split(',');
        let url = parts.next().unwrap_or_default();
        // pip is told the index's own URL; its files lie beside it on many servers.
        let kind: Kind = kind.parse()?;
        let url = if kind == Kind::Pip { url.trim_end_matches('/').trim_end_matches("/simple") } else { url };
        let origin = url.parse().map_err(|error| format!("{error}"))?;
        let hosts =
            parts.map(|host| host.parse().map_err(|error| format!("{error}"))).collect::<Result<_, String>>()?;
        Ok(MirrorFlag { kind, origin, hosts })
    }
}

impl MirrorFlag {
    /// The mirror that it means.
    pub fn mirror(self) -> Mirror {
        let path = match self.kind {
            // Clients of registries allow no path before it.
            Kind::Oci => "/v2/".to_owned(),
            kind => format!("/{}/", kind.name()),
        };
        Mirror { hosts: self.hosts, kind: Some(self.kind), ..Mirror::new(path, self.origin) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        let flag: MirrorFlag = "pip=https://i.example/x/simple/,f.example,*.g.example".parse().unwrap();
        let mirror = flag.mirror();
        assert_eq!((mirror.path.as_str(), mirror.origin.to_string().as_str()), ("/pip/", "https://i.example/x/"));
        assert_eq!((mirror.hosts.len(), mirror.kind), (2, Some(Kind::Pip)));
        assert_eq!("oci=https://r.example/v2".parse::<MirrorFlag>().unwrap().mirror().path, "/v2/");
        for (text, why) in [
            ("https://i.example/", "is not a mirror"),
            ("pip", "is not a mirror"),
            ("deb=https://i.example", "pip, npm, cargo"),
            ("pip=i.example", "URL of a source"),
            ("pip=https://i.example,", "is not a host"),
        ] {
            let error = text.parse::<MirrorFlag>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
