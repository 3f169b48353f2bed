//! `cargo xtask beside`: one source feeds three sinks, and the third is disturbed while the others work. Checks that the
//! others keep their throughput and that each event is accounted for.
//!
//! Each case has two processes at the same time: one in which the third sink is disturbed, and one in which it is not.
//! The load of the machine affects both, so their throughput is compared.

mod side;
mod supply;

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, process::Command, thread};

use anyhow::{Context, Result};
use serde::Serialize;

use self::side::{Counts, Side};
use self::supply::{KINDS, Supply};
use crate::built::{self, Built};
use crate::outage::peer::Behaviour;
use crate::process::{load, need};
use crate::project::{empty_folder, root, run};
use crate::scenario::{Judgement, Scenario, Stage, csv, spread};

/// Number of restarts of the third sink in a case. In a short disturbance, they follow each other at once.
const RESTARTS: u32 = 100;
/// Least throughput of the other sinks, as a part of that beside a third sink that is not disturbed.
const LEAST: f64 = 0.95;
/// Least throughput on a busy machine. Two processes that do the same differ by that much if others compete with them.
const BUSY_LEAST: f64 = 0.5;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Sources to measure; unless given, all
    #[arg(value_name = "SOURCE", value_parser = KINDS.map(|it| it.0))]
    sources: Vec<String>,
    /// Duration of each disturbance, in seconds
    #[arg(long, default_value_t = 60.0, value_name = "S")]
    seconds: f64,
    /// Number of measurements of each case
    #[arg(long, default_value_t = 1, value_name = "N")]
    rounds: usize,
    /// Relax the limits for a machine that is busy with other work
    #[arg(long)]
    busy: bool,
}

/// The state of the third sink during a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Disturbance {
    /// The sink is down from the start to the end of the process.
    DownAtStart,
    Down,
    Slow,
    Paused,
    Restarted,
}

/// The value of `when_full` of the third sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Policy {
    DropNewest,
    DropOldest,
    DeadLetter,
}

const DISTURBANCES: [Disturbance; 5] = [
    Disturbance::DownAtStart,
    Disturbance::Down,
    Disturbance::Slow,
    Disturbance::Paused,
    Disturbance::Restarted,
];

const POLICIES: [Policy; 3] = [Policy::DropNewest, Policy::DropOldest, Policy::DeadLetter];

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::DropNewest => "drop_newest",
            Self::DropOldest => "drop_oldest",
            Self::DeadLetter => "dead_letter",
        }
    }
}

/// Figures of a case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Case {
    source: String,
    when_full: Policy,
    third: Disturbance,
    round: usize,
    seconds: f64,
    /// Events per second of the two other sinks, beside a disturbed third sink and beside one that is not disturbed.
    one: f64,
    two: f64,
    calm_one: f64,
    calm_two: f64,
    /// Events of the flow with the disturbed sink: read, and by their ends at the third sink.
    taken: u64,
    delivered: u64,
    dropped: u64,
    passed_on: u64,
    received: u64,
    /// `true` if a source has read all that there was, so that the throughput is not known.
    exhausted: bool,
    load: String,
    /// Reason why the counts do not balance, or why the process has not ended in time; empty if there is none.
    fault: String,
}

impl Case {
    /// Returns the smaller throughput of the two other sinks, as a part of that beside a sink that is not disturbed.
    fn kept(&self) -> f64 {
        (self.one / self.calm_one).min(self.two / self.calm_two)
    }
}

