//! Plain git, undisturbed by the machine's configuration.

use std::path::Path;
use std::process::Command;

/// Asks git about everything in a store.
pub(crate) const FSCK: &[&str] = &["fsck", "--strict", "--no-dangling", "--no-progress"];

/// Runs git on a store; tells whether it succeeded, and what it said.
pub(crate) fn git(store: &Path, args: &[&str]) -> (bool, String) {
    let output = Command::new("git")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .arg("--git-dir")
        .arg(store)
        .args(args)
        .output();
    match output {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&said).into_owned())
        }
        Err(error) => (false, error.to_string()),
    }
}

/// Lists what `git fsck` complains of: a warning counts, a notice does not.
pub(crate) fn complaints(said: &str) -> Vec<&str> {
    said.lines().filter(|line| !line.starts_with("notice: ")).collect()
}
