//! All that an operator names at once to be taken back: by flags, or by a form that is sent to the address of the metrics.

use super::purge::Url;
use super::words::Ask;
use crate::bans::{BadSelector, Selector};

/// What is named. A host is taken back whole, but beside suffixes or tags, which are taken back at that host alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Absolute URLs, as clients ask for them.
    pub url: Vec<String>,
    /// Beginnings of URLs, with the whole host.
    pub prefix: Vec<String>,
    /// Hosts, or `*.example.org` for all below one.
    pub host: Vec<String>,
    /// Ends of paths.
    pub suffix: Vec<String>,
    /// Regular expressions that are found in URLs.
    pub regex: Vec<String>,
    /// Tags.
    pub tag: Vec<String>,
    /// Everything.
    pub all: bool,
    /// It becomes stale, and is not gone.
    pub soft: bool,
}

/// One thing of all that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// This URL is forgotten.
    Url(String, Url),
    /// What fits is taken back; whether softly.
    By(Selector, bool),
}

/// What is named makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNamed {
    /// Hosts beside tags or suffixes.
    #[error("a tag or suffix is purged at one host or all: give one host, or none")]
    Hosts,
    /// No URL.
    #[error(transparent)]
    Url(#[from] super::purge::BadUrl),
    /// No selector.
    #[error("{0}: {1}")]
    Selector(String, BadSelector),
    /// Nothing.
    #[error("nothing was named: say what to purge, as in tag=product-17")]
    Nothing,
    /// A field of a form that is not known.
    #[error("{0:?} is not known here: there are url, prefix, host, suffix, regex, tag, all=1 and soft=1")]
    Field(String),
    /// A form that cannot be read.
    #[error(
        "the form cannot be read: send application/x-www-form-urlencoded in UTF-8, as `curl --data-urlencode` does"
    )]
    Form,
}

impl What {
    /// What a server is asked.
    pub fn ask(&self) -> Ask {
        match self {
            What::Url(text, _) => Ask::Purge { url: text.clone() },
            What::By(selector, soft) => Ask::PurgeBy { what: vec![selector.clone()], soft: *soft },
        }
    }

    /// What became of it, for its line. `purged` is how many objects there were, as far as anybody counts them.
    pub fn said(&self, purged: Result<u64, String>) -> String {
        match (purged, self) {
            (Ok(0), _) => "was not in the cache".to_owned(),
            (Ok(_), What::By(_, true)) => "purged softly".to_owned(),
            (Ok(_), _) => "purged".to_owned(),
            (Err(why), _) => format!("failed: {why}"),
        }
    }
}

impl Named {
    /// Reads a form, whose fields are called like these.
    ///
    /// Errors: [`BadNamed`].
    pub fn of_form(form: &[u8]) -> Result<Named, BadNamed> {
        let mut named = Named::default();
        for field in form.split(|byte| *byte == b'&').filter(|field| !field.is_empty()) {
            let mut parts = field.splitn(2, |byte| *byte == b'=');
            let name = decoded(parts.next().unwrap_or_default())?;
            let value = decoded(parts.next().unwrap_or_default())?;
            let list = match name.as_str() {
                "url" => &mut named.url,
                "prefix" => &mut named.prefix,
                "host" => &mut named.host,
                "suffix" => &mut named.suffix,
                "regex" => &mut named.regex,
                "tag" => &mut named.tag,
                "all" | "soft" if value == "1" => {
                    *(if name == "all" { &mut named.all } else { &mut named.soft }) = true;
                    continue;
                }
                _ => return Err(BadNamed::Field(field.escape_ascii().to_string())),
            };
            list.push(value);
        }
        Ok(named)
    }

