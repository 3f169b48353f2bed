//! The order of runs.
//!
//! The order of flows in a round and of subjects in a flow is random. The subjects of a flow run within minutes of each
//! other, so that a machine that gets hotter or busier affects all of them equally.

use std::io::{self, Write as _};

use anyhow::Result;

/// The runs of a benchmark, and the seed of their order.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Seed of the order: the same seed gives the same order
    #[arg(long)]
    seed: u64,
    /// Number of times that each subject runs each flow
    #[arg(long)]
    rounds: u32,
    /// Names of flows
    #[arg(long, num_args = 1.., required = true)]
    flows: Vec<String>,
    /// Names of subjects
    #[arg(long, num_args = 1.., required = true)]
    subjects: Vec<String>,
}

/// A run: its round, flow and subject.
type Slot<'a> = (u32, &'a str, &'a str);

pub(crate) fn print(arguments: &Arguments) -> Result<()> {
    let mut out = io::stdout().lock();
    for (number, (round, flow, subject)) in (1..).zip(order(arguments)) {
        writeln!(out, "{number}\t{round}\t{flow}\t{subject}")?;
    }
    Ok(())
}

fn order(arguments: &Arguments) -> Vec<Slot<'_>> {
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let mut slots = Vec::new();
    for round in 1..=arguments.rounds {
        let mut flows: Vec<_> = arguments.flows.iter().collect();
        random.shuffle(&mut flows);
        for flow in flows {
            let mut subjects: Vec<_> = arguments.subjects.iter().collect();
            random.shuffle(&mut subjects);
            slots.extend(
                subjects.into_iter().map(|subject| (round, flow.as_str(), subject.as_str())),
            );
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(seed: u64) -> Arguments {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let (flows, subjects) = (names(&["json", "msgpack"]), names(&["a", "b", "a-again"]));
        Arguments { seed, rounds: 20, flows, subjects }
    }

    #[test]
    fn each_round_runs_each_subject_on_each_flow_once() {
        let arguments = arguments(1);
        let slots = order(&arguments);
        assert_eq!(slots.len(), 20 * 2 * 3);
        for (index, round) in slots.chunks(6).enumerate() {
            let mut round = round.to_vec();
            round.sort_unstable();
            let subjects = ["a", "a-again", "b"];
            let all = ["json", "msgpack"].into_iter().flat_map(|flow| subjects.map(|s| (flow, s)));
            let number = u32::try_from(index + 1).unwrap();
            let expected: Vec<_> = all.map(|(flow, subject)| (number, flow, subject)).collect();
            assert_eq!(round, expected);
        }
    }

    #[test]
    fn subjects_of_a_flow_follow_each_other() {
        let arguments = arguments(2);
        assert!(
            order(&arguments).chunks(3).all(|three| three.iter().all(|run| run.1 == three[0].1))
        );
    }

    #[test]
    fn order_depends_only_on_the_seed() {
        assert_eq!(order(&arguments(7)), order(&arguments(7)));
        assert_ne!(order(&arguments(7)), order(&arguments(8)));
    }

    #[test]
    fn subject_is_first_in_about_a_third_of_the_rounds() {
        let arguments = arguments(3);
        let slots = order(&arguments);
        let first = slots.chunks(3).filter(|three| three[0].2 == "a").count();
        assert!((5..=22).contains(&first), "first in {first} of 40 rounds");
    }
}
