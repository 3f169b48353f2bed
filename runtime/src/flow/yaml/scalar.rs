//! Values of unquoted texts according to the core schema of YAML 1.2 (section 10.3.2).
//!
//! In contrast to YAML 1.1, `no`, `off` and `1:30` are texts.

use serde_json::Number;
use tremor_abi::document::Exact;

use super::node::Data;

/// Reason why a flow cannot use a text that looks like a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// A hexadecimal or octal integer that does not fit `u64`.
    TooLarge,
    /// An infinity, or a value that is not a number.
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
        _ => number(text)?.unwrap_or_else(|| Data::Text(text.to_owned())),
    })
}

fn number(text: &str) -> Result<Option<Data>, Unusable> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            let value = u64::from_str_radix(digits, radix).map_err(|_| Unusable::TooLarge)?;
            return Ok(Some(Data::Number(value.into())));
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Err(Unusable::NotFinite);
    }
    // An integer has no sign of zero.
    let is_zero = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte == b'0');
    let number = if is_zero { Some(Exact::I64(0)) } else { Exact::new(text) };
    Ok(number.map(|number| match number {
        Exact::I64(integer) => Data::Number(integer.into()),
        Exact::U64(integer) => Data::Number(integer.into()),
        Exact::F64(float) => {
            Number::from_f64(float).map_or_else(|| Data::Exact(text.into()), Data::Number)
        }
        Exact::Text(text) => Data::Exact(text.into()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        match resolve(text).expect(text) {
            Data::Null => "null".to_owned(),
            Data::Bool(value) => value.to_string(),
            Data::Number(number) => number.to_string(),
            Data::Exact(number) => number.into(),
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
            ("-00", "0"),
            ("-0.0", "-0.0"),
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
            ("18446744073709551616", "18446744073709551616"),
            ("-9223372036854775809", "-9223372036854775809"),
            ("3.14159265358979323846", "3.14159265358979323846"),
            ("+.30000000000000000001", "0.30000000000000000001"),
            ("1e999", "1e999"),
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
        assert_eq!(resolve("0x10000000000000000"), Err(Unusable::TooLarge));
        assert_eq!(resolve("-.inf"), Err(Unusable::NotFinite));
        assert_eq!(resolve(".nan"), Err(Unusable::NotFinite));
    }
}
