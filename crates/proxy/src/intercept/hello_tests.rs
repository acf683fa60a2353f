use std::io::Read;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// What Rustls says first as a client.
fn spoken(name: &'static str, protocols: &[&str]) -> Vec<u8> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let mut client = ClientConnection::new(Arc::new(config), name.try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn said(name: Option<&str>, is_not_http: bool) -> First {
    First::Hello(Hello { name: name.map(str::to_owned), is_not_http })
}

/// The same message in records of so many bytes.
fn in_records(whole: &[u8], bytes: usize) -> Vec<u8> {
    whole[5..]
        .chunks(bytes)
        .flat_map(|part| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat())
        .collect()
}

/// A hello with these extensions.
fn with(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let vector = |bytes: Vec<u8>| [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat();
    let extensions =
        extensions.iter().flat_map(|(kind, content)| [kind.to_be_bytes().to_vec(), vector(content.to_vec())].concat());
    let mut hello = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0]].concat();
    hello.extend(vector(extensions.collect()));
    let mut message = vec![1, 0, (hello.len() >> 8) as u8, hello.len() as u8];
    message.extend(hello);
    let mut record = vec![22, 3, 1];
    record.extend(vector(message));
    record
}

/// The content of the extension with one name.
fn name_of(name: &[u8]) -> Vec<u8> {
    let length = name.len() as u16;
    [&(length + 3).to_be_bytes()[..], &[0], &length.to_be_bytes(), name].concat()
}

#[test]
fn names_and_protocols() {
    assert_eq!(read(&spoken("Www.Example.org", &["h2", "http/1.1"])), said(Some("www.example.org"), false));
    assert_eq!(read(&spoken("192.0.2.1", &[])), said(None, false));
    assert_eq!(read(&spoken("a.example", &["acme-tls/1"])), said(Some("a.example"), true));
    assert_eq!(read(&with(&[])), said(None, false));
    // An address is no name, though some clients send it.
    assert_eq!(read(&with(&[(0, &name_of(b"192.0.2.1"))])), said(None, false));
}

#[test]
fn however_it_is_cut() {
    let whole = spoken("a.example", &["h2"]);
    for end in 0..whole.len() {
        assert_eq!(read(&whole[..end]), First::More, "{end} bytes");
    }
    for bytes in [1, 2, 3, 7, 64, 200] {
        let fragments = in_records(&whole, bytes);
        assert_eq!(read(&fragments), said(Some("a.example"), false), "records of {bytes} bytes");
        assert_eq!(read(&fragments[..fragments.len() - 1]), First::More);
    }
    // What follows is the client's next message, and nobody's business here.
    assert_eq!(read(&[whole, vec![0xff; 100]].concat()), said(Some("a.example"), false));
}

#[test]
fn other_protocols() {
    for bytes in
        [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0-x", b"\x80\x2e\x01\x03\x01", b"\x16\x02\x01", b"\0", b"\x17\x03\x03"]
    {
        assert_eq!(read(bytes), First::NotTls, "{bytes:?}");
    }
}

#[test]
fn lengths_that_lie() {
    let name = name_of(b"a.example");
    let long_list = [&[0xff, 0xff][..], &name[2..]].concat();
    let long_name = [&name[..3], &[0xff, 0xff], &name[5..]].concat();
    let two_names = [&[0, 24][..], &name[2..], &name[2..]].concat();
    for (what, bytes) in [
        ("an empty record", vec![22, 3, 1, 0, 0]),
        ("a record that is too long", vec![22, 3, 1, 0x40, 1]),
        ("another message", vec![22, 3, 1, 0, 4, 2, 0, 0, 0]),
        ("a message that is too long", vec![22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff]),
        ("an empty message", vec![22, 3, 1, 0, 4, 1, 0, 0, 0]),
        ("another record within it", [in_records(&with(&[]), 8)[..13].to_vec(), vec![23, 3, 1, 0, 1, 0]].concat()),
        ("a list that is too long", with(&[(0, &long_list)])),
        ("a name that is too long", with(&[(0, &long_name)])),
        ("two names", with(&[(0, &two_names)])),
        ("a name twice", with(&[(0, &name), (0, &name)])),
        ("protocols twice", with(&[(16, &[0, 3, 2, b'h', b'2']), (16, &[0, 3, 2, b'h', b'2'])])),
        ("a protocol that is too long", with(&[(16, &[0, 3, 9, b'h', b'2'])])),
        ("no name in the list", with(&[(0, &[0, 0])])),
        ("no list", with(&[(0, &[])])),
        ("a name of another kind", with(&[(0, &[&name[..2], &[1], &name[3..]].concat())])),
        ("a name with a port", with(&[(0, &name_of(b"a.example:80"))])),
        ("a name with a NUL", with(&[(0, &name_of(b"a\0b"))])),
        ("a name with a slash", with(&[(0, &name_of(b"a/b"))])),
        ("no name at all", with(&[(0, &name_of(b""))])),
    ] {
        assert_eq!(read(&bytes), First::Malformed, "{what}");
    }
    // One byte a record, and no end: it is not waited for beyond the limit.
    let endless: Vec<u8> = std::iter::once(vec![22, 3, 1, 0, 4, 1, 0, 0x4f, 0])
        .chain(std::iter::repeat_n(vec![22, 3, 1, 0, 1, 0], MAX_HELLO_BYTES))
        .flatten()
        .collect();
    assert_eq!(read(&endless[..MAX_HELLO_BYTES - 1]), First::More);
    assert_eq!(read(&endless[..MAX_HELLO_BYTES]), First::Malformed);
}

/// Whatever one byte of a hello becomes, reading it ends, and names are such that nothing else can be meant.
#[test]
fn no_byte_is_taken_for_another() {
    let whole = spoken("a.example", &["h2"]);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            if let First::Hello(Hello { name: Some(name), .. }) = read(&bytes) {
                assert!(Authority::parse(name.as_bytes()).is_ok_and(|read| read.host() == name), "{name:?}");
            }
        }
    }
    let mut unread = Vec::new();
    whole.as_slice().read_to_end(&mut unread).unwrap();
    assert_eq!(read(&unread), said(Some("a.example"), false));
}
