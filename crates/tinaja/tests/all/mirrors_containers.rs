//! A client of container registries through a mirror, by the ready file: tokens that it needs not ask for, blobs that are checked, and a tag that
//! moves to another image.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::mirrors_ready::start_ready;
use crate::support::home::Home;
use tinaja_testkit::body::body;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output, run};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What a registry has: media types and bytes of manifests by tag and digest, and bytes of blobs by digest.
#[derive(Default)]
struct Content {
    manifests: BTreeMap<String, Vec<u8>>,
    blobs: BTreeMap<String, Vec<u8>>,
}

/// A registry as the large ones are: its tokens come from one host, its blobs lie on another, behind URLs that are signed anew each time.
struct Registry {
    content: Arc<Mutex<Content>>,
    registry: Origin,
    tokens: Origin,
    blobs: Origin,
}

impl Registry {
    fn new() -> Registry {
        let content = Arc::new(Mutex::new(Content::default()));
        let tokens = Origin::start(|request, stream| {
            let scoped = request.path.contains("scope=repository:a/water:pull");
            let body = format!(r#"{{"token":"{}","expires_in":300}}"#, if scoped { "pull" } else { "nothing" });
            reply(stream, request, 200, "Content-Type: application/json\r\n", body.as_bytes())
        });
        let has = content.clone();
        let blobs = Origin::start(move |request, stream| {
            let digest = request.path.trim_start_matches("/store/").split('?').next().unwrap();
            match has.lock().unwrap().blobs.get(digest) {
                Some(blob) => reply(stream, request, 200, "Content-Type: application/octet-stream\r\n", blob),
                None => reply(stream, request, 404, "", b"none"),
            }
        });
        let (has, realm, store) = (content.clone(), tokens.url("/token"), blobs.url("/store"));
        let signatures = std::sync::atomic::AtomicUsize::new(0);
        let registry = Origin::start(move |request, stream| {
            let token = request.field("authorization").unwrap_or_default();
            let image = request.path.strip_prefix("/v2/a/water/");
            let may = match image {
                None => token.starts_with("Bearer "),
                Some(_) => token == "Bearer pull",
            };
            if !may {
                let scope = image.map_or("", |_| ",scope=\"repository:a/water:pull\"");
                let field = format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"registry\"{scope}\r\n");
                return reply(stream, request, 401, &field, b"{}");
            }
            match image.and_then(|image| image.split_once('/')) {
                Some(("blobs", digest)) => {
                    let signature = signatures.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let field = format!("Location: {store}/{digest}?signature={signature}\r\n");
                    reply(stream, request, 307, &field, b"")
                }
                Some(("manifests", name)) => match has.lock().unwrap().manifests.get(name) {
                    Some(manifest) => {
                        let tag = format!("\"{}\"", digest_of(manifest));
                        let digest = tag.trim_matches('"');
                        let fields =
                            format!("Content-Type: {MANIFEST}\r\nDocker-Content-Digest: {digest}\r\nETag: {tag}\r\n");
                        let same = request.field("if-none-match").is_some_and(|known| known.contains(&tag));
                        reply(stream, request, if same { 304 } else { 200 }, &fields, if same { b"" } else { manifest })
                    }
                    None => reply(stream, request, 404, "", b"{}"),
                },
                _ => reply(stream, request, 200, "Content-Type: application/json\r\n", b"{}"),
            }
        });
        Registry { content, registry, tokens, blobs }
    }

    /// Publishes an image of one layer under this tag, and says which its blobs are: what it is made with, and the layer.
    fn publish(&self, tag: &str, layer: &[u8], made_by: &str) -> [String; 2] {
        let config = format!(
            r#"{{"architecture":"amd64","os":"linux","author":"{made_by}","config":{{}},"rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
            digest_of(layer)
        );
        let of = |media_type: &str, blob: &[u8]| {
            let (digest, size) = (digest_of(blob), blob.len());
            format!(r#"{{"mediaType":"application/vnd.oci.image.{media_type}","digest":"{digest}","size":{size}}}"#)
        };
        let (has, layers) = (of("config.v1+json", config.as_bytes()), of("layer.v1.tar", layer));
        let manifest = format!(r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{has},"layers":[{layers}]}}"#);
        let digests = [config.as_bytes(), layer].map(digest_of);
        let mut content = self.content.lock().unwrap();
        content.blobs.insert(digests[0].clone(), config.into_bytes());
        content.blobs.insert(digests[1].clone(), layer.to_vec());
        content.manifests.insert(digest_of(manifest.as_bytes()), manifest.clone().into_bytes());
        content.manifests.insert(tag.to_owned(), manifest.into_bytes());
        digests
    }

