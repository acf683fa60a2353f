//! `tinaja resize`: a cache is made anew with what it holds.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::PathBuf;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use tinaja_proxy::admin::carry_bans;
use tinaja_store::{Cache, Remade, is_block_device};

use crate::flags::{Resize, Serve};
use crate::place;
use crate::report::shown;
use crate::serve::cache_options;
use crate::settings::Settings;

/// Make the cache that `flags` name anew, and say what became of its objects.
///
/// Errors: there is no cache, or a server runs on it; there is no room for the new one beside the old one; settings make no
/// sense; a disk fails. Then the old cache is as it was.
pub fn resize(flags: Resize) -> Result<()> {
    let Resize { config, of_cache, from, despite_errors } = flags;
    let serve = Serve { config, of_cache, ..Serve::default() };
    let settings = Settings::new(serve, None)?;
    let options = cache_options(&settings, settings.disk_bytes);
    let first = Cache::first_of(&from, &options).map_err(place::with_flags)?;
    let is_shown = stderr().is_terminal();
    let mut tell = |so_far: &Remade| {
        if is_shown {
            // With stderr closed there is nobody to tell.
            let _ = write!(stderr(), "\r{}", progress(so_far));
        }
    };
    carry(first, &settings.cache)?;
    let done = Cache::remake(&from, &options, despite_errors, &mut tell).map_err(place::with_flags)?;
    if is_shown {
        let _ = writeln!(stderr());
    }
    let size = Cache::open_read_only(&settings.cache).map(|cache| tinaja_store::Store::stats(&cache))?;
    let bytes = ByteSize::b(size.capacity_bytes).display().iec();
    let text = format!("{} now has room for {bytes}, with {}\n{}", shown(&settings.cache), size.engine, report(&done));
    stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// What was purged stays purged, wherever the first directory is now.
fn carry(first: Option<PathBuf>, to: &[PathBuf]) -> Result<()> {
    let (Some(first), Some(to)) = (first, to.first()) else { return Ok(()) };
    if is_block_device(&first) || is_block_device(to) {
        return Ok(());
    }
    std::fs::create_dir_all(to).with_context(|| format!("cannot create the directory {}", to.display()))?;
    carry_bans(&first, to)
        .with_context(|| format!("cannot copy what was purged from {} to {}", first.display(), to.display()))
}

fn progress(so_far: &Remade) -> String {
    let percent = so_far.done * 100 / so_far.objects.max(1);
    let bytes = ByteSize::b(so_far.bytes).display().iec();
    format!("{percent} %: {} of {} objects, {bytes} copied   ", so_far.done, so_far.objects)
}

fn report(done: &Remade) -> String {
    let copied = ByteSize::b(done.bytes).display().iec();
    let mut text = format!("copied {} of {} objects, with {copied}\n", done.copied, done.objects);
    for (count, why) in [
        (done.left_out, "for which there is no room, those that were written first"),
        (done.too_large, "too large for the new cache"),
        (done.replaced, "that newer ones had replaced"),
        (done.unread, "that could not be read"),
    ] {
        if count > 0 {
            text += &format!("left out {count} {why}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_the_objects_is_said() {
        let done = Remade {
            objects: 200,
            done: 100,
            copied: 90,
            bytes: 3 << 20,
            left_out: 7,
            too_large: 2,
            replaced: 0,
            unread: 1,
        };
        assert_eq!(progress(&done), "50 %: 100 of 200 objects, 3.0 MiB copied   ");
        let said = "copied 90 of 200 objects, with 3.0 MiB\n\
                    left out 7 for which there is no room, those that were written first\n\
                    left out 2 too large for the new cache\n\
                    left out 1 that could not be read\n";
        assert_eq!(report(&done), said);
        assert_eq!(report(&Remade::default()), "copied 0 of 0 objects, with 0 B\n");
    }
}
