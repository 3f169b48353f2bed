//! The log on the file system of the operating system.

#![allow(clippy::cast_possible_truncation, clippy::unwrap_used, reason = "tests")]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};

use tremor_log::{Log, OpenError, Opened, Options, Reason, record};

/// Set for a process that appends until it is killed.
const CHILD: &str = "TREMOR_LOG_CHILD";

/// Kills of a process, and acknowledgements before each.
const KILLS: u64 = 12;

fn options() -> Options {
    Options::new(8 << 20)
}

fn open(dir: &Path) -> (Log, Opened) {
    Log::open(dir, options()).unwrap_or_else(|it| panic!("{it}"))
}

fn payloads(log: &Log) -> Vec<(u64, Vec<u8>)> {
    let mut reader = log.reader();
    std::iter::from_fn(|| reader.next().unwrap())
        .map(|it| (it.number, it.payload().to_vec()))
        .collect()
}

#[test]
fn records_are_found_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("a/b/c");
    let (log, opened) = open(&dir);
    assert_eq!((opened.records, opened.damage.len()), (0, 0));
    let appender = log.appender();
    for number in 1..=100 {
        assert_eq!(
            appender.append_and_wait(record(format!("record {number}").as_bytes())),
            Ok(number)
        );
    }
    for number in 1..=40 {
        log.settle(number);
    }
    log.close();
    assert_eq!(appender.append_and_wait(record(b"late")), Err(Reason::Closed));
    let (log, opened) = open(&dir);
    assert_eq!((opened.records, opened.damage.len()), (60, 0));
    let expected: Vec<_> = (41..=100).map(|it| (it, format!("record {it}").into_bytes())).collect();
    assert_eq!(payloads(&log), expected);
    // After a log was closed, its numbers continue.
    assert_eq!(log.appender().append_and_wait(record(b"next")), Ok(101));
    let mut reader = log.reader();
    reader.seek(50);
    assert_eq!(reader.next().unwrap().map(|it| it.number), Some(50));
}

/// A callback may hold the last reference to the object that the log belongs to.
#[test]
fn log_that_its_callback_drops_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let appender = log.appender();
    let dropped = Arc::new(Mutex::new(None));
    let held = Arc::clone(&dropped);
    let (sender, receiver) = mpsc::channel();
    let done = move |result| {
        drop(held.lock().unwrap().take());
        sender.send(result).unwrap();
    };
    let lock = dropped.lock();
    appender.append(record(b"first"), done).unwrap();
    log.settle(1);
    *lock.unwrap() = Some(log);
    assert_eq!(receiver.recv().unwrap(), Ok(1));
    // The thread of the log still has to write that the record is settled.
    let opened = loop {
        match Log::open(dir.path(), options()) {
            Ok((_, opened)) => break opened,
            Err(OpenError::InUse(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(opened.records, 0);
}

#[test]
fn files_are_private_to_their_user() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("log");
    let (log, _) = open(&dir);
    log.appender().append_and_wait(record(b"a")).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in dir.read_dir().unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn second_opener_is_refused_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("log"), dir.path().join("link"));
    let (log, _) = open(&real);
    symlink(&real, &link).unwrap();
    let error = Log::open(&link, options()).err().unwrap();
    let OpenError::InUse(error) = error else { panic!("{error}") };
    assert_eq!((&error.path, error.holder), (&link, Some(std::process::id())));
    let expected = format!("it is in use by the process {};", std::process::id());
    assert!(error.to_string().contains(&expected), "{error}");
    log.close();
    open(&link);
}

#[test]
fn records_that_cannot_be_appended_are_returned() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let appender = log.appender();
    let large = record(&vec![0; 600 << 10]);
    let refused = appender.append(large.clone(), |_| ()).unwrap_err();
    let expected = Reason::TooLarge { len: large.len() as u64, max: 512 << 10 };
    assert_eq!((refused.reason, refused.record == large), (expected, true));
    let refused = appender.append(b"text".to_vec(), |_| ()).unwrap_err();
    assert_eq!(refused.reason, Reason::NotARecord(4));
    let mut cut = record(b"a record");
    cut.truncate(64);
    assert_eq!(appender.append(cut, |_| ()).unwrap_err().reason, Reason::NotARecord(64));
}

