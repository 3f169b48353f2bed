//! `cargo xtask scale-out`: processes of `examples/scale-out` that share the partitions of a topic on a real broker.
//!
//! Processes are started, stopped and killed while records flow, and the records are counted. With `--limited`, the
//! throughput of one, two and four processes is compared.

use anyhow::Result;

use crate::project::target_folder;
use crate::project::{cargo, run};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of times that a process is started, stopped or killed
    #[arg(long, default_value_t = 20, value_name = "N")]
    changes: u32,
    /// Measure one, two and four processes instead, each limited to a tenth of a core
    #[arg(long)]
    limited: bool,
    /// Build the program and its plugin in the profile `release`
    #[arg(long)]
    release: bool,
}

/// Runs the measurement.
///
/// # Errors
/// Records were lost, overtaken, or redelivered without a kill; or the throughput of four processes
/// was less than 3.5 times that of one.
pub(crate) fn measure(arguments: &Arguments) -> Result<()> {
    let program = ["run", "--manifest-path=brokers/Cargo.toml", "--package=broker-tests"];
    let mut command = cargo(program);
    command.arg("--target-dir").arg(target_folder()).args(["--bin=scale_out", "--"]);
    if arguments.limited {
        command.args(["limited", "10"]);
    } else {
        // The numbers are the time limit in seconds, which is not reached, and the records per second.
        command.args(["changes", &arguments.changes.to_string(), "4294967295", "6000"]);
    }
    command.args(arguments.release.then_some("--release"));
    run(command)
}
