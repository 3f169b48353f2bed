use serde_json::{Value, json};
use tremor_pdk::Batch;

use crate::processor::testing::{cut_anywhere, messages, pre, process, run};

fn texts(found: Vec<Vec<u8>>) -> Vec<String> {
    found.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
}

/// Splits `stream` in fragments of all sizes. The result must be the same for each size.
fn split(config: &Value, stream: &[u8], expected: &[&str], errors: &[&str]) {
    cut_anywhere(
        stream,
        || pre("json-values", config),
        |found, rejected| {
            let shown = String::from_utf8_lossy(stream);
            assert_eq!(texts(found), expected, "{shown}");
            assert_eq!(rejected.len(), errors.len(), "{shown}: {rejected:?}");
            for (error, part) in rejected.iter().zip(errors) {
                assert!(error.contains(part), "{shown}: {error}");
            }
        },
    );
}

#[test]
fn values_and_elements_are_messages() {
    for (stream, expected) in [
        (r#"[{"n":1},{"n":2}]"#, &[r#"{"n":1}"#, r#"{"n":2}"#][..]),
        (r#"{"n":3}{"n":4}"#, &[r#"{"n":3}"#, r#"{"n":4}"#]),
        ("{\"n\":1}\r\n\n{\n \"n\": 2\n}\n", &[r#"{"n":1}"#, "{\n \"n\": 2\n}"]),
        ("1 -2.5e3\ttrue\"a\"null", &["1", "-2.5e3", "true", "\"a\"", "null"]),
        (
            r#"[1,"]",[2,[3]],{"a":[4]} , null ] [] [5]"#,
            &["1", "\"]\"", "[2,[3]]", r#"{"a":[4]}"#, "null", "5"],
        ),
        (r#"{"a\"}":"\\"}{"b":"\\\"{"}"#, &[r#"{"a\"}":"\\"}"#, r#"{"b":"\\\"{"}"#]),
        ("\u{feff}[1]", &["1"]),
        ("\u{1e}{\"n\":1}\n\u{1e}2\n\u{1e}[3,4]\n", &["{\"n\":1}", "2", "3", "4"]),
        (" \n", &[]),
    ] {
        split(&json!({}), stream.as_bytes(), expected, &[]);
    }
}

#[test]
fn kept_arrays_are_messages() {
    let stream = br#"[1,[2,"]"]][] {"a":[3]}"#;
    let expected = [r#"[1,[2,"]"]]"#, "[]", r#"{"a":[3]}"#];
    split(&json!({ "arrays": "keep" }), stream, &expected, &[]);
}

#[test]
fn garbage_is_rejected_up_to_next_line() {
    for (stream, expected, errors) in [
        ("1 x y\n2\nNaN\n3", &["1", "2", "3"][..], &["a JSON value, found `x`", "found `N`"][..]),
        ("[1 2]\n3", &["1", "3"], &["a comma or `]` after an element of an array, found `2`"]),
        ("[1,,2]\n3", &["1", "3"], &["an element of an array, found `,`"]),
        ("[1,]\n3", &["1", "3"], &["an element of an array, found `]`"]),
        ("{\"a\":\"b\n{\"c\":1}\n", &["{\"c\":1}"], &["a line feed in a string"]),
        ("{\"a\":1}}", &["{\"a\":1}"], &["found `}`"]),
        (
            "\u{1e}{\"a\":\u{1e}{\"b\":1}\n\u{1e}x\u{1e}2",
            &["{\"b\":1}", "2"],
            &["a record separator before its end", "found `x`"],
        ),
    ] {
        split(&json!({}), stream.as_bytes(), expected, errors);
    }
    let expected = ["{\"n\":1}", "{\"n\":3}"];
    split(&json!({}), b"{\"n\":1} no JSON [}\n{\"n\":3}", &expected, &["skipped"]);
    split(&json!({}), b"1 {\"a\":[", &["1"], &["ended within a message"]);
}

#[test]
fn array_longer_than_limit_is_divided() {
    let array = format!("[{}]", vec!["{\"n\":1}"; 1000].join(" ,"));
    let config = json!({ "max_length": 7 });
    for size in [1, 100, array.len()] {
        let (found, rejected) = run(&mut *pre("json-values", &config), array.as_bytes(), size);
        assert_eq!((found.len(), rejected.len()), (1000, 0), "{size}");
    }
}

#[test]
fn long_value_is_rejected_and_next_one_is_read() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(500));
    let whole = format!("{long}\n{{\"b\":1}}");
    let array = format!("[{long},{{\"b\":1}}]");
    let unclosed = format!("{}\n{{\"b\":1}}", long.replace('}', ""));
    for stream in [whole, array, unclosed] {
        for size in [1, 7, 64, 100, stream.len()] {
            let config = json!({ "max_length": 20 });
            let (found, rejected) = run(&mut *pre("json-values", &config), stream.as_bytes(), size);
            assert_eq!(rejected.len(), 1, "{stream} by {size}: {rejected:?}");
            assert_eq!(texts(found), ["{\"b\":1}"], "{stream} by {size}: {rejected:?}");
        }
    }
}

/// A stream in which each line begins a value that has no end is not searched again after each of its lines.
#[test]
fn unclosed_values_are_given_up_in_few_steps() {
    let config = json!({ "max_length": "16KiB" });
    let stream = b"{\n".repeat(200_000);
    let (found, rejected) = run(&mut *pre("json-values", &config), &stream, stream.len());
    assert!(found.is_empty() && rejected.len() < 100, "{}", rejected.len());
    let (found, rejected) = run(&mut *pre("json-values", &config), &stream, 4 << 10);
    assert!(found.is_empty() && rejected.len() < 100, "{}", rejected.len());
}

#[test]
fn separator_before_long_value_is_not_rejected() {
    let long = "x".repeat(500);
    for (start, end) in [("{\"b\":1}\n", "\n{\"c\":2}"), ("[\n", "\n{\"c\":2}")] {
        let stream = format!("{start}{{\"a\":\"{long}{end}");
        let config = json!({ "max_length": 20 });
        let split = &mut *pre("json-values", &config);
        let (found, rejected) = run(split, stream.as_bytes(), stream.len());
        assert_eq!(texts(found).last().map(String::as_str), Some(r#"{"c":2}"#), "{stream}");
        assert_eq!(rejected.len(), 1, "{stream}: {rejected:?}");
    }
}

#[test]
fn whole_message_is_split_alone() {
    let mut values = pre("json-values", &json!({}));
    let mut batch = Batch::new();
    for message in ["[1,2", "3 4", "", "[5]"] {
        batch.push_message(message.as_bytes());
    }
    assert!(process(&mut *values, &mut batch).is_empty());
    assert_eq!(texts(messages(&batch)), ["1", "2", "3", "4", "5"]);
}

/// Values from a fixed sequence of random numbers, separated in several ways, are found again.
#[test]
fn generated_values_are_found_in_any_fragments() {
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(seed >> 40).unwrap() % below
    };
    let texts_of_strings = ["", "\"", "\\", "{", "]", "\\\"", "é\u{1e}\n", ","];
    for _ in 0..200 {
        let mut values = Vec::new();
        for _ in 0..=random(6) {
            let text = texts_of_strings[random(texts_of_strings.len())];
            values.push(match random(5) {
                0 => json!(text),
                1 => json!({ text: [text, { "a": text }] }),
                2 => json!({ "a": [[[]], {}] }),
                3 => json!(-1.5e-7),
                _ => json!(null),
            });
        }
        let separator = ["\n", " ", "\r\n\r\n", "\t"][random(4)];
        let lines: Vec<_> = values.iter().map(Value::to_string).collect();
        let array = serde_json::to_string_pretty(&values).unwrap();
        for stream in [lines.join(separator), array] {
            for size in [1, 1 + random(9), stream.len()] {
                let (found, rejected) =
                    run(&mut *pre("json-values", &json!({})), stream.as_bytes(), size);
                assert!(rejected.is_empty(), "{stream} by {size}: {rejected:?}");
                let found: Vec<Value> =
                    found.iter().map(|it| serde_json::from_slice(it).unwrap()).collect();
                assert_eq!(found, values, "{stream} by {size}");
            }
        }
    }
}
