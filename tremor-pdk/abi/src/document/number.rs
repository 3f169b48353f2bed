//! Numbers: which representation keeps the value of a decimal number, and how numbers of all representations compare.
//!
//! Every number has a decimal value. The decimal value of a float is that of its shortest decimal form, which is the form
//! in which the float is written: the decimal value of the float `0.1` is 0.1, and not the binary fraction next to it
//! that the processor calculates with.

use std::{borrow::Cow, cmp::Ordering, io::Write};

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
fn exact_float(text: &str) -> Option<f64> {
    nearest_float(text).filter(|float| compare_float(text, *float).is_eq())
}

/// Calls `read` with the shortest decimal form of a finite float.
fn with_shortest<R>(float: f64, read: impl FnOnce(&str) -> R) -> R {
    // The longest form, of `-f64::MAX` for example, has 24 bytes.
    let mut form = [0; 32];
    let mut rest = &mut form[..];
    let _ = write!(rest, "{float:e}");
    let len = 32 - rest.len();
    read(std::str::from_utf8(&form[..len]).unwrap_or_default())
}

/// The representation of a decimal number that keeps its value. Only this type decides whether a number is kept as text.
#[derive(Clone, Debug, PartialEq)]
pub enum Exact<'t> {
    /// A signed integer.
    I64(i64),
    /// An unsigned integer that exceeds [`i64::MAX`].
    U64(u64),
    /// A float whose shortest decimal form has the value of the number, or `-0.0` for `-0`.
    F64(f64),
    /// The JSON text of a number that no 64-bit integer or float represents exactly.
    Text(Cow<'t, str>),
}

impl<'t> Exact<'t> {
    /// Returns the representation of a decimal number. Besides JSON numbers, the forms of other formats are accepted:
    /// a plus sign, zeros in front, and no digits on one side of the decimal point. Returns `None` for other text.
    pub fn new(text: &'t str) -> Option<Self> {
        let number = json_form(text)?;
        // An integer cannot keep the sign of `-0`.
        let is_integer = number != "-0" && !number.contains(['.', 'e', 'E']);
        Some(if !is_integer {
            Self::of_float(number)
        } else if let Ok(integer) = number.parse::<i64>() {
            Self::I64(integer)
        } else if let Ok(integer) = number.parse::<u64>() {
            Self::U64(integer)
        } else {
            Self::Text(number)
        })
    }

    /// Returns the representation of a decimal number like [`Exact::new`], but never an integer: `5` becomes the float
    /// `5.0`.
    pub fn float(text: &'t str) -> Option<Self> {
        json_form(text).map(Self::of_float)
    }

    fn of_float(number: Cow<'t, str>) -> Self {
        exact_float(&number).map_or(Self::Text(number), Self::F64)
    }
}

/// Returns the JSON form of a decimal number.
fn json_form<'t>(text: &'t str) -> Option<Cow<'t, str>> {
    if is_json_number(text.as_bytes()) {
        return Some(text.into());
    }
    let text = text.strip_prefix('+').filter(|rest| !rest.starts_with('-')).unwrap_or(text);
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let sign = &text[..text.len() - unsigned.len()];
    let (mantissa, exponent) =
        unsigned.split_at(unsigned.find(['e', 'E']).unwrap_or(unsigned.len()));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let or_zero = |digits: &'t str| if digits.is_empty() { "0" } else { digits };
    let (whole, point) =
        (or_zero(whole.trim_start_matches('0')), if mantissa.contains('.') { "." } else { "" });
    let fraction = if point.is_empty() { "" } else { or_zero(fraction) };
    let number = format!("{sign}{whole}{point}{fraction}{exponent}");
    is_json_number(number.as_bytes()).then_some(number.into())
}

