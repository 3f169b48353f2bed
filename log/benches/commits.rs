//! Measures commits, and the opening of a log, in ratios to loops without a log. Prints samples as CSV.
//!
//! `cargo bench -p tremor-log --bench commits -- [FOLDER]`: the folder has to be on a disk, and needs 3 GiB.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]
#![expect(clippy::cast_precision_loss, reason = "rates are approximate")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tremor_log::{Disk, DiskFile, Layer, Layered, Log, Options, SystemDisk, record};

const ROUNDS: u32 = 5;

/// Time of the simulated sync.
const SYNC: Duration = Duration::from_millis(1);

/// A layer that counts syncs. If a time is set, a sync takes this time and writes nothing.
struct Syncs {
    takes: Option<Duration>,
    count: AtomicU64,
}

impl Layer for Syncs {
    fn sync(&self, file: &dyn DiskFile) -> io::Result<()> {
        self.count.fetch_add(1, Ordering::Relaxed);
        match self.takes {
            Some(time) => thread::sleep(time),
            None => file.sync()?,
        }
        Ok(())
    }
}

fn counted(takes: Option<Duration>) -> (Arc<dyn Disk>, Arc<Syncs>) {
    let syncs = Arc::new(Syncs { takes, count: AtomicU64::new(0) });
    (Arc::new(Layered { disk: Arc::new(SystemDisk), layer: syncs.clone() }), syncs)
}

/// Returns the acknowledgements a second of `threads` appenders that wait for each.
fn acknowledgements(dir: &Path, threads: usize, disk: Arc<dyn Disk>) -> f64 {
    let options = Options { disk, ..Options::new(1 << 30) };
    let (log, _) = Log::open(dir, options).unwrap();
    let (count, stops) = (AtomicU64::new(0), AtomicBool::new(false));
    let seconds = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (appender, record) = (log.appender(), record(&[1; 640]));
                while !stops.load(Ordering::Relaxed) {
                    let number = appender.append_and_wait(record.clone()).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                    log.settle(number);
                }
            });
        }
        thread::sleep(Duration::from_millis(300));
        let (before, start) = (count.load(Ordering::Relaxed), Instant::now());
        thread::sleep(Duration::from_secs(1));
        let acknowledged = count.load(Ordering::Relaxed) - before;
        let seconds = start.elapsed().as_secs_f64();
        stops.store(true, Ordering::Relaxed);
        acknowledged as f64 / seconds
    });
    drop(log);
    std::fs::remove_dir_all(dir).unwrap();
    seconds
}

fn group_commit(folder: &Path) {
    for round in 0..ROUNDS {
        for threads in [1, 64] {
            let (disk, _) = counted(Some(SYNC));
            let rate = acknowledgements(&folder.join("slow"), threads, disk);
            println!("simulated-sync-1ms,{round},{threads} appenders,acknowledgements/s,{rate:.0}");
        }
    }
    for round in 0..ROUNDS {
        for threads in [1, 64] {
            let rate = acknowledgements(&folder.join("system"), threads, Arc::new(SystemDisk));
            println!("disk,{round},{threads} appenders,acknowledgements/s,{rate:.0}");
        }
    }
}

/// Bytes of one commit.
const COMMIT: usize = 1 << 20;

