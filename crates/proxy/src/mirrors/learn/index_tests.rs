//! Indexes as their sources have them, in pieces of every size, and hostile ones.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const ONE: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const TWO: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const SRI: &str = "sha512-3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==";

type Make = fn() -> Index;

fn page() -> Index {
    Index::Page(Html::default())
}

fn packages() -> Index {
    Index::Packages(Packages::new(Arc::new(tokio::sync::Semaphore::new(1))))
}

fn config() -> Index {
    Index::Config(Json::default())
}

/// What it says, in these pieces.
fn said<'a>(make: Make, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut index, mut all) = (make(), Vec::new());
    let mut say = |said: Said<'_>| {
        let name = |sum: Sum| match sum {
            sum if Some(sum) == Sum::hex(Hash::Sha256, ONE) => "one",
            sum if Some(sum) == Sum::hex(Hash::Sha256, TWO) => "two",
            sum if Some(sum) == Sum::sri(SRI) => "sri",
            _ => "another",
        };
        all.push(match said {
            Said::Link(link, sum) => format!("{link} {}", name(sum)),
            Said::File(file, sum) => format!("file {file} {}", name(sum)),
            Said::Crate(crate_name, version, hex) => {
                format!("{crate_name} {version} {}", Sum::hex(Hash::Sha256, hex).map_or("none", name))
            }
            Said::Downloads(dl) => format!("dl {dl}"),
        });
    };
    pieces.for_each(|piece| index.push(piece, &mut say));
    index.end(&mut say);
    all
}

/// One of each, and what it says.
fn samples() -> Vec<(Make, String, Vec<&'static str>)> {
    vec![
        (
            page,
            format!(
                "<!DOCTYPE html><html><head><title>Links</title></head><body><h1>Links for x</h1>\n\
                 <a href=\"https://f.example/x-1.whl#sha256={ONE}\" data-requires-python=\"&gt;=3\" \
                 data-core-metadata=\"sha256={TWO}\">x-1.whl</a><br />\n\
                 <a href='../../x-2.tar.gz?a&amp;b#egg=x&sha256={TWO}'>x</a> <a href=\"x-3.zip\">x</a>\n\
                 <a href=\"x-4.zip#md5=d41d8cd98f00b204e9800998ecf8427e\">x</a> <a href=\"x-5.zip#sha256=00\">x</a>"
            ),
            vec!["https://f.example/x-1.whl one", "https://f.example/x-1.whl.metadata two", "../../x-2.tar.gz?a&b two"],
        ),
        (
            Index::project,
            format!(
                r#"{{"files":[{{"filename":"x-1.whl","hashes":{{"sha256":"{ONE}","blake2b":"00"}},"url":"https:\/\/f.example\/x-1.whl",
                "core-metadata":{{"sha256":"{TWO}"}},"size":3,"upload-time":"2026","yanked":false}},
                {{"url":"x-2.zip","hashes":{{}}}},{{"hashes":{{"sha256":"{ONE}"}}}},
                {{"hashes":{{"sha256":"{TWO}"}},"url":"x-3.zip"}}],"meta":{{"api-version":"1.1"}},"name":"x",
                "versions":["1","2"],"url":"no","hashes":{{"sha256":"{ONE}"}}}}"#
            ),
            vec!["https://f.example/x-1.whl one", "https://f.example/x-1.whl.metadata two", "x-3.zip two"],
        ),
        (
            Index::document,
            format!(
                r#"{{"_id":"x","readme":"{{\"versions\":{{\"1\":{{\"dist\":{{\"tarball\":\"no\",\"integrity\":\"{SRI}\"}}}}}}}}",
                "versions":{{"1.0.0":{{"name":"x","evil":{{"dist":{{"tarball":"no","integrity":"{SRI}"}}}},
                "dist":{{"integrity":"{SRI}","shasum":"00","tarball":"https://r.example/x/-/x-1.0.0.tgz","signatures":[{{"sig":"a"}}]}}}},
                "url":{{"dist":{{"tarball":"https://r.example/x/-/x-2.0.0.tgz","shasum":"a9993e364706816aba3e25717850c26c9cd0d89d"}}}}}},
                "time":{{}}}}"#
            ),
            vec!["https://r.example/x/-/x-1.0.0.tgz sri"],
        ),
        (
            Index::document,
            format!(r#"{{"name":"x","version":"1","dist":{{"tarball":"x.tgz","integrity":"{SRI}"}}}}"#),
            vec!["x.tgz sri"],
        ),
        (
            Index::crates,
            format!(
                "{{\"name\":\"Ab\",\"vers\":\"1.0.0+a\",\"deps\":[{{\"name\":\"no\",\"cksum\":\"{TWO}\"}}],\"cksum\":\"{ONE}\"}}\n\
                 {{\"name\":\"Ab\",\"vers\":\"2.0.0\",\"cksum\":\"00\"}}\n{{\"broken\":\"\n\
                 {{\"cksum\":\"{TWO}\",\"name\":\"Ab\",\"vers\":\"3.0.0\",\"features\":{{\"name\":[\"no\"]}}}}"
            ),
            vec!["Ab 1.0.0+a one", "Ab 2.0.0 none", "Ab 3.0.0 two"],
        ),
        (
            config,
            r#"{"dl":"https://c.example/crates","api":"no","x":{"dl":"no"}}"#.to_owned(),
            vec!["dl https://c.example/crates"],
        ),
        (
            packages,
            format!("Package: x\nFilename: pool/x.deb\nMD5sum: 0\nSHA256: {ONE}\n\nPackage: y\n"),
            vec!["file pool/x.deb one"],
        ),
    ]
}