impl Scenario for Arguments {
    const NAME: &'static str = "beside";
    const PLUGINS: &'static [&'static str] = &[
        "connector-file",
        "connector-http",
        "connector-journald",
        "connector-null",
        "fixture-answered",
    ];
    type Found = Vec<Case>;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        let built = built::build(Self::PLUGINS, release, to)?;
        if self.kinds().any(|it| it == "kafka") {
            need("kcat", "`apt-get install kcat`")?;
            built::build_broker("connector-kafka", release, to)?;
        }
        if self.kinds().any(|it| it == "nats") {
            need("go", "`apt-get install golang`")?;
            built::build_broker("connector-nats", release, to)?;
            let mut command = Command::new("go");
            command.args(["build", "-trimpath", "-o"]).arg(to.join("bare")).arg(".");
            command.current_dir(root().join("bench/nats/bare"));
            run(command)?;
        }
        Ok(built)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for kind in self.kinds() {
            let supply = Supply::new(kind, stage).with_context(|| format!("the source {kind}"))?;
            for round in 0..self.rounds {
                for (policy, third) in
                    POLICIES.iter().flat_map(|it| DISTURBANCES.map(|by| (*it, by)))
                {
                    let number = cases.len();
                    let case =
                        self.case(stage, (kind, &supply), (policy, third), (round, number))?;
                    eprintln!("{}", shown(&case));
                    cases.push(case);
                }
            }
            drop(supply);
            // The files of a kind are large.
            fs::remove_dir_all(stage.folder.join(kind))?;
        }
        Ok(cases)
    }

    fn judge(&self, cases: &Vec<Case>) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        let least = if self.busy { BUSY_LEAST } else { LEAST };
        let state = if self.busy { ", on a busy machine" } else { "" };
        judgement.line(format_args!(
            "{} rounds; each disturbance lasts {} s{state}; throughput of the slower of the two other sinks, as a part of \
             that beside a third sink that is not disturbed: median (least, most), {least} required",
            self.rounds, self.seconds
        ));
        for kind in self.kinds() {
            for (policy, third) in POLICIES.iter().flat_map(|it| DISTURBANCES.map(|by| (*it, by))) {
                let of =
                    |it: &&Case| it.source == kind && it.when_full == policy && it.third == third;
                let of: Vec<_> = cases.iter().filter(of).collect();
                let known = of.iter().filter(|it| it.fault.is_empty() && !it.exhausted);
                let [low, median, high] = spread(known.map(|it| it.kept()));
                let faults: Vec<_> = of
                    .iter()
                    .filter(|it| !it.fault.is_empty())
                    .map(|it| it.fault.as_str())
                    .collect();
                let exhausted = of.iter().filter(|it| it.exhausted).count();
                let unknown = if exhausted > 0 {
                    format!(
                        "; the source has read everything in {exhausted} measurements: use fewer `--seconds`"
                    )
                } else {
                    String::new()
                };
                let text = format!(
                    "{} {third:?}: {median:.2} ({low:.2}, {high:.2}){unknown} {}",
                    policy.name(),
                    faults.join("; ")
                );
                judgement.add(kind, text, faults.is_empty() && median >= least);
            }
        }
        judgement.files.push(("cases.csv", csv(cases)?));
        Ok(judgement)
    }
}

impl Arguments {
    fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let is_selected =
            |it: &&str| self.sources.is_empty() || self.sources.iter().any(|source| source == it);
        KINDS.map(|it| it.0).into_iter().filter(is_selected)
    }

    /// Measures a case. A fault that the counts show is part of the result.
    fn case(
        &self,
        stage: &Stage<'_>,
        (kind, supply): (&str, &Supply),
        (policy, third): (Policy, Disturbance),
        (round, number): (usize, usize),
    ) -> Result<Case> {
        let folder = stage.folder.join("case");
        empty_folder(&folder)?;
        let start = |name: &str, is_down| {
            let unique = format!("{name}-{number}");
            Side::start((stage, &folder.join(name)), supply, (&unique, policy), is_down)
                .with_context(|| format!("{kind}, {policy:?}, {third:?}, {name}"))
        };
        let calm = start("calm", false)?;
        let mut side = start("disturbed", third == Disturbance::DownAtStart)?;
        let (before, calm_before, begun) = (side.delivered()?, calm.delivered()?, Instant::now());
        disturb(&mut side, third, Duration::from_secs_f64(self.seconds))?;
        let (after, calm_after, lasted) = (side.delivered()?, calm.delivered()?, begun.elapsed());
        #[allow(clippy::cast_precision_loss)] // far fewer than 2^53
        let rate = |at: usize, before: [u64; 2], after: [u64; 2]| {
            after[at].saturating_sub(before[at]) as f64 / lasted.as_secs_f64()
        };
        let most = KINDS.iter().find(|it| it.0 == kind).map_or(0, |it| it.1);
        let exhausted = [after, calm_after].iter().flatten().any(|count| *count >= most);
        let ended = [side.end(Some(third)), calm.end(None)];
        let faults: Vec<_> =
            ended.iter().filter_map(|it| it.as_ref().err()).map(|it| format!("{it:#}")).collect();
        let [ended, _] = ended;
        let Counts { taken, delivered, dropped, passed_on, received } = ended.unwrap_or_default();
        if !faults.is_empty() {
            let kept = stage.folder.join(format!("fault-{number}"));
            fs::rename(&folder, &kept)
                .with_context(|| format!("cannot keep {}", kept.display()))?;
        }
        Ok(Case {
            source: kind.to_owned(),
            when_full: policy,
            third,
            round,
            seconds: lasted.as_secs_f64(),
            one: rate(0, before, after),
            two: rate(1, before, after),
            calm_one: rate(0, calm_before, calm_after),
            calm_two: rate(1, calm_before, calm_after),
            taken,
            delivered,
            dropped,
            passed_on,
            received,
            exhausted,
            load: load(),
            fault: faults.join("; "),
        })
    }
}

