//! Tests of the page "The journal to Loki".

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hostile_peers::http::{Request, Server, response};
use serde_json::{Value, json};

use super::{Kitchen, collector::body, flows, values};
use crate::{journald::write_journalctl, peer::wait_until};

/// Number of entries of each part of the journal.
const ENTRIES: usize = 40;

/// Line of a stream: its labels, its time and its text. Loki ignores a second line that equals it.
type Line = (String, String, String);

/// State of a server that stores lines as Loki does.
#[derive(Default)]
struct Loki {
    lines: BTreeSet<Line>,
    /// Number of lines that the server has ignored because it has them already.
    repeated: usize,
    /// `true` if the server answers with 503, although it stores the lines.
    loses_answers: bool,
}

impl Loki {
    /// Stores the lines of a request except for that of entry 7, and returns the response.
    fn answer(&mut self, request: &Request) -> Vec<u8> {
        assert!(request.head.starts_with("POST /loki/api/v1/push "), "{}", request.head);
        let body: Value = serde_json::from_str(&body(request)).unwrap();
        let mut is_refused = false;
        for stream in body["streams"].as_array().unwrap() {
            assert_eq!(stream["stream"], json!({ "job": "journal", "unit": "ssh.service" }));
            for value in stream["values"].as_array().unwrap() {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let line = (stream["stream"].to_string(), text(&value[0]), text(&value[1]));
                assert_eq!(value[2], json!({ "pid": "812" }));
                if line.2.contains(r#""m7""#) {
                    is_refused = true;
                } else if !self.lines.insert(line) {
                    self.repeated += 1;
                }
            }
        }
        match (self.loses_answers, is_refused) {
            (true, _) => response("503 X", ""),
            (false, true) => response("400 X", "entry too far behind"),
            (false, false) => response("204 X", ""),
        }
    }
}

fn lock(loki: &Mutex<Loki>) -> MutexGuard<'_, Loki> {
    loki.lock().unwrap_or_else(PoisonError::into_inner)
}

fn entries(numbers: std::ops::RangeInclusive<usize>) -> String {
    let entry = |number: usize| {
        let time = format!("17957253460000{number:02}");
        let entry = json!({
            "__CURSOR": number.to_string(), "__REALTIME_TIMESTAMP": time, "MESSAGE": format!("m{number}"),
            "_SYSTEMD_UNIT": "ssh.service", "_PID": "812", "_BOOT_ID": "b",
        });
        format!("{entry}\n")
    };
    numbers.map(entry).collect()
}

/// The server loses its answers until the process is killed.
#[test]
fn lost_answers_and_kill_write_each_entry_once() {
    let kitchen = Kitchen::new();
    let journal = kitchen.log("journal");
    fs::write(&journal, entries(1..=ENTRIES)).unwrap();
    write_journalctl(&kitchen.log(""));
    let command = format!("priority: info\n      command: {}", kitchen.log("journalctl").display());
    let loki = Arc::new(Mutex::new(Loki { loses_answers: true, ..Loki::default() }));
    let served = loki.clone();
    let server = Server::start(move |request| lock(&served).answer(request));
    let count = || lock(&loki).lines.len();
    let address = format!("http://{}", server.address());
    let replaced = [("priority: info", &*command), ("https://loki.example.com", &*address)];
    let (flow, variables) = (&flows("journal-loki.md")[0], [("LOKI_PASSWORD", "p")]);
    let running = kitchen.start(flow, &replaced, &variables);
    wait_until(|| count() == ENTRIES - 1);
    running.signal(&["KILL"]);
    drop(running);
    lock(&loki).loses_answers = false;
    let mut file = OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(entries(ENTRIES + 1..=2 * ENTRIES).as_bytes()).unwrap();
    let running = kitchen.start(flow, &replaced, &variables);
    wait_until(|| count() == 2 * ENTRIES - 1);
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);

    let loki = lock(&loki);
    assert!(loki.repeated >= ENTRIES - 1, "{}", loki.repeated);
    let times: BTreeSet<_> = loki.lines.iter().map(|(_, time, _)| &**time).collect();
    assert_eq!(times.first(), Some(&"1795725346000001000"));
    assert_eq!(times.len(), 2 * ENTRIES - 1);
    let dead = values(&kitchen.state("dead.json"));
    assert!(!dead.is_empty());
    let refused = "answered with 400 Bad Request: entry too far behind";
    assert!(dead.iter().all(|letter| letter.to_string().contains(refused)), "{dead:?}");
}
