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
    IN_TOKENS.get(usize::from(byte)).copied().unwrap_or_default()
}

/// For each byte whether it may stand in a token.
#[expect(clippy::indexing_slicing, reason = "it is worked out while this is compiled")]
static IN_TOKENS: [bool; 256] = {
    let (mut all, mut byte) = ([false; 256], 0);
    while byte < all.len() {
        let is_special = matches!(
            byte as u8,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        );
        all[byte] = is_special || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    all
};

/// Whether there is no control byte among these but tabs.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    // To the end in any case: without a way out, many bytes are looked at in one step.
    bytes.iter().fold(true, |text, byte| text & (!byte.is_ascii_control() | (*byte == b'\t')))
}
