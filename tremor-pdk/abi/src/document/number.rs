//! Numbers that are kept as text, because no 64-bit integer or float represents them exactly.

use std::{cmp::Ordering, io::Write};

/// Returns whether `text` is a number as RFC 8259 defines it.
pub fn is_json_number(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, mut rest) = split_digits(text);
    if whole.is_empty() || (whole[0] == b'0' && whole.len() > 1) {
        return false;
    }
    if let Some(after) = rest.strip_prefix(b".") {
        let (fraction, after) = split_digits(after);
        if fraction.is_empty() {
            return false;
        }
        rest = after;
    }
    let [b'e' | b'E', exponent @ ..] = rest else { return rest.is_empty() };
    let digits = exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-"));
    let (digits, rest) = split_digits(digits.unwrap_or(exponent));
    !digits.is_empty() && rest.is_empty()
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(count)
}

/// Returns the float that is nearest to a JSON number, or `None` if the number exceeds the range of
/// floats.
pub(crate) fn nearest_float(number: &str) -> Option<f64> {
    number.parse().ok().filter(|float: &f64| float.is_finite())
}

/// Returns the nearest float of a JSON number if its shortest decimal form, such as `1.1` for the text `1.10`, has the
/// value of the number. Returns `None` if a float would change the number.
///
/// `text` must be a number as RFC 8259 defines it ([`is_json_number`]).
pub fn exact_float(text: &str) -> Option<f64> {
    let float = nearest_float(text)?;
    // The longest form, of `-f64::MAX` for example, has 24 bytes.
    let mut form = [0; 32];
    let mut rest = &mut form[..];
    write!(rest, "{float:e}").ok()?;
    let len = 32 - rest.len();
    let form = std::str::from_utf8(&form[..len]).ok()?;
    compare(text, form).is_eq().then_some(float)
}

/// Maximum absolute value of an exponent. Larger exponents are clamped, so numbers that differ only in a larger
/// exponent compare as equal.
const MAX_EXPONENT: i64 = 1_000_000_000_000_000_000;

/// A number as `0.DIGITS × 10^magnitude`, whose first and last digits are not zero. Zero has no digits.
struct Decimal<'a> {
    is_negative: bool,
    /// Digits before the decimal point, and digits after it.
    digits: [&'a [u8]; 2],
    magnitude: i64,
}

impl<'a> Decimal<'a> {
    /// Parses a JSON number.
    #[allow(clippy::cast_possible_wrap)] // no text has 2^63 bytes
    fn new(number: &'a str) -> Self {
        let text = number.as_bytes();
        let unsigned = text.strip_prefix(b"-").unwrap_or(text);
        let is_negative = unsigned.len() < text.len();
        let (whole, rest) = split_digits(unsigned);
        let (mut fraction, rest) = split_digits(rest.strip_prefix(b".").unwrap_or(rest));
        let mut whole = trim_start(whole);
        let mut magnitude = exponent(rest) + whole.len() as i64;
        if whole.is_empty() {
            let significant = trim_start(fraction);
            magnitude -= (fraction.len() - significant.len()) as i64;
            fraction = significant;
        }
        fraction = trim_end(fraction);
        if fraction.is_empty() {
            whole = trim_end(whole);
        }
        Self { is_negative, digits: [whole, fraction], magnitude }
    }

    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.digits.into_iter().flatten().copied()
    }

    fn len(&self) -> usize {
        self.digits[0].len() + self.digits[1].len()
    }

    /// Returns the sign of the number: -1, 0 or 1.
    fn sign(&self) -> i8 {
        match (self.len(), self.is_negative) {
            (0, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let sign = self.sign();
        sign.cmp(&other.sign()).then_with(|| {
            let order = self.magnitude.cmp(&other.magnitude);
            let order = order.then_with(|| self.digits().cmp(other.digits()));
            match sign {
                0 => Ordering::Equal,
                1 => order,
                _ => order.reverse(),
            }
        })
    }
}

fn trim_start(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros..]
}

