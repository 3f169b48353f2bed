//! Tests of the preprocessors `multiline`, `cri` and `docker` with the program.

use std::{fs, io::Write};

use crate::{peer::wait_until, support::workspace, tremor::Scene};

#[test]
fn page_shows_the_messages_of_its_container_log() {
    let page = fs::read_to_string(workspace().join("docs/guide/multiline.md")).unwrap();
    let block = |start: &str| {
        let (_, after) = page.split_once(start).unwrap();
        &after[..after.find("```").unwrap()]
    };
    let scene = Scene::new(block("```yaml\n")).write("pod.log", block("```text\n").as_bytes());
    scene.run().expect(0, &["4 events in", "4 out"]);
    assert_eq!(scene.read("out.json"), block("```json\n"));
    assert_eq!(scene.read("errors.json"), "\"WARNING: deprecated option\"\n");
}

#[test]
fn check_finds_invalid_options() {
    for (config, expected) in [
        ("{}", "no rule states which lines belong together; set `preset`"),
        ("{ preset: java, begin: x }", "`begin`: cannot be combined with `preset`"),
        ("{ begin: 'a[' }", "unclosed character class"),
        ("{ preset: cobol }", "cobol"),
        ("{ begin: x, max_lines: 0 }", "max_lines"),
        ("{ starts: x }", "`starts`"),
    ] {
        let scene = Scene::new(&format!(
            "connectors:
  input: {{ type: stdio, preprocessors: [{{ multiline: {config} }}], codec: string }}
  output: {{ type: 'null' }}
links: [input -> output]"
        ));
        scene.tremor(&["check", "flow.yaml"]).expect(2, &["flow.yaml:2:", expected]);
    }
}

fn flow(timeout: &str) -> String {
    format!(
        "connectors:
  input:
    type: file
    preprocessors: [cri, {{ multiline: {{ preset: java, timeout: {timeout} }} }}]
    codec: string
    config: {{ path: in, mode: read, follow: true, poll_interval: 10ms, checkpoint: at }}
  output:
    type: file
    codec: json
    postprocessors: [lines]
    config: {{ path: out, mode: append, sync: batch }}
links: [input -> output]"
    )
}

/// A stack trace whose first lines were read before the program was killed is complete afterwards, although a later
/// message of the standard error was delivered. The timeout then passes it on, because the file does not grow.
#[test]
fn kill_within_a_stack_trace_loses_no_line() {
    let start = "2026 stdout F one\n2026 stdout F E: broken\n2026 stdout F \tat f\n\
        2026 stderr F x\n2026 stderr F y\n";
    let scene = Scene::new(&flow("1h")).write("in", start.as_bytes());
    let run_until = |scene: &Scene, messages: &[&str]| {
        let mut child = scene.command(&["run", "flow.yaml"]).spawn().unwrap();
        wait_until(|| {
            let out = if scene.has("out") { scene.read("out") } else { String::new() };
            messages.iter().all(|message| out.contains(message))
        });
        child.kill().unwrap();
        child.wait().unwrap();
    };
    run_until(&scene, &["\"one\"\n", "\"x\"\n"]);
    assert!(!scene.read("out").contains("broken"));
    let mut file = fs::File::options().append(true).open(scene.path().join("in")).unwrap();
    file.write_all(b"2026 stdout F \tat g\n").unwrap();
    let scene = scene.write("flow.yaml", flow("50ms").as_bytes());
    run_until(&scene, &["\"E: broken\\n\\tat f\\n\\tat g\"\n", "\"y\"\n"]);
}
