//! Figures and verdicts of a benchmark.

use std::fmt;

use crate::experiment::Experiment;
use crate::format::percent;
use crate::statistics::{Interval, geometric_mean, mean, ratio};

/// With fewer pairs, resampling them says little about how they vary, and no difference is called.
pub(crate) const PAIRS_NEEDED: usize = 5;

/// What a flow came to.
pub(crate) struct Flow<'a> {
    pub(crate) name: &'a str,
    /// How far the second run of the baseline is, or may well be, from the first, as a share of 1.
    /// `None` where they have no two rounds in common.
    pub(crate) floor: Option<f64>,
    /// The baseline, the others, the baseline's second run.
    pub(crate) subjects: Vec<Subject<'a>>,
}

/// What a subject came to on a flow.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    /// Events a second of each round that gave a figure.
    pub(crate) throughputs: Vec<(u32, f64)>,
    /// Their geometric mean.
    pub(crate) throughput: Option<Interval>,
    /// To the baseline, paired by round.
    pub(crate) ratio: Option<Interval>,
    pub(crate) verdict: Verdict,
}

/// What can be said of a subject beside the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Baseline,
    /// The baseline's second run: its ratio is the noise.
    Noise,
    /// The difference is beyond the noise floor and beyond chance.
    Faster(Interval),
    Slower(Interval),
    /// No difference beyond a noise floor of this share of 1.
    WithinNoise(f64),
    /// The ratio is beyond the noise floor, but by chance it may be none at all.
    Uncertain(Interval),
    /// So many rounds in which both subjects and the baseline's second run gave a figure.
    TooFewRounds(usize),
}

impl Verdict {
    pub(crate) fn is_difference(self) -> bool {
        matches!(self, Self::Faster(_) | Self::Slower(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Baseline => write!(f, "the baseline"),
            Self::Noise => write!(f, "the noise"),
            Self::Faster(Interval { estimate, low, high }) => {
                let [by, low, high] = [estimate, low, high].map(|ratio| percent(ratio - 1.0));
                write!(f, "faster by {by} % [{low}, {high}]")
            }
            Self::Slower(Interval { estimate, low, high }) => {
                let [by, low, high] = [estimate, high, low].map(|ratio| percent(1.0 - ratio));
                write!(f, "slower by {by} % [{low}, {high}]")
            }
            Self::WithinNoise(floor) => {
                write!(f, "no difference beyond the noise floor of ±{} %", percent(*floor))
            }
            Self::Uncertain(Interval { low, high, .. }) => {
                let [low, high] = [low, high].map(|ratio| percent(ratio - 1.0));
                write!(f, "no difference that chance excludes: {low} % to {high} %")
            }
            Self::TooFewRounds(pairs) => {
                write!(f, "nothing is called: {pairs} complete rounds of {PAIRS_NEEDED} needed")
            }
        }
    }
}

pub(crate) fn flows(experiment: &Experiment) -> Vec<Flow<'_>> {
    experiment.flows().into_iter().map(|name| flow(experiment, name)).collect()
}

fn flow<'a>(experiment: &'a Experiment, name: &'a str) -> Flow<'a> {
    let throughputs = |subject: &str| -> Vec<(u32, f64)> {
        let samples = experiment.samples(name, subject);
        samples.iter().map(|(run, sample)| (run.round, sample.events_per_second)).collect()
    };
    let baseline = throughputs(&experiment.baseline);
    let noise = pairs(&baseline, &throughputs(&experiment.again));
    let floor = (noise.len() > 1).then(|| ratio(&noise)).flatten().map(Interval::reach);
    let subjects = experiment.subjects().into_iter().map(|subject| {
        let throughputs = throughputs(subject);
        let values: Vec<_> = throughputs.iter().map(|(_, value)| *value).collect();
        let pairs = pairs(&baseline, &throughputs);
        let ratio = ratio(&pairs);
        let verdict = if subject == experiment.baseline {
            Verdict::Baseline
        } else if subject == experiment.again {
            Verdict::Noise
        } else {
            judge(ratio, floor, pairs.len().min(noise.len()))
        };
        Subject { name: subject, throughput: geometric_mean(&values), throughputs, ratio, verdict }
    });
    Flow { name, floor, subjects: subjects.collect() }
}

/// A difference is called where the ratio is further from 1 than the baseline's second run may be,
/// and where its own interval does not contain 1.
fn judge(ratio: Option<Interval>, floor: Option<f64>, pairs: usize) -> Verdict {
    let (Some(ratio), Some(floor)) = (ratio, floor.filter(|_| pairs >= PAIRS_NEEDED)) else {
        return Verdict::TooFewRounds(pairs);
    };
    if (ratio.estimate - 1.0).abs() <= floor {
        Verdict::WithinNoise(floor)
    } else if ratio.contains(1.0) {
        Verdict::Uncertain(ratio)
    } else if ratio.estimate > 1.0 {
        Verdict::Faster(ratio)
    } else {
        Verdict::Slower(ratio)
    }
}

/// The values of both in the rounds that both have.
fn pairs(baseline: &[(u32, f64)], subject: &[(u32, f64)]) -> Vec<(f64, f64)> {
    let of_round = |round: u32| {
        baseline.iter().find(|(other, _)| *other == round).map(|(_, throughput)| *throughput)
    };
    subject
        .iter()
        .filter_map(|(round, throughput)| Some((of_round(*round)?, *throughput)))
        .collect()
}

