//! Tests that an event neither ends the process nor takes its memory, whatever the program does with it.
//!
//! The events are processed in a child process, which the operating system limits as well. If the child ends, the test
//! fails with the case that it was at.

#![cfg(target_os = "linux")]

mod cases;
mod draws;

use std::{
    env, fs,
    process::{Command, Stdio},
};

use serde_json::{Value as Json, json};
use tremor_pdk::{
    Batch, Component, Operator, Output,
    testing::{HostOutput, TestHost},
};

/// Variable that tells the child what to do.
const TASK: &str = "TREMOR_VRL_TASK";

/// Maximum memory that an event may take, in MiB: 128 MiB of converted fields, 64 MiB and twice the fields for the
/// program, and a few times as much while a function of VRL runs.
const MOST_MEBIBYTES: usize = 640;

/// Limits of the child: virtual memory in KiB, and processor time in seconds.
const SHELL: &str =
    "ulimit -v 4194304; ulimit -t \"$1\"; exec \"$0\" child --exact --ignored --nocapture";

/// Runs a task in a child process with this limit of processor time.
fn in_child(task: &str, seconds: u64) {
    let program = env::current_exe().expect("the test has a program");
    let output = Command::new("sh")
        .args(["-c", SHELL])
        .arg(program)
        .arg(seconds.to_string())
        .env(TASK, task)
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().rfind(|line| line.starts_with("case ")).unwrap_or("no case");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {last}\n{error}", output.status);
}

/// Announces a case, so that its name is known if the process ends. Returns the resident memory in MiB.
#[allow(clippy::print_stdout)]
fn announce(case: &str) -> usize {
    println!("case {case}");
    // Resets the peak of the resident memory.
    fs::write("/proc/self/clear_refs", "5").expect("the process may reset its peak");
    memory("VmRSS:")
}

/// Panics if the process took too much memory for the case, in addition to what it had before.
fn check_memory(case: &str, before: usize) {
    let taken = memory("VmHWM:").saturating_sub(before);
    assert!(taken <= MOST_MEBIBYTES, "{case}: the process took {taken} MiB");
}

/// Returns a value of the status of the process in MiB.
fn memory(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("the process has a status");
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    let value = value.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    value.expect("the status has the value") >> 10
}

/// Creates an operator, or returns the error of the program.
fn operator(source: &str) -> Result<operator_vrl::Vrl, String> {
    let config = operator_vrl::Config {
        source: Some(source.to_owned()),
        allow_environment: true,
        ..Default::default()
    };
    operator_vrl::Vrl::new(config, TestHost::new().context()).map_err(|error| error.to_string())
}

/// Processes an event. Returns the event, or the error of an event that is rejected.
fn process(operator: &mut operator_vrl::Vrl, event: &Json) -> Result<Json, String> {
    let (mut batch, mut output) = (Batch::new(), Output::new());
    batch.push(event).expect("the event can be copied to the batch");
    operator.process(&mut batch, &mut output).expect("no batch is an error");
    if let Some(rejected) = output.take_rejected().pop() {
        return Err(rejected.error.to_string());
    }
    let event = batch.first().expect("the event is not rejected");
    let value = event.value().expect("the event is decoded");
    Ok(serde_json::to_value(value).expect("it fits JSON"))
}

#[test]
fn event_that_exceeds_a_limit_is_rejected() {
    in_child("cases", 300);
}

#[test]
fn no_function_ends_the_process() {
    if let Ok(case) = env::var("TREMOR_HOSTILE_CASE") {
        return in_child(&format!("replay {case}"), 600);
    }
    let seconds = env::var("TREMOR_HOSTILE_SECONDS").ok().map(|text| text.parse::<u64>());
    let seconds = seconds.map(|parsed| parsed.expect("TREMOR_HOSTILE_SECONDS is a number"));
    in_child(&format!("draws {}", seconds.unwrap_or(0)), 600 + 4 * seconds.unwrap_or(0));
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn child() {
    match env::var(TASK).expect("another test set the task").split_once(' ') {
        None => cases::run(),
        Some(("replay", case)) => {
            let (function, seed) = case.split_once(' ').expect("the case is a function and a seed");
            draws::replay(function, seed.parse().expect("the seed is a number"));
        }
        Some((_, seconds)) => draws::run(seconds.parse().expect("the task has seconds")),
    }
}

/// Returns a JSON array that contains itself `levels` times.
fn nested(levels: usize) -> Json {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}
