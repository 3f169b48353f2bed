//! Tests of `tremor log`: the level of the log of a running process.

use crate::{
    api::{Asked, start_with},
    reload::scene,
};

/// Starts the flows `a` and `b` of [`scene`], with further flows and the level `info`. The sink of the flow `c` logs a
/// line of the level `debug` for each event.
fn run() -> Asked {
    let logs = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  bad: { type: hostile, err: discard, config: { fault: deliver_reject } }
links: [ticks -> bad]";
    let scene = scene().write("flows/c.yaml", logs.as_bytes());
    start_with(scene, &["flows"], 3, |command| command.env("TREMOR_LOG", "info"))
}

/// Runs `tremor log` with these arguments, and returns what it prints.
#[track_caller]
fn log(asked: &Asked, arguments: &[&str]) -> String {
    let run = asked.tremor(&[&["log"], arguments].concat());
    run.expect(0, &[]);
    run.stdout
}

/// Restarts the sink of a flow, and waits until it runs again.
fn restart(asked: &Asked, flow: &str, times: u64) {
    let path = format!("/v1/flows/{flow}/connectors/output");
    asked.json("POST", &format!("{path}/restart"));
    asked.until(&path, |it| it["restarts"] == times && it["state"] == "running");
}

#[test]
fn level_of_one_component_leaves_those_of_others() {
    let mut asked = run();
    assert_eq!(log(&asked, &[]), "info\n");
    assert_eq!(log(&asked, &["debug", "a/output"]), "info\ndebug a/output\n");
    restart(&asked, "b", 1);
    restart(&asked, "a", 1);
    let line = asked.until_log("state of the connector");
    assert!(line.contains("component=output") && line.ends_with(" flow=a"), "{line}");
    assert_eq!(log(&asked, &["default", "a/output"]), "info\n");
    let stderr = asked.end();
    let is_debug = |line: &&str| line.contains(" DEBUG ");
    assert!(stderr.lines().filter(is_debug).all(|it| it.ends_with(" flow=a")), "{stderr}");
}

#[test]
fn level_of_all_lines_changes_without_a_restart() {
    let asked = run();
    restart(&asked, "a", 1);
    assert_eq!(log(&asked, &["warn", "b/output"]), "info\nwarn  b/output\n");
    assert_eq!(log(&asked, &["ERROR"]), "error\n");
    restart(&asked, "a", 2);
    assert_eq!(log(&asked, &["default"]), "info\n");
    restart(&asked, "a", 3);
    let stderr = asked.end();
    let restarts = stderr.matches("the connector restarts because of a request").count();
    assert_eq!(restarts, 2, "{stderr}");
}

#[test]
fn lines_of_plugins_follow_the_level() {
    let mut asked = run();
    asked.until("/v1/flows/c/connectors/bad", |it| it["state"] == "running");
    log(&asked, &["debug", "c/bad"]);
    let line = asked.until_log("hostile: DeliverReject");
    assert!(line.contains(" DEBUG "), "{line}");
    asked.end();
}

#[test]
fn unknown_level_or_component_names_the_known_ones() {
    let asked = run();
    let fails = |arguments: &[&str], parts: &[&str]| {
        asked.tremor(&[&["log"], arguments].concat()).expect(1, parts);
    };
    fails(&["wran"], &["status 400: invalid level `wran`: expected `off`, `error`, `warn`"]);
    fails(&["info", "a/outptu"], &["there is no component `a/outptu`; did you mean `a/output`"]);
    fails(
        &["info", "archive"],
        &["there is no component `archive`; available: `a/ticks`, `a/output`"],
    );
    assert_eq!(log(&asked, &[]), "info\n");
    asked.end();
}