/// Disturbs the third sink for this time.
fn disturb(side: &mut Side, third: Disturbance, time: Duration) -> Result<()> {
    let begun = Instant::now();
    let until = |end: Duration| thread::sleep(end.saturating_sub(begun.elapsed()));
    match third {
        Disturbance::DownAtStart => {}
        Disturbance::Down => side.peer.turn(Behaviour::Stopped)?,
        Disturbance::Slow => side.peer.turn(Behaviour::Slow)?,
        Disturbance::Paused => side.third("pause")?,
        Disturbance::Restarted => {
            for number in 1..=RESTARTS {
                side.third("restart")?;
                until(time * number / RESTARTS);
            }
        }
    }
    until(time);
    Ok(())
}

fn shown(case: &Case) -> String {
    let Case { source, when_full, third, round, one, two, calm_one, calm_two, load, fault, .. } =
        case;
    format!(
        "{source}, {}, {third:?}, round {round}: {one:.0} and {two:.0} events/s, calm {calm_one:.0} and {calm_two:.0}; \
         load average {load} {fault}",
        when_full.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(policy: Policy, third: Disturbance) -> Case {
        let counts = Counts { taken: 9, delivered: 4, dropped: 5, passed_on: 0, received: 4 };
        let Counts { taken, delivered, dropped, passed_on, received } = counts;
        Case {
            source: "file".to_owned(),
            when_full: policy,
            third,
            round: 0,
            seconds: 1.0,
            one: 96.0,
            two: 97.0,
            calm_one: 100.0,
            calm_two: 100.0,
            taken,
            delivered,
            dropped,
            passed_on,
            received,
            exhausted: false,
            load: String::new(),
            fault: String::new(),
        }
    }

    fn broken(busy: bool, change: fn(&mut Case)) -> usize {
        let all = POLICIES.iter().flat_map(|policy| DISTURBANCES.map(|third| case(*policy, third)));
        let mut all: Vec<_> = all.collect();
        change(&mut all[3]);
        let arguments = Arguments { sources: vec!["file".into()], seconds: 1.0, rounds: 1, busy };
        arguments.judge(&all).expect("the table can be written").broken
    }

    #[test]
    fn slower_sink_and_wrong_counts_break_the_guarantee() {
        for (name, change, expected) in [
            ("nothing", (|_| {}) as fn(&mut Case), 0),
            ("a slower sink", |it| it.two = 94.0, 1),
            ("a stopped sink", |it| it.one = 0.0, 1),
            ("a fault", |it| it.fault = "an event is missing".to_owned(), 1),
            ("an unknown throughput", |it| it.exhausted = true, 1),
        ] {
            assert_eq!(broken(false, change), expected, "{name}");
        }
        assert_eq!(broken(true, |it| it.two = 60.0), 0, "the machine is busy");
    }
}
