//! `cargo xtask restarts`: restarts connectors through the admin API while events flow through them and another flow
//! runs at full load, and checks that memory, descriptors and threads do not grow.

use std::{thread, time::Duration};

use anyhow::Result;

use crate::growth::{self, Sample};
use crate::process::{Api, Process};
use crate::project::root;
use crate::scenario::{self, Judgement, Options, Scenario, Stage, counts};

/// Maximum wait for a step that normally ends immediately, so that a hanging process becomes an error.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of restarts
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(4..))]
    restarts: u64,
}

/// Runs the short form, which is a step of CI.
pub(crate) fn check() -> Result<()> {
    scenario::run(&Arguments { restarts: 400 }, &Options::default())
}

impl Scenario for Arguments {
    const NAME: &'static str = "restarts";
    const PLUGINS: &'static [&'static str] =
        &["connector-bench", "connector-file", "connector-null", "fixture-faults"];
    type Found = Vec<Sample>;

    fn play(&self, stage: &Stage<'_>) -> Result<Vec<Sample>> {
        stage.write("restarted.yaml", include_str!("flows/restarted.yaml"))?;
        let logs = root().join("examples/logs.json");
        stage.flow("load.yaml", include_str!("flows/load.yaml"), &[("LOGS", &logs.display())])?;
        let flows = ["--api", "127.0.0.1:0", "--drain-timeout", "5", "restarted.yaml", "load.yaml"];
        let mut process = stage.start("tremor", &flows)?;
        let api = process.api()?;
        let mut samples = vec![sample(&mut process, &api, 0)?];
        let every = (self.restarts / 100).max(1);
        for number in 1..=self.restarts {
            let connector = ["input", "output"][usize::try_from(number % 2)?];
            restart(&mut process, &api, connector, number.div_ceil(2))?;
            if number % every == 0 {
                samples.push(sample(&mut process, &api, number)?);
            }
        }
        let log = process.stop(PATIENCE)?;
        // Fails if an event was lost.
        ["restarted", "load"].iter().try_for_each(|flow| counts(&log, flow).map(drop))?;
        Ok(samples)
    }

    fn judge(&self, samples: &Vec<Sample>) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        judgement.line(format_args!("  restarts     {} under load", self.restarts));
        growth::judge(&mut judgement, samples, self.restarts)?;
        Ok(judgement)
    }
}

/// Restarts a connector, and waits until it runs again. `times` is the number of its restarts, this one included.
fn restart(process: &mut Process, api: &Api, connector: &str, times: u64) -> Result<()> {
    let path = format!("/v1/flows/restarted/connectors/{connector}");
    api.json("POST", &format!("{path}/restart"))?;
    process.until("a running connector", PATIENCE, |_| {
        let it = api.json("GET", &path)?;
        let is_back = it["state"] == "running" && it["restarts"].as_u64() >= Some(times);
        Ok(is_back.then_some(()))
    })
}

/// Measures the process while the load is paused, so that buffers in use are not counted.
fn sample(process: &mut Process, api: &Api, restarts: u64) -> Result<Sample> {
    let source = "/v1/flows/load/connectors/source";
    process.until("a flow at full load", PATIENCE, |_| {
        Ok((api.ask("POST", &format!("{source}/pause"))?.0 == 202).then_some(()))
    })?;
    process.until("a paused flow", PATIENCE, |_| {
        Ok((api.json("GET", source)?["state"] == "paused").then_some(()))
    })?;
    let sample = Sample::new(process, restarts)?;
    api.json("POST", &format!("{source}/resume"))?;
    // The load gets time to begin before the next restart.
    thread::sleep(Duration::from_millis(1));
    Ok(sample)
}