/// The arithmetic mean of a subject's ratios over the flows; `None` unless every flow has one.
pub(crate) fn average(flows: &[Flow<'_>], subject: usize) -> Option<f64> {
    let ratios = flows.iter().map(|flow| Some(flow.subjects.get(subject)?.ratio?.estimate));
    mean(&ratios.collect::<Option<Vec<_>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::experiment;

    fn verdict(rounds: &[[u32; 3]]) -> Verdict {
        let (_folder, experiment) = experiment(&[("json", rounds)]);
        flows(&experiment)[0].subjects[1].verdict
    }

    /// Rounds that drift by a tenth, with a subject so many per mille of the baseline, and both of
    /// them and the baseline's second run off by some per mille.
    fn rounds(per_mille: i32) -> Vec<[u32; 3]> {
        let noise = [1, -2, 3, 0, -1, 2, -3, 1, 0, -1];
        let round = |index: usize| {
            let speed = 1_000_000 + 10_000 * i32::try_from(index).unwrap();
            let with_noise = |offset: usize| 1_000 + noise[(index + offset) % noise.len()];
            let figures = [1_000 * with_noise(0), per_mille * with_noise(4), 1_000 * with_noise(7)];
            figures.map(|figure| {
                u32::try_from(i64::from(speed) * i64::from(figure) / 1_000_000).unwrap()
            })
        };
        (0..10).map(round).collect()
    }

    #[test]
    fn three_per_cent_are_caught_in_half_a_per_cent_of_noise() {
        let Verdict::Slower(ratio) = verdict(&rounds(970)) else { panic!("it is slower") };
        assert!(ratio.low < 0.97 && 0.97 < ratio.high && ratio.high < 0.98, "{ratio:?}");
        assert!(matches!(verdict(&rounds(1_030)), Verdict::Faster(_)));
    }

    #[test]
    fn what_is_the_same_is_within_the_noise() {
        let Verdict::WithinNoise(floor) = verdict(&rounds(1_000)) else { panic!("it is the same") };
        assert!((0.000_1..0.005).contains(&floor), "{floor}");
    }

    #[test]
    fn a_clear_difference_below_the_floor_is_not_called() {
        // The baseline's second run is a steady tenth slower: whatever does that may do it to
        // the other subject.
        let rounds = [[1_000, 950, 900]; 10];
        assert_eq!(verdict(&rounds).to_string(), "no difference beyond the noise floor of ±10.0 %");
    }

    #[test]
    fn a_difference_that_may_be_chance_is_not_called() {
        let rounds: Vec<_> = (0..10).map(|i| [1_000, [2_000, 700][i % 2], 1_000]).collect();
        assert!(matches!(verdict(&rounds), Verdict::Uncertain(_)));
    }

    #[test]
    fn too_few_rounds_call_nothing() {
        assert_eq!(verdict(&[[1_000, 500, 1_000]; 4]), Verdict::TooFewRounds(4));
        // Rounds of which a part failed are not complete.
        let rounds = [[1_000, 500, 1_000], [1_000, 0, 1_000], [0, 500, 1_000]];
        assert_eq!(verdict(&rounds), Verdict::TooFewRounds(1));
        assert_eq!(verdict(&[[1_000, 0, 1_000]; 10]), Verdict::TooFewRounds(0));
    }

    #[test]
    fn without_the_second_run_there_is_no_floor_and_nothing_is_called() {
        assert_eq!(verdict(&[[1_000, 500, 0]; 10]), Verdict::TooFewRounds(0));
    }

    /// How many of a hundred benchmarks of ten rounds call a difference, with normally distributed
    /// noise of a per cent.
    fn called(true_ratio: f64, random: &mut fastrand::Rng) -> usize {
        let mut benchmark = || {
            let mut round = |mean: f64| {
                let (radius, angle) = (1.0 - random.f64(), random.f64());
                let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
                mean * (0.01 * normal).exp()
            };
            let rounds: Vec<_> = (0..10).map(|_| [1.0, true_ratio, 1.0].map(&mut round)).collect();
            let with = |subject: usize| -> Vec<_> {
                rounds.iter().map(|round| (round[0], round[subject])).collect()
            };
            judge(ratio(&with(1)), ratio(&with(2)).map(Interval::reach), 10).is_difference()
        };
        (0..100).filter(|_| benchmark()).count()
    }

    #[test]
    fn equals_are_rarely_called_different_and_three_per_cent_rarely_missed() {
        let mut random = fastrand::Rng::with_seed(1);
        let (equal, slower) = (called(1.0, &mut random), called(0.97, &mut random));
        assert!(equal <= 3 && slower >= 95, "{equal} and {slower} of 100");
    }

    #[test]
    fn verdicts_say_how_much_and_between_what() {
        let ratio = |estimate, low, high| Interval { estimate, low, high };
        let table = [
            (Verdict::Slower(ratio(0.969, 0.962, 0.976)), "slower by 3.1 % [2.4, 3.8]"),
            (Verdict::Faster(ratio(1.02, 1.01, 1.03)), "faster by 2.0 % [1.0, 3.0]"),
            (
                Verdict::Uncertain(ratio(1.2, 0.9, 1.6)),
                "no difference that chance excludes: -10.0 % to 60.0 %",
            ),
            (Verdict::TooFewRounds(3), "nothing is called: 3 complete rounds of 5 needed"),
        ];
        table.iter().for_each(|(verdict, text)| assert_eq!(verdict.to_string(), *text));
    }

    #[test]
    fn the_average_is_over_the_flows_and_wants_all_of_them() {
        let (_folder, both) = experiment(&[
            ("json", &[[1_000, 900, 1_000]; 2]),
            ("msgpack", &[[1_000, 700, 1_000]; 2]),
        ]);
        assert!((average(&flows(&both), 1).unwrap() - 0.8).abs() < 1e-9);
        let (_folder, one) = experiment(&[
            ("json", &[[1_000, 900, 1_000]; 2]),
            ("msgpack", &[[1_000, 0, 1_000]; 2]),
        ]);
        assert_eq!(average(&flows(&one), 1), None);
    }
}