fn trim_end(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    &digits[..digits.len() - zeros]
}

/// Returns the value of an exponent part, or 0 if `text` is empty.
fn exponent(text: &[u8]) -> i64 {
    let text = text.get(1..).unwrap_or_default();
    let is_negative = text.first() == Some(&b'-');
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    let value = digits.fold(0_i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0')).min(MAX_EXPONENT)
    });
    if is_negative { -value } else { value }
}

/// Compares two JSON numbers by their values.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    Decimal::new(a).cmp(&Decimal::new(b))
}

/// Compares a JSON number with an integer.
pub(crate) fn compare_integer(number: &str, integer: i128) -> Ordering {
    compare(number, &integer.to_string())
}

/// Compares a JSON number with the exact value of a float. Not-a-number follows all numbers.
pub(crate) fn compare_float(number: &str, float: f64) -> Ordering {
    if float.is_nan() || float == f64::INFINITY {
        return Ordering::Less;
    }
    if float == f64::NEG_INFINITY {
        return Ordering::Greater;
    }
    // Rounding to a float preserves the order, so all digits must be compared only if the number rounds to exactly this
    // float.
    let nearest = number.parse().unwrap_or(f64::NAN);
    match nearest.partial_cmp(&float) {
        Some(Ordering::Equal) | None => compare(number, &exact_digits(float)),
        Some(order) => order,
    }
}

/// Returns the exact decimal value of a finite float; no float has more than 767 significant digits.
fn exact_digits(float: f64) -> String {
    format!("{float:.766e}")
}

/// A canonical form of a number, the same for all numbers of equal value, for hashes and keys.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberForm {
    /// An integer that fits [`i64`] or [`u64`].
    Integer(i128),
    /// A number that is not such an integer, and that a float represents exactly.
    Float(f64),
    /// Any other number: sign, significant digits and exponent as text.
    Decimal(String),
}

impl NumberForm {
    /// Returns the form of a JSON number.
    pub fn new(number: &str) -> Self {
        let decimal = Decimal::new(number);
        let range = i128::from(i64::MIN)..=i128::from(u64::MAX);
        if let Some(integer) = integer(&decimal).filter(|integer| range.contains(integer)) {
            return Self::Integer(integer);
        }
        match nearest_float(number) {
            Some(float) if compare_float(number, float).is_eq() => Self::Float(float),
            _ => {
                let sign = if decimal.is_negative { "-" } else { "" };
                let digits: String = decimal.digits().map(char::from).collect();
                Self::Decimal(format!("{sign}0.{digits}e{}", decimal.magnitude))
            }
        }
    }
}

/// Returns the value of a JSON number, or `None` if the number is not whole or does not fit 128 bits.
pub(crate) fn to_i128(number: &str) -> Option<i128> {
    integer(&Decimal::new(number))
}

