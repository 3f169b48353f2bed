//! Tests of built-in operators in flows: of their ports, the events that they buffer, and the events that they emit at
//! the end.

use std::fmt::Write as _;

use crate::tremor::Scene;

/// Returns a flow that reads `in`, passes it through these operators, and links each port of the pipeline to a
/// file of the same name.
fn scene(operators: &str, ports: &[&str], events: &str) -> Scene {
    let mut flow = String::from(
        "connectors:
  input: { type: file, preprocessors: [lines], codec: json, config: { path: in, mode: read } }\n",
    );
    for port in ports {
        let config = format!("{{ path: {port}, mode: write }}");
        writeln!(
            flow,
            "  to_{port}: {{ type: file, codec: json, postprocessors: [lines], config: {config} }}"
        )
        .unwrap();
    }
    writeln!(flow, "pipelines: {{ p: {{ operators: [{operators}] }} }}").unwrap();
    writeln!(flow, "links:\n  - input -> p").unwrap();
    for port in ports {
        writeln!(flow, "  - p/{port} -> to_{port}").unwrap();
    }
    Scene::new(&flow).write("in", events.as_bytes())
}

fn numbers(count: u32) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        writeln!(text, "{number}").unwrap();
        text
    })
}

#[test]
fn route_ports_lead_to_their_links() {
    let operators = "{ type: route, config: { rules: [
        { when: { field: '', less: 2 }, port: few },
        { when: { field: '', one_of: [3, 5] }, port: some },
        { when: { field: '', equals: 4 }, port: none } ] } }";
    let scene = scene(operators, &["few", "some", "out"], &numbers(7));
    scene.run().expect(0, &["7 events in, 6 out, 0 dead-lettered"]);
    assert_eq!(scene.read("few"), "0\n1\n");
    assert_eq!(scene.read("some"), "3\n5\n");
    assert_eq!(scene.read("out"), "2\n6\n");
}

#[test]
fn numbers_compare_by_decimal_value() {
    let operators = "{ type: route, config: { rules: [
        { when: { field: '', equals: 3.14159265358979323846 }, port: pi },
        { when: { field: '', one_of: [18446744073709551616, +.30000000000000000001] }, port: listed },
        { when: { field: '', less: 0.1 }, port: less },
        { when: { field: '', greater_or_equal: 9e99999 }, port: huge },
        { when: { not: { field: '', equals: 0.5000000000000000000001, not: true } }, port: half },
        ] } }, { type: dedupe, config: { by: [''], within: 1h } }";
    let events = "3.141592653589793\n3.14159265358979323846\n314159265358979323846e-20\n18446744073709551615
18446744073709551616\n0.30000000000000000001\n0.3\n0.0999999999999999999999\n0.1\n0.1000000000000000001
1e100000\n0.5000000000000000000001\n0.10\n10e-2\n";
    let scene = scene(operators, &["pi", "listed", "less", "huge", "half", "out"], events);
    scene.run().expect(0, &["14 events in", "0 dead-lettered"]);
    for (port, expected) in [
        ("pi", "3.14159265358979323846\n314159265358979323846e-20\n"),
        ("listed", "18446744073709551616\n0.30000000000000000001\n"),
        ("less", "0.0999999999999999999999\n"),
        ("huge", "1e100000\n"),
        ("half", "0.5000000000000000000001\n"),
        ("out", "3.141592653589793\n18446744073709551615\n0.3\n0.1\n0.1000000000000000001\n"),
    ] {
        assert_eq!(scene.read(port), expected, "{port}");
    }
}

#[test]
fn constants_and_new_fields_are_those_of_the_flow_file() {
    let operators = "{ type: set, config: { edits: [
            { field: z, value: { pi: 3.14159265358979323846, b: [1e400, 18446744073709551616], a: -0.0 } },
            { field: m.y, copy: none }, { field: k, value: 1.50 }, { field: m.x, value: 5 },
            { remove: [k.none, m.none] }] } },
        { type: select, config: { rename: { n: z2, k: c, one: a } } }";
    let scene = scene(operators, &["out"], "{\"one\":1,\"n\":2}\n");
    scene.run().expect(0, &["1 events in, 1 out"]);
    let expected = r#"{"z":{"pi":3.14159265358979323846,"b":[1e400,18446744073709551616],"a":-0.0},"m":{"x":5},"z2":2,"c":1.5,"a":1}"#;
    assert_eq!(scene.read("out"), format!("{expected}\n"));
}

