//! `cargo xtask reloads`: changes flow files and reloads them while events flow, and checks that no event is lost, that
//! clients notice nothing, and that the process does not grow.

mod full;
mod many;
mod served;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::full::Full;
use self::many::Many;
use self::served::Served;
use crate::outage::peer::Pace;
use crate::process::Api;
use crate::scenario::{Judgement, Scenario, Stage};

/// Time that the peers of sinks take for an answer.
const PACE: Pace = Pace { usual: Duration::from_millis(1), slow: Duration::from_millis(1) };

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of reloads in the parts `served` and `many`
    #[arg(long, default_value_t = 1_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(4..))]
    reloads: u64,
    /// Relax the limits of times for a machine that is busy with other work
    #[arg(long)]
    busy: bool,
}

/// Measurements of a part.
pub(crate) enum Found {
    Full(Full),
    Served(Served),
    Many(Many),
}

impl Scenario for Arguments {
    const NAME: &'static str = "reloads";
    const PLUGINS: &'static [&'static str] = &[
        "connector-bench",
        "connector-file",
        "connector-http",
        "connector-metronome",
        "connector-null",
        "connector-socket",
        "fixture-answered",
    ];
    const PARTS: &'static [&'static str] = &["full", "served", "many"];
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        Ok(match stage.part {
            "full" => Found::Full(full::play(stage)?),
            "served" => Found::Served(served::play(stage, self.reloads)?),
            _ => Found::Many(many::play(stage, self.reloads)?),
        })
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        match found {
            Found::Full(found) => found.judge(&mut judgement, self.busy),
            Found::Served(found) => found.judge(&mut judgement, self.reloads, self.busy)?,
            Found::Many(found) => found.judge(&mut judgement, self.reloads)?,
        }
        Ok(judgement)
    }
}

/// Reloads all flows, and returns the number of flows with this change.
///
/// # Errors
/// The files were not applied.
fn reload(api: &Api, change: &str) -> Result<usize> {
    let outcome = api.json("POST", "/v1/reload")?;
    ensure!(outcome["result"] == "applied", "a reload was not applied: {outcome}");
    let flows = outcome["flows"].as_array().context("a reload has no flows")?;
    Ok(flows.iter().filter(|it| it["change"] == change).count())
}

/// Returns the components of a flow with a role.
fn components<'f>(flow: &'f Value, role: &'f str) -> impl Iterator<Item = &'f Value> {
    let all = flow["components"].as_array().into_iter().flatten();
    all.filter(move |it| it["role"] == role)
}
