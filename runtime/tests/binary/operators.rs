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
fn mistakes_of_edits_and_samples_fail_check() {
    for (operator, expected) in [
        ("{ type: set, config: { edits: [] } }", "`edits`: expected at least one edit"),
        (
            "{ type: set, config: { edits: [{ field: a, template: 'x{b' }] } }",
            "`x{b`: invalid template: expected `}` after the field, or `:-` and a default at offset 3",
        ),
        ("{ type: set, config: { edits: [{ field: a..b, value: 1 }] } }", "`a..b`: invalid path"),
        ("{ type: unnest, config: { field: '%a' } }", "`field`: expected a field of the payload"),
        ("{ type: sample, config: {} }", "expected `every` or `rate`, found neither"),
    ] {
        let run = scene(operator, &["out"], "").tremor(&["check", "flow.yaml"]);
        run.expect(2, &["flow.yaml:4:", expected]);
    }
}
