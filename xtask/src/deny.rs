//! The step `deny`: licences, sources and banned crates of the dependencies.

use std::process::Command;

use anyhow::{Context, Result};

use crate::project::{Skipped, root, run};
use crate::tools::Tool;

const DENY: Tool =
    Tool { name: "cargo-deny", version: "0.20.2", says: "cargo-deny 0.20.", features: &[] };

/// Options of the checks of each workspace.
const WORKSPACES: [&[&str]; 3] = [
    &[],
    &[
        "--manifest-path=operators-plugins/vrl/Cargo.toml",
        "--config=operators-plugins/vrl/deny.toml",
    ],
    &["--manifest-path=brokers/Cargo.toml", "--config=brokers/deny.toml"],
];

/// Checks licences, sources and banned crates. Advisories are skipped, because CI cannot access their database.
pub(crate) fn check() -> Result<Skipped> {
    let program =
        DENY.find().context("cargo-deny is not installed, and cargo cannot install it")?;
    for workspace in WORKSPACES {
        let mut command = Command::new(&program);
        command.args(workspace).args(["--workspace", "check", "bans", "licenses", "sources"]);
        command.current_dir(root());
        run(command)?;
    }
    Ok(Some("advisories (no access to their database; run `cargo deny check advisories`)".into()))
}
