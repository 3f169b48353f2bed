//! The flows, each with three connectors.

use anyhow::Result;

use crate::scenario::Stage;

/// Events a second of a flow at an even pace.
const RATE: u32 = 100;
const LINE: &str = r#"{"id":17,"host":"host3","text":"a line as there are many","ok":true}"#;

/// What a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// One event, and no other for an hour.
    Idle,
    /// Events at an even pace, whose latency is measured.
    Even,
    /// As many events as it can.
    Full,
    /// Events to a sink that blocks its thread for good.
    Blocks,
}

/// Writes a file for each part; their names. What is measured begins after the warm-up, in seconds.
pub(super) fn write_all(
    stage: &Stage<'_>,
    parts: &[Part],
    warm_up: f64,
    seconds: f64,
) -> Result<Vec<String>> {
    stage.write("events.json", &(LINE.to_owned() + "\n"))?;
    let mut names = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let name = format!("flow-{number}.yaml");
        stage.write(&name, &text(number, *part, warm_up, seconds))?;
        names.push(name);
    }
    Ok(names)
}

fn text(number: usize, part: Part, warm_up: f64, seconds: f64) -> String {
    let bench =
        |more: &str| format!("type: bench, codec: json, config: {{ file: events.json, {more} }}");
    let (main, to, links) = match part {
        Part::Idle => (
            "type: metronome, config: { interval_ms: 3600000 }".to_owned(),
            "type: 'null'",
            "main -> pass -> to, pass/err -> errors",
        ),
        Part::Even => (
            bench(&format!(
                "rate: {RATE}, warmup_s: {warm_up}, duration_s: {seconds}, report: flow-{number}.json"
            )),
            "type: 'null'",
            "main -> pass -> main, pass -> to, pass/err -> errors",
        ),
        Part::Full => {
            (bench("duration_s: 3600"), "type: 'null'", "main -> pass -> to, pass/err -> errors")
        }
        Part::Blocks => (
            "type: metronome, config: { interval_ms: 1 }".to_owned(),
            // In the middle of the second that follows the first.
            "type: hostile, codec: json, config: { fault: deliver_block, after: 1500 }",
            "main -> pass -> to, pass/err -> errors",
        ),
    };
    format!(
        "connectors:
  main: {{ {main} }}
  to: {{ {to} }}
  errors: {{ type: 'null' }}
pipelines: {{ pass: {{ operators: [passthrough] }} }}
links: [{links}]
"
    )
}
