//! `tinaja ca`: the local CA for interception: made, shown, and how clients are given it.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tinaja_proxy::intercept::{AuthorityFacts, NewAuthority, create, show};
use tinaja_store::Clock;

use crate::flags::{Ca, CaAction, CaCreate};
use crate::place;

/// Do what was asked for, and print what is to be known.
///
/// Errors: there is a CA already, or none; a file cannot be written or read.
pub fn ca(flags: Ca) -> Result<()> {
    let text = match flags.action {
        CaAction::Create(flags) => created(flags)?,
        CaAction::Show(at) => shown(&show(&place::ca_dir(at.dir)?)?),
        CaAction::InstallHints(at) => hints(&show(&place::ca_dir(at.dir)?)?)?,
    };
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

fn created(flags: CaCreate) -> Result<String> {
    let dir = place::ca_dir(flags.dir)?;
    let host = rustix::system::uname();
    let default = || format!("Tinaja CA of {}", host.nodename().to_string_lossy());
    let new = NewAuthority { name: flags.name.unwrap_or_else(default), days: flags.days, only_for: flags.only_for };
    let facts = create(&dir, &new, Clock::system().wall())?;
    let mut text = shown(&facts);
    let config = absolute(&dir)?;
    text.push_str(&format!(
        "\nWhoever has the key can pretend to be any {} to clients that trust this CA: nobody but the proxy's own user needs it.\n\
         Next: intercept_ca = \"{}\" and [[intercept]] rules in the configuration file, and `tinaja ca install-hints {}` for \
         the clients.\n",
        if facts.only_for.is_empty() { "server".to_owned() } else { format!("server of {}", facts.only_for.join(", ")) },
        config.display(),
        config.display(),
    ));
    Ok(text)
}

/// What there is to know of a CA.
fn shown(facts: &AuthorityFacts) -> String {
    let AuthorityFacts { certificate, key, subject, fingerprint, not_before, not_after, only_for } = facts;
    let mut text = String::new();
    for (name, value) in [
        ("subject", subject.clone()),
        ("SHA-256", fingerprint.clone()),
        ("valid from", not_before.clone()),
        ("valid until", not_after.clone()),
        ("certificate", certificate.display().to_string()),
        ("key", key.display().to_string()),
        ("signs for", if only_for.is_empty() { "any name".into() } else { only_for.join(", ") }),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<12} {value}");
    }
    text
}

/// The commands that have clients trust a CA.
fn hints(facts: &AuthorityFacts) -> Result<String> {
    let pem = absolute(&facts.certificate)?;
    let pem = quoted(&pem.display().to_string());
    let name = quoted(&facts.subject);
    Ok(format!(
        "\
# Copy {pem} to each client, never the key. Compare what arrived with this fingerprint:
#   {fingerprint}
# openssl x509 -noout -fingerprint -sha256 -in {pem}

# Debian and Ubuntu: curl, wget, git and whatever else goes by the system
sudo install -m 644 {pem} /usr/local/share/ca-certificates/tinaja.crt
sudo update-ca-certificates

# Chromium, and Firefox in a profile's directory: the NSS store (package libnss3-tools)
mkdir -p \"$HOME/.pki/nssdb\"
[ -e \"$HOME/.pki/nssdb/cert9.db\" ] || certutil -d sql:\"$HOME/.pki/nssdb\" -N --empty-password
certutil -d sql:\"$HOME/.pki/nssdb\" -A -t C,, -n {name} -i {pem}
certutil -d sql:\"$HOME/.mozilla/firefox/PROFILE\" -A -t C,, -n {name} -i {pem}

# Programs with a list of CAs of their own. Debian's list has this CA too once it is installed as above, and all others, which
# tunnels that are left alone still need.
export PIP_CERT=/etc/ssl/certs/ca-certificates.crt             # pip
export REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt   # other Python programs
export CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt    # cargo
export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt        # Go
export NODE_EXTRA_CA_CERTS={pem}   # npm and Node.js

# The proxy itself, which some programs want in lower case and some in capitals
export https_proxy=http://PROXY:3128 HTTPS_PROXY=http://PROXY:3128
",
        fingerprint = facts.fingerprint
    ))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot tell where {} is", path.display()))
}

/// A word of a shell's, as it is.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        for (text, word) in
            [("/a/b.pem", "/a/b.pem"), ("CN=a b", "'CN=a b'"), ("it's", "'it'\\''s'"), ("$(x)", "'$(x)'")]
        {
            assert_eq!(quoted(text), word);
        }
    }
}