/// Returns the whole part of a decimal number times 10 to the `power`, in one of the forms that [`Exact::new`] accepts.
/// Returns `None` for other text, and if the result does not fit 128 bits.
///
/// ```
/// use tremor_abi::document::scaled;
///
/// assert_eq!(scaled("1.7e9", 9), Some(1_700_000_000_000_000_000));
/// assert_eq!(scaled("-0.0015", 3), Some(-1));
/// ```
pub fn scaled(text: &str, power: u32) -> Option<i128> {
    let number = json_form(text)?;
    let mut decimal = Decimal::new(&number);
    decimal.magnitude = decimal.magnitude.saturating_add(power.into());
    whole_part(&decimal)
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

/// Compares a JSON number with the decimal value of a float. Not-a-number follows all numbers.
pub(crate) fn compare_float(number: &str, float: f64) -> Ordering {
    if float.is_nan() || float == f64::INFINITY {
        return Ordering::Less;
    }
    if float == f64::NEG_INFINITY {
        return Ordering::Greater;
    }
    // Rounding to a float preserves the order, so the digits must be compared only if the number rounds to exactly this
    // float.
    let nearest = number.parse().unwrap_or(f64::NAN);
    match nearest.partial_cmp(&float) {
        Some(Ordering::Equal) | None => with_shortest(float, |form| compare(number, form)),
        Some(order) => order,
    }
}

/// Compares an integer of at most 65 bits with the decimal value of a float. Not-a-number follows all numbers.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // see below
pub(crate) fn compare_integer_with_float(integer: i128, float: f64) -> Ordering {
    if float.is_nan() {
        return Ordering::Less;
    }
    if float.abs() <= MOST_EXACT {
        let whole = float.trunc();
        return integer
            .cmp(&(whole as i128))
            .then(whole.partial_cmp(&float).unwrap_or(Ordering::Equal));
    }
    // Only an integer that rounds to this float has to be compared digit by digit.
    match (integer as f64).partial_cmp(&float) {
        Some(Ordering::Equal) | None => {
            with_shortest(float, |form| compare(&integer.to_string(), form))
        }
        Some(order) => order,
    }
}

/// 2⁵³. Up to this absolute value, a whole float has the same decimal value as the integer, and other floats are between
/// the same integers as their decimal values.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// A canonical form of a number, the same for all numbers of equal value, for hashes and keys.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberForm {
    /// An integer that fits [`i64`] or [`u64`].
    Integer(i128),
    /// A number that is not such an integer, and that is the decimal value of a float. An infinity, or not-a-number.
    Float(f64),
    /// Any other number: sign, significant digits and exponent as text.
    Decimal(String),
}

impl NumberForm {
    /// Returns the form of a JSON number.
    pub fn new(number: &str) -> Self {
        let decimal = Decimal::new(number);
        if let Some(integer) = integer(&decimal).filter(is_of_64_bits) {
            return Self::Integer(integer);
        }
        exact_float(number).map_or_else(
            || {
                let sign = if decimal.is_negative { "-" } else { "" };
                let digits: String = decimal.digits().map(char::from).collect();
                Self::Decimal(format!("{sign}0.{digits}e{}", decimal.magnitude))
            },
            Self::Float,
        )
    }

    /// Returns the form of a float. All not-a-numbers have the same form.
    #[allow(clippy::cast_possible_truncation)] // the float is whole, and its limit is checked
    pub fn of_float(float: f64) -> Self {
        if float.is_nan() {
            return Self::Float(f64::NAN);
        }
        if float.fract().abs() > 0.0 || float.is_infinite() {
            return Self::Float(float);
        }
        if float.abs() <= MOST_EXACT {
            return Self::Integer(float as i128);
        }
        let integer = with_shortest(float, to_i128).filter(is_of_64_bits);
        integer.map_or(Self::Float(float), Self::Integer)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // for `Option::filter`
fn is_of_64_bits(integer: &i128) -> bool {
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(integer)
}

/// Returns the value of a JSON number, or `None` if the number is not whole or does not fit 128 bits.
pub(crate) fn to_i128(number: &str) -> Option<i128> {
    integer(&Decimal::new(number))
}

fn integer(decimal: &Decimal<'_>) -> Option<i128> {
    let is_whole = decimal.len() == 0
        || usize::try_from(decimal.magnitude).is_ok_and(|it| it >= decimal.len());
    whole_part(decimal).filter(|_| is_whole)
}

/// Returns the number without its fraction, or `None` if the result does not fit 128 bits.
fn whole_part(decimal: &Decimal<'_>) -> Option<i128> {
    let Ok(magnitude) = usize::try_from(decimal.magnitude) else { return Some(0) };
    if decimal.len() == 0 {
        return Some(0);
    }
    // The absolute value of an `i128` has at most 39 digits.
    let count = Some(magnitude).filter(|count| *count <= 39)?;
    // The digits are subtracted, so that the value is negative, because `i128::MIN` has no positive counterpart.
    let digits = decimal.digits().map(|digit| digit - b'0');
    let value = digits
        .chain(std::iter::repeat(0))
        .take(count)
        .try_fold(0_i128, |value, digit| value.checked_mul(10)?.checked_sub(i128::from(digit)))?;
    if decimal.is_negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests;
