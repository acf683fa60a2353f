//! `tinaja generate`: man pages and shell completions, made of the flags as they are. For packagers.
//!
//! They follow from the flags, so the package makes them when it is built, and none is kept in the repository.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::flags::{Flags, Generate};

/// Shells that completions are made for, by what their files are called.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Write `tinaja.1`, a page for each command, and completions into a directory.
///
/// Errors: it cannot be written there.
pub fn generate(flags: &Generate) -> Result<()> {
    let dir = &flags.dir;
    let write = || -> Result<()> {
        fs::create_dir_all(dir)?;
        let command = Flags::command();
        let whole = command.clone().disable_help_subcommand(true);
        clap_mangen::generate_to(whole, dir)?;
        for shell in SHELLS {
            clap_complete::generate_to(shell, &mut command.clone(), "tinaja", dir)?;
        }
        remove_hidden(&command, dir)
    };
    write().with_context(|| format!("cannot write the pages into {}", dir.display()))
}

/// Commands that are no user's have no page.
fn remove_hidden(command: &Command, dir: &Path) -> Result<()> {
    for hidden in command.get_subcommands().filter(|command| command.is_hide_set()) {
        match fs::remove_file(dir.join(format!("tinaja-{}.1", hidden.get_name()))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
