//! Tests of many flows in one process, and of the limits of descriptors.

use std::process::{Command, Stdio};

use crate::tremor::{Run, Scene, finish};

/// A flow of three connectors and five events.
const FLOW: &str = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1, count: 5 } }
  output: { type: 'null' }
  errors: { type: 'null' }
pipelines: { pass: { operators: [passthrough] } }
links: [ticks -> pass -> output, pass/err -> errors]";

#[test]
fn hundred_flows_run_in_one_process() {
    let names: Vec<String> = (0..100).map(|number| format!("flow-{number}.yaml")).collect();
    let scene = names.iter().fold(Scene::new(FLOW), |scene, it| scene.write(it, FLOW.as_bytes()));
    let arguments: Vec<&str> = ["run"].into_iter().chain(names.iter().map(|it| &**it)).collect();
    let run = scene.tremor(&arguments);
    run.expect(0, &[]);
    assert_eq!(run.stderr.matches("5 events in, 5 out, 0 dead-lettered").count(), 100);
}

#[test]
fn crash_in_check_of_several_flows_names_its_flow() {
    let flow = |config: &str| {
        format!(
            "connectors:
  input: {{ type: hostile, config: {{ {config} }} }}
  output: {{ type: 'null' }}
links: [input -> output]"
        )
    };
    let scene = Scene::new(&flow("count: 1"))
        .write("bad.yaml", flow("fault: check_crash").as_bytes())
        .write("wrong.yaml", flow("fault: none, cuont: 1").as_bytes())
        .write("good.yaml", flow("count: 2").as_bytes());
    let run = scene.tremor(&["check", "flow.yaml", "bad.yaml", "good.yaml"]);
    run.expect(2, &["bad.yaml:2:"]);
    assert!(!run.stderr.contains("flow.yaml:") && !run.stderr.contains("good.yaml:"));
    let run = scene.tremor(&["check", "flow.yaml", "wrong.yaml"]);
    run.expect(2, &["wrong.yaml:2:", "cuont"]);
    assert!(!run.stderr.contains("flow.yaml:"), "{}", run.stderr);
    scene.tremor(&["check", "flow.yaml", "good.yaml"]).expect(0, &[]);
}

/// Runs a flow with a soft limit of 64 descriptors and a hard limit of 128.
fn run_limited(scene: &Scene) -> Run {
    let of = scene.command(&["run", "flow.yaml"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn 64; ulimit -Hn 128; exec \"$0\" \"$@\""]);
    shell.arg(of.get_program()).args(of.get_args()).current_dir(scene.path());
    of.get_envs().for_each(|(name, value)| _ = value.map(|value| shell.env(name, value)));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Run::of(&finish(shell.spawn().unwrap()))
}

#[test]
fn process_raises_descriptor_limit_to_hard_limit() {
    let scene = Scene::new(
        "connectors:
  input: { type: file, codec: string, preprocessors: [lines], config: { path: /proc/self/limits, mode: read } }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]",
    );
    let run = run_limited(&scene);
    run.expect(0, &[]);
    let limit = run.stdout.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let limits: Vec<&str> = limit.split_whitespace().skip(3).take(2).collect();
    assert_eq!(limits, ["128", "128"], "{limit}");
}

#[test]
fn child_processes_have_the_inherited_descriptor_limit() {
    let scene = Scene::new(
        "connectors:
  process:
    type: exec
    codec: string
    preprocessors: [lines]
    config: { command: sh, args: [-c, 'ulimit -Sn; ulimit -Hn'] }
  terminal: { type: stdio, codec: string, postprocessors: [lines] }
links: [process -> terminal]",
    );
    let run = run_limited(&scene);
    run.expect(0, &[]);
    assert_eq!(run.stdout, "64\n128\n");
}
