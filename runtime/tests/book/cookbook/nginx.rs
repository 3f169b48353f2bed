//! Tests of the page "Access logs of nginx to HTTP".

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
};

use serde_json::Value;

use super::{Kitchen, collector::Collector, counts, flows, values};

/// Lines that each part of the test writes.
const LINES: usize = 200;

fn line(number: usize) -> String {
    format!(
        "203.0.113.7 - - [26/Nov/2026:20:35:46 +0000] \"GET /{number} HTTP/1.1\" 200 612 \"-\" \"curl\"\n"
    )
}

/// Appends the lines of a part to the log, with a line in another format at the end.
fn write(kitchen: &Kitchen, part: usize) {
    let log = kitchen.log("nginx/access.log");
    let mut file = File::options().append(true).create(true).open(log).unwrap();
    for number in part * LINES..(part + 1) * LINES {
        file.write_all(line(number).as_bytes()).unwrap();
    }
    writeln!(file, "unknown {part}").unwrap();
}

/// Checks that the endpoint and the file of dead letters together have each line.
fn has_each_line(events: &[Value], parts: usize) -> bool {
    let paths: BTreeSet<_> =
        events.iter().filter_map(|event| event["path"].as_str()).map(str::to_owned).collect();
    (0..parts * LINES).all(|number| paths.contains(&format!("/{number}")))
}

/// The endpoint rejects all requests while the log is rotated in both ways and the process is killed.
#[test]
fn rotation_kill_and_rejections_lose_no_line() {
    let kitchen = Kitchen::new();
    let (log, flow) = (kitchen.log("nginx/access.log"), &flows("nginx.md")[0]);
    fs::create_dir(kitchen.log("nginx")).unwrap();
    let collector = Collector::start(500);
    let replaced = [("logs.example.com:8080", collector.address())];
    write(&kitchen, 0);
    let running = kitchen.start(flow, &replaced, &[]);
    collector.until_answered(500);
    collector.answer(429);
    // `create`: logrotate renames the file, and nginx creates another one.
    fs::rename(&log, kitchen.log("nginx/access.log.1")).unwrap();
    write(&kitchen, 1);
    collector.until_answered(429);
    running.signal(&["KILL"]);
    drop(running);
    // `copytruncate`: logrotate renames older files, copies the file, and truncates it.
    fs::rename(kitchen.log("nginx/access.log.1"), kitchen.log("nginx/access.log.2")).unwrap();
    fs::copy(&log, kitchen.log("nginx/access.log.1")).unwrap();
    File::create(&log).unwrap();
    write(&kitchen, 2);
    collector.answer(503);
    let running = kitchen.start(flow, &replaced, &[]);
    collector.until_answered(503);
    collector.answer(200);
    let events = collector.until(|events| has_each_line(events, 3));
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);

    assert_eq!(events[0]["status"], 200);
    assert_eq!(events[0]["client"], "203.0.113.7");
    assert!(events[0]["host"].is_string(), "{}", events[0]);
    let dead = counts(&values(&kitchen.state("dead.json")), "/original");
    assert_eq!(dead.into_keys().collect::<Vec<_>>(), ["unknown 0", "unknown 1", "unknown 2"]);
}
