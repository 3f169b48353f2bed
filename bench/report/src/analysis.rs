//! Figures and verdicts of a benchmark.

use std::fmt;

use crate::experiment::Experiment;
use crate::format::percent;
use crate::statistics::{Interval, geometric_mean, mean, ratio};

/// Minimum number of rounds for a verdict, because resamples of fewer rounds estimate the variance poorly.
pub(crate) const PAIRS_NEEDED: usize = 5;

/// The figures of a flow.
pub(crate) struct Flow<'a> {
    pub(crate) name: &'a str,
    /// Noise floor: the largest distance from 1 within the confidence interval of the ratio between both runs of the
    /// baseline. For example, 0.02 means 2 %. `None` if the runs have fewer than two rounds in common.
    pub(crate) floor: Option<f64>,
    /// The baseline, the other subjects, and the second run of the baseline.
    pub(crate) subjects: Vec<Subject<'a>>,
}

/// The figures of a subject on a flow.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    /// Events per second, by the number of the round. Failed rounds are left out.
    pub(crate) throughputs: Vec<(u32, f64)>,
    /// Geometric mean of the throughputs.
    pub(crate) throughput: Option<Interval>,
    /// Ratio of the throughput to that of the baseline, paired by round.
    pub(crate) ratio: Option<Interval>,
    pub(crate) verdict: Verdict,
}

/// The comparison of a subject with the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The subject is the baseline.
    Baseline,
    /// The subject is the second run of the baseline, whose ratio is the noise.
    Noise,
    /// The subject is faster by more than the noise floor, and the interval of the ratio does not contain 1.
    Faster(Interval),
    /// The subject is slower by more than the noise floor, and the interval of the ratio does not contain 1.
    Slower(Interval),
    /// The difference does not exceed this noise floor, in which 0.02 means 2 %.
    WithinNoise(f64),
    /// The difference exceeds the noise floor, but the interval of the ratio contains 1.
    Uncertain(Interval),
    /// Only this number of rounds are complete, that is, have figures of the subject and of both runs of the baseline.
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
                write!(f, "uncertain: {low} % to {high} %")
            }
            Self::TooFewRounds(pairs) => {
                write!(f, "no verdict: {pairs} of at least {PAIRS_NEEDED} rounds are complete")
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

/// Compares a subject with the baseline.
///
/// A difference is reported if the ratio is further from 1 than the noise floor, and its interval does not contain 1.
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

/// Returns the throughputs of the baseline and a subject in the rounds that both have.
fn pairs(baseline: &[(u32, f64)], subject: &[(u32, f64)]) -> Vec<(f64, f64)> {
    let of_round = |round: u32| {
        baseline.iter().find(|(other, _)| *other == round).map(|(_, throughput)| *throughput)
    };
    subject
        .iter()
        .filter_map(|(round, throughput)| Some((of_round(*round)?, *throughput)))
        .collect()
}

/// Returns the arithmetic mean of a subject's ratios over the flows; `None` if a flow has no ratio.
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

    /// Returns rounds whose speed drifts by a tenth. The subject has `per_mille` of the speed of the baseline, and all
    /// figures have noise of some per mille.
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
    fn difference_of_3_percent_exceeds_noise_of_half_a_percent() {
        let Verdict::Slower(ratio) = verdict(&rounds(970)) else {
            panic!("expected a slower subject")
        };
        assert!(ratio.low < 0.97 && 0.97 < ratio.high && ratio.high < 0.98, "{ratio:?}");
        assert!(matches!(verdict(&rounds(1_030)), Verdict::Faster(_)));
    }

    #[test]
    fn equal_subject_is_within_the_noise() {
        let Verdict::WithinNoise(floor) = verdict(&rounds(1_000)) else {
            panic!("expected a subject within the noise")
        };
        assert!((0.000_1..0.005).contains(&floor), "{floor}");
    }

    #[test]
    fn difference_below_the_floor_is_not_reported() {
        // The second run of the baseline is always a tenth slower, so the cause may affect the other subject as well.
        let rounds = [[1_000, 950, 900]; 10];
        assert_eq!(verdict(&rounds).to_string(), "no difference beyond the noise floor of ±10.0 %");
    }

    #[test]
    fn uncertain_difference_is_not_reported() {
        let rounds: Vec<_> = (0..10).map(|i| [1_000, [2_000, 700][i % 2], 1_000]).collect();
        assert!(matches!(verdict(&rounds), Verdict::Uncertain(_)));
    }

    #[test]
    fn too_few_rounds_have_no_verdict() {
        assert_eq!(verdict(&[[1_000, 500, 1_000]; 4]), Verdict::TooFewRounds(4));
        // Rounds in which a subject failed are not complete.
        let rounds = [[1_000, 500, 1_000], [1_000, 0, 1_000], [0, 500, 1_000]];
        assert_eq!(verdict(&rounds), Verdict::TooFewRounds(1));
        assert_eq!(verdict(&[[1_000, 0, 1_000]; 10]), Verdict::TooFewRounds(0));
    }

    #[test]
    fn failed_second_run_of_baseline_means_no_verdict() {
        assert_eq!(verdict(&[[1_000, 500, 0]; 10]), Verdict::TooFewRounds(0));
    }

    /// Returns how many of a hundred benchmarks of ten rounds report a difference, with normally distributed noise of
    /// one per cent.
    fn reported(true_ratio: f64, random: &mut fastrand::Rng) -> usize {
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
    fn verdicts_on_random_noise_are_rarely_wrong() {
        let mut random = fastrand::Rng::with_seed(1);
        let (equal, slower) = (reported(1.0, &mut random), reported(0.97, &mut random));
        assert!(
            equal <= 3 && slower >= 95,
            "slower: {equal} of 100 equal and {slower} of 100 slower subjects"
        );
    }

    #[test]
    fn verdicts_contain_difference_and_interval() {
        let ratio = |estimate, low, high| Interval { estimate, low, high };
        let table = [
            (Verdict::Slower(ratio(0.969, 0.962, 0.976)), "slower by 3.1 % [2.4, 3.8]"),
            (Verdict::Faster(ratio(1.02, 1.01, 1.03)), "faster by 2.0 % [1.0, 3.0]"),
            (Verdict::Uncertain(ratio(1.2, 0.9, 1.6)), "uncertain: -10.0 % to 60.0 %"),
            (Verdict::TooFewRounds(3), "no verdict: 3 of at least 5 rounds are complete"),
        ];
        table.iter().for_each(|(verdict, text)| assert_eq!(verdict.to_string(), *text));
    }

    #[test]
    fn average_needs_a_ratio_of_each_flow() {
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
