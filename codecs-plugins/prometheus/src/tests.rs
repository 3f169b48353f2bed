use std::{
    env,
    io::Write,
    process::{Command, Stdio},
};

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tremor_pdk::{
    Value,
    testing::{TestHost, conformance, decode, encode},
};

use crate::{Prometheus, Split};

const SPECIFICATION: &str = include_str!("../fixtures/specification.prom");
const OPEN_METRICS: &str = include_str!("../fixtures/openmetrics.txt");
const EXPOSITION: &str = r#"{ "event": "exposition", "non_finite": "text" }"#;
const OPEN: &str = r#"{ "event": "exposition", "format": "openmetrics", "non_finite": "text" }"#;

fn codec(config: &str) -> Prometheus {
    TestHost::new().component(config).unwrap()
}

fn decoded(config: &str, text: impl AsRef<[u8]>) -> Result<Json, String> {
    match decode(&mut codec(config), text.as_ref()) {
        Ok(value) => Ok(serde_json::to_value(&value).unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

fn encoded(config: &str, value: &Json) -> Result<String, String> {
    let value: Value<'static> = serde_json::from_value(value.clone()).unwrap();
    match encode(&mut codec(config), &value) {
        Ok(text) => Ok(String::from_utf8(text).unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn components_keep_the_contract() {
    conformance::codec::<Prometheus>("{}").expect_no_faults();
    conformance::codec::<Prometheus>(EXPOSITION).expect_no_faults();
    conformance::codec::<Prometheus>(OPEN).expect_no_faults();
    conformance::preprocessor::<Split>("{}").expect_no_faults();
}

#[test]
fn example_of_the_specification_is_read() {
    let samples = decoded(EXPOSITION, SPECIFICATION).unwrap();
    assert_eq!(samples.as_array().unwrap().len(), 20);
    let about = "The total number of HTTP requests.";
    assert_eq!(
        samples[0],
        json!({
            "name": "http_requests_total", "type": "counter", "help": about,
            "labels": { "method": "post", "code": "200" },
            "value": 1027.0, "timestamp": 1_395_066_363_000_000_000_i64,
        })
    );
    assert_eq!(
        samples[2],
        json!({
            "name": "msdos_file_access_time_seconds", "type": "untyped",
            "labels": {
                "path": r"C:\DIR\FILE.TXT", "error": "Cannot find file:\n\"FILE.TXT\"",
            },
            "value": 1_458_255_915.0,
        })
    );
    assert_eq!(samples[4]["value"], "+Inf");
    assert_eq!(samples[4]["timestamp"], -3_982_045_000_000_i64);
    assert_eq!(
        samples[10],
        json!({
            "name": "http_request_duration_seconds_bucket", "family": "http_request_duration_seconds",
            "type": "histogram", "help": "A histogram of the request duration.",
            "labels": { "le": "+Inf" }, "value": 144_320.0,
        })
    );
    assert_eq!(samples[13]["name"], "rpc_duration_seconds");
    assert_eq!(samples[13]["family"], Json::Null);
    assert_eq!(samples[18]["family"], "rpc_duration_seconds");
}

#[test]
fn openmetrics_example_is_unchanged_by_a_round_trip() {
    let samples = decoded(OPEN, OPEN_METRICS).unwrap();
    assert_eq!(
        samples[7],
        json!({
            "name": "foo_bucket", "family": "foo", "type": "histogram",
            "labels": { "le": "1.0" }, "value": 11.0, "timestamp": 1_520_879_607_789_000_000_i64,
            "exemplar": {
                "labels": { "trace_id": "KOO5S4vxi0o" },
                "value": 0.67, "timestamp": 1_520_879_600_500_000_000_i64,
            },
        })
    );
    assert_eq!(samples[0]["unit"], "seconds");
    assert_eq!(samples[3]["help"], "Number of goroutines that \"currently\" exist.");
    assert_eq!(samples[11]["labels"]["path"], r"a\z");
    let value = decode(&mut codec(OPEN), OPEN_METRICS.as_bytes()).unwrap();
    let again = String::from_utf8(encode(&mut codec(OPEN), &value).unwrap()).unwrap();
    assert_eq!(decoded(OPEN, &again), Ok(samples.clone()));
    // The order of the `HELP`, `TYPE` and `UNIT` lines and the form of numbers are not preserved, so they are
    // normalised before the comparison.
    let lines = |text: &str| {
        let text = text.replace("807283.0", "807283").replace("1605281325.0", "1605281325");
        let text = text.replace("4.20072246e+06", "4200722.46").replace(r"a\z", r"a\\z");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&again), lines(OPEN_METRICS));
    // The text format has no units and exemplars, and fewer types.
    let text = encoded(EXPOSITION, &samples).unwrap();
    for line in [
        "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 4200722.46\n",
        "# TYPE acme_http_router_request_seconds_created gauge\n",
        "foo_bucket{le=\"1.0\"} 11 1520879607789\n",
        "# TYPE build_info gauge\n",
        "# TYPE state gauge\nstate{state=\"a\"} 1\nstate{state=\"bb\"} 0\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let samples = decoded(EXPOSITION, &text).unwrap();
    assert_eq!(samples.as_array().unwrap().len(), 14);
    let open = encoded(OPEN, &samples).unwrap();
    assert!(
        open.contains("# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total"),
        "{open}"
    );
}

#[test]
fn samples_of_a_family_are_written_together() {
    let sample = |name: &str, family: &str, labels: Json| {
        json!({
            "name": name, "family": family, "type": "histogram", "help": "a \\ b\n\"c\"",
            "labels": labels, "value": 1,
        })
    };
    let samples = json!([
        sample("h_bucket", "h", json!({ "le": 0.5, "a": "\"\\\n" })),
        { "name": "up", "type": "gauge", "labels": { "ok": true, "none": null }, "value": "NaN" },
        sample("h_bucket", "h", json!({ "le": "+Inf" })),
        sample("h_count", "h", json!({})),
    ]);
    let expected = r#"# HELP h a \\ b\n"c"
# TYPE h histogram
h_bucket{a="\"\\\n",le="0.5"} 1
h_bucket{le="+Inf"} 1
h_count 1
# TYPE up gauge
up{ok="true"} NaN
"#;
    assert_eq!(encoded(EXPOSITION, &samples).as_deref(), Ok(expected));
    assert_eq!(
        encoded("{}", &samples[2]).as_deref(),
        Ok("# HELP h a \\\\ b\\n\"c\"\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\n")
    );
}

#[test]
fn non_finite_value_is_a_float_unless_configured_as_text() {
    let value = decode(&mut codec("{}"), b"a NaN").unwrap();
    let number = value.get("value").and_then(Value::as_f64);
    assert!(number.is_some_and(f64::is_nan));
    assert_eq!(encode(&mut codec("{}"), &value).unwrap(), b"# TYPE a untyped\na NaN\n");
    for text in ["NaN", "+Inf", "-Inf"] {
        let sample = decoded(r#"{ "non_finite": "text" }"#, format!("a {text}")).unwrap();
        assert_eq!(sample["value"], text);
    }
}

#[test]
fn invalid_text_is_reported_with_line_and_column() {
    for (text, expected) in [
        ("", "line 1, column 1: expected a sample"),
        ("# a comment\n", "line 2, column 1: expected a sample"),
        ("\u{feff}x", "line 1, column 5: expected a space"),
        ("9a 1", "line 1, column 1: expected the name of a metric"),
        ("a", "line 1, column 2: expected a space"),
        ("a one", "line 1, column 3: expected a number, `NaN`, `+Inf` or `-Inf`"),
        ("a 1 2.5", "line 1, column 5: expected a time in ms since the Unix epoch"),
        ("a 1 2 3", "line 1, column 7: expected the end of the line"),
        ("a 1\r\n", "line 1, column 3: expected a number"),
        ("a{b=\"c} 1\n", "line 1, column 5: expected a closing quote in this line"),
        ("a{b:c=\"\"} 1", "line 1, column 4: expected `=` after the name of a label"),
        ("a{b=1} 1", "line 1, column 5: expected the value of a label in quotes"),
        ("a{b=\"\" c=\"\"} 1", "line 1, column 8: expected `,` or `}` after a label"),
        ("a{b=\"\",b=\"\"} 1", "line 1, column 8: duplicate label `b`"),
        ("a 1\nb 2", "line 2, column 1: expected one sample, found another: put the preprocessor"),
    ] {
        let error = decoded("{}", text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    let error = decoded("{}", b"a 1\n\xff").unwrap_err();
    assert_eq!(error, "line 2, column 1: expected UTF-8");
}

#[test]
fn invalid_help_line_loses_no_sample() {
    for (text, help) in [
        ("# HELP a D:\\docs \\'x\\' \\n \\\\ \\\na 1\n", Some("D:\\docs \\'x\\' \n \\ \\")),
        ("# HELP a one\n# HELP a two\na 1\n", Some("one")),
        ("# HELP\na 1\n", None),
        ("# HELP 9x text\na 1\n", None),
        ("a 1\n# HELP a late\n", None),
    ] {
        let sample = decoded("{}", text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!((&sample["name"], &sample["value"]), (&json!("a"), &json!(1.0)), "{text:?}");
        assert_eq!(sample["help"].as_str(), help, "{text:?}");
        let open = text.replace("HELP\n", "HELP \n") + "# EOF\n";
        let samples = decoded(OPEN, &open).unwrap_or_else(|error| panic!("{open:?}: {error}"));
        assert_eq!(samples[0]["value"], 1.0, "{open:?}");
    }
}

#[test]
fn unknown_type_and_escape_lose_no_sample() {
    for kind in ["count", "unknown", "info", "Gauge"] {
        let sample = decoded("{}", format!("# TYPE a {kind}\na 1")).unwrap();
        assert_eq!((&sample["type"], &sample["value"]), (&json!("untyped"), &json!(1.0)), "{kind}");
    }
    let sample = decoded("{}", "a{b=\"C:\\dir\\\\x\"} 1").unwrap();
    assert_eq!(sample["labels"]["b"], "C:\\dir\\x");
}

#[test]
fn message_without_a_sample_contains_no_event() {
    let blank = |config: &str, text: &str| {
        tremor_pdk::Codec::holds_no_event(&codec(config), text.as_bytes())
    };
    for text in ["", "\n \n", "# a comment", "# HELP a b\n# TYPE a gauge\n", "\u{feff}", "# EOF\n"]
    {
        assert!(blank("{}", text), "{text:?}");
        assert!(
            !blank(EXPOSITION, text),
            "an exposition without samples is an empty array: {text:?}"
        );
    }
    for text in ["a", "# TYPE a gauge\na{", "# a\n\u{feff}"] {
        assert!(!blank("{}", text), "{text:?}");
    }
}

/// Exporters write these lines, and Prometheus accepts the samples of most of them.
#[test]
fn invalid_type_line_loses_no_sample() {
    for (text, kinds) in [
        ("# TYPE a counter\na 1\n# TYPE a counter\na 2\n", &["counter", "counter"][..]),
        ("# TYPE a gauge\n# TYPE a counter\na 1\n", &["gauge"]),
        ("# TYPE a\na 1\n", &["untyped"]),
        ("# TYPE a\n# TYPE a gauge\na 1\n", &["gauge"]),
        ("# TYPE\na 1\n", &["untyped"]),
        ("# TYPE 9x gauge\na 1\n", &["untyped"]),
        ("# TYPE a gauge of two words\na 1\n", &["gauge"]),
        ("# TYPE a{b=\"\"} gauge\na 1\n", &["untyped"]),
        ("# COMMENT TYPE a gauge\na 1\n", &["untyped"]),
        ("a 1\n# TYPE a gauge\na 2\n", &["untyped", "untyped"]),
        ("# TYPE a gauge\na 1\nb 2\na 3\n", &["gauge", "untyped", "gauge"]),
        ("# TYPE a histogram\na 1\na_sum 2\n", &["untyped", "histogram"]),
        ("# TYPE a histogram\na_bucket 1\na_bucket{le=\"1\"} 2\n", &["untyped", "histogram"]),
        ("# TYPE a histogram\na_sum 1\nb 2\na_count 3\n", &["histogram", "untyped", "histogram"]),
        ("# TYPE a summary\na 1\na{quantile=\"x\"} 2\n", &["untyped", "untyped"]),
    ] {
        for (config, text) in [(EXPOSITION, text.to_owned()), (OPEN, format!("{text}# EOF\n"))] {
            let samples = decoded(config, &text).unwrap_or_else(|it| panic!("{text:?}: {it}"));
            let found: Vec<_> = samples.as_array().unwrap().iter().map(|it| &it["type"]).collect();
            // OpenMetrics names the samples of a counter `a_total`.
            let is_other = config == OPEN && kinds[0] == "counter";
            assert_eq!(found, if is_other { &["untyped", "untyped"] } else { kinds }, "{text:?}");
            let written = encoded(config, &samples).unwrap_or_else(|it| panic!("{text:?}: {it}"));
            let again = decoded(config, &written).unwrap();
            assert_eq!(again.as_array().unwrap().len(), kinds.len(), "{written}");
        }
    }
    let open = "# TYPE a_seconds counter\n# UNIT a_seconds\n# UNIT a_seconds seconds\n# UNIT a_seconds ms\n\
                # a comment\na_seconds_total 1\n# UNIT a_seconds ms\na_seconds_total 2\n# TYPE b sum\nb 3\n\
                # EOF\n";
    let samples = decoded(OPEN, open).unwrap();
    let part = |n: usize, key: &str| samples[n][key].clone();
    assert_eq!([part(0, "unit"), part(1, "unit")], [json!("seconds"), json!("seconds")]);
    assert_eq!([part(1, "type"), part(2, "type")], [json!("counter"), json!("untyped")]);
}

#[test]
fn invalid_sample_of_openmetrics_is_reported() {
    for (text, expected) in [
        ("a 1\n", "line 2, column 1: expected `# EOF`: the text is cut off"),
        ("a 1\n# EOF now", "line 2, column 10: expected `# EOF`: the text is cut off"),
        ("# EOF\na 1\n", "line 2, column 1: expected nothing after `# EOF`"),
        ("a  1\n# EOF", "line 1, column 3: expected a number"),
        ("\n# EOF", "line 1, column 1: expected the name of a metric"),
        ("a{b=\"\",} 1\n# EOF", "line 1, column 8: expected the name of a label"),
    ] {
        let error = decoded(OPEN, text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn unrepresentable_value_is_an_error() {
    for (value, expected) in [
        (json!("text"), "expected a sample, which is an object, found \"text\""),
        (json!([]), "expected a sample, which is an object, found []"),
        (json!({}), "a sample needs the key `name`"),
        (json!({ "name": "a" }), "a sample needs the key `value`"),
        (json!({ "name": "a b", "value": 1 }), "expected the name of a metric"),
        (
            json!({ "name": "a", "value": "one" }),
            "expected a number, `NaN`, `+Inf` or `-Inf` as `value`",
        ),
        (json!({ "name": "a", "value": 1, "valeu": 2 }), "unknown key `valeu`"),
        (
            json!({ "name": "a", "value": 1, "type": "count" }),
            "expected the type of a metric as `type`",
        ),
        (json!({ "name": "a", "value": 1, "labels": { "b:": "" } }), "\"b:\" cannot name a label"),
        (
            json!({ "name": "a", "value": 1, "labels": { "b": [] } }),
            "expected text as the label `b`",
        ),
        (json!({ "name": "a", "value": 1, "timestamp": 1.5 }), "expected ns since the Unix epoch"),
        (json!({ "name": "a", "value": 1, "unit": "a b" }), "expected a unit"),
        (
            json!({ "name": "a_b", "family": "a", "type": "gauge", "value": 1 }),
            "`a_b` is not the name of a sample of the gauge `a`",
        ),
        (
            json!({ "name": "a_bucket", "family": "a", "type": "histogram", "value": 1 }),
            "`a_bucket` needs the label `le`, a number",
        ),
    ] {
        let error = encoded("{}", &value).unwrap_err();
        assert!(error.contains(expected), "{value}: {error}");
    }
    let other = json!([
        { "name": "a", "type": "gauge", "value": 1 }, { "name": "a", "type": "counter", "value": 1 },
    ]);
    let error = encoded(EXPOSITION, &other).unwrap_err();
    assert!(error.contains("`a` is a gauge in one sample and a counter in another one"), "{error}");
    let error =
        encoded(OPEN, &json!([{ "name": "a", "type": "counter", "value": 1 }])).unwrap_err();
    assert!(error.contains("`a` is not the name of a sample of the counter `a`"), "{error}");
}

#[test]
fn too_large_message_is_rejected_while_decoding() {
    // The decoded form of each line is more than ten times as large.
    let text = "a 1\n".repeat(300_000).replace("a 1\na 1\n", "a 1\na{} 1\n");
    let error = decoded(EXPOSITION, &text).unwrap_err();
    assert!(error.contains("the decoded message exceeds its memory limit"), "{error}");
}

/// Response of the admin API of a running process.
const ADMIN_API: &str = include_str!("../fixtures/admin-api.prom");

#[test]
fn admin_api_response_is_unchanged_by_a_round_trip() {
    let value = decode(&mut codec(EXPOSITION), ADMIN_API.as_bytes()).unwrap();
    assert_eq!(value.as_array().unwrap().len(), 69);
    let written = String::from_utf8(encode(&mut codec(EXPOSITION), &value).unwrap()).unwrap();
    // A family without samples yields no event.
    let empty = "# HELP tremor_errors_total Errors of a connector after which it tried again or failed, by \
                 their kind.\n# TYPE tremor_errors_total counter\n";
    assert_eq!(written, ADMIN_API.replace(empty, ""));
}

/// Uses Prometheus' own tool, if it is installed; `TREMOR_PROMTOOL` sets its path.
#[test]
fn promtool_accepts_encoded_expositions() {
    let tool = env::var_os("TREMOR_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let others = decoded(OPEN, OPEN_METRICS).unwrap();
    let escapes = json!([{
        "name": "a_total", "type": "counter", "help": "\\ \n \" é",
        "labels": { "b": "\\n\n\"é" }, "value": "-Inf", "timestamp": -1_000_000,
    }]);
    let values = [decoded(EXPOSITION, SPECIFICATION), decoded(EXPOSITION, ADMIN_API)];
    let values = values.into_iter().map(Result::unwrap).chain([others, escapes]);
    for value in values {
        let mut command = Command::new(&tool);
        command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut checking) = command.stderr(Stdio::piped()).spawn() else {
            eprintln!(
                "SKIPPED: promtool is not installed (Debian's package prometheus; TREMOR_PROMTOOL=PATH)"
            );
            return;
        };
        let text = encoded(EXPOSITION, &value).unwrap();
        checking.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = checking.wait_with_output().unwrap();
        // The exit code is 0 or 3 if the tool can read the text (3 if it has advice on names), and
        // 1 otherwise.
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}: {text}");
        assert!(!said.contains("error"), "{said}: {text}");
    }
}

/// Generates events of an exposition.
fn samples() -> impl Strategy<Value = Json> {
    let labels = prop::collection::btree_map("[a-z_][a-z0-9_]{0,3}", ".{0,5}", 0..4);
    let kind = prop::sample::select(vec!["gauge", "untyped"]);
    let time = prop::option::of(any::<i32>());
    let sample = (labels, any::<f64>(), time);
    let family = (kind, prop::option::of("[^ \t\n].{0,9}"), prop::collection::vec(sample, 1..4));
    prop::collection::btree_map("[a-z_:][a-z0-9_:]{0,6}", family, 0..5).prop_map(|families| {
        let mut all = Vec::new();
        for (name, (kind, help, samples)) in families {
            for (labels, value, time) in samples {
                let mut sample = json!({ "name": name, "type": kind });
                if let Some(help) = &help {
                    sample["help"] = json!(help);
                }
                sample["labels"] = json!(labels);
                // JSON has only finite numbers.
                sample["value"] = json!(if value.is_finite() { value } else { 0.0 });
                if let Some(time) = time {
                    sample["timestamp"] = json!(i64::from(time) * 1_000_000);
                }
                all.push(sample);
            }
        }
        json!(all)
    })
}

proptest! {
    #[test]
    fn written_value_is_read_unchanged(samples in samples()) {
        for config in [EXPOSITION, OPEN] {
            let text = encoded(config, &samples).unwrap();
            prop_assert_eq!(decoded(config, &text), Ok(samples.clone()), "{}", text);
        }
    }

    #[test]
    fn parsing_of_any_text_never_panics(
        text in "(# (HELP|TYPE|UNIT|EOF) |a|_total|_bucket|\\{|\\}|le|=|\"|\\\\|,| |\n|1|é|NaN|gauge){0,30}",
    ) {
        for config in ["{}", EXPOSITION, OPEN] {
            let _ = decoded(config, &text);
        }
    }
}
