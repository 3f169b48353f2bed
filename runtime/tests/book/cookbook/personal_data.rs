//! Tests of the page "Personal data masked before it leaves".

use std::fs::{self, File};
use std::io::Write;

use serde_json::Value;

use super::{Kitchen, collector::Collector, flows, values};
use crate::{
    peer::wait_until,
    redact::{KEY, without_hashes},
    running::Running,
    support::workspace,
};

/// Returns the events of the page: before and after the flow.
fn events() -> [Value; 2] {
    let page = workspace().join("docs/guide/cookbook/personal-data.md");
    let text = fs::read_to_string(page).unwrap();
    let blocks = text.split("```json\n").skip(1).filter_map(|block| block.split("```").next());
    let events: Vec<_> = blocks.map(|block| serde_json::from_str(block).unwrap()).collect();
    events.try_into().unwrap()
}

#[test]
fn personal_data_is_neither_in_requests_nor_in_dead_letters() {
    let kitchen = Kitchen::new();
    fs::create_dir(kitchen.log("apps")).unwrap();
    let [event, mut expected] = events();
    let mut second = event.clone();
    second["level"] = "info".into();
    second["refuse"] = true.into();
    let mut input = File::create(kitchen.log("apps/a.json")).unwrap();
    writeln!(input, "{event}\nnot JSON of bob@example.com\n{second}").unwrap();
    let collector = Collector::start(200);
    collector.answer_by(
        |events| {
            if events.iter().any(|event| event["refuse"] == true) { 400 } else { 200 }
        },
    );
    let replaced =
        [("logs.example.com:8080", collector.address()), ("/etc/tremor/redact.key", "redact.key")];
    let scene = kitchen
        .flow(&flows("personal-data.md")[0], &replaced)
        .write("redact.key", format!("{KEY}\n").as_bytes());
    scene.tremor(&["check", "--deny-warnings", "flow.yaml"]).expect(0, &[]);
    let running = Running::of(scene, &["flow.yaml"], |command| command);
    let sent = collector.until(|events| !events.is_empty());
    let (dead, unread) = (kitchen.state("dead.json"), kitchen.state("unread.json"));
    wait_until(|| values(&dead).len() == 1 && values(&unread).len() == 1);
    running.signal(&["TERM"]);
    let run = running.end();
    run.expect(0, &[]);

    let [mut first] = <[Value; 1]>::try_from(sent).unwrap();
    let pseudonym = first["user"]["id"].clone();
    without_hashes(&mut first);
    assert_eq!(first, expected);
    assert_eq!(values(&unread)[0]["original"], "not JSON of bob@example.com");
    let mut refused = values(&dead)[0]["original"].take();
    assert_eq!(refused["user"]["id"], pseudonym);
    without_hashes(&mut refused);
    expected["level"] = "info".into();
    expected["refuse"] = true.into();
    expected["retention"] = "30d".into();
    assert_eq!(refused, expected);
    assert!(!run.stderr.contains("bob"), "{}", run.stderr);
    assert!(!run.stderr.contains(KEY), "{}", run.stderr);
}