#[test]
fn events_that_no_edit_changes_leave_as_they_came() {
    let operators = "{ type: set, config: { edits: [
            { remove: [none, a.b.c] }, { field: copy, copy: none.at.all }, { field: a, value: same },
            { field: '%was', copy: a }] } },
        { type: select, config: { drop: [none], rename: { none: some } } }";
    let events = "{ \"a\" : \"s\\u0061me\", \"n\" : 1.10 }\n{ \"a\" : \"other\", \"n\" : 1.10 }\n";
    let edited = scene(operators, &["out", "err"], events);
    edited.run().expect(0, &["2 events in, 2 out, 0 dead-lettered"]);
    let expected = "{ \"a\" : \"s\\u0061me\", \"n\" : 1.10 }\n{\"a\":\"same\",\"n\":1.1}\n";
    assert_eq!(edited.read("out"), expected);
    let operators =
        "{ type: set, config: { edits: [{ remove: [none] }, { field: copy, copy: none }] } }";
    let others = scene(operators, &["out"], "\"text\"\n[ 1 ]\nnull\n");
    others.run().expect(0, &["3 events in, 3 out, 0 dead-lettered"]);
    assert_eq!(others.read("out"), "\"text\"\n[ 1 ]\nnull\n");
}

#[test]
fn excess_events_go_to_overflow_and_events_without_rate_to_err() {
    let operators = "{ type: bucket, config: { class: c, rate: r, window: 1h } },
        { type: select, config: { keep: [n] } }";
    let events = r#"{"c":1,"r":1,"n":1}
{"c":1,"r":1,"n":2}
{"c":2,"r":1,"n":3}
{"c":2,"n":4}
"#;
    let scene = scene(operators, &["out", "overflow", "err"], events);
    scene.run().expect(0, &["4 events in, 3 out, 1 dead-lettered"]);
    assert_eq!(scene.read("out"), "{\"n\":1}\n{\"n\":3}\n");
    assert_eq!(scene.read("overflow"), "{\"c\":1,\"r\":1,\"n\":2}\n");
    assert!(scene.read("err").contains("has no rate: expected one at `r`"));
}

#[test]
fn open_window_is_emitted_when_flow_ends() {
    let operators = "{ type: dedupe, config: { by: [''], within: 1h } },
        { type: window, config: { events: 3, aggregates: { sum: { function: sum, field: '' } } } }";
    let scene = scene(operators, &["out"], "1\n2\n1\n3\n10\n");
    scene.run().expect(0, &["5 events in, 2 out"]);
    let out = scene.read("out");
    let sums: Vec<_> = out.lines().map(|line| line.split_once("\"sum\":").unwrap().1).collect();
    assert_eq!(sums, ["6}", "10}"]);
    assert!(out.lines().nth(1).unwrap().contains("\"partial\":true"), "{out}");
}

#[test]
fn invalid_operator_configuration_fails_check() {
    let operators = "{ type: filter, config: { all: [{ field: a }] } }";
    let run = scene(operators, &["out"], "").run();
    let expected =
        "operator type `filter`: `all[0]`: `field`: expected exactly one comparison for `a`";
    run.expect(2, &["flow.yaml:4:72: ", expected]);
}

#[test]
fn arrays_become_events_that_are_edited_and_sampled() {
    let operators = "{ type: unnest, config: { field: records, to: record } },
        { type: set, config: { edits: [
            { field: '%target', template: '{host}-{record.n}' },
            { field: record, copy: record.n },
            { field: region, value: '${env:TREMOR_REGION:-north}' },
            { field: name, copy: '%target' },
            { remove: [host] }] } },
        { type: sample, config: { every: 2 } }";
    let events = r#"{"host":"a","records":[{"n":1},{"n":2}]}
{"host":"b"}
{"host":"c","records":[]}
{"host":"d","records":[{"n":3}]}
"#;
    let scene = scene(operators, &["out", "err"], events);
    scene.run().expect(0, &["4 events in, 2 out, 1 dead-lettered", "2 discarded"]);
    assert_eq!(
        scene.read("out"),
        "{\"record\":1,\"region\":\"north\",\"name\":\"a-1\"}\n\
         {\"record\":3,\"region\":\"north\",\"name\":\"d-3\"}\n"
    );
    assert!(scene.read("err").contains("expected an array as `records`, found no such field"));
}

/// The source commits its position only after all events that replace an event were delivered.
#[test]
fn event_is_acknowledged_after_all_events_of_its_array() {
    let flow = "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: json
    config: { path: in, mode: read, checkpoint: at }
  output: { type: file, codec: logfmt, postprocessors: [lines], config: { path: out, mode: append } }
pipelines: { p: { operators: [{ type: unnest, config: { field: list, to: '' } }] } }
links: [input -> p -> output]";
    let scene = Scene::new(flow).write("in", b"{\"list\":[{\"n\":3},4]}\n");
    let run = scene.run();
    assert_ne!(run.status, Some(0), "`4` cannot be written: {}", run.stderr);
    // One of the two events was delivered, but the line is read again.
    let again = scene.write("in", b"{\"list\":[{\"n\":3},{}]}\n");
    again.run().expect(0, &["1 events in, 2 out"]);
    again.run().expect(0, &["0 events in"]);
}

