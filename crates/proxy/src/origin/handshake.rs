//! Why an origin's TLS was not accepted, in words.

use pingora_error::Error;

/// How Rustls begins its reason, and what it means to people.
const REASONS: [(&str, &str); 7] = [
    (
        "invalid peer certificate: UnknownIssuer",
        "its certificate comes from no authority that this proxy trusts (SSL_CERT_FILE can name a file of others)",
    ),
    ("invalid peer certificate: certificate not valid for name", "its certificate is for another name"),
    ("invalid peer certificate: certificate expired", "its certificate has expired"),
    ("invalid peer certificate: certificate not valid yet", "its certificate is not valid yet"),
    (
        "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
        "its certificate is an authority's, not a server's; one that signs itself must say CA:FALSE to be trusted",
    ),
    ("received corrupt message", "what it says is not TLS"),
    ("received fatal alert: ProtocolVersion", "it speaks neither TLS 1.2 nor 1.3"),
];

/// The reason in a failed handshake's error. Pingora keeps it as text only, amid notes of its own.
pub(crate) fn reason(error: &Error) -> String {
    in_words(&error.to_string())
}

fn in_words(notes: &str) -> String {
    let reason = notes.split_once("tls connect error cause: ").and_then(|(_, rest)| rest.rsplit_once(", SNI: "));
    let Some((reason, _)) = reason else {
        return "the handshake failed".into();
    };
    let known = REASONS.iter().find(|(begin, _)| reason.starts_with(begin));
    known.map_or(reason, |(_, words)| words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_reasons_are_explained_and_others_passed_on() {
        let notes = |reason| format!("TLS connect() failed: tls connect error cause: {reason}, SNI: a cause: ours");
        assert_eq!(
            in_words(&notes("invalid peer certificate: certificate expired: 1 s")),
            "its certificate has expired"
        );
        assert_eq!(in_words(&notes("tls handshake eof")), "tls handshake eof");
        assert_eq!(in_words("something else, SNI: a"), "the handshake failed");
    }
}
