//! `cargo xtask build-static`: what loaded plugins are measured against.
//!
//! The build has a target folder of its own: its plugin crates export nothing, so their libraries
//! cannot be loaded, and must not take the place of those that can.

use anyhow::Result;

use crate::project::{cargo, root, run as run_command};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Without optimisations
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut build = cargo([
        "build",
        "--package",
        "tremor-runtime",
        "--bin",
        "tremor",
        "--features",
        "link-static",
    ]);
    build.arg("--target-dir").arg(root().join("target").join("static"));
    if !arguments.debug {
        build.arg("--release");
    }
    run_command(build)
}
