//! `cargo xtask rebalances`: members of a consumer group that come, go and are killed, on a real broker, and what
//! becomes of the records.

use anyhow::Result;

use crate::project::{cargo, run};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often a member comes or goes
    #[arg(default_value_t = 500, value_name = "N")]
    count: u32,
}

/// # Errors
/// Records were lost.
pub(crate) fn measure(arguments: &Arguments) -> Result<()> {
    let program = ["run", "--manifest-path=brokers/Cargo.toml", "--package=broker-tests"];
    let mut command = cargo(program);
    command.args(["--target-dir=target", "--bin=rebalances", "--"]);
    command.arg(arguments.count.to_string());
    run(command)
}
