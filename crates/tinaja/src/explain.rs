//! `tinaja explain`: what a running server would do with a GET, and why. The origin is not asked.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _, stdout};

use anyhow::{Context, Result, anyhow, bail};
use tinaja_proxy::admin::words::{Answer, Ask, Explained, Stored, Verdict};

use crate::control;
use crate::flags::Explain;
use crate::settings;

/// Print what the server says.
///
/// Errors: no server runs there, a field or the URL makes no sense, or no listener would take the request.
pub fn explain(flags: Explain) -> Result<()> {
    let dirs = settings::cache_dirs(flags.cache, flags.config.as_deref())?;
    let fields = flags.header.iter().map(|field| {
        let (name, value) =
            field.split_once(':').ok_or_else(|| anyhow!("{field:?} is not a field; write NAME: VALUE"))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let ways = match control::ask(&dirs, &Ask::Explain { url: flags.url, fields })? {
        Some(Answer::Explained { ways }) => ways,
        Some(_) => bail!("the server sent an unexpected answer: it may be another version"),
        None => bail!("no server runs on this cache; choose another one with --cache or --config"),
    };
    let text = match flags.json {
        true => format!("{}\n", serde_json::to_string_pretty(&ways)?),
        false => ways.iter().map(shown).collect::<Vec<_>>().join("\n"),
    };
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

fn shown(way: &Explained) -> String {
    let Explained { listener, name, key_rule, asked_as, rules, stored, variants, cookies, verdict, why } = way;
    let rule = match (rules.as_slice(), stored) {
        ([], _) => "none fits: RFC 9111 decides".to_owned(),
        ([rule], Some(_)) => rule.clone(),
        (rules, _) => format!("{}, if its other settings fit the response", rules.join(", or ")),
    };
    let mut text = format!("{listener}\n  name      {name}\n");
    // Writing to a String cannot fail.
    if let Some(key_rule) = key_rule {
        let _ = writeln!(text, "  key rule  {key_rule}");
    }
    if let Some(url) = asked_as {
        let _ = writeln!(text, "  asked as  {url}");
    }
    let _ = writeln!(text, "  rule      {rule}");
    let stored = stored.as_ref().map_or("nothing".to_owned(), shown_stored);
    let _ = writeln!(text, "  stored    {stored}");
    if let Some(count) = variants {
        let _ = writeln!(text, "  variants  {count}");
    }
    if let Some(cookies) = cookies {
        let _ = writeln!(text, "  cookies   {cookies}");
    }
    let verdict = match verdict {
        Verdict::Hit => "a hit",
        Verdict::Validation => "a validation",
        Verdict::Miss => "a miss",
        Verdict::Refused => "refused",
    };
    let _ = writeln!(text, "  a GET now {verdict}: {why}");
    text
}

fn shown_stored(stored: &Stored) -> String {
    let Stored { status, content_type, bytes, age, ttl, has_validator, encoded } = stored;
    let mut text = format!("status {status}");
    if let Some(content_type) = content_type {
        let _ = write!(text, ", {content_type}");
    }
    if let Some(bytes) = bytes {
        let _ = write!(text, ", {bytes} bytes");
    }
    let fresh = if *ttl > 0 { format!("fresh for {ttl} s") } else { format!("stale for {} s", ttl.unsigned_abs()) };
    let validator = if *has_validator { "with a validator" } else { "without a validator" };
    let _ = write!(text, ", {age} s old, {fresh}, {validator}");
    for (coding, bytes) in encoded {
        let _ = write!(text, ", also as {coding} of {bytes} bytes");
    }
    text
}
