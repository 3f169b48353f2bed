//! Inspections of logs that are in use, were left by a crash, or are damaged.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::commit::Progress;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::InspectError;
use crate::inspect::{FileKind, Inspection};
use crate::layout::{put, seal};
use crate::record::Record;
use crate::report::Damage;
use crate::tests::disk::SimDisk;
use crate::tests::model::{DIR, Stepped, identity, numbered};

const SEGMENTS: u64 = 4;

/// Random workloads, and inspections of each.
const SEEDS: u64 = 50;
const INSPECTIONS: u64 = 12;

/// Random flips of bits.
const FLIPS: usize = 1500;

/// Results of an inspection.
#[derive(Default)]
struct Seen {
    /// The records that are not settled.
    unsettled: Vec<Record>,
    settled: Vec<Record>,
    damage: Vec<Damage>,
    reused: usize,
}

fn inspect(disk: Arc<dyn Disk>, includes_settled: bool) -> Result<Seen, String> {
    let mut inspection = Inspection::open_on(disk, Path::new(DIR)).map_err(|it| it.to_string())?;
    if includes_settled {
        inspection = inspection.include_settled();
    }
    let mut seen = Seen { damage: inspection.damage.clone(), ..Seen::default() };
    while let Some(segment) = inspection.next_segment() {
        let segment = segment.map_err(|it| it.to_string())?;
        seen.reused += usize::from(segment.is_reused);
        for info in &segment.records {
            match segment.read(info).map_err(|it| it.to_string())? {
                Some(record) if info.is_settled => seen.settled.push(record),
                Some(record) => seen.unsettled.push(record),
                None => seen.reused += 1,
            }
        }
        seen.damage.extend(segment.damage);
    }
    Ok(seen)
}

/// Compares an inspection with the log that opening a copy of the disk finds.
fn compare(disk: &SimDisk) -> Result<(), String> {
    let (before, operations) = (disk.digest(), disk.operations());
    let seen = inspect(Arc::new(disk.clone()), false)?;
    if disk.digest() != before || disk.operations() != operations {
        return Err("the inspection has changed the disk".to_owned());
    }
    let copy = disk.fork();
    let mut log = Stepped::open(&copy, SEGMENTS).map_err(|it| it.to_string())?;
    let parts = |damage: &[Damage]| {
        let mut parts: Vec<_> = damage
            .iter()
            .map(|it| (it.path.clone(), it.from, it.to, it.records, it.kind))
            .collect();
        parts.sort();
        parts
    };
    let (inspected, opened) = (parts(&seen.damage), parts(&log.opened.damage));
    if inspected != opened {
        return Err(format!("inspected: {inspected:?}, opened: {opened:?}"));
    }
    // The epoch and the checksum differ after a record was moved.
    let contents = |it: &[Record]| -> Vec<_> {
        it.iter().map(|it| (it.number, it.payload().to_vec())).collect()
    };
    let (inspected, opened) = (contents(&seen.unsettled), contents(&log.read_all()));
    if seen.reused > 0 || inspected != opened {
        let numbers = |it: &[(u64, Vec<u8>)]| it.iter().map(|it| it.0).collect::<Vec<_>>();
        return Err(format!(
            "inspected: {:?}, opened: {:?}, reused: {}",
            numbers(&inspected),
            numbers(&opened),
            seen.reused
        ));
    }
    Ok(())
}

/// Appends, commits, reads and settles at random.
fn work(log: &mut Stepped, random: &mut fastrand::Rng, id: &mut u64, steps: usize) {
    for _ in 0..steps {
        match random.u8(..8) {
            0..3 if log.shared.lock().staged_bytes < 40_000 => {
                *id += 1;
                log.append(numbered(*id, random.usize(..4000)), |_| ());
            }
            3..5 => drop(log.committer.step()),
            5 => drop(log.committer.rest()),
            6 => {
                let next = log.shared.lock().next;
                let first = random.u64(next.saturating_sub(20).max(1)..=next);
                log.settle(first, (first + random.u64(..3)).min(next - 1));
            }
            _ if log.shared.lock().is_full => log.settle_all(),
            _ => {}
        }
    }
}

