//! `cargo xtask pictures`: the pictures of the README, of a run in `bench/runs` and of the demo.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::demo;
use crate::project::{cargo, root, run as run_command};

/// The newest run of all six flows, and its subject with loaded plugins.
const RUN: &str = "bench/runs/2026-11-24-six-flows-24";
const SUBJECT: &str = "plugin";
const CHART: &str = "docs/images/flows.svg";

pub(crate) fn run() -> Result<()> {
    draw_chart(Path::new(CHART))?;
    demo::draw()
}

/// Compares the chart with that of the run.
pub(crate) fn check_chart() -> Result<()> {
    let drawn = Path::new("target/flows.svg");
    draw_chart(drawn)?;
    let [drawn, kept] = [drawn, Path::new(CHART)].map(|path| {
        fs::read(root().join(path)).with_context(|| format!("cannot read {}", path.display()))
    });
    ensure!(drawn? == kept?, "{CHART} is not what `cargo xtask pictures` draws of {RUN}");
    Ok(())
}

fn draw_chart(output: &Path) -> Result<()> {
    let tool =
        ["run", "--quiet", "--package=bench-report", "--bin=bench-report", "--", "chart", RUN];
    let mut command = cargo(tool);
    command.args(["--subject", SUBJECT, "--output"]).arg(output);
    run_command(command)
}
