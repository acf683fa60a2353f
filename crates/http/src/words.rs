//! What fields are made of: text, members of lists, tokens.

/// The value of a field as text; a value that is not ASCII reads as empty.
pub(crate) fn text(value: &http::HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// The members of a comma-separated list field, over all its lines, trimmed; empty members are skipped
/// (RFC 9110 5.6.1). Quoted strings are not looked into: for lists of tokens only.
pub(crate) fn list_members<'a>(
    headers: &'a http::HeaderMap,
    name: &http::HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    headers.get_all(name).into_iter().flat_map(|value| text(value).split(',')).map(str::trim).filter(|m| !m.is_empty())
}

/// Whether these bytes are a token (RFC 9110 5.6.2): at least one byte, none of them special.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| is_token_byte(*byte))
}

pub(crate) fn is_token_byte(byte: u8) -> bool {
    // Every byte of every name is looked at.
    byte.is_ascii() && IN_TOKENS >> byte & 1 == 1
}

/// A bit for each character of ASCII.
const IN_TOKENS: u128 = {
    let (mut all, mut byte) = (0, 0_u8);
    while byte.is_ascii() {
        let is_special = matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        );
        if is_special || byte.is_ascii_alphanumeric() {
            all |= 1 << byte;
        }
        byte += 1;
    }
    all
};