#[test]
fn inspection_finds_what_opening_finds() {
    for seed in 1..=SEEDS {
        let disk = SimDisk::new(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut id = 0;
        for life in 0..3 {
            disk.fail_one_in(0);
            let Ok(mut log) = Stepped::open(&disk, SEGMENTS) else { break };
            disk.fail_one_in([0, 20, 60][random.usize(..3)]);
            for inspection in 0..INSPECTIONS / 3 {
                let steps = random.usize(..80);
                work(&mut log, &mut random, &mut id, steps);
                compare(&disk)
                    .unwrap_or_else(|it| panic!("seed {seed}, life {life}, {inspection}: {it}"));
            }
            drop(log);
            disk.lose_power();
            compare(&disk).unwrap_or_else(|it| panic!("seed {seed}, crash {life}: {it}"));
        }
    }
}

#[test]
fn inspection_finds_each_flipped_bit_that_opening_finds() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, SEGMENTS).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut id = 0;
    while log.shared.lock().live.keys().next_back().is_none_or(|it| *it < 2 * SEGMENTS) {
        work(&mut log, &mut random, &mut id, 20);
    }
    drop(log);
    disk.kill();
    let files = disk.digest();
    for _ in 0..FLIPS {
        let (dir, name, bytes) = &files[random.usize(..files.len())];
        if bytes.is_empty() {
            continue;
        }
        // Half of the bits are in headers, which are small.
        let most = if random.bool() { bytes.len() } else { bytes.len().min(8192) };
        let (byte, bit) = (random.usize(..most), random.u8(..8));
        let flipped = disk.fork();
        let mut bytes = bytes.clone();
        bytes[byte] ^= 1 << bit;
        flipped.set_contents(dir.join(name), &bytes);
        compare(&flipped).unwrap_or_else(|it| panic!("bit {bit} of byte {byte} of {name}: {it}"));
    }
}

#[test]
fn settled_records_are_read_on_request() {
    let disk = SimDisk::new(1);
    let mut log = Stepped::open(&disk, SEGMENTS).unwrap();
    for id in 1..=4 {
        log.append_durably(numbered(id, 100));
    }
    log.settle(1, 2);
    while log.committer.rest() == Progress::Worked {}
    let seen = inspect(Arc::new(disk.clone()), true).unwrap();
    let ids = |it: &[Record]| it.iter().filter_map(identity).collect::<Vec<_>>();
    assert_eq!((ids(&seen.settled), ids(&seen.unsettled)), (vec![1, 2], vec![3, 4]));
    log.settle(3, 4);
    while log.committer.rest() == Progress::Worked {}
    let inspection = Inspection::open_on(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    assert_eq!((inspection.settled, inspection.holder), (4, Some(1)));
    assert_eq!(inspection.owner.as_deref(), Some("tests"));
}

#[test]
fn newer_version_and_other_folders_are_refused() {
    let disk = SimDisk::new(1);
    let open = |dir| Inspection::open_on(Arc::new(disk.clone()), Path::new(dir)).err().unwrap();
    assert!(matches!(open(DIR), InspectError::NotFound(_)));
    disk.create_dir(Path::new("/etc")).unwrap();
    assert!(matches!(open("/etc"), InspectError::NotALog(_)));
    drop(Stepped::open(&disk, SEGMENTS).unwrap());
    let path = format!("{DIR}/positions");
    let mut bytes = disk.contents(&path);
    put(&mut bytes, 4, &2u16.to_le_bytes());
    seal(&mut bytes);
    disk.set_contents(&path, &bytes);
    assert!(matches!(open(DIR), InspectError::Newer { version: 2, .. }));
}

#[test]
fn files_have_roles_and_lengths() {
    let disk = SimDisk::new(1);
    let log = Stepped::open(&disk, SEGMENTS).unwrap();
    for name in ["notes.new", "log.new"] {
        disk.open(&Path::new(DIR).join(name), Open::Empty).unwrap();
    }
    disk.create_dir(&Path::new(DIR).join("rejected")).unwrap();
    let inspection = Inspection::open_on(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    let roles = |kind| inspection.files.iter().filter(move |it| it.kind == kind);
    assert_eq!(roles(FileKind::Other).count(), 2);
    for kind in [FileKind::Lock, FileKind::Owner, FileKind::Positions, FileKind::Unfinished] {
        assert_eq!(roles(kind).count(), 1, "{kind:?}");
    }
    let bytes: u64 = inspection.files.iter().map(|it| it.len).sum();
    assert_eq!(bytes, disk.used() as u64);
    drop(log);
    // Opening removes its own files only.
    drop(Stepped::open(&disk, SEGMENTS).unwrap());
    let names = disk.list(Path::new(DIR)).unwrap();
    assert!(names.contains(&"notes.new".to_owned()) && !names.contains(&"log.new".to_owned()));
}

/// A disk on which a log makes steps while its files are read.
struct Busy {
    disk: SimDisk,
    work: Arc<Mutex<dyn FnMut() + Send>>,
}

struct BusyFile {
    file: Arc<dyn DiskFile>,
    work: Arc<Mutex<dyn FnMut() + Send>>,
}

impl DiskFile for BusyFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        // The log works between the reads of two blocks too.
        let mut read = 0;
        for part in buffer.chunks_mut(4096) {
            (self.work.lock().unwrap())();
            let len = part.len();
            let count = self.file.read_at(part, offset + read as u64)?;
            read += count;
            if count < len {
                break;
            }
        }
        Ok(read)
    }

    fn write_at(&self, _: &[IoSlice<'_>], _: u64) -> io::Result<()> {
        panic!("an inspection writes")
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        panic!("an inspection cuts a file")
    }

    fn sync(&self) -> io::Result<()> {
        panic!("an inspection syncs")
    }
}

impl Disk for Busy {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        panic!("an inspection creates a folder")
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        self.disk.is_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        panic!("an inspection syncs a folder")
    }

    fn open(&self, _: &Path, _: Open) -> io::Result<Arc<dyn DiskFile>> {
        panic!("an inspection opens a file for writing")
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open_to_read(path)?;
        Ok(Arc::new(BusyFile { file, work: Arc::clone(&self.work) }))
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        panic!("an inspection removes a file")
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        panic!("an inspection renames a file")
    }

    fn lock(&self, _: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        panic!("an inspection locks the log")
    }

    fn holder(&self, path: &Path) -> io::Result<Option<u32>> {
        self.disk.holder(path)
    }

    fn random(&self) -> io::Result<u64> {
        panic!("an inspection needs no number")
    }
}

