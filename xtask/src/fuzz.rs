//! `cargo xtask fuzz`: the targets in `fuzz/`, each for a while.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::nightly;
use crate::project::{root, run as run_command};

/// What reads bytes that it did not write.
const TARGETS: [&str; 5] = ["document", "json", "msgpack", "otlp", "prometheus"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The target to run; all of them, one after the other, where there is none
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
    /// How long to run each target, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    nightly::required()?;
    let fuzzer = nightly::cargo(["fuzz", "--version"]).output();
    if !fuzzer.is_ok_and(|output| output.status.success()) {
        bail!("no cargo-fuzz: `cargo install --locked cargo-fuzz` provides it");
    }
    let chosen = |target: &&str| arguments.target.as_deref().is_none_or(|one| one == *target);
    TARGETS.into_iter().filter(chosen).try_for_each(|target| fuzz(target, arguments.seconds))
}

/// What is found lies in `fuzz/artifacts` afterwards; a seed of it makes a test that fails.
fn fuzz(target: &str, seconds: u64) -> Result<()> {
    eprintln!("\n==> {target}, {seconds} s");
    let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
    fs::create_dir_all(root().join(&corpus)).with_context(|| format!("cannot create {corpus}"))?;
    let mut command = nightly::cargo(["fuzz", "run", target, &corpus, &seeds, "--"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.args(["-max_len=4096", "-timeout=10", "-print_final_stats=1"]);
    run_command(command)
        .with_context(|| format!("{target}: copy what was found to {seeds}, and repair it"))
}
