//! `cargo xtask beside`: one source feeds three sinks, and the third is disturbed while the others work. Checks that the
//! others keep their throughput and that each event is accounted for.
//!
//! Each case has two processes at the same time: one in which the third sink is disturbed, and one in which it is not.
//! The load of the machine affects both, so their throughput is compared. With `--rate`, the machine is not at its limit,
//! so the cases of a disturbance run at the same time.

mod side;
mod supply;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, process::Command, thread};

use anyhow::{Context, Result};
use serde::Serialize;

use self::side::{Counts, Sample, Side};
use self::supply::{Feed, KINDS, Supply};
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
/// Name of the input of all cases without a rate.
const ALL: &str = "lines";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Sources to measure; unless given, all
    #[arg(value_name = "SOURCE", value_parser = KINDS.map(|it| it.0))]
    sources: Vec<String>,
    /// Duration of each disturbance, in seconds
    #[arg(long, default_value_t = 60.0, value_name = "S")]
    seconds: f64,
    /// Events per second of each source; unless given, sources read as fast as they can
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: Option<u64>,
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

/// Returns the values of `when_full` that are measured with a kind of source.
///
/// A client of an HTTP server that responds when events are delivered waits until its events leave a queue with
/// `dead_letter`, which is not the throughput of the other sinks.
fn policies(kind: &str) -> &'static [Policy] {
    if kind == "http" { &POLICIES[..2] } else { &POLICIES }
}

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
            let supply = Arc::new(supply);
            if self.rate.is_none() {
                supply
                    .fill(ALL, self.events(kind))
                    .with_context(|| format!("the source {kind}"))?;
            }
            // Without a rate, more than two processes would have too little of the machine to show a difference.
            let together = if self.rate.is_some() { POLICIES.len() } else { 1 };
            for round in 0..self.rounds {
                let groups = policies(kind).chunks(together);
                for (third, policies) in
                    DISTURBANCES.iter().flat_map(|it| groups.clone().map(|by| (*it, by)))
                {
                    let at = (round, cases.len());
                    for case in self.cases(stage, (kind, &supply), (policies, third), at)? {
                        eprintln!("{}", shown(&case));
                        cases.push(case);
                    }
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
        if let Some(rate) = self.rate {
            let calm = cases.iter().map(|it| it.calm_one.min(it.calm_two));
            let [low, median, _] = spread(calm);
            judgement.line(format_args!(
                "{rate} events/s; beside a third sink that is not disturbed, the two other sinks deliver {median:.0} \
                 (least {low:.0})"
            ));
        }
        judgement.line(format_args!(
            "{} rounds; each disturbance lasts {} s{state}; throughput of the slower of the two other sinks, as a part of \
             that beside a third sink that is not disturbed: median (least, most), {least} required",
            self.rounds, self.seconds
        ));
        for kind in self.kinds() {
            for (policy, third) in
                policies(kind).iter().flat_map(|it| DISTURBANCES.map(|by| (*it, by)))
            {
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

    /// Returns the number of events that a source without a rate can read.
    fn events(&self, kind: &str) -> u64 {
        let most = KINDS.iter().find(|it| it.0 == kind).map_or(0, |it| it.1);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // whole seconds
        most.saturating_mul(self.seconds.ceil() as u64)
    }

    /// Measures the cases of a disturbance with these values of `when_full` at the same time. Faults that the counts show
    /// are part of the result.
    fn cases(
        &self,
        stage: &Stage<'_>,
        (kind, supply): (&str, &Arc<Supply>),
        (policies, third): (&[Policy], Disturbance),
        (round, number): (usize, usize),
    ) -> Result<Vec<Case>> {
        let folder = stage.folder.join("case");
        empty_folder(&folder)?;
        let (input, mut feed) = match self.rate {
            Some(rate) => {
                let input = format!("{ALL}-{number}");
                let feed = supply.feed(&input, rate)?;
                (input, feed)
            }
            None => (ALL.to_owned(), Feed::default()),
        };
        let start = |name: &str, policy, is_down| {
            let unique = format!("{name}-{number}");
            let source = (&**supply, input.as_str(), self.rate);
            Side::start((stage, &folder.join(name)), source, (&unique, policy), is_down)
                .with_context(|| format!("{kind}, {policy:?}, {third:?}, {name}"))
        };
        let calm = start("calm", policies[0], false)?;
        let is_down = third == Disturbance::DownAtStart;
        let sides = policies.iter().map(|it| start(it.name(), *it, is_down));
        let mut sides = sides.collect::<Result<Vec<_>>>()?;
        let sample = |sides: &[Side]| -> Result<(Sample, Vec<Sample>)> {
            let sides = sides.iter().map(Side::sample).collect::<Result<_>>()?;
            Ok((calm.sample()?, sides))
        };
        let (calm_before, before) = sample(&sides)?;
        disturb(&mut sides, third, Duration::from_secs_f64(self.seconds))?;
        let (calm_after, after) = sample(&sides)?;
        let [calm_one, calm_two] = calm_before.rates(&calm_after);
        let most = if self.rate.is_some() { u64::MAX } else { self.events(kind) };
        let has_all = |it: &Sample| it.delivered.iter().any(|count| *count >= most);
        feed.end().context("the input of the sources")?;
        let ended: Vec<_> = sides.into_iter().map(|it| it.end(Some(third))).collect();
        let calm = calm.end(None).err();
        if calm.is_some() || ended.iter().any(Result::is_err) {
            let kept = stage.folder.join(format!("fault-{number}"));
            fs::rename(&folder, &kept)
                .with_context(|| format!("cannot keep {}", kept.display()))?;
        }
        let measured = policies.iter().zip(before.iter().zip(&after)).zip(ended);
        let cases = measured.map(|((policy, (before, after)), ended)| {
            let [one, two] = before.rates(after);
            let faults: Vec<_> =
                ended.as_ref().err().into_iter().chain(&calm).map(|it| format!("{it:#}")).collect();
            let Counts { taken, delivered, dropped, passed_on, received } =
                ended.unwrap_or_default();
            Case {
                source: kind.to_owned(),
                when_full: *policy,
                third,
                round,
                seconds: self.seconds,
                one,
                two,
                calm_one,
                calm_two,
                taken,
                delivered,
                dropped,
                passed_on,
                received,
                exhausted: has_all(after) || has_all(&calm_after),
                load: load(),
                fault: faults.join("; "),
            }
        });
        Ok(cases.collect())
    }
}

/// Disturbs the third sinks for this time.
fn disturb(sides: &mut [Side], third: Disturbance, time: Duration) -> Result<()> {
    let begun = Instant::now();
    let until = |end: Duration| thread::sleep(end.saturating_sub(begun.elapsed()));
    let times = if third == Disturbance::Restarted { RESTARTS } else { 1 };
    for number in 1..=times {
        for side in &mut *sides {
            match third {
                Disturbance::DownAtStart => {}
                Disturbance::Down => side.peer.turn(Behaviour::Stopped)?,
                Disturbance::Slow => side.peer.turn(Behaviour::Slow)?,
                Disturbance::Paused => side.third("pause")?,
                Disturbance::Restarted => side.third("restart")?,
            }
        }
        until(time * number / times);
    }
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
        let arguments =
            Arguments { sources: vec!["file".into()], seconds: 1.0, rate: None, rounds: 1, busy };
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
