//! Tests of the page "The journal to files".

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write,
    path::PathBuf,
    process::Command,
};

use super::{Kitchen, counts, flows, values};
use crate::{
    journald::{entries, write_journalctl},
    peer::wait_until,
};

/// Number of entries of each part of the journal.
const ENTRIES: usize = 40;

/// Returns how often the archive and its rotated files have each message.
fn archived(kitchen: &Kitchen) -> BTreeMap<String, usize> {
    let events: Vec<_> = files(kitchen).iter().flat_map(|path| values(path)).collect();
    counts(&events, "/MESSAGE")
}

/// Returns the paths of the archive and its rotated files.
fn files(kitchen: &Kitchen) -> Vec<PathBuf> {
    let entries = fs::read_dir(kitchen.state("")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains("journal.json")).collect()
}

#[test]
fn journal_is_archived_once_in_rotated_files() {
    let kitchen = Kitchen::new();
    let flow = &flows("journal.md")[0];
    let journal = kitchen.log("journal");
    fs::write(&journal, entries(1..=ENTRIES)).unwrap();
    write_journalctl(&kitchen.log(""));
    let command = format!("priority: info\n      command: {}", kitchen.log("journalctl").display());
    let replaced = [("priority: info", &*command), ("max_bytes: 100MiB", "max_bytes: 1KiB")];
    let running = kitchen.start(flow, &replaced, &[]);
    wait_until(|| archived(&kitchen).len() == ENTRIES);
    running.signal(&["TERM"]);
    running.end().expect(0, &[]);

    let mut file = OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(entries(ENTRIES + 1..=2 * ENTRIES).as_bytes()).unwrap();
    let running = kitchen.start(flow, &replaced, &[]);
    wait_until(|| archived(&kitchen).len() == 2 * ENTRIES);
    running.signal(&["KILL"]);
    drop(running);
    let archived = archived(&kitchen);
    assert!(archived.values().all(|count| *count == 1), "{archived:?}");
    assert!(files(&kitchen).len() > 1, "{:?}", files(&kitchen));
}

/// Archives entries of the real journal, if this machine has one.
#[test]
fn real_journal_is_archived() {
    let newest = Command::new("journalctl").args(["--lines=1", "--quiet", "--output=cat"]).output();
    if !newest.is_ok_and(|output| output.status.success() && !output.stdout.is_empty()) {
        eprintln!("SKIPPED: journalctl shows no journal here");
        return;
    }
    let kitchen = Kitchen::new();
    let replaced = [("priority: info", "follow: false")];
    let running = kitchen.start(&flows("journal.md")[0], &replaced, &[]);
    running.end().expect(0, &[" 0 dead-lettered"]);
    assert!(!archived(&kitchen).is_empty());
}
