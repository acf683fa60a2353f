//! The first message of a client's TLS (RFC 8446 4.1.2): which name it wants, and which protocols it speaks.
//!
//! It is read from bytes that stay where they are, so that a connection can still be tunnelled as it came. Rustls reads the same
//! bytes again where TLS is ended here, and must find the same name.

use tinaja_http::authority::Authority;

/// A hello has so many bytes at most, with the heads of its records. Browsers send some 2 KB.
pub(crate) const MAX_HELLO_BYTES: usize = 20 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
/// A record has so many bytes at most behind its head (RFC 8446 5.1).
const MAX_RECORD_BYTES: usize = 1 << 14;

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Not enough to know.
    More,
    /// Another protocol.
    NotTls,
    /// TLS that no server would take.
    Malformed,
    /// A whole hello.
    Hello(Hello),
}

impl First {
    /// The name that a whole hello asks for.
    pub fn name(&self) -> Option<&str> {
        match self {
            First::Hello(hello) => hello.name.as_deref(),
            First::More | First::NotTls | First::Malformed => None,
        }
    }
}

/// What a client says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The name that it wants, in lower case. Addresses are none (RFC 6066 3).
    pub name: Option<String>,
    /// It names the protocols that it speaks, and HTTP is not among them.
    pub is_not_http: bool,
}

/// Reads what has come of a connection.
pub(crate) fn read(bytes: &[u8]) -> First {
    match bytes {
        [] => return First::More,
        [HANDSHAKE] | [HANDSHAKE, 3] => return First::More,
        // The version of a record is 3.1 or 3.3, and no TLS has another major one.
        [HANDSHAKE, 3, ..] => {}
        _ => return First::NotTls,
    }
    let message = match message(bytes) {
        Ok(Some(message)) => message,
        Ok(None) if bytes.len() < MAX_HELLO_BYTES => return First::More,
        Ok(None) => return First::Malformed,
        Err(Bad) => return First::Malformed,
    };
    hello(&message).map_or(First::Malformed, First::Hello)
}

/// The bytes do not hold what they announce.
struct Bad;

/// The hello, put together from its records; nothing if it is not whole.
fn message(bytes: &[u8]) -> Result<Option<Vec<u8>>, Bad> {
    let (mut rest, mut message) = (Bytes(bytes), Vec::new());
    loop {
        if let [kind, high, middle, low, content @ ..] = message.as_slice() {
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            if *kind != CLIENT_HELLO || length > MAX_HELLO_BYTES {
                return Err(Bad);
            }
            if let Some(whole) = content.get(..length) {
                return Ok(Some(whole.to_vec()));
            }
        } else if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(Bad);
        }
        let Ok(head) = rest.take(5) else { return Ok(None) };
        let &[kind, major, _, high, low] = head else { return Err(Bad) };
        let length = usize::from(high) << 8 | usize::from(low);
        // Empty records would go on for ever.
        if kind != HANDSHAKE || major != 3 || length == 0 || length > MAX_RECORD_BYTES {
            return Err(Bad);
        }
        let Bytes(left) = rest;
        let part = left.get(..length).unwrap_or(left);
        message.extend_from_slice(part);
        rest = Bytes(left.get(part.len()..).unwrap_or_default());
    }
}

fn hello(message: &[u8]) -> Result<Hello, Bad> {
    let mut bytes = Bytes(message);
    // Version and random; session, cipher suites and compressions.
    bytes.take(34)?;
    bytes.vector8()?;
    bytes.vector16()?;
    bytes.vector8()?;
    let mut hello = Hello::default();
    if bytes.is_empty() {
        return Ok(hello);
    }
    let mut extensions = bytes.vector16()?;
    if !bytes.is_empty() {
        return Err(Bad);
    }
    let (mut named, mut spoken) = (false, false);
    while !extensions.is_empty() {
        let kind = extensions.number16()?;
        let content = extensions.vector16()?;
        match kind {
            // Said twice, two readers could take different ones.
            SERVER_NAME if std::mem::replace(&mut named, true) => return Err(Bad),
            ALPN if std::mem::replace(&mut spoken, true) => return Err(Bad),
            SERVER_NAME => hello.name = server_name(content)?,
            ALPN => hello.is_not_http = !speaks_http(content)?,
            _ => {}
        }
    }
    Ok(hello)
}

/// The one name of the extension (RFC 6066 3).
fn server_name(mut content: Bytes<'_>) -> Result<Option<String>, Bad> {
    let mut names = content.vector16()?;
    let &[kind] = names.take(1)? else { return Err(Bad) };
    let Bytes(name) = names.vector16()?;
    if kind != 0 || !names.is_empty() || !content.is_empty() {
        return Err(Bad);
    }
    let authority = Authority::parse(name).map_err(|_| Bad)?;
    if authority.port().is_some() {
        return Err(Bad);
    }
    Ok(authority.address().is_none().then(|| authority.host().to_owned()))
}

/// Whether HTTP is among the protocols (RFC 7301 3.1).
fn speaks_http(mut content: Bytes<'_>) -> Result<bool, Bad> {
    let (mut names, mut found) = (content.vector16()?, false);
    while !names.is_empty() {
        let Bytes(name) = names.vector8()?;
        found |= matches!(name, b"h2" | b"http/1.1" | b"http/1.0");
    }
    Ok(found)
}

/// Bytes that are taken from the front.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Bad)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number16(&mut self) -> Result<u16, Bad> {
        let bytes: [u8; 2] = self.take(2)?.try_into().map_err(|_| Bad)?;
        Ok(u16::from_be_bytes(bytes))
    }

    /// What has its length in a byte before it.
    fn vector8(&mut self) -> Result<Bytes<'a>, Bad> {
        let &[length] = self.take(1)? else { return Err(Bad) };
        self.take(usize::from(length)).map(Bytes)
    }

    /// What has its length in two bytes before it.
    fn vector16(&mut self) -> Result<Bytes<'a>, Bad> {
        let length = self.number16()?;
        self.take(usize::from(length)).map(Bytes)
    }
}

#[cfg(test)]
#[path = "hello_tests.rs"]
mod tests;
