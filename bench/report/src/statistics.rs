//! Means and medians with their intervals.
//!
//! Throughputs are compared as ratios, so means and ratios are calculated with logarithms: the mean of logarithms is
//! the logarithm of the geometric mean, and the ratios A/B and B/A have the same distance from 1.

/// Share of the distribution that is outside of an interval, on each side.
const OUTSIDE: f64 = 0.025;
const RESAMPLES: usize = 10_000;
/// Seed of the resampling. It is fixed, so that the same samples give the same report.
const SEED: u64 = 0x7472_656d_6f72;

/// An estimate with an interval: the 95 % confidence interval of a mean, or the minimum and maximum of a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    pub(crate) fn scaled(self, factor: f64) -> Self {
        let Self { estimate, low, high } = self;
        Self { estimate: estimate * factor, low: low * factor, high: high * factor }
    }

    pub(crate) fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns the distance from 1 of the further end of the interval.
    pub(crate) fn reach(self) -> f64 {
        (self.low - 1.0).abs().max((self.high - 1.0).abs())
    }
}

/// Returns the geometric mean of positive values; `None` if there are none.
///
/// The interval is from a percentile bootstrap (B. Efron, R. Tibshirani: An Introduction to the
/// Bootstrap, 1993, chapter 13) of the logarithms. Resamples of n values vary less than the mean of n
/// values does, by the factor √((n - 1) / n), which is corrected (T. Hesterberg: What Teachers
/// Should Know About the Bootstrap, 2015, section 3.3). The variance of one value
/// alone is unknown, so its interval contains all positive numbers.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<Interval> {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let center = mean(&logarithms)?;
    if logarithms.len() == 1 {
        return Some(Interval { estimate: center.exp(), low: 0.0, high: f64::INFINITY });
    }
    let n = count(logarithms.len());
    let widening = (n / (n - 1.0)).sqrt();
    let mut random = fastrand::Rng::with_seed(SEED);
    let resample = || {
        let drawn = (0..logarithms.len()).map(|_| logarithms[random.usize(..logarithms.len())]);
        center + (drawn.sum::<f64>() / n - center) * widening
    };
    let mut means: Vec<f64> = std::iter::repeat_with(resample).take(RESAMPLES).collect();
    means.sort_unstable_by(f64::total_cmp);
    let [low, high] = [OUTSIDE, 1.0 - OUTSIDE].map(|share| quantile(&means, share).exp());
    Some(Interval { estimate: center.exp(), low, high })
}

/// Returns the geometric mean of the ratios subject / baseline, from pairs (baseline, subject) of the same round.
pub(crate) fn ratio(pairs: &[(f64, f64)]) -> Option<Interval> {
    let ratios: Vec<f64> = pairs.iter().map(|(baseline, subject)| subject / baseline).collect();
    geometric_mean(&ratios)
}

/// Returns the median with the minimum and the maximum as interval; `None` if `values` is empty.
pub(crate) fn median(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (*sorted.first()?, *sorted.last()?);
    Some(Interval { estimate: quantile(&sorted, 0.5), low, high })
}

/// Returns the arithmetic mean; `None` if `values` is empty.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values.len()))
}

/// Returns a quantile of sorted values, with linear interpolation between the two nearest values (type 7 of R. Hyndman,
/// Y. Fan: Sample Quantiles in Statistical Packages, 1996).
///
/// # Panics
/// Panics if `sorted` is empty.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * count(sorted.len() - 1);
    // The position is not negative, and below the number of values.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let index = position as usize;
    let next = (index + 1).min(sorted.len() - 1);
    sorted[index] + (sorted[next] - sorted[index]) * position.fract()
}

/// Converts a number, exactly if it is below 2^53.
#[allow(clippy::cast_precision_loss)]
fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9 * expected.abs().max(1.0), "{value}, {expected}");
    }

    /// Returns a normally distributed number by the method of Box and Muller.
    fn normal(random: &mut fastrand::Rng) -> f64 {
        let (radius, angle) = (1.0 - random.f64(), random.f64());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    #[test]
    fn geometric_mean_of_1_10_and_100_is_10() {
        close(geometric_mean(&[1.0, 10.0, 100.0]).unwrap().estimate, 10.0);
    }

    #[test]
    fn quantile_is_between_the_nearest_values() {
        let values = [10.0, 20.0, 30.0, 40.0];
        let table = [(0.0, 10.0), (0.5, 25.0), (0.25, 17.5), (1.0, 40.0)];
        table.iter().for_each(|(share, expected)| close(quantile(&values, *share), *expected));
    }

    #[test]
    fn median_has_minimum_and_maximum() {
        let Interval { estimate, low, high } = median(&[3.0, 1.0, 9.0]).unwrap();
        [(estimate, 3.0), (low, 1.0), (high, 9.0)].iter().for_each(|(a, b)| close(*a, *b));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn equal_values_have_an_interval_of_zero_width() {
        let Interval { estimate, low, high } = geometric_mean(&[5.0; 10]).unwrap();
        [estimate, low, high].iter().for_each(|value| close(*value, 5.0));
    }

    #[test]
    fn one_value_has_an_infinite_interval() {
        let interval = geometric_mean(&[5.0]).unwrap();
        assert!(interval.contains(1e-9) && interval.contains(1e9));
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn common_effect_of_a_round_cancels_in_ratios() {
        let rounds: Vec<_> = (1..=10).map(|round| f64::from(round) * 1e5).collect();
        let pairs: Vec<_> = rounds.iter().map(|speed| (*speed, speed * 0.97)).collect();
        let Interval { estimate, low, high } = ratio(&pairs).unwrap();
        [estimate, low, high].iter().for_each(|value| close(*value, 0.97));
    }

    #[test]
    fn ratio_and_its_inverse_have_inverse_intervals() {
        let pairs = [(1.0, 2.0), (3.0, 4.0), (5.0, 5.5), (2.0, 3.0), (4.0, 4.5), (1.0, 1.2)];
        let inverse = pairs.map(|(baseline, subject)| (subject, baseline));
        let (ratio, inverse) = (ratio(&pairs).unwrap(), super::ratio(&inverse).unwrap());
        close(ratio.estimate, 1.0 / inverse.estimate);
        // The intervals are only approximately inverse, because resampling is random.
        assert!((ratio.low * inverse.high - 1.0).abs() < 0.02, "{ratio:?}, {inverse:?}");
    }

    #[test]
    fn interval_agrees_with_the_standard_error() {
        let values: Vec<f64> = (0..200).map(|i| if i % 2 == 0 { 0.99 } else { 1.01 }).collect();
        // Logarithms are ±0.01, so the standard error of their mean is 0.01 / √199.
        let Interval { low, high, .. } = geometric_mean(&values).unwrap();
        let half = 1.96 * 0.01 / 199_f64.sqrt();
        assert!((high - low - 2.0 * half).abs() < 0.1 * half, "{low}, {high}, {half}");
    }

    /// Counts the intervals that contain the true mean: about 190 of 200, because their confidence is 95 %. For samples
    /// of ten values, the intervals are a little too narrow.
    #[test]
    fn at_least_90_percent_of_intervals_contain_the_true_mean() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut contains = || {
            let values: Vec<f64> = (0..10).map(|_| (0.02 * normal(&mut random)).exp()).collect();
            geometric_mean(&values).unwrap().contains(1.0)
        };
        let hits = (0..200).filter(|_| contains()).count();
        assert!((180..=198).contains(&hits), "{hits} of 200 intervals contain the mean");
    }
}
