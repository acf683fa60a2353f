//! Scripted clients and origins around a proxy: both ends of a conversation written down in one file.
//!
//! `tests/cases/README.md` says how a case is written. It is played over real sockets, so it judges what the proxy does
//! and not how; whatever a client or an origin gets beyond what the script says fails the case.
#![allow(dead_code)]

mod asked;
mod case;
mod expect;
mod gateway;
mod gateway_raw;
pub mod message;
mod play;
mod proxies;
pub mod text;
pub mod wire;

use std::path::Path;

pub use case::Case;

/// For which client the proxy stands in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Forward,
    Reverse,
}

/// What the clients of a run speak to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Http1,
    Http2,
}

/// Plays the case of this name in every mode that it is for.
///
/// Errors: the line of the script that did not go as written, and what happened instead.
pub fn play_file(name: &str) -> Result<(), String> {
    play_file_over(name, Over::Http1)
}

/// The same, over this version of HTTP.
pub fn play_file_over(name: &str, over: Over) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(format!("{name}.case"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    play(&text, over).map_err(|error| format!("{name}.case: {error}"))
}

/// Plays a case from its text.
pub fn play_text(text: &str) -> Result<(), String> {
    play(text, Over::Http1)
}

fn play(text: &str, over: Over) -> Result<(), String> {
    let case = Case::parse(text, over)?;
    // Both at once: most of their time they wait.
    std::thread::scope(|scope| {
        let played: Vec<_> = case.sides.iter().map(|side| scope.spawn(|| play::play(&case, *side, over))).collect();
        case.sides
            .iter()
            .zip(played)
            .try_for_each(|(side, played)| played.join().unwrap().map_err(|error| format!("{side:?}: {error}")))
    })
}
