//! The part `many`: flows are added and removed beside one at full load.

use std::fs;

use anyhow::{Context, Result};
use fastrand::Rng;
use serde_json::Value;

use super::reload;
use crate::growth::{self, Sample};
use crate::process::{Api, Process};
use crate::project::root;
use crate::scenario::{Judgement, PATIENCE, Stage, counts};

/// Maximum number of flows that come and go. Each has a source and a sink.
const FLOWS: usize = 19;
/// Maximum memory that counts as used by a component when nothing happens, in bytes.
const MEMORY: u64 = 512 << 10;
const SEED: u64 = 54;

pub(crate) struct Many {
    /// Numbers of flows that were added and removed.
    added: usize,
    removed: usize,
    /// The largest memory that counts as used by a component at the end, in bytes.
    memory: u64,
    /// Events that the flow at full load took in and delivered.
    load: (u64, u64),
    samples: Vec<Sample>,
}

pub(super) fn play(stage: &Stage<'_>, reloads: u64) -> Result<Many> {
    let folder = stage.folder.join("flows");
    fs::create_dir(&folder)?;
    let logs = root().join("examples/logs.json");
    stage.flow(
        "flows/load.yaml",
        include_str!("../flows/load.yaml"),
        &[("LOGS", &logs.display())],
    )?;
    let arguments = ["--api", "127.0.0.1:0", "--memory-limit", "256MiB", "flows"];
    let mut process = stage.start("tremor", &arguments)?;
    let api = process.api()?;
    let mut random = Rng::with_seed(SEED);
    let (mut flows, mut added, mut removed) = (0, 0, 0);
    let mut samples = vec![sample(&mut process, &api, 0)?];
    // Between two samples, flows come and go.
    let every = (reloads / 100).max(5);
    for number in 1..=reloads {
        // Samples are taken of equal states.
        let is_sampled = number % every == 0 || number == reloads;
        let wanted = if is_sampled { 0 } else { random.usize(0..=FLOWS) };
        for flow in flows.min(wanted)..flows.max(wanted) {
            let path = format!("flows/{flow}.yaml");
            if flow < wanted {
                stage.write(&path, include_str!("../flows/metronome.yaml"))?;
            } else {
                fs::remove_file(stage.folder.join(path))?;
            }
        }
        if wanted != flows {
            let (more, change) =
                if wanted > flows { (&mut added, "added") } else { (&mut removed, "removed") };
            *more += reload(&api, change)?;
        }
        flows = wanted;
        if is_sampled {
            samples.push(sample(&mut process, &api, number)?);
        }
    }
    pause(&mut process, &api)?;
    let memory = largest(&api.ask("GET", "/metrics")?.1).context("no memory in the metrics")?;
    api.json("POST", &format!("{SOURCE}/resume"))?;
    let log = process.stop(PATIENCE)?;
    Ok(Many { added, removed, memory, load: counts(&log, "load")?, samples })
}

/// The source of the flow at full load.
const SOURCE: &str = "/v1/flows/load/connectors/source";

/// Pauses the flow at full load, so that buffers in use are not counted.
fn pause(process: &mut Process, api: &Api) -> Result<()> {
    process.until("a flow at full load", PATIENCE, |_| {
        Ok((api.ask("POST", &format!("{SOURCE}/pause"))?.0 == 202).then_some(()))
    })?;
    process.until("a paused flow", PATIENCE, |_| {
        let flow: Value = api.json("GET", "/v1/flows/load")?;
        let is_paused = api.json("GET", SOURCE)?["state"] == "paused";
        let mut sinks = super::components(&flow, "sink");
        let is_empty = sinks.all(|it| it["queue"]["events"] == 0);
        Ok((is_paused && is_empty).then_some(()))
    })
}

fn sample(process: &mut Process, api: &Api, reloads: u64) -> Result<Sample> {
    pause(process, api)?;
    let sample = Sample::new(process, reloads)?;
    api.json("POST", &format!("{SOURCE}/resume"))?;
    Ok(sample)
}

/// Returns the largest value of `tremor_memory_bytes` in a page of metrics.
fn largest(page: &str) -> Option<u64> {
    let values = page.lines().filter(|line| line.starts_with("tremor_memory_bytes{"));
    values.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).max()
}

impl Many {
    pub(super) fn judge(&self, judgement: &mut Judgement, reloads: u64) -> Result<()> {
        let (added, removed) = (self.added, self.removed);
        let text = format!("{added} flows added, {removed} removed by {reloads} reloads");
        judgement.add("flows", text, added == removed);
        let (read, out) = self.load;
        let text = format!("{read} events in, {out} out of the flow at full load");
        judgement.add("load", text, read == out);
        let text = format!("{} bytes at most in a component, {MEMORY} allowed", self.memory);
        judgement.add("accounts", text, self.memory <= MEMORY);
        growth::judge(judgement, &self.samples, reloads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_memory_is_found() {
        let page = "# TYPE tremor_memory_bytes gauge\ntremor_memory_bytes{component=\"a\"} 65536\n\
                    tremor_memory_bytes{component=\"b\"} 131072\ntremor_memory_short{flow=\"a\"} 0\n";
        assert_eq!(largest(page), Some(131_072));
        assert_eq!(largest("tremor_memory_short 0\n"), None);
    }
}