/// Inspects logs that work meanwhile, and returns the number of records that were found and of reused segments.
pub(super) fn inspect_busy() -> Result<(usize, usize), String> {
    let (mut found, mut reused) = (0, 0);
    for seed in 1..=100 {
        let disk = SimDisk::new(seed);
        let mut log = Stepped::open(&disk, SEGMENTS).unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut id = 0;
        work(&mut log, &mut random, &mut id, 300);
        while log.committer.step() == Progress::Worked {}
        let before = log.read_all();
        let log = Arc::new(Mutex::new((log, random, id)));
        let worker = Arc::clone(&log);
        let steps = [0, 1, 3, 40][(seed as usize) % 4];
        // Some logs rest again while the headers are read, so that their segments can be read afterwards.
        let mut reads = if seed % 8 < 4 { u64::MAX } else { seed % 13 };
        let work = Arc::new(Mutex::new(move || {
            if reads > 0 {
                reads -= 1;
                let (log, random, id) = &mut *worker.lock().unwrap();
                work(log, random, id, steps);
            }
        }));
        let busy = Busy { disk: disk.clone(), work };
        let seen = match inspect(Arc::new(busy), true) {
            Err(error) if error.contains("change too fast") => continue,
            seen => seen.map_err(|it| format!("seed {seed}: {it}"))?,
        };
        if let Some(damage) = seen.damage.iter().find(|it| it.kind.is_certain()) {
            return Err(format!("seed {seed}: {damage:?}"));
        }
        let mut all: Vec<_> = seen.settled.iter().chain(&seen.unsettled).collect();
        all.sort_by_key(|it| it.number);
        if !all.iter().all(|it| identity(it).is_some()) {
            return Err(format!("seed {seed}: a record was never appended"));
        }
        if all.windows(2).any(|it| it[0].number == it[1].number) {
            return Err(format!("seed {seed}: a record was found twice"));
        }
        let (log, ..) = &*log.lock().unwrap();
        let state = log.shared.lock();
        for record in before.iter().filter(|_| seen.reused == 0) {
            let is_found = seen.unsettled.contains(record);
            if !is_found && !state.settled.contains(record.number) {
                return Err(format!("seed {seed}: record {} was not found", record.number));
            }
        }
        found += all.len();
        reused += seen.reused;
    }
    Ok((found, reused))
}

#[test]
fn log_in_use_is_inspected_without_false_damage() {
    let (found, reused) = inspect_busy().unwrap_or_else(|it| panic!("{it}"));
    assert!(found > 500 && reused > 5, "{found} records, {reused} reused");
}