#[test]
fn template_shows_times_and_rejects_other_values() {
    let operators = "{ type: set, config: { edits: [
        { field: day, missing: err, template: 'x/{t:+%F_%H|Asia/Tokyo}{{' },
        { field: zone, template: '{t:+%z|Asia/Tokyo:-none}' } ] } }";
    let events = "{\"t\":1700000000000000000}\n{\"t\":\"2026-11-29T23:30:00-01:00\"}\n{\"t\":\"today\"}\n{}\n";
    let scene = scene(operators, &["out", "err"], events);
    scene.run().expect(0, &["4 events in, 2 out, 2 dead-lettered"]);
    let expected = "{\"t\":1700000000000000000,\"day\":\"x/2023-11-15_07{\",\"zone\":\"+0900\"}\n\
        {\"t\":\"2026-11-29T23:30:00-01:00\",\"day\":\"x/2026-11-30_09{\",\"zone\":\"+0900\"}\n";
    assert_eq!(scene.read("out"), expected);
    let errors = scene.read("err");
    let reasons = ["as `t`, found another text", "as `t`, found no such field"];
    assert_eq!(errors.lines().count(), reasons.len(), "{errors}");
    for (line, reason) in errors.lines().zip(reasons) {
        assert!(
            line.contains("cannot set `day`: expected a time") && line.contains(reason),
            "{line}"
        );
    }
}

#[test]
fn mistakes_of_edits_and_samples_fail_check() {
    for (operator, expected) in [
        ("{ type: set, config: { edits: [] } }", "`edits`: expected at least one edit"),
        (
            "{ type: set, config: { edits: [{ field: a, template: 'x{b' }] } }",
            "`x{b`: invalid template: expected `}` after the field, `:-` and a default, or `:+` and the format of a time at offset 3",
        ),
        (
            "{ type: set, config: { edits: [{ field: a, template: '{a:+%F|Mars}' }] } }",
            "expected a time zone such as `Europe/Berlin`, `UTC` or `local`, found `Mars` at offset 7",
        ),
        ("{ type: set, config: { edits: [{ field: a..b, value: 1 }] } }", "`a..b`: invalid path"),
        ("{ type: unnest, config: { field: '%a' } }", "`field`: expected a field of the payload"),
        ("{ type: sample, config: {} }", "expected `every` or `rate`, found neither"),
    ] {
        let run = scene(operator, &["out"], "").tremor(&["check", "flow.yaml"]);
        run.expect(2, &["flow.yaml:4:", expected]);
    }
}

/// Events that would end the process or take its memory, each between two others.
#[test]
#[ignore = "builds the plugin `vrl` with its 400 packages, which takes minutes: `cargo xtask ci` does"]
fn hostile_events_of_a_vrl_program_are_rejected_alone() {
    let program = r#"
        if .do == "xml" { .x = length(parse_xml!(.a)) }
        if .do == "ruby" { .x = length(object!(parse_ruby_hash!(.a))) }
        if .do == "keys" { .x = unflatten!(object!(.a)) }
        if .do == "set" { .x = set!([], array!(.a), 1) }
        if .do == "zip" { .x = zip!(array!(.a)) }
        if .do == "nest" { x = 1; for_each(array!(.a)) -> |_, _| { x = [x] }; .x = x }
        if .do == "grow" { x = "x"; for_each(array!(.a)) -> |_, _| { x = x + x }; .x = x }
        if .do == "repeat" { .x = "x" * int!(.a) }
        .a = null
    "#;
    let hostile = [
        ("xml", format!("\"{}\"", "<a>".repeat(6_000) + &"</a>".repeat(6_000))),
        ("ruby", format!("\"{}\"", "{a: ".repeat(50_000))),
        ("keys", format!("{{\"{}\":1}}", "a.".repeat(50_000))),
        ("set", format!("[{}1]", "\"a\",".repeat(50_000))),
        ("set", "[400000000]".to_owned()),
        ("zip", "[]".to_owned()),
        ("nest", format!("[{}1]", "1,".repeat(50_000))),
        ("grow", format!("[{}1]", "1,".repeat(100))),
        ("repeat", "100000000000".to_owned()),
    ];
    let mut events = String::new();
    for (number, (action, value)) in hostile.iter().enumerate() {
        writeln!(events, "{{\"n\":{number}}}\n{{\"do\":\"{action}\",\"a\":{value}}}").unwrap();
    }
    let scene = scene("{ type: vrl, config: { file: program.vrl } }", &["out", "err"], &events);
    let scene = scene.write("program.vrl", program.as_bytes());
    scene.tremor_with_vrl(&["run", "flow.yaml"]).expect(0, &["18 events in"]);
    let good: String = (0..hostile.len()).fold(String::new(), |mut text, number| {
        writeln!(text, "{{\"n\":{number},\"a\":null}}").unwrap();
        text
    });
    assert_eq!(scene.read("out"), good);
    assert_eq!(scene.read("err").lines().count(), hostile.len());
}
