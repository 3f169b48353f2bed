use serde_json::{Value, json};

use tremor_pdk::Batch;

use crate::processor::testing::{cut_anywhere, frame, messages, pre, preprocessor, process, run};

fn texts(found: Vec<Vec<u8>>) -> Vec<String> {
    found.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
}

/// Splits `stream` in fragments of all sizes. The result must be the same for each size.
fn split(config: &Value, stream: &str, expected: &[&str], errors: &[&str]) {
    cut_anywhere(
        stream.as_bytes(),
        || pre("csv-records", config),
        |found, rejected| {
            assert_eq!(texts(found), expected, "{stream:?}: {rejected:?}");
            assert_eq!(rejected.len(), errors.len(), "{stream:?}: {rejected:?}");
            for (error, part) in rejected.iter().zip(errors) {
                assert!(error.contains(part), "{stream:?}: {error}");
            }
        },
    );
}

#[test]
fn line_feed_in_quotes_does_not_end_record() {
    let (plain, tabs) = (json!({}), json!({ "delimiter": "\t", "quote": "'" }));
    let lines = json!({ "quote": null });
    for (config, stream, expected) in [
        (
            &plain,
            "id,text\r\n1,\"two\r\nlines\"\r\n2,plain\r\n",
            &["id,text", "1,\"two\r\nlines\"", "2,plain"][..],
        ),
        (
            &plain,
            "\u{feff}\"a\n\"\"\nb\",\"\"\n\"\"\n\nlast",
            &["\"a\n\"\"\nb\",\"\"", "\"\"", "", "last"],
        ),
        (&plain, "5\" disk,a\"b\n2\n", &["5\" disk,a\"b", "2"]),
        (&plain, "\"a\"\r", &["\"a\""]),
        (&plain, "a,\n,b\n", &["a,", ",b"]),
        (&tabs, "'a\nb'\t\"\n2", &["'a\nb'\t\"", "2"]),
        (&lines, "\"a\nb\"", &["\"a", "b\""]),
    ] {
        split(config, stream, expected, &[]);
    }
}

#[test]
fn stray_quote_costs_its_line_only() {
    let few = json!({ "max_lines": 3 });
    for (stream, expected, errors) in [
        ("1,\"a\n2,\"b\"\n3\n", &["2,\"b\"", "3"][..], &["expected a delimiter"][..]),
        ("\"a\"b\n2\n", &["2"], &["expected a delimiter"]),
        ("\"a\"\rb\n2\n", &["2"], &["expected a delimiter"]),
        ("\"a\n2\n3\n4\n5\n", &["2", "3", "4", "5"], &["within `max_lines` lines"]),
        ("\"a\n2\n", &["2"], &["does not end"]),
        ("1\n\"a", &["1"], &["does not end"]),
        ("\"a\nb\nc\"\n2", &["\"a\nb\nc\"", "2"], &[]),
    ] {
        split(&few, stream, expected, errors);
    }
}

#[test]
fn long_record_is_rejected_without_the_next_one() {
    let long = "x".repeat(300);
    for stream in
        [format!("{long}\nfine\n"), format!("\"a\n{long}\nfine\n"), format!("\"{long}\nfine\n")]
    {
        for size in [1, 50, stream.len()] {
            let config = json!({ "max_length": 100 });
            let (found, rejected) = run(&mut *pre("csv-records", &config), stream.as_bytes(), size);
            assert_eq!(texts(found), ["fine"], "{stream} by {size}: {rejected:?}");
            assert!(!rejected.is_empty(), "{stream} by {size}");
        }
    }
}

/// A limit that all streams share removes the beginning of the longest unfinished record.
#[test]
fn truncated_record_is_rejected_up_to_a_line_feed() {
    let mut split = pre("csv-records", &json!({ "max_length": "20MiB" }));
    let mut feed = |stream: u64, bytes: &[u8]| {
        let mut batch = Batch::new();
        batch.stream(stream).push_fragment(bytes);
        let rejected = process(&mut *split, &mut batch);
        (texts(messages(&batch)), rejected)
    };
    let begun = [&b"\"first\n"[..], &vec![b'x'; 18 << 20]].concat();
    assert_eq!(feed(1, &begun), (Vec::new(), Vec::new()));
    assert_eq!(feed(2, &begun[..16 << 20]), (Vec::new(), Vec::new()));
    let (found, rejected) = feed(1, b"still quoted\nfine\n");
    assert_eq!(found, ["fine"], "no part of the quoted field is a record: {rejected:?}");
    assert_eq!(rejected.len(), 1);
    assert!(rejected[0].contains("its beginning was discarded"), "{rejected:?}");
}

/// Each of these lines begins a quoted field, and continues in one that has begun.
#[test]
fn lines_that_begin_endless_fields_are_given_up_together() {
    for line in ["x\",\"\n", "x\",\"\na\n"] {
        let stream = line.repeat(100_000);
        let (found, rejected) =
            run(&mut *pre("csv-records", &json!({})), stream.as_bytes(), 1 << 16);
        let count = stream.lines().count();
        assert!(rejected.len() + found.len() < count / 20, "{} {}", rejected.len(), found.len());
        assert!(rejected.iter().any(|error| error.contains("all its lines were skipped")));
        assert!(rejected[0].contains("its first line was skipped"), "{}", rejected[0]);
    }
}

#[test]
fn frequent_stray_quotes_cost_their_lines_only() {
    let block = format!("1,\"stray\n{}", "a,b,c\n".repeat(1_200));
    let stream = block.repeat(40);
    let (found, rejected) = run(&mut *pre("csv-records", &json!({})), stream.as_bytes(), 1 << 16);
    assert_eq!((found.len(), rejected.len()), (40 * 1_200, 40));
}

#[test]
fn written_records_are_read_again() {
    let records = ["1,\"two\r\nlines\"", "2,plain", "\"\"", "\"a\"\"\n\"\"b\""];
    let (framed, rejected) = frame("csv-records", &json!({}), &records);
    assert!(rejected.is_empty(), "{rejected:?}");
    let stream = String::from_utf8(framed.concat()).unwrap();
    split(&json!({}), &stream, &records, &[]);
}

#[test]
fn message_of_other_records_is_not_written() {
    let messages = ["1\n2", "\"a", "\"a\"b", "fine", "\"a\"\nb"];
    let (framed, rejected) = frame("csv-records", &json!({}), &messages);
    assert_eq!(texts(framed), ["fine\n"]);
    assert_eq!(rejected.len(), 4);
    assert!(rejected[0].starts_with("the message is not one record of CSV"), "{rejected:?}");
}

#[test]
fn separators_are_checked() {
    for config in [json!({ "quote": "," }), json!({ "delimiter": "\n" }), json!({ "max_lines": 0 })]
    {
        assert!(preprocessor("csv-records", &config).is_err(), "{config}");
    }
}