    /// Each thing that is named, with the text for its line.
    ///
    /// Errors: [`BadNamed`]: then none of it makes sense.
    pub fn everything(&self) -> Result<Vec<(String, What)>, BadNamed> {
        let is_scope = !self.tag.is_empty() || !self.suffix.is_empty();
        let scope = match self.host.as_slice() {
            [host] if is_scope => Some(host.clone()),
            [] => None,
            _ if is_scope => return Err(BadNamed::Hosts),
            _ => None,
        };
        let at = scope.as_ref().map_or(String::new(), |host| format!(" at {host}"));
        let mut all = Vec::new();
        for url in &self.url {
            let what = match self.soft {
                true => What::By(Selector::Url { url: url.clone() }, true),
                false => What::Url(url.clone(), url.parse()?),
            };
            all.push((url.clone(), what));
        }
        let mut by = |text: String, selector| all.push((text, What::By(selector, self.soft)));
        for url in &self.prefix {
            by(format!("prefix {url}"), Selector::Prefix { url: url.clone() });
        }
        for host in self.host.iter().filter(|_| !is_scope) {
            by(format!("host {host}"), Selector::Host { host: host.clone() });
        }
        for suffix in &self.suffix {
            by(format!("suffix {suffix}{at}"), Selector::Suffix { suffix: suffix.clone(), host: scope.clone() });
        }
        for regex in &self.regex {
            by(format!("regex {regex}"), Selector::Regex { regex: regex.clone() });
        }
        for tag in &self.tag {
            by(format!("tag {tag}{at}"), Selector::Tag { tag: tag.clone(), host: scope.clone() });
        }
        if self.all {
            by("everything".to_owned(), Selector::All);
        }
        for (text, what) in &all {
            if let What::By(selector, _) = what {
                selector.check().map_err(|error| BadNamed::Selector(text.clone(), error))?;
            }
        }
        if all.is_empty() { Err(BadNamed::Nothing) } else { Ok(all) }
    }
}

/// A name or value of a form (application/x-www-form-urlencoded).
fn decoded(text: &[u8]) -> Result<String, BadNamed> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(*digit).to_digit(16));
                let (high, low) = (digit().ok_or(BadNamed::Form)?, digit().ok_or(BadNamed::Form)?);
                u8::try_from(high * 16 + low).map_err(|_| BadNamed::Form)?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| BadNamed::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let form = b"tag=product-17&tag=a%2Bb&host=www.example.org&soft=1&suffix=.css&&regex=%5Ehttps%3F://a+b";
        let named = Named::of_form(form).unwrap();
        let expected = Named {
            tag: vec!["product-17".into(), "a+b".into()],
            host: vec!["www.example.org".into()],
            suffix: vec![".css".into()],
            regex: vec!["^https?://a b".into()],
            soft: true,
            ..Named::default()
        };
        assert_eq!(named, expected);
        let lines: Vec<_> = named.everything().unwrap().into_iter().map(|(text, _)| text).collect();
        let expected = [
            "suffix .css at www.example.org",
            "regex ^https?://a b",
            "tag product-17 at www.example.org",
            "tag a+b at www.example.org",
        ];
        assert_eq!(lines, expected);
        for (form, why) in [
            (&b"tags=x"[..], "\"tags=x\" is not known"),
            (b"all=yes", "all=1"),
            (b"tag=%zz", "cannot be read"),
            (b"tag=%f", "cannot be read"),
            (b"tag=%ff", "cannot be read"),
            (b"\xff=1", "cannot be read"),
        ] {
            let error = Named::of_form(form).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_none_of_it() {
        for (form, why) in [
            (&b""[..], "nothing was named"),
            (b"soft=1", "nothing was named"),
            (b"url=/x", "is no URL"),
            (b"tag=a%20b&all=1", "is no tag"),
            (b"tag=a&host=x&host=y", "at one host or all"),
        ] {
            let error = Named::of_form(form).unwrap().everything().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let named = Named { url: vec!["http://a.example/x".into()], all: true, ..Named::default() };
        let asks: Vec<_> = named.everything().unwrap().into_iter().map(|(_, what)| what.ask()).collect();
        let by = Ask::PurgeBy { what: vec![Selector::All], soft: false };
        assert_eq!(asks, [Ask::Purge { url: "http://a.example/x".into() }, by]);
    }
}
