use std::time::Duration;

use tremor_pdk::{
    Batch, Component, Error, ErrorKind, EventRef, LogLevel, Number, Operator, Output, Value,
    literal,
    testing::{HostBatch, HostOutput, TestHost},
};

use super::{Config, Vrl};

fn config(source: &str) -> Config {
    Config { source: Some(source.to_owned()), ..Config::default() }
}

fn operator(config: Config) -> Vrl {
    Vrl::new(config, TestHost::new().context()).unwrap()
}

fn batch(events: &[Value<'static>]) -> Batch {
    let mut batch = Batch::new();
    events.iter().for_each(|event| batch.push(event).unwrap());
    batch
}

/// Returns the events and their metadata as text.
fn seen(batch: &Batch) -> Vec<String> {
    let text = |event: EventRef<'_>| {
        let metadata = event.metadata().map(|found| format!(" {found}")).unwrap_or_default();
        format!("{}{metadata}", event.value().unwrap())
    };
    batch.iter().map(text).collect()
}

/// Returns the event after the program, with its metadata if it has any.
pub(crate) fn run(source: &str, event: Value<'static>) -> Result<String, Error> {
    run_with(config(source), batch(&[event]))
}

fn run_with(config: Config, mut batch: Batch) -> Result<String, Error> {
    let mut output = Output::new();
    // The second run detects state that is kept from one event to the next.
    let mut again = batch.clone();
    let mut operator = operator(config);
    operator.process(&mut again, &mut Output::new()).unwrap();
    operator.process(&mut batch, &mut output).unwrap();
    assert_eq!(seen(&batch), seen(&again));
    batch.validate().unwrap();
    match output.take_rejected().pop() {
        Some(rejected) => Err(rejected.error),
        None => Ok(seen(&batch).remove(0)),
    }
}

