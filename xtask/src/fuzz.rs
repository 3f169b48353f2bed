//! `cargo xtask fuzz`: runs the fuzz targets in `fuzz/`, each for a given time.

use std::fs;

use anyhow::{Context, Result};

use crate::project::{output, root, run as run_command};
use crate::tools::nightly;

/// Fuzz targets, which are readers of untrusted bytes.
const TARGETS: [&str; 6] = ["document", "frame", "json", "msgpack", "otlp", "prometheus"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Target to run; unless given, all targets run one after the other
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
    /// Duration of each target, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let needs = "needs nightly (`rustup toolchain install nightly`) and cargo-fuzz (`cargo install --locked cargo-fuzz`)";
    output(&mut nightly(["fuzz", "--version"])).context(needs)?;
    let chosen = |target: &&str| arguments.target.as_deref().is_none_or(|one| one == *target);
    TARGETS.into_iter().filter(chosen).try_for_each(|target| fuzz(target, arguments.seconds))
}

/// Runs one target. An input that fails is written to `fuzz/artifacts`. If the input is copied to
/// the seeds, a test fails until the fault is fixed.
fn fuzz(target: &str, seconds: u64) -> Result<()> {
    eprintln!("\n==> {target}, {seconds} s");
    let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
    fs::create_dir_all(root().join(&corpus)).with_context(|| format!("cannot create {corpus}"))?;
    let mut command = nightly(["fuzz", "run", target, &corpus, &seeds, "--"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.args(["-max_len=4096", "-timeout=10", "-print_final_stats=1"]);
    run_command(command).with_context(|| {
        format!("{target}: copy the input that failed to {seeds}, and fix the fault")
    })
}
