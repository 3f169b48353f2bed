//! `cargo xtask scale-out`: processes of `examples/scale-out` that share the partitions of a topic of a real broker:
//! what becomes of the records while they come, go and are killed, and what more of them do than one.

use std::ffi::OsString;

use anyhow::Result;

use crate::built::folder;
use crate::project::{cargo, run};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often a process comes, goes or is killed
    #[arg(long, default_value_t = 20, value_name = "N")]
    changes: u32,
    /// After so many seconds none does any more; of `--limited`: how long each number of processes is measured
    #[arg(long, value_name = "S")]
    seconds: Option<u32>,
    /// How many records are written in a second
    #[arg(long, default_value_t = 6_000, value_name = "N")]
    rate: u32,
    /// Measure one, two and four processes instead, each limited to a tenth of a core
    #[arg(long)]
    limited: bool,
    /// Build the program and its plugin in the profile `release`
    #[arg(long)]
    release: bool,
}

/// # Errors
/// Records were lost, overtaken or came again without a kill; or four processes did less than 3.5 times what one did.
pub(crate) fn measure(arguments: &Arguments) -> Result<()> {
    let Arguments { changes, seconds, rate, limited, release } = arguments;
    let program = ["run", "--manifest-path=brokers/Cargo.toml", "--package=broker-tests"];
    let mut command = cargo(program);
    let target = folder(false);
    let target = target.parent().map(|it| it.as_os_str().to_owned()).unwrap_or_default();
    command.args([OsString::from("--target-dir"), target]).args(["--bin=scale_out", "--"]);
    if *limited {
        command.args(["limited".to_owned(), seconds.unwrap_or(10).to_string()]);
    } else {
        let seconds = seconds.unwrap_or(u32::MAX);
        command.args(["changes", &changes.to_string(), &seconds.to_string(), &rate.to_string()]);
    }
    if *release {
        command.arg("--release");
    }
    run(command)
}
