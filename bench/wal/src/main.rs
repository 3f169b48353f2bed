//! Measures the processor time of an append until it is durable, of the log on disk and of okaywal. Prints samples as
//! CSV.
//!
//! `cargo run --release --manifest-path bench/wal/Cargo.toml -- FOLDER [SECONDS]`: each subject appends for `SECONDS`,
//! 2 unless given, in each of five rounds.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, error::Error, fs, thread};

use okaywal::{LogVoid, WriteAheadLog};
use rustix::time::{ClockId, clock_gettime};
use tremor_log::{Log, Options, record};

const ROUNDS: u32 = 5;

/// Bytes of a record without its header.
const RECORD: usize = 640;

/// Time before the measurement, in which files are created and filled.
const WARM_UP: Duration = Duration::from_millis(500);

/// Appends of a subject, and what they took.
struct Measured {
    appends: u64,
    /// Processor time of the process, user and system, in nanoseconds.
    processor: i128,
    time: Duration,
}

/// Returns the processor time that this process has taken, in nanoseconds.
fn processor_time() -> i128 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Calls `append` in a loop on each of `threads` threads.
fn measure(threads: usize, time: Duration, append: impl Fn() + Sync) -> Measured {
    let (count, stops) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stops.load(Ordering::Relaxed) {
                    append();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(WARM_UP);
        let (appends, processor, start) =
            (count.load(Ordering::Relaxed), processor_time(), Instant::now());
        thread::sleep(time);
        let measured = Measured {
            appends: count.load(Ordering::Relaxed) - appends,
            processor: processor_time() - processor,
            time: start.elapsed(),
        };
        stops.store(true, Ordering::Relaxed);
        measured
    })
}

fn tremor_log(dir: &Path, threads: usize, time: Duration) -> Result<Measured, Box<dyn Error>> {
    let (log, _) = Log::open(dir, Options::new(256 << 20))?;
    let (appender, record) = (log.appender(), record(&[1; RECORD]));
    let measured = measure(threads, time, || match appender.append_and_wait(record.clone()) {
        Ok(number) => log.settle(number),
        Err(error) => panic!("tremor-log: {error}"),
    });
    log.close();
    Ok(measured)
}

fn okaywal(dir: &Path, threads: usize, time: Duration) -> Result<Measured, Box<dyn Error>> {
    let log = WriteAheadLog::recover(dir, LogVoid)?;
    let append = || {
        let mut entry = log.begin_entry()?;
        entry.write_chunk(&[1; RECORD])?;
        entry.commit()
    };
    let measured = measure(threads, time, || {
        if let Err(error) = append() {
            panic!("okaywal: {error}");
        }
    });
    log.shutdown()?;
    Ok(measured)
}

type Subject = fn(&Path, usize, Duration) -> Result<Measured, Box<dyn Error>>;

const SUBJECTS: [(&str, Subject); 2] = [("tremor-log", tremor_log), ("okaywal", okaywal)];

#[allow(clippy::cast_precision_loss)] // rates are approximate
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let folder = arguments.next().ok_or("expected a folder on the disk that is measured")?;
    let time = Duration::from_secs(arguments.next().map_or(Ok(2), |it| it.parse())?);
    println!("appenders,round,subject,unit,value");
    for round in 0..ROUNDS {
        for threads in [1, 64] {
            for (name, subject) in SUBJECTS {
                let dir = Path::new(&folder).join(name);
                fs::create_dir_all(&dir)?;
                let Measured { appends, processor, time } = subject(&dir, threads, time)?;
                fs::remove_dir_all(&dir)?;
                let rate = appends as f64 / time.as_secs_f64();
                println!("{threads},{round},{name},appends/s,{rate:.0}");
                let cost = processor as f64 / 1_000.0 / appends as f64;
                println!("{threads},{round},{name},us of processor time/append,{cost:.2}");
            }
        }
    }
    Ok(())
}
