//! Values of unquoted texts according to the core schema of YAML 1.2 (section 10.3.2).
//!
//! In contrast to YAML 1.1, `no`, `off` and `1:30` are texts.

use serde_json::Number;

use super::node::Data;

/// Reason why a flow cannot use a text that looks like a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// An integer that fits neither `i64` nor `u64`.
    TooLarge,
    /// An infinity, a value that is not a number, or a float that is out of the range of `f64`.
    NotFinite,
}

impl Unusable {
    /// Returns a description of the text for messages.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::TooLarge => "an integer that does not fit 64 bits",
            Self::NotFinite => "not a finite number",
        }
    }
}

pub(super) fn resolve(text: &str) -> Result<Data, Unusable> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Data::Null,
        "true" | "True" | "TRUE" => Data::Bool(true),
        "false" | "False" | "FALSE" => Data::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Err(Unusable::NotFinite),
        _ => match number(text)? {
            Some(number) => Data::Number(number),
            None => Data::Text(text.to_owned()),
        },
    })
}

fn number(text: &str) -> Result<Option<Number>, Unusable> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            let value = u64::from_str_radix(digits, radix).map_err(|_| Unusable::TooLarge)?;
            return Ok(Some(value.into()));
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Err(Unusable::NotFinite);
    }
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let integer = text.strip_prefix('+').unwrap_or(text);
        let unsigned = integer.parse::<u64>().map(Number::from);
        return unsigned
            .or_else(|_| integer.parse::<i64>().map(Number::from))
            .map(Some)
            .map_err(|_| Unusable::TooLarge);
    }
    if !is_float(unsigned) {
        return Ok(None);
    }
    let value: Option<f64> = text.parse().ok();
    match value {
        Some(value) => Number::from_f64(value).map(Some).ok_or(Unusable::NotFinite),
        None => Ok(None),
    }
}

/// Returns whether a text matches
/// `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, part)) => digits(whole) && digits(part) && whole.len() + part.len() > 0,
        None => !mantissa.is_empty() && digits(mantissa),
    };
    exponent_fits && mantissa_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        match resolve(text).expect(text) {
            Data::Null => "null".to_owned(),
            Data::Bool(value) => value.to_string(),
            Data::Number(number) => number.to_string(),
            Data::Text(text) => format!("{text:?}"),
            other => panic!("{other:?} is not a scalar"),
        }
    }

    #[test]
    fn unquoted_texts_have_the_types_of_the_core_schema() {
        for (text, expected) in [
            ("", "null"),
            ("~", "null"),
            ("TRUE", "true"),
            ("no", "\"no\""),
            ("0", "0"),
            ("-0", "0"),
            ("+12", "12"),
            ("007", "7"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("0x", "\"0x\""),
            ("-0x1F", "\"-0x1F\""),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("1.", "1.0"),
            (".5", "0.5"),
            ("-1.5e3", "-1500.0"),
            ("1e3", "1000.0"),
            (".", "\".\""),
            ("-", "\"-\""),
            ("e3", "\"e3\""),
            ("1e", "\"1e\""),
            ("1_000", "\"1_000\""),
            ("1:30", "\"1:30\""),
            ("infinity", "\"infinity\""),
            ("--1", "\"--1\""),
        ] {
            assert_eq!(json(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_rejected() {
        assert_eq!(resolve("18446744073709551616"), Err(Unusable::TooLarge));
        assert_eq!(resolve("-9223372036854775809"), Err(Unusable::TooLarge));
        assert_eq!(resolve("0x10000000000000000"), Err(Unusable::TooLarge));
        assert_eq!(resolve("-.inf"), Err(Unusable::NotFinite));
        assert_eq!(resolve(".nan"), Err(Unusable::NotFinite));
        assert_eq!(resolve("1e999"), Err(Unusable::NotFinite));
    }
}
