//! Tests of the page "The journal to Loki".

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hostile_peers::http::{Request, Server, response};
use serde_json::json;
use snap::raw::Decoder;

use super::{Kitchen, flows, values};
use crate::{journald::write_journalctl, peer::wait_until};

/// Number of entries of each part of the journal.
const ENTRIES: usize = 40;

/// Line of a stream: its labels, its time in seconds and nanoseconds, and its text. Loki ignores a second line that
/// equals it.
type Line = (String, [u64; 2], String);

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
        let body = Decoder::new().decompress_vec(&request.body).unwrap();
        let mut is_refused = false;
        for stream in fields(&body) {
            let stream = fields(stream.bytes());
            let labels = stream[0].text();
            assert_eq!(labels, r#"{job="journal",unit="ssh.service"}"#);
            for entry in &stream[1..] {
                let [time, line, pid] = &fields(entry.bytes())[..] else { panic!("{entry:?}") };
                let time = fields(time.bytes()).iter().map(Field::number).collect::<Vec<_>>();
                let pid = fields(pid.bytes()).iter().map(Field::text).collect::<Vec<_>>();
                assert_eq!(pid, ["pid", "812"]);
                let line = (labels.clone(), time.try_into().unwrap(), line.text());
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

/// The contents of a field of protobuf.
#[derive(Debug)]
enum Field<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

impl<'m> Field<'m> {
    fn number(&self) -> u64 {
        let Self::Number(number) = self else { panic!("{self:?}") };
        *number
    }

    fn bytes(&self) -> &'m [u8] {
        let Self::Bytes(bytes) = self else { panic!("{self:?}") };
        bytes
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

/// Returns the fields of a message, which has fields of numbers and bytes only.
fn fields(mut message: &[u8]) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let number = varint(&mut message);
        found.push(match tag & 7 {
            0 => Field::Number(number),
            2 => {
                let (bytes, remainder) = message.split_at(usize::try_from(number).unwrap());
                message = remainder;
                Field::Bytes(bytes)
            }
            kind => panic!("a field of the wire type {kind}"),
        });
    }
    found
}

/// Removes a number from the beginning of a message.
fn varint(message: &mut &[u8]) -> u64 {
    let length = 1 + message.iter().position(|byte| *byte < 0x80).unwrap();
    let (bytes, remainder) = message.split_at(length);
    *message = remainder;
    bytes.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
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
    let times: BTreeSet<_> = loki.lines.iter().map(|(_, time, _)| time).collect();
    assert_eq!(times.first(), Some(&&[1_795_725_346, 1_000]));
    assert_eq!(times.len(), 2 * ENTRIES - 1);
    let dead = values(&kitchen.state("dead.json"));
    assert!(!dead.is_empty());
    let refused = "answered with 400 Bad Request: entry too far behind";
    assert!(dead.iter().all(|letter| letter.to_string().contains(refused)), "{dead:?}");
}