#[test]
fn log_keeps_its_limit_and_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path());
    let appender = log.appender();
    let (sender, receiver) = mpsc::channel();
    let mut appended = 0;
    let reason = loop {
        let sender = sender.clone();
        let refused =
            appender.append(record(&vec![1; 100_000]), move |it| sender.send(it).unwrap());
        match refused.map_err(|it| it.reason) {
            Ok(()) => appended += 1,
            Err(Reason::Busy) => {
                let (notify, notified) = mpsc::channel();
                appender.notify(move || {
                    let _ = notify.send(());
                });
                // Records become durable, or the log is full.
                while !log.status().is_full && notified.try_recv().is_err() {
                    std::thread::yield_now();
                }
            }
            Err(reason) => break reason,
        }
    };
    assert_eq!(reason, Reason::Full);
    let used: u64 =
        dir.path().read_dir().unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum();
    assert!(used <= 8 << 20, "{used}");
    // Accepted records become durable when space is settled.
    let durable: Vec<u64> = payloads(&log).into_iter().map(|it| it.0).collect();
    durable.iter().for_each(|it| log.settle(*it));
    for number in 1..=appended {
        assert_eq!(receiver.recv().unwrap(), Ok(number));
    }
    assert!(!log.status().is_full && log.status().failure.is_none());
}

/// Appends until the process is killed. Runs only as the child of the next test.
#[test]
fn child_appends_until_it_is_killed() {
    let Some(dir) = env::var_os(CHILD) else { return };
    let (log, opened) = open(Path::new(&dir));
    assert!(opened.damage.iter().all(|it| !it.kind.is_certain()), "{:?}", opened.damage);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stdout = std::io::stdout();
        for (number, id) in receiver {
            writeln!(stdout, "acknowledged {number} {id}").unwrap();
        }
    });
    for id in 0.. {
        let (done, acknowledged) = mpsc::channel();
        // Several records are in flight, and of several sizes.
        for part in 0..3u64 {
            let (done, sender) = (done.clone(), sender.clone());
            let id = 3 * id + part;
            let mut payload = id.to_le_bytes().to_vec();
            payload.resize(8 + (id as usize * 37) % 5000, id as u8);
            let sent = move |number| {
                sender.send((number, id)).and(done.send(()).map_err(|_| mpsc::SendError((0, 0))))
            };
            log.appender()
                .append(record(&payload), move |it| {
                    let _ = it.map(sent);
                })
                .unwrap();
        }
        (0..3).for_each(|_| acknowledged.recv().unwrap());
    }
}

#[test]
fn killed_process_loses_no_acknowledged_record() {
    let dir = tempfile::tempdir().unwrap();
    for kill in 0..KILLS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["child_appends_until_it_is_killed", "--exact", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let parse = |line: String| {
            // The test harness writes to standard output too.
            let numbers = line.split_once("acknowledged ")?.1.to_owned();
            let (number, id) = numbers.split_once(' ')?;
            Some((number.parse::<u64>().ok()?, id.parse::<u64>().ok()?))
        };
        let before = 10 + kill as usize * 7;
        let mut acknowledged: Vec<_> = lines.by_ref().filter_map(parse).take(before).collect();
        child.kill().unwrap();
        // The last line may be cut off. Then its number may be, too.
        acknowledged.extend(lines.filter_map(parse));
        acknowledged.pop();
        child.wait().unwrap();
        assert!(acknowledged.len() >= before - 1, "{acknowledged:?}");
        let (log, opened) = open(dir.path());
        assert!(opened.damage.iter().all(|it| !it.kind.is_certain()), "{:?}", opened.damage);
        let found = payloads(&log);
        for (number, id) in acknowledged {
            let payload = found.iter().find(|it| it.0 == number).map(|it| &it.1);
            assert_eq!(payload.map(|it| &it[..8]), Some(&id.to_le_bytes()[..]), "record {number}");
        }
        let ids: Vec<u64> =
            found.iter().map(|it| u64::from_le_bytes(*it.1.first_chunk().unwrap())).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        found.iter().for_each(|it| log.settle(it.0));
    }
}