fn rate(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Appends with two records in flight, so that the next one waits while a commit is made.
fn append(log: &Log, count: usize) {
    let appender = log.appender();
    let (sender, receiver) = mpsc::channel();
    for index in 0..count {
        let sender = sender.clone();
        let mut record = record(&vec![7; COMMIT - 64]);
        loop {
            let sender = sender.clone();
            match appender.append(record, move |it| sender.send(it.unwrap()).unwrap()) {
                Ok(()) => break,
                Err(refused) => record = refused.record,
            }
            thread::yield_now();
        }
        if index > 0 {
            log.settle(receiver.recv().unwrap());
        }
    }
    log.settle(receiver.recv().unwrap());
}

fn commits_of_1_mib(folder: &Path) {
    let count = 192;
    let (disk, syncs) = counted(None);
    let options = Options { disk, ..Options::new(512 << 20) };
    let (log, _) = Log::open(folder.join("large"), options).unwrap();
    let path = folder.join("loop");
    let file =
        OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
    // The first rounds fill segments for the first time.
    append(&log, 600);
    let bytes = vec![7; COMMIT];
    (0..64).for_each(|it| file.write_all_at(&bytes, it << 20).unwrap());
    file.sync_all().unwrap();
    for round in 0..ROUNDS {
        let before = syncs.count.load(Ordering::Relaxed);
        let start = Instant::now();
        append(&log, count);
        println!("commits-1mib,{round},log,MB/s,{:.1}", rate(count * COMMIT, start));
        println!("commits-1mib,{round},log,syncs,{}", syncs.count.load(Ordering::Relaxed) - before);
        let start = Instant::now();
        for index in 0..count {
            file.write_all_at(&bytes, (index as u64 % 64) << 20).unwrap();
            file.sync_data().unwrap();
        }
        println!("commits-1mib,{round},loop,MB/s,{:.1}", rate(count * COMMIT, start));
    }
    drop(log);
    std::fs::remove_dir_all(folder.join("large")).unwrap();
    std::fs::remove_file(path).unwrap();
}

fn opening(folder: &Path) {
    let dir = folder.join("open");
    let options = || Options::new(4 << 30);
    let (log, _) = Log::open(&dir, options()).unwrap();
    let appender = log.appender();
    let count = (1 << 30) / 65_536;
    for _ in 0..count {
        let mut record = record(&vec![3; 65_536 - 64]);
        while let Err(refused) = appender.append(record, |_| ()) {
            record = refused.record;
            thread::yield_now();
        }
    }
    log.close();
    for round in 0..ROUNDS {
        let start = Instant::now();
        let (log, opened) = Log::open(&dir, options()).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(opened.records, count);
        println!("open-1gib,{round},64 KiB records,s,{seconds:.3}");
        log.close();
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Syncs of a file that grows, of one that was filled with zeros, and of one that was used before.
fn experiments(folder: &Path) {
    let path = folder.join("experiment");
    for (size, count) in
        [(4 << 10, 200), (64 << 10, 200), (1 << 20, 60), (4 << 20, 20), (16 << 20, 6)]
    {
        let bytes = vec![5; size];
        let total = size * count;
        for round in 0..ROUNDS {
            for kind in ["growing", "preallocated", "reused"] {
                let _ = std::fs::remove_file(&path);
                let file =
                    OpenOptions::new().create_new(true).read(true).write(true).open(&path).unwrap();
                match kind {
                    "growing" => {}
                    "preallocated" => rustix::fs::fallocate(
                        &file,
                        rustix::fs::FallocateFlags::empty(),
                        0,
                        total as u64,
                    )
                    .unwrap(),
                    _ => file.write_all_at(&vec![0; total], 0).unwrap(),
                }
                file.sync_all().unwrap();
                let seconds = write_and_sync(&file, &bytes, count);
                println!(
                    "fdatasync-{},{round},{kind},MB/s,{:.1}",
                    size >> 10,
                    total as f64 / seconds / 1e6
                );
            }
        }
    }
    std::fs::remove_file(path).unwrap();
}

fn write_and_sync(file: &File, bytes: &[u8], count: usize) -> f64 {
    let start = Instant::now();
    for index in 0..count {
        file.write_all_at(bytes, (index * bytes.len()) as u64).unwrap();
        file.sync_data().unwrap();
    }
    start.elapsed().as_secs_f64()
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    let folder = arguments.first().map_or_else(|| PathBuf::from("target/log-bench"), PathBuf::from);
    std::fs::create_dir_all(&folder).unwrap();
    println!("benchmark,round,subject,unit,value");
    group_commit(&folder);
    commits_of_1_mib(&folder);
    opening(&folder);
    experiments(&folder);
}