    fn start(&self, home: &Home) -> Process {
        let quoted = |url: String| format!("\"{url}\"");
        start_ready(
            home,
            "containers",
            &[
                ("\"https://registry.example.org/v2/\"", &quoted(self.registry.url("/v2/"))),
                ("\"blobs.example.org\"", &quoted(self.blobs.url(""))),
                ("\"auth.example.org\"", &quoted(self.tokens.url(""))),
            ],
        )
    }

    /// The digests of the blobs that were fetched, in order.
    fn fetched(&self) -> Vec<String> {
        let paths = self.blobs.paths().into_iter();
        paths.map(|path| path.trim_start_matches("/store/").split('?').next().unwrap().to_owned()).collect()
    }
}

fn digest_of(bytes: &[u8]) -> String {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("bytes");
    fs::write(&file, bytes).unwrap();
    format!("sha256:{}", run(Command::new("sha256sum").arg(&file)).split(' ').next().unwrap())
}

fn has_skopeo() -> bool {
    let has = !output(Command::new("sh").args(["-c", "command -v skopeo"])).stdout.is_empty();
    if !has {
        eprintln!("skipped: there is no skopeo here");
    }
    has
}

/// A machine that has pulled nothing yet pulls an image: its files, by name.
fn pull(home: &Home, machine: &Path) -> Output {
    let mut skopeo = client("skopeo", machine);
    skopeo.args(["copy", "--quiet", "--insecure-policy", "--src-tls-verify=false"]);
    output(skopeo.arg(format!("docker://{}/a/water:latest", home.listen)).arg("dir:image"))
}

fn pulled(home: &Home) -> BTreeMap<String, Vec<u8>> {
    let machine = TempDir::new().unwrap();
    let Output { status, stderr, .. } = pull(home, machine.path());
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let files = fs::read_dir(machine.path().join("image")).unwrap();
    files
        .map(|file| {
            let path = file.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())
        })
        .collect()
}

fn named(digest: &str) -> &str {
    digest.trim_start_matches("sha256:")
}

#[test]
fn skopeo_pulls_once_without_a_token_and_notices_a_tag_that_moves() {
    if !has_skopeo() {
        return;
    }
    let (registry, home) = (Registry::new(), Home::new());
    let layer = body("layer", 400_000);
    let [config, of_layer] = registry.publish("latest", &layer, "first");
    let tinaja = registry.start(&home);
    let first = pulled(&home);
    assert!(first[named(&of_layer)] == layer && first.contains_key(named(&config)), "{:?}", first.keys());
    let mut fetched = registry.fetched();
    fetched.sort();
    let mut expected = vec![config.clone(), of_layer.clone()];
    expected.sort();
    assert_eq!(fetched, expected);
    let (before, tokens) = (registry.registry.count(), registry.tokens.count());
    assert!(first == pulled(&home));
    assert_eq!(registry.blobs.count(), 2, "blobs are kept");
    assert_eq!(registry.tokens.count(), tokens, "and so are tokens");
    let again: Vec<_> = registry.registry.requests().drain(before..).collect();
    for request in &again {
        assert!(!request.path.contains("/blobs/"), "{}", request.path);
        let is_manifest = request.path.ends_with("/manifests/latest");
        assert_eq!(is_manifest, request.field("if-none-match").is_some(), "{}", request.head);
    }
    assert!(again.iter().any(|request| request.path.ends_with("/manifests/latest")), "{again:?}");
    // The tag is another image's now, with the same layer.
    let [other, _] = registry.publish("latest", &layer, "second");
    let third = pulled(&home);
    assert!(third[named(&of_layer)] == layer && third.contains_key(named(&other)), "{:?}", third.keys());
    assert_eq!(registry.fetched()[2..], [other], "the layer is kept");
    assert!(!tinaja.output().contains("Bearer"), "{}", tinaja.output());
}

/// Bytes that are not those of their digest reach nobody whole, and are not kept: as soon as the registry has the right ones, these come.
#[test]
fn skopeo_gets_no_layer_that_is_not_what_its_digest_says() {
    if !has_skopeo() {
        return;
    }
    let (registry, home) = (Registry::new(), Home::new());
    let layer = body("layer", 400_000);
    let [_, of_layer] = registry.publish("latest", &layer, "first");
    let mut wrong = layer.clone();
    wrong[200_000] ^= 1;
    registry.content.lock().unwrap().blobs.insert(of_layer.clone(), wrong);
    let tinaja = registry.start(&home);
    let machine = TempDir::new().unwrap();
    let refused = pull(&home, machine.path());
    assert!(!refused.status.success());
    assert!(tinaja.output().contains("nothing of it is stored"), "{}", tinaja.output());
    assert!(fs::read(machine.path().join("image").join(named(&of_layer))).map_or(true, |got| got.len() < layer.len()));
    registry.content.lock().unwrap().blobs.insert(of_layer.clone(), layer.clone());
    assert!(pulled(&home)[named(&of_layer)] == layer);
}
