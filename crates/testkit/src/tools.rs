//! Running other programs to their end.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A client with an environment of its own: no proxy settings, registries or certificates of the machine's reach it.
pub fn client(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    env_of(&mut command, home);
    command
}

/// Gives a command that environment.
pub fn env_of(command: &mut Command, home: &Path) {
    command.env_clear().env("HOME", home).env("TMPDIR", home).env("LC_ALL", "C.UTF-8").current_dir(home);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
}

/// Run to the end, whatever the result.
pub fn output(command: &mut Command) -> Output {
    let program = command.get_program().to_owned();
    command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()))
}

/// Run to the end and return stdout; panics with all output when it fails.
pub fn run(command: &mut Command) -> String {
    let output = output(command);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {}\n{stdout}\n{stderr}", output.status);
    stdout
}
