//! Tests of the page "Everything to S3 by day and hour".

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use flate2::read::GzDecoder;
use hostile_peers::http::{Request, Server, response};
use serde_json::Value;

use super::{Kitchen, flows};
use crate::peer::wait_until;

/// Lines that each part of the test writes.
const LINES: usize = 200;

/// A bucket that stores objects of one request, or is overloaded.
struct Bucket {
    server: Server,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_overloaded: bool,
    /// Number of requests that were refused.
    refused: usize,
    /// Contents of objects, by the path of their request.
    objects: BTreeMap<String, Vec<u8>>,
}

impl Bucket {
    fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let served = state.clone();
        let server = Server::start(move |request| answer(request, &served));
        Self { server, state }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the events of all objects.
    fn events(&self) -> Vec<Value> {
        let objects: Vec<_> = self.with(|state| state.objects.values().cloned().collect());
        let mut events = Vec::new();
        for object in objects {
            let mut text = String::new();
            GzDecoder::new(&*object).read_to_string(&mut text).unwrap();
            events.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        events
    }
}

fn answer(request: &Request, state: &Mutex<State>) -> Vec<u8> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let authorization = request.header("authorization").unwrap_or_default();
    assert!(authorization.contains("Credential=AKIAIOSFODNN7EXAMPLE/"), "{}", request.head);
    if state.is_overloaded {
        state.refused += 1;
        return response("503 X", "<Error><Code>SlowDown</Code></Error>");
    }
    let path = request.head.strip_prefix("PUT /example-logs/").unwrap().split(' ').next().unwrap();
    state.objects.insert(path.to_owned(), request.body.clone());
    response("200 X", "")
}

/// Appends the lines of a part to a log.
fn write(log: &Path, part: usize) {
    let mut file = File::options().append(true).create(true).open(log).unwrap();
    for number in part * LINES..(part + 1) * LINES {
        writeln!(file, "line {number}").unwrap();
    }
}

#[test]
fn overload_and_kill_lose_no_line() {
    let kitchen = Kitchen::new();
    let page =
        fs::read_to_string(crate::support::workspace().join("docs/guide/cookbook/s3.md")).unwrap();
    let credentials = page.split("```ini\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(kitchen.state("credentials"), credentials).unwrap();
    fs::create_dir(kitchen.log("app")).unwrap();
    let (bucket, log) = (Bucket::start(), kitchen.log("app/a.log"));
    let endpoint =
        format!("region: eu-central-1\n      endpoint: http://{}", bucket.server.address());
    let credentials = kitchen.state("credentials").display().to_string();
    let replaced = [
        ("region: eu-central-1", &*endpoint),
        ("/etc/tremor/s3.credentials", &credentials),
        ("every: 5m", "every: 1s"),
    ];
    let flow = &flows("s3.md")[0];

    bucket.with(|state| state.is_overloaded = true);
    write(&log, 0);
    let running = kitchen.start(flow, &replaced, &[]);
    wait_until(|| bucket.with(|state| state.refused > 0));
    running.signal(&["KILL"]);
    drop(running);
    write(&log, 1);
    bucket.with(|state| state.is_overloaded = false);
    let running = kitchen.start(flow, &replaced, &[]);
    wait_until(|| bucket.events().len() >= 2 * LINES);
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);

    let events = bucket.events();
    let lines: BTreeSet<_> = events.iter().map(|event| event["line"].as_str().unwrap()).collect();
    assert_eq!(lines.len(), 2 * LINES);
    assert_eq!(events[0]["file"], *log.display().to_string());
    let host = events[0]["host"].as_str().unwrap();
    for path in bucket.with(|state| state.objects.keys().cloned().collect::<Vec<_>>()) {
        let folders: Vec<_> = path.split('/').collect();
        assert_eq!(
            folders[..4].iter().map(|it| it.len()).collect::<Vec<_>>(),
            [4, 2, 2, 2],
            "{path}"
        );
        assert!(
            folders[4].starts_with(&format!("{host}-2")) && path.ends_with(".ndjson.gz"),
            "{path}"
        );
    }
}