#[test]
fn program_edits_the_event_as_vrl_defines() {
    let event = || literal!({ "a": { "b": 1, "c": [1, { "d": 2 }] }, "s": "Text", "n": null });
    for (source, expected) in [
        // A program that does nothing changes nothing.
        ("true", r#"{"a":{"b":1,"c":[1,{"d":2}]},"s":"Text","n":null}"#),
        (".s = downcase!(.s)", r#"{"a":{"b":1,"c":[1,{"d":2}]},"s":"text","n":null}"#),
        (
            ".a.b = 2; .x.y = .a.b",
            r#"{"a":{"b":2,"c":[1,{"d":2}]},"s":"Text","n":null,"x":{"y":2}}"#,
        ),
        (".a = .a.b", r#"{"a":1,"s":"Text","n":null}"#),
        // A path within a value that is not an object replaces the value.
        (".s.t.u = true", r#"{"a":{"b":1,"c":[1,{"d":2}]},"s":{"t":{"u":true}},"n":null}"#),
        ("del(.a); del(.absent)", r#"{"s":"Text","n":null}"#),
        ("del(.a.b); .a.gone = 1; del(.a.gone)", r#"{"a":{"c":[1,{"d":2}]},"s":"Text","n":null}"#),
        (".e.x = 1; del(.e.x)", r#"{"a":{"b":1,"c":[1,{"d":2}]},"s":"Text","n":null,"e":{}}"#),
        (
            ".e.x = 1; del(.e.x, compact: true)",
            r#"{"a":{"b":1,"c":[1,{"d":2}]},"s":"Text","n":null}"#,
        ),
        ("del(.a.b, compact: true); del(.a.c, compact: true)", r#"{"s":"Text","n":null}"#),
        // Arrays.
        (
            ".x = .a.c[1].d; .y = .a.c[-2]; .z = .a.c[5]",
            r#"{"a":{"b":1,"c":[1,{"d":2}]},"s":"Text","n":null,"x":2,"y":1,"z":null}"#,
        ),
        (
            ".a.c[0] = 5; .a.c[3] = true",
            r#"{"a":{"b":1,"c":[5,{"d":2},null,true]},"s":"Text","n":null}"#,
        ),
        ("del(.a.c[0])", r#"{"a":{"b":1,"c":[{"d":2}]},"s":"Text","n":null}"#),
        (
            "del(.a.b); del(.a.c[0], compact: true); del(.a.c[0].d, compact: true)",
            r#"{"s":"Text","n":null}"#,
        ),
        (
            ".l = push!(.a.c, .s)",
            r#"{"a":{"b":1,"c":[1,{"d":2}]},"s":"Text","n":null,"l":[1,{"d":2},"Text"]}"#,
        ),
        // An absent field is not null.
        (
            ". = [exists(.n), exists(.m), exists(.a.b), exists(.a.c[1].d), exists(.s.t)]",
            "[true,false,true,true,false]",
        ),
        // The whole event.
        (r#". = { "only": .s }"#, r#"{"only":"Text"}"#),
        (".count = length(.)", r#"{"a":{"b":1,"c":[1,{"d":2}]},"s":"Text","n":null,"count":3}"#),
        (". = merge(., { \"s\": 1 }); .t = .s; del(.a)", r#"{"n":null,"s":1,"t":1}"#),
        (". = compact(.); .a.b = .a.b + 1 ?? 0", r#"{"a":{"b":2,"c":[1,{"d":2}]},"s":"Text"}"#),
        ("del(.)", "{}"),
        (
            ". = map_keys(.) -> |key| { upcase(key) }",
            r#"{"A":{"b":1,"c":[1,{"d":2}]},"N":null,"S":"Text"}"#,
        ),
        ("x = 0; for_each(.) -> |_key, _value| { x = x + 1 }; . = x", "3"),
        (r#". = { "k": get!(., ["a", "b"]) }"#, r#"{"k":1}"#),
        (
            ". = unnest!(.a.c)",
            r#"[{"a":{"b":1,"c":1},"n":null,"s":"Text"},{"a":{"b":1,"c":{"d":2}},"n":null,"s":"Text"}]"#,
        ),
    ] {
        assert_eq!(run(source, event()).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn event_may_have_any_type() {
    for (source, event, expected) in [
        (". = parse_json!(string!(.))", literal!(r#"{ "a": 1 }"#), r#"{"a":1}"#),
        (".a = 1", literal!([1]), r#"{"a":1}"#),
        ("x = .a", literal!(7), "7"),
    ] {
        assert_eq!(run(source, event).as_deref(), Ok(expected), "{source}");
    }
}

/// Returns a number that is stored as text.
fn number(text: &'static str) -> Value<'static> {
    Value::Number(Number::new(text).unwrap())
}

#[test]
fn values_are_converted_as_documented() {
    for (source, event, expected) in [
        // An integer that exceeds a signed 64-bit integer is unchanged if the program does not use
        // it. Otherwise it becomes a float, as in VRL's JSON.
        (".x = 1", literal!({ "big": u64::MAX }), r#"{"big":18446744073709551615,"x":1}"#),
        (
            ".x = is_float(.big)",
            literal!({ "big": u64::MAX }),
            r#"{"big":18446744073709551615,"x":true}"#,
        ),
        (
            ".x = .min",
            literal!({ "min": i64::MIN }),
            r#"{"min":-9223372036854775808,"x":-9223372036854775808}"#,
        ),
        (
            ".x = int!(.id) + 1",
            literal!({ "id": number("9007199254740993") }),
            r#"{"id":9007199254740993,"x":9007199254740994}"#,
        ),
        (
            ".x = is_float(.price)",
            literal!({ "price": number("1.10") }),
            r#"{"price":1.10,"x":true}"#,
        ),
        (
            ". = [is_null(.nan), .inf == 1.0]",
            literal!({ "nan": f64::NAN, "inf": f64::INFINITY }),
            "[true,false]",
        ),
        (". = t'2021-02-03T04:05:06.789+01:00'", literal!(0), r#""2021-02-03T03:05:06.789Z""#),
        (". = r'a+'", literal!(0), r#""a+""#),
        (". = encode_base64(string!(.b))", literal!({ "b": "ä" }), r#""w6Q=""#),
        (r#". = decode_base64!("w6Q=")"#, literal!(0), r#""ä""#),
    ] {
        assert_eq!(run(source, event).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn bytes_that_are_not_utf8_stay_bytes() {
    let mut events = batch(&[
        literal!({ "data": Value::from(vec![0xff, 0x00]), "text": Value::from(b"ab".to_vec()) }),
    ]);
    operator(config(".copy = .data; .word = .text; %copy = .data"))
        .process(&mut events, &mut Output::new())
        .unwrap();
    let event = events.first().unwrap();
    let value = event.value().unwrap();
    assert_eq!(value.get("copy").unwrap().as_bytes(), Some(&[0xff, 0x00][..]));
    assert_eq!(value.get("text").unwrap().as_bytes(), Some(&b"ab"[..]));
    assert_eq!(value.get("word").unwrap().as_str(), Some("ab"));
    assert_eq!(event.metadata().unwrap().get("copy").unwrap().as_bytes(), Some(&[0xff, 0x00][..]));
}

#[test]
fn metadata_is_read_and_written() {
    let with = |metadata: Option<Value<'static>>| {
        let mut batch = batch(&[literal!({ "a": 1 })]);
        if let Some(metadata) = metadata {
            batch.last_mut().unwrap().set_metadata(metadata);
        }
        batch
    };
    let known = || Some(literal!({ "k": "v", "n": { "m": 1 } }));
    for (source, metadata, expected) in [
        ("%x = .a; %y = [%x]; %x = %none", None, r#"{"a":1} {"x":null,"y":[1]}"#),
        ("%x.y = 1", None, r#"{"a":1} {"x":{"y":1}}"#),
        ("%x = 1; del(%x)", None, r#"{"a":1} {}"#),
        ("del(%x)", None, r#"{"a":1}"#),
        (".m = %", None, r#"{"a":1,"m":{}}"#),
        (".m = %", known(), r#"{"a":1,"m":{"k":"v","n":{"m":1}}} {"k":"v","n":{"m":1}}"#),
        (".m = %k", known(), r#"{"a":1,"m":"v"} {"k":"v","n":{"m":1}}"#),
        ("%n.m = 2; %z = %k", known(), r#"{"a":1} {"k":"v","n":{"m":2},"z":"v"}"#),
        ("del(%n.m, compact: true)", known(), r#"{"a":1} {"k":"v"}"#),
        (r#"% = { "new": %k }"#, known(), r#"{"a":1} {"new":"v"}"#),
        (r#"% = { "new": 1 }"#, None, r#"{"a":1} {"new":1}"#),
    ] {
        assert_eq!(run_with(config(source), with(metadata)).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn event_of_a_failed_program_is_rejected_unchanged() {
    for (source, cause) in [
        (".x = 1; abort", "the program aborted: aborted"),
        (r#".x = 1; abort "not today""#, "the program aborted: not today"),
        (".x = 1; .y = downcase!(.a)", "the program failed: function call error for \"downcase\""),
        (
            "%x = 1; .y = parse_json!(\"{\")",
            "the program failed: function call error for \"parse_json\"",
        ),
        (".y = to_int!(.a) + 1; assert!(.y == 3, \"it is three\")", "it is three"),
    ] {
        let mut events = batch(&[literal!({ "a": 1 })]);
        let mut output = Output::new();
        operator(config(source)).process(&mut events, &mut output).unwrap();
        assert!(events.is_empty());
        let rejected = output.take_rejected().remove(0);
        assert_eq!(rejected.error.kind(), ErrorKind::BAD_DATA);
        assert!(rejected.error.to_string().contains(cause), "{}", rejected.error);
        assert_eq!(events.value(&rejected.event).unwrap(), literal!({ "a": 1 }).view());
        assert!(events.metadata(&rejected.event).is_none());
    }
}

#[test]
fn abort_may_discard_event_and_error_rejects_it() {
    let config = Config {
        drop_on_abort: true,
        ..config(
            "if .a == 1 { abort } else if .a == 2 { .b = to_int!(.s) } else { return . }; .x = 1",
        )
    };
    let mut events =
        batch(&[literal!({ "a": 1 }), literal!({ "a": 2, "s": "x" }), literal!({ "a": 3 })]);
    let mut output = Output::new();
    operator(config).process(&mut events, &mut output).unwrap();
    assert_eq!(seen(&events), [r#"{"a":3}"#]);
    assert_eq!((output.take_discarded(), output.rejected().len()), (1, 1));
}

#[test]
fn event_leaves_by_the_port_that_the_program_sets() {
    let config = Config {
        ports: vec!["a".into(), "b".into()],
        ..config("if exists(.to) { %port = .to }; .seen = true")
    };
    let mut vrl = operator(config);
    assert_eq!(vrl.ports(), ["a", "b"]);
    let event = |to: &'static str| literal!({ "to": to });
    let mut events = batch(&[
        event("b"),
        literal!({}),
        event("a"),
        event("c"),
        event("b"),
        literal!({ "to": null }),
        event("out"),
        literal!({ "to": 1 }),
    ]);
    // Metadata from before the program does not select a port.
    events.get_mut(1).unwrap().set_metadata(literal!({ "port": "a" }));
    let mut output = Output::new();
    vrl.process(&mut events, &mut output).unwrap();
    assert_eq!(
        seen(&events),
        [
            r#"{"seen":true} {"port":"a"}"#,
            r#"{"to":null,"seen":true} {"port":null}"#,
            r#"{"to":"out","seen":true} {"port":"out"}"#,
        ]
    );
    let ports: Vec<_> = output.take_ports().map(|out| (out.port, seen(&out.batch))).collect();
    let b = r#"{"to":"b","seen":true} {"port":"b"}"#.to_owned();
    assert_eq!(
        ports,
        [(1, vec![b.clone(), b]), (0, vec![r#"{"to":"a","seen":true} {"port":"a"}"#.to_owned()])]
    );
    let causes: Vec<_> = output.take_rejected().iter().map(|gone| gone.error.to_string()).collect();
    assert!(causes[0].contains(r#"`%port` to "c"; `ports` has: a, b"#), "{causes:?}");
    assert_eq!(causes.len(), 2);
}

#[test]
fn undecoded_event_is_rejected() {
    let mut events = Batch::new();
    events.push_message(b"{}");
    let mut output = Output::new();
    operator(config(".x = 1")).process(&mut events, &mut output).unwrap();
    assert!(output.rejected()[0].error.to_string().contains("`codec`"));
}

#[test]
fn invalid_configuration_is_rejected_with_a_remedy() {
    let cases = [
        (Config::default(), "set `source`"),
        (Config { file: Some("x".into()), ..config(".") }, "both `source` and `file`"),
        (
            Config { file: Some("/nowhere/program.vrl".into()), ..Config::default() },
            "/nowhere/program.vrl",
        ),
        (config(".a = downcase(.b)"), "error[E103]: unhandled fallible assignment"),
        (config(".a = "), "syntax error"),
        (config(".a = nothing(.b)"), "call to undefined function"),
        (config(".a = get_env_var!(\"HOME\")"), "set `allow_environment: true`"),
        (config(".a = get_hostname!()"), "set `allow_environment: true`"),
        (config(".a = dns_lookup!(\"localhost\")"), "`allow_environment: true`"),
        (
            Config { timezone: Some("Nowhere".into()), ..config("true") },
            "invalid `timezone` `Nowhere`",
        ),
        (Config { ports: vec!["a".into()], ..config("true") }, "never sets `%port`"),
        (Config { ports: vec!["err".into()], ..config("%port = .a") }, "`err`"),
        (
            Config { ports: vec!["a".into(), "a".into()], ..config("%port = .a") },
            "`a` appears twice",
        ),
    ];
    for (config, position) in cases {
        let error = Vrl::new(config, TestHost::new().context()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(error.to_string().contains(position), "{position}: {error}");
        assert!(!error.to_string().contains('\u{1b}'), "colours: {error}");
    }
}

#[test]
fn environment_can_be_allowed() {
    let config = Config { allow_environment: true, ..config(". = is_string(get_hostname!())") };
    assert_eq!(run_with(config, batch(&[literal!(0)])).as_deref(), Ok("true"));
}

#[test]
fn configured_time_zone_applies_to_times_without_one() {
    let source = r#". = parse_timestamp!("2021-07-01 12:00:00", "%F %T")"#;
    for (timezone, expected) in [(None, "12"), (Some("Europe/Berlin".to_owned()), "10")] {
        let config = Config { timezone, ..config(source) };
        let seen = run_with(config, batch(&[literal!(0)])).unwrap();
        assert_eq!(seen, format!("\"2021-07-01T{expected}:00:00Z\""));
    }
}

#[test]
fn program_file_is_relative_to_the_flow_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program.vrl"), ".x = 1").unwrap();
    let host = TestHost::new();
    host.set_folder(folder.path());
    let config = |file: &str| Config { file: Some(file.to_owned()), ..Config::default() };
    let mut events = batch(&[literal!({})]);
    let mut operator = Vrl::new(config("program.vrl"), host.context()).unwrap();
    operator.process(&mut events, &mut Output::new()).unwrap();
    assert_eq!(seen(&events), [r#"{"x":1}"#]);
    let error = Vrl::new(config("other.vrl"), host.context()).unwrap_err();
    assert!(error.to_string().contains("other.vrl"), "{error}");
}

#[test]
fn warning_of_vrl_is_logged_once() {
    let host = TestHost::new();
    let mut operator = Vrl::new(config("true; .x = 1"), host.context()).unwrap();
    for _ in 0..2 {
        operator.process(&mut batch(&[literal!({})]), &mut Output::new()).unwrap();
    }
    let log = host.log();
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].0 == LogLevel::WARN && log[0].1.contains("unused literal"), "{log:?}");
}

#[test]
fn log_writes_to_the_log_of_the_host_at_most_once_a_second() {
    let host = TestHost::new();
    let source = r#"log(.n, level: "error"); log("each", rate_limit_secs: 0)"#;
    let mut operator = Vrl::new(config(source), host.context()).unwrap();
    let mut run = |n: u64| {
        operator.process(&mut batch(&[literal!({ "n": n })]), &mut Output::new()).unwrap();
    };
    run(1);
    run(2);
    host.advance(Duration::from_secs(1));
    run(3);
    let lines: Vec<_> = host.log().into_iter().map(|(level, line)| (level.0, line)).collect();
    let (error, info) = (LogLevel::ERROR.0, LogLevel::INFO.0);
    let expected = [(error, "1"), (info, "each"), (info, "each"), (error, "3"), (info, "each")];
    assert_eq!(lines, expected.map(|(level, line)| (level, line.to_owned())));
}

/// The functions and arguments panic in the crate. If a later version returns errors instead, the events still fail.
#[test]
fn panic_of_a_function_costs_only_its_event() {
    for (source, good, bad) in [
        (".x = snakecase!(.a)", Value::from("oneTwo"), Value::Null),
        (".x = format_number!(.a, scale: 2)", Value::from(1.5), Value::from(1e300)),
    ] {
        let mut operator = operator(config(source));
        let event = |value: &Value<'static>| literal!({ "a": value.clone() });
        let mut batch = batch(&[event(&good), event(&bad), event(&good)]);
        let mut output = Output::new();
        operator.process(&mut batch, &mut output).unwrap();
        let rejected = output.take_rejected();
        assert_eq!((batch.len(), rejected.len()), (2, 1), "{source}");
        assert_eq!(rejected[0].error.kind(), ErrorKind::BAD_DATA, "{source}");
        let seen = seen(&batch);
        assert!(seen[0] == seen[1] && seen[0].contains("\"x\":"), "{source}: {seen:?}");
    }
}