#[test]
fn what_indexes_say_in_pieces_of_every_size() {
    for (make, body, expected) in samples() {
        for size in 1..body.len() {
            assert_eq!(said(make, body.as_bytes().chunks(size)), expected, "pieces of {size} bytes: {body}");
        }
    }
}

#[test]
fn where_crates_are() {
    for (dl, name, expected) in [
        ("https://c.example/api", "Serde", "https://c.example/api/Serde/1.0.0/download"),
        ("https://c.example/{crate}-{version}.crate", "Serde", "https://c.example/Serde-1.0.0.crate"),
        ("https://c.example/{prefix}/{lowerprefix}/{crate}", "Serde", "https://c.example/Se/rd/se/rd/Serde"),
        ("https://c.example/{lowerprefix}/{crate}", "Abc", "https://c.example/3/a/Abc"),
        ("https://c.example/{prefix}/{crate}", "ab", "https://c.example/2/ab"),
        ("https://c.example/{prefix}/{crate}", "a", "https://c.example/1/a"),
        ("https://c.example/{sha256-checksum}", "a", "https://c.example/00ff"),
    ] {
        assert_eq!(crate_url(dl, name, "1.0.0", "00ff").as_deref(), Some(expected));
    }
    assert_eq!(crate_url("{prefix}", "aäbc", "1", ""), None);
    assert_eq!(crate_url("{prefix}", "", "1", ""), None);
}

proptest! {
    /// Nothing panics, and whatever the cuts, the same is said; bytes are changed at random.
    #[test]
    fn random_cuts_and_changes(
        at in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(1_usize..40, 1..400),
    ) {
        let samples = samples();
        let (make, body, _) = at.get(&samples);
        let mut bytes = body.clone().into_bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let mut rest = &bytes[..];
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(said(*make, pieces.into_iter()), said(*make, std::iter::once(&bytes[..])));
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for make in [page, Index::project, Index::document, Index::crates, config, packages] as [Make; 6] {
            said(make, bytes.chunks(7));
        }
    }
}

/// Memory and time that do not grow with what a source sends.
#[test]
fn hostile_indexes_are_read_to_their_end() {
    let long = "x".repeat(1 << 20);
    for (make, before, after) in [
        (page as Make, "<a href=\"", "\">"),
        (Index::project, "{\"files\":[{\"url\":\"", "\"}]}"),
        (Index::document, "{\"versions\":{\"", "\":{}}}"),
        (Index::crates, "{\"name\":\"", "\"}\n"),
        (packages, "Filename: ", "\n\n"),
    ] {
        let line = std::iter::once(before.as_bytes())
            .chain(std::iter::repeat_n(long.as_bytes(), 64))
            .chain(std::iter::once(after.as_bytes()));
        assert_eq!(said(make, line), Vec::<String>::new());
        // A million of what it is made of.
        let nested: Vec<u8> = before.bytes().chain(*b"[{\"a\":").cycle().take(8 << 20).collect();
        said(make, nested.chunks(64 * 1024));
    }
}
