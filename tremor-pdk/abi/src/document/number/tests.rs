use super::{
    Exact, NumberForm, compare, compare_float, compare_integer, compare_integer_with_float,
    exact_float, is_json_number, scaled, to_i128,
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
    for text in ["0", "-0", "1.10", "1e400", "1E+2", "-12.5e-7", "123456789012345678901234567890"] {
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
fn representation_keeps_the_value() {
    let text = |text: &'static str| Exact::Text(text.into());
    for (number, expected) in [
        ("0", Exact::I64(0)),
        ("-9223372036854775808", Exact::I64(i64::MIN)),
        ("9223372036854775808", Exact::U64(i64::MAX as u64 + 1)),
        ("18446744073709551615", Exact::U64(u64::MAX)),
        ("18446744073709551616", text("18446744073709551616")),
        ("-9223372036854775809", text("-9223372036854775809")),
        ("1.10", Exact::F64(1.1)),
        ("15e17", Exact::F64(1.5e18)),
        ("3.14159265358979323846", text("3.14159265358979323846")),
        ("4.9e-325", text("4.9e-325")),
        ("1e400", text("1e400")),
        ("+7", Exact::I64(7)),
        ("007", Exact::I64(7)),
        ("-00", Exact::F64(0.0)),
        (".5", Exact::F64(0.5)),
        ("-1.", Exact::F64(-1.0)),
        ("+.3000000000000000000001e1", text("0.3000000000000000000001e1")),
        ("00.10000000000000000001", text("0.10000000000000000001")),
    ] {
        assert_eq!(Exact::new(number), Some(expected), "{number}");
    }
    for number in ["-0", "-0.0", "-.0", "-0e5"] {
        let Some(Exact::F64(float)) = Exact::new(number) else { panic!("{number}") };
        assert!(float == 0.0 && float.is_sign_negative(), "{number}");
    }
    assert_eq!(Exact::float("5"), Some(Exact::F64(5.0)));
    assert_eq!(Exact::float("9007199254740993"), Some(text("9007199254740993")));
    for other in [
        "", "-", ".", "+", "+-1", "-+1", "1e", "e5", ".e5", "1.2.3", "nan", "inf", "0x1", " 1",
        "1_0",
    ] {
        assert_eq!((Exact::new(other), Exact::float(other)), (None, None), "{other}");
    }
}

#[test]
fn scaled_number_has_no_fraction() {
    for (text, power, expected) in [
        ("1385053862.3072", 9, Some(1_385_053_862_307_200_000)),
        ("1.49e18", 0, Some(1_490_000_000_000_000_000)),
        ("-1.5", 0, Some(-1)),
        ("0.0000000019", 9, Some(1)),
        ("9e-10", 9, Some(0)),
        ("1e-99999999999999999999", 9, Some(0)),
        ("0e999", 9, Some(0)),
        ("1e300", 9, None),
        ("1e", 9, None),
        ("", 9, None),
    ] {
        assert_eq!(scaled(text, power), expected, "{text}");
    }
}

#[test]
fn floats_compare_by_their_decimal_value() {
    assert!(compare_float("0.1", 0.1).is_eq());
    assert!(compare_float("0.1000000000000000001", 0.1).is_gt());
    assert!(compare_float("0.1000000000000000055511151231257827", 0.1).is_gt());
    assert!(compare_float("0.0999999999999999999999", 0.1).is_lt());
    assert!(compare_float("1e400", f64::MAX).is_gt());
    assert!(compare_float("1e400", f64::INFINITY).is_lt());
    assert!(compare_float("-1e400", f64::NEG_INFINITY).is_gt());
    assert!(compare_float("1", f64::NAN).is_lt());
    assert!(compare_float("1e-400", 0.0).is_gt() && compare_float("-0", 0.0).is_eq());
    for (integer, float, expected) in [
        (1, 1.5, "less"),
        (2, 1.5, "greater"),
        (-1, -1.5, "greater"),
        (9_223_372_036_854_776_000, 9_223_372_036_854_775_808.0, "equal"),
        (9_223_372_036_854_775_808, 9_223_372_036_854_775_808.0, "less"),
        (9_223_372_036_854_776_001, 9_223_372_036_854_775_808.0, "greater"),
        (9_007_199_254_740_993, 9_007_199_254_740_992.0, "greater"),
        (i128::from(u64::MAX), f64::INFINITY, "less"),
        (i128::from(i64::MIN), f64::NEG_INFINITY, "greater"),
        (0, f64::NAN, "less"),
    ] {
        let found = compare_integer_with_float(integer, float);
        let is_expected = match expected {
            "equal" => found.is_eq(),
            "greater" => found.is_gt(),
            _ => found.is_lt(),
        };
        assert!(is_expected, "{integer} {float}: {found:?}");
    }
}

#[test]
fn number_form_follows_from_decimal_value() {
    for (text, form) in [
        ("15.0", NumberForm::Integer(15)),
        ("18446744073709551615", NumberForm::Integer(u64::MAX.into())),
        ("18446744073709551616", NumberForm::Decimal("0.18446744073709551616e20".to_owned())),
        ("18446744073709552e3", NumberForm::Float(18_446_744_073_709_551_616.0)),
        ("5e-1", NumberForm::Float(0.5)),
        ("-0.10", NumberForm::Float(-0.1)),
        ("0.1000000000000000001", NumberForm::Decimal("0.1000000000000000001e0".to_owned())),
        ("1e400", NumberForm::Decimal("0.1e401".to_owned())),
    ] {
        assert_eq!(NumberForm::new(text), form, "{text}");
    }
    for (float, form) in [
        (-0.0, NumberForm::Integer(0)),
        (1.5e18, NumberForm::Integer(1_500_000_000_000_000_000)),
        (9_223_372_036_854_775_808.0, NumberForm::Integer(9_223_372_036_854_776_000)),
        (18_446_744_073_709_551_616.0, NumberForm::Float(18_446_744_073_709_551_616.0)),
        (0.1, NumberForm::Float(0.1)),
        (f64::NEG_INFINITY, NumberForm::Float(f64::NEG_INFINITY)),
    ] {
        assert_eq!(NumberForm::of_float(float), form, "{float}");
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
