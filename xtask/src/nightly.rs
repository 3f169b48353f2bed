//! The nightly toolchain: what only it can do, and what is said where it is missing.

use std::process::Command;

use anyhow::{Result, bail};

use crate::project::{forget_package, root};

/// Whether there is one.
pub(crate) fn is_installed() -> bool {
    cargo(["--version"]).output().is_ok_and(|output| output.status.success())
}

/// Fails with what to do where there is none.
pub(crate) fn required() -> Result<()> {
    if !is_installed() {
        bail!("no nightly toolchain; `rustup toolchain install nightly` provides it");
    }
    Ok(())
}

/// A call of its cargo, in the workspace's folder.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("rustup");
    // Those of the cargo that runs us are of another toolchain.
    for variable in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(variable);
    }
    forget_package(&mut command);
    command.args(["run", "nightly", "cargo"]).args(arguments).current_dir(root());
    command
}
