//! Why an origin's TLS was not accepted, in words.

use std::io::Error;

use crate::failure::Untrusted;

/// How Rustls begins its reason, and what it means to people.
const REASONS: [(&str, &str); 14] = [
    (
        "invalid peer certificate: UnknownIssuer",
        "its certificate comes from no authority that this proxy trusts (ca_file can name files of others)",
    ),
    (
        "invalid peer certificate: BadSignature",
        "its certificate bears the name of an authority that this proxy trusts, and not its signature",
    ),
    ("invalid peer certificate: certificate not valid for name", "its certificate is for another name"),
    ("invalid peer certificate: certificate expired", "its certificate has expired"),
    ("invalid peer certificate: certificate not valid yet", "its certificate is not valid yet"),
    (
        "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
        "its certificate is an authority's, not a server's; one that signs itself must say CA:FALSE to be trusted",
    ),
    ("invalid peer certificate: Revoked", "its certificate, or that of an authority between, has been revoked"),
    (
        "invalid peer certificate: certificate revocation list expired",
        "its authority's list of revoked certificates has expired; put the new one into crl_file, and reload",
    ),
    (
        "invalid certificate revocation list",
        "the list of revoked certificates in crl_file that bears its authority's name is not from that authority",
    ),
    ("received corrupt message", "what it says is not TLS"),
    (
        "received fatal alert: CertificateRequired",
        "it wants to be shown a certificate; name one with certificate and key in the route's upstream",
    ),
    ("received fatal alert: UnknownCA", "it does not trust the authority of this proxy's certificate"),
    ("received fatal alert: BadCertificate", "it does not accept this proxy's certificate"),
    ("received fatal alert: ProtocolVersion", "it speaks neither TLS 1.2 nor 1.3"),
];

/// The reason in the error of a handshake, or of a connection that ends right behind it: in TLS 1.3 an origin judges
/// the proxy's certificate last.
pub(crate) fn reason(error: &Error) -> String {
    in_words(&error.to_string())
}

/// What is wrong with the origin's certificate, if that is why.
pub(crate) fn untrusted(error: &Error) -> Option<Untrusted> {
    let reason = error.to_string();
    if reason.starts_with("invalid certificate revocation list") {
        return Some(Untrusted::Unlisted);
    }
    let rest = reason.strip_prefix("invalid peer certificate: ")?;
    let kinds = [
        ("UnknownIssuer", Untrusted::Issuer),
        ("BadSignature", Untrusted::Issuer),
        ("certificate not valid for name", Untrusted::Name),
        ("certificate expired", Untrusted::Expired),
        ("certificate not valid yet", Untrusted::TooEarly),
        ("Revoked", Untrusted::Revoked),
        ("certificate revocation list expired", Untrusted::Unlisted),
    ];
    Some(kinds.into_iter().find(|(begin, _)| rest.starts_with(begin)).map_or(Untrusted::Otherwise, |(_, kind)| kind))
}

fn in_words(reason: &str) -> String {
    let known = REASONS.iter().find(|(begin, _)| reason.starts_with(begin));
    known.map_or(reason, |(_, words)| words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_reasons_are_explained_and_others_passed_on() {
        assert_eq!(in_words("invalid peer certificate: certificate expired: 1 s"), "its certificate has expired");
        assert_eq!(in_words("tls handshake eof"), "tls handshake eof");
        for (reason, kind) in [
            ("invalid peer certificate: certificate not valid for name \"a\"; it is for b", Some(Untrusted::Name)),
            ("invalid peer certificate: Revoked", Some(Untrusted::Revoked)),
            ("invalid peer certificate: BadEncoding", Some(Untrusted::Otherwise)),
            ("invalid certificate revocation list: BadSignature", Some(Untrusted::Unlisted)),
            ("tls handshake eof", None),
        ] {
            assert_eq!(untrusted(&Error::other(reason)), kind, "{reason}");
        }
    }
}
