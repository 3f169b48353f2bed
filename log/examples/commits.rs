//! Appends records of one length, 64 at a time, and prints the time and the number of syncs. This is what a program with
//! a log can reach at most.
//!
//! `commits DIR BYTES COUNT`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{env, io, sync::mpsc};

use tremor_log::{DiskFile, HEADER_LEN, Layer, Layered, Log, Options, Reason, SystemDisk, record};

/// Number of records that wait for the disk at the same time.
const IN_FLIGHT: u64 = 64;

/// A layer that counts syncs.
#[derive(Default)]
struct Syncs(AtomicU64);

impl Layer for Syncs {
    fn sync(&self, file: &dyn DiskFile) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        file.sync()
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [dir, bytes, count] = &arguments[..] else { return Err("expected DIR BYTES COUNT".into()) };
    let (bytes, count): (usize, u64) = (bytes.parse()?, count.parse()?);
    let syncs = Arc::new(Syncs::default());
    let disk = Arc::new(Layered { disk: Arc::new(SystemDisk), layer: syncs.clone() });
    let (log, _) = Log::open(dir, Options { disk, ..Options::new(4 << 30) })?;
    let (appender, (sender, durable)) = (log.appender(), mpsc::channel());
    let template = record(&vec![7; bytes.saturating_sub(HEADER_LEN)]);
    let (start, before) = (Instant::now(), syncs.0.load(Ordering::Relaxed));
    let (mut appended, mut acknowledged) = (0, 0);
    while acknowledged < count {
        if appended < count && appended - acknowledged < IN_FLIGHT {
            let sender = sender.clone();
            let done = move |result| {
                // The receiver lives as long as the log.
                let _ = sender.send(result);
            };
            match appender.append(template.clone(), done).map_err(|it| it.reason) {
                Ok(()) => {
                    appended += 1;
                    continue;
                }
                Err(Reason::Busy) => {}
                Err(reason) => return Err(reason.into()),
            }
        }
        durable.recv()??;
        acknowledged += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds} {}", syncs.0.load(Ordering::Relaxed) - before);
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
