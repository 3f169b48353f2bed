//! Appends records to a log from several threads until it is killed. Prints each record that it finds, appends and
//! settles, so that another program can compare what was promised with what a later run finds.
//!
//! `append DIR LIFE THREADS [verify|no-sync]`: `LIFE` is the number of the run and a part of the identity of its
//! records. `verify` only reads, and `no-sync` leaves out each sync, which breaks all promises.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example")]

use std::collections::VecDeque;
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::{env, io, time::Duration};

use tremor_log::{
    Disk, DiskFile, Layer, Layered, Log, Options, Reason, Record, SystemDisk, record,
};

/// Number of records that wait before the oldest is settled, unless the log is full.
const KEPT: usize = 40;
/// Time between two checks whether the log is full.
const CHECK: Duration = Duration::from_millis(1);

/// A layer that makes nothing durable.
struct NoSync;

impl Layer for NoSync {
    fn sync(&self, _: &dyn DiskFile) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the contents of the record with an identity, of which most are short.
fn payload(id: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(id);
    let max = if random.u8(..8) > 0 { 2_500 } else { 15_000 };
    let mut bytes = vec![0; random.usize(8..max)];
    random.fill(&mut bytes);
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes
}

/// Returns the identity of a record, if its contents are those of this identity.
fn identity(record: &Record) -> Option<u64> {
    let id = u64::from_le_bytes(*record.payload().first_chunk()?);
    (record.payload() == payload(id)).then_some(id)
}

/// Prints all records, and returns their numbers.
fn find(log: &Log) -> Result<Vec<u64>, Box<dyn Error>> {
    let (mut reader, mut numbers) = (log.reader(), Vec::new());
    while let Some(record) = reader.next()? {
        numbers.push(record.number);
        match identity(&record) {
            Some(id) => println!("found {} {id}", record.number),
            None => println!("invalid {}", record.number),
        }
    }
    println!("ready");
    Ok(numbers)
}

/// Records that are not settled yet, in the order in which they were found or acknowledged.
#[derive(Default)]
struct Kept(Mutex<VecDeque<u64>>);

impl Kept {
    fn add(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(number);
    }

    /// Settles the oldest records, until `count` remain. From then on, a later run may find them or not.
    fn settle_to(&self, log: &Log, count: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() > count
            && let Some(number) = kept.pop_front()
        {
            println!("settled {number}");
            log.settle(number);
        }
    }
}

/// Appends records until the log fails.
fn append(log: &Log, kept: &Kept, first: u64) -> Reason {
    let appender = log.appender();
    let mut id = first;
    loop {
        match appender.append_and_wait(record(&payload(id))) {
            Ok(number) => {
                println!("acknowledged {number} {id}");
                kept.add(number);
                kept.settle_to(log, KEPT);
                id += 1;
            }
            Err(Reason::Full) => thread::sleep(CHECK),
            Err(error) => return error,
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [dir, life, threads, mode @ ..] = &arguments[..] else {
        return Err("expected DIR LIFE THREADS [verify|no-sync]".into());
    };
    let (life, threads): (u64, u64) = (life.parse()?, threads.parse()?);
    let mode = mode.first().map_or("", String::as_str);
    let system: Arc<dyn Disk> = Arc::new(SystemDisk);
    let disk = match mode {
        "no-sync" => Arc::new(Layered { disk: system, layer: Arc::new(NoSync) }),
        _ => system,
    };
    let options = Options { segment_bytes: Some(32 << 10), disk, ..Options::new(512 << 10) };
    let (log, opened) = Log::open(dir, options)?;
    for damage in opened.damage.iter().filter(|it| it.kind.is_certain()) {
        println!("damaged {damage:?}");
    }
    let (found, kept) = (find(&log)?, Kept::default());
    if mode == "verify" {
        return Ok(());
    }
    // A few records stay for a while, so that segments are reused in another order than that of their records.
    let (later, now): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it % 4 == 0);
    now.into_iter().chain(later).for_each(|it| kept.add(it));
    thread::scope(|scope| {
        let (log, kept) = (&log, &kept);
        let start = |it| scope.spawn(move || append(log, kept, life << 40 | it << 32));
        let threads: Vec<_> = (0..threads).map(start).collect();
        while !threads.iter().any(ScopedJoinHandle::is_finished) {
            if log.status().is_full {
                kept.settle_to(log, KEPT / 4);
            }
            thread::sleep(CHECK);
        }
    });
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
