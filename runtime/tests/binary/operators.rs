//! Built-in operators in flows: their ports, what they hold back, what they emit at the end.

use std::fmt::Write as _;

use crate::tremor::Scene;

/// A flow that reads `in`, takes it through these operators and links the pipeline's ports to
/// files of their names.
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
fn every_port_of_a_route_leads_where_its_link_says() {
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
fn what_is_over_a_rate_overflows_and_what_has_none_is_a_dead_letter() {
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
    assert!(scene.read("err").contains("has no rate to be limited by: expected one at `r`"));
}

#[test]
fn a_window_emits_what_it_has_when_the_flow_ends() {
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
fn a_bad_configuration_is_found_when_the_flow_is_checked() {
    let operators = "{ type: filter, config: { all: [{ field: a }] } }";
    let run = scene(operators, &["out"], "").run();
    let expected =
        "operator type `filter`: `all[0]`: `field`: expected exactly one comparison for `a`";
    run.expect(2, &["flow.yaml:4:72: ", expected]);
}