fn integer(decimal: &Decimal<'_>) -> Option<i128> {
    if decimal.len() == 0 {
        return Some(0);
    }
    // The absolute value of an `i128` has at most 39 digits.
    let magnitude = usize::try_from(decimal.magnitude).ok().filter(|count| *count <= 39)?;
    let zeros = magnitude.checked_sub(decimal.len())?;
    // The digits are subtracted, so that the value is negative, because `i128::MIN` has no positive counterpart.
    let digits = decimal.digits().map(|digit| digit - b'0');
    let value = digits
        .chain(std::iter::repeat_n(0, zeros))
        .try_fold(0_i128, |value, digit| value.checked_mul(10)?.checked_sub(i128::from(digit)))?;
    if decimal.is_negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::{
        NumberForm, compare, compare_float, compare_integer, exact_float, is_json_number, to_i128,
    };

    #[test]
    fn only_floats_that_keep_the_value_are_exact() {
        for (text, float) in [
            ("1.10", 1.1),
            ("1e2", 100.0),
            ("0.1", 0.1),
            ("0.30000000000000004", 0.1 + 0.2),
            ("5e-324", 5e-324),
            ("-1.7976931348623157e308", f64::MIN),
            ("0e999", 0.0),
            ("100000000000000000000", 1e20),
        ] {
            assert_eq!(exact_float(text), Some(float), "{text}");
        }
        for text in [
            "1e400",
            "1e-400",
            "3.14159265358979323846",
            "0.1000000000000000055511151231257827",
            "18446744073709551617",
            "4.9e-324",
            "9007199254740993.0",
        ] {
            assert_eq!(exact_float(text), None, "{text}");
        }
    }

    #[test]
    fn only_json_numbers_are_accepted() {
        for text in
            ["0", "-0", "1.10", "1e400", "1E+2", "-12.5e-7", "123456789012345678901234567890"]
        {
            assert!(is_json_number(text.as_bytes()), "{text}");
        }
        for text in [
            "", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "1.e5", "1 ", " 1", "0x1", "NaN",
            "1_000", "1e5.0", "Infinity", "--1", "1-",
        ] {
            assert!(!is_json_number(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn numbers_compare_by_value() {
        for (a, b) in [("1.10", "1.1"), ("100e-2", "1"), ("-0", "0e7"), ("0.01", "1e-2")] {
            assert!(compare(a, b).is_eq(), "{a} {b}");
            assert_eq!(NumberForm::new(a), NumberForm::new(b));
        }
        let ordered = [
            "-1e400",
            "-18446744073709551617",
            "-1.5",
            "-0.1",
            "0",
            "1e-400",
            "0.1",
            "0.1000000000000000055511151231257828",
            "18446744073709551616",
            "1e400",
            "1.1e400",
        ];
        for pair in ordered.windows(2) {
            assert!(compare(pair[0], pair[1]).is_lt(), "{pair:?}");
        }
    }

    #[test]
    fn floats_compare_by_their_exact_value() {
        let exact = "0.1000000000000000055511151231257827021181583404541015625";
        assert!(compare_float(exact, 0.1).is_eq());
        assert!(compare_float("0.1", 0.1).is_lt());
        assert!(compare_float(&format!("{exact}1"), 0.1).is_gt());
        assert!(compare_float("1e400", f64::MAX).is_gt());
        assert!(compare_float("1e400", f64::INFINITY).is_lt());
        assert!(compare_float("-1e400", f64::NEG_INFINITY).is_gt());
        assert!(compare_float("1", f64::NAN).is_lt());
        assert!(compare_float("1e-400", 0.0).is_gt() && compare_float("-0", 0.0).is_eq());
    }

    #[test]
    fn number_form_follows_from_exact_value() {
        for (text, form) in [
            ("15.0", NumberForm::Integer(15)),
            ("18446744073709551615", NumberForm::Integer(u64::MAX.into())),
            ("18446744073709551616", NumberForm::Float(18_446_744_073_709_551_616.0)),
            ("5e-1", NumberForm::Float(0.5)),
            ("-0.10", NumberForm::Decimal("-0.1e0".to_owned())),
            ("18446744073709551617", NumberForm::Decimal("0.18446744073709551617e20".to_owned())),
            ("1e400", NumberForm::Decimal("0.1e401".to_owned())),
        ] {
            assert_eq!(NumberForm::new(text), form, "{text}");
        }
    }

    #[test]
    fn whole_numbers_up_to_128_bits_are_integers() {
        for (text, value) in [
            ("170141183460469231731687303715884105727", Some(i128::MAX)),
            ("-170141183460469231731687303715884105728", Some(i128::MIN)),
            ("170141183460469231731687303715884105728", None),
            ("1.50e1", Some(15)),
            ("1.5", None),
            ("1e400", None),
            ("1e99999999999999999999999", None),
            ("0.0e999", Some(0)),
        ] {
            assert_eq!(to_i128(text), value, "{text}");
        }
        assert!(compare_integer("15.0", 15).is_eq() && compare_integer("15.1", 15).is_gt());
    }
}
