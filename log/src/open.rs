//! Opening a log: repairs what a crash or damage left, and makes durable what it found before anything is delivered.

use std::path::Path;
use std::sync::Arc;

use crate::commit::Committer;
use crate::disk::{Disk, DiskFile};
use crate::error::{DeviceError, OpenError, at};
use crate::faults::fault;
use crate::files::Files;
use crate::find::{Contents, Identity, Segment, find, write_identity};
use crate::kept::Kept;
use crate::limits::{Limits, STAGING};
use crate::positions::PositionsFile;
use crate::prepare::{Free, Pool};
use crate::record::HEADER_LEN;
use crate::report::{Damage, Opened};
use crate::scan::Scan;
use crate::scanner::{Scanned, Scanner};
use crate::segment::repair;
use crate::state::{Live, Shared, State};

/// Maximum number of records that a run may have numbered without making them durable: those that fit into the bytes
/// that may wait for the disk.
const MOST_WAITING: u64 = STAGING / HEADER_LEN as u64;

/// Least bytes of segments that are scanned by several threads.
const MANY: u64 = 32 << 20;

/// Maximum number of threads that scan. With more, a disk that rotates would be slower.
const MOST_SCANNING: usize = 4;

/// An open log, without a thread.
pub(crate) struct Opening {
    pub(crate) committer: Committer,
    pub(crate) shared: Arc<Shared>,
    pub(crate) opened: Opened,
    /// Locks the folder until it is dropped.
    pub(crate) lock: Arc<dyn DiskFile>,
    /// Maximum number of ranges of settled numbers that are durable.
    pub(crate) max_ranges: usize,
}

/// Creates the missing folders, and makes the entries of all folders on the path durable: one that exists may have been
/// created by a run that was killed before it made its entry durable.
fn create_dirs(disk: &dyn Disk, dir: &Path) -> Result<(), DeviceError> {
    let mut missing = Vec::new();
    for path in dir.ancestors().filter(|it| !it.as_os_str().is_empty()) {
        if disk.is_dir(path).map_err(at("open", path))? {
            break;
        }
        missing.push(path);
    }
    for path in missing.iter().rev() {
        disk.create_dir(path).map_err(at("create", path))?;
    }
    let mut path = dir;
    let mut is_made = true;
    while let Some(parent) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        is_made &= missing.contains(&path);
        let synced = disk.sync_dir(parent);
        // Folders of others may not be readable. They exist for longer than the log.
        if is_made || path == dir {
            synced.map_err(at("sync the folder", parent))?;
        }
        path = parent;
    }
    Ok(())
}

/// Opens the log in `dir`.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    owner: &str,
    limits: Limits,
) -> Result<Opening, OpenError> {
    create_dirs(&*disk, dir)?;
    let files = Files { disk, dir: dir.to_owned(), is_read_only: false };
    let lock = files.acquire()?;
    let contents = find(&files)?;
    if let Some(found) = contents.owner.as_ref().filter(|it| *it != owner) {
        let (path, found, expected) = (dir.to_owned(), found.clone(), owner.to_owned());
        return Err(OpenError::Owner { path, found, expected });
    }
    let repair = Repair {
        kept: Kept::new(&files, limits.kept),
        pool: Pool::new(files.clone(), limits.segment_bytes, limits.segments),
        damage: Vec::new(),
        files: &files,
        limits,
    };
    repair.run(contents, owner, lock)
}

/// A segment with records that are not settled.
pub(crate) struct Unsettled {
    pub(crate) segment: Segment,
    pub(crate) scan: Scan,
}

/// An opening that has read what is there.
pub(crate) struct Repair<'a> {
    pub(crate) files: &'a Files,
    pub(crate) limits: Limits,
    kept: Kept<'a>,
    pub(crate) pool: Pool,
    damage: Vec<Damage>,
}

impl Repair<'_> {
    fn run(
        mut self,
        mut contents: Contents,
        owner: &str,
        lock: Arc<dyn DiskFile>,
    ) -> Result<Opening, OpenError> {
        let files = self.files;
        for path in &contents.unfinished {
            files.remove(path)?;
        }
        if !contents.unfinished.is_empty() {
            // A new file with the same name must not be replaced by the old one in a crash.
            files.sync_dir()?;
        }
        self.identity(&contents, owner)?;
        self.keep_unreadable(&contents)?;
        // A file may have got its name in a run that was killed before the name was durable.
        files.sync_dir()?;
        let is_new = contents.is_new();
        let had_positions = contents.positions.unreadable < 2 && !contents.positions.is_missing();
        self.damage.extend(contents.damage_of_positions(files));
        let segments = std::mem::take(&mut contents.segments);
        let next_sequence = segments.last().map_or(0, |it| it.header.sequence) + 1;
        let found = contents.positions.settled.clone();
        let (mut scanner, free) = Scanner::new(segments, found, had_positions);
        let (mut unsettled, free) = self.scan_all(&mut scanner, free)?;
        let Scanner { mut settled, mut previous, highest, .. } = scanner;
        let highest =
            highest.max(settled.position()).max(settled.ranges().last().map_or(0, |it| it.1));
        // Records of the last run may have been written and not found. What is left of them must not be taken for
        // other records with the same numbers.
        let is_closed = contents.positions.is_closed || is_new;
        let next =
            highest + 1 + if is_closed || fault("numbers used again") { 0 } else { MOST_WAITING };
        settled.insert(previous.last + 1, next - 1);
        let ranges = self.limits.ranges;
        let positions = PositionsFile::open(files, contents.positions, &settled, ranges)?;
        // The header of the last segment names other records as moved, so it is durable before these are overwritten.
        for Unsettled { segment, .. } in
            unsettled.iter().filter(|_| !fault("found headers not synced"))
        {
            let path = files.segment(segment.id);
            let repaired = repair(&*segment.file, &segment.header, segment.copies);
            repaired.map_err(at("write the header of", &path))?;
        }
        // The positions are durable in both blocks, so what they settle may be overwritten.
        for (segment, before) in free {
            self.add_free(segment, before)?;
        }
        let epoch = files.disk.random().map_err(at("read", Path::new("/dev/urandom")))?;
        let mut live = std::collections::BTreeMap::new();
        let mut moved = None;
        let mut opened = Opened::default();
        for it in &unsettled {
            opened.records += it.scan.unsettled.records;
            opened.bytes += it.scan.unsettled.bytes;
            opened.events += it.scan.unsettled.events;
        }
        let last_is_open =
            unsettled.last().is_some_and(|it| it.segment.header.sequence == previous.sequence);
        if last_is_open && let Some(last) = unsettled.pop() {
            moved =
                self.move_last(last, epoch, &settled, next_sequence, &mut previous, &mut live)?;
        }
        for Unsettled { segment, scan } in unsettled {
            live.insert(segment.header.sequence, self.live(segment, scan.last, scan.end));
        }
        if self.pool.free.is_empty() && self.pool.may_grow(false) {
            // The first append shall not wait for this. A full disk is a full log, which can be opened.
            match self.pool.prepare_now() {
                Err(error) if !error.is_full() => return Err(error.into()),
                _ => {}
            }
        }
        opened.damage = self.damage;
        opened.kept_removed = self.kept.removed;
        opened.kept_failed = self.kept.failed;
        let max_ranges = positions.max_ranges();
        let shared = Shared::new(State { next, live, settled, ..State::default() });
        let sequence = next_sequence + u64::from(moved.is_some());
        let mut committer = Committer::new(
            Arc::clone(&shared),
            files.clone(),
            epoch,
            self.pool,
            positions,
            previous,
            sequence,
        );
        if let Some((id, file, offset)) = moved {
            committer.resume(next_sequence, id, file, offset);
        }
        Ok(Opening { committer, shared, opened, lock, max_ranges })
    }

    fn identity(&mut self, contents: &Contents, owner: &str) -> Result<(), DeviceError> {
        if contents.identity == Identity::Intact {
            return Ok(());
        }
        self.damage.extend(contents.damage_of_identity(self.files));
        write_identity(self.files, owner)
    }

    fn keep_unreadable(&mut self, contents: &Contents) -> Result<(), DeviceError> {
        for it in &contents.unreadable {
            let kept = self.kept.keep(it.id, &*it.file, 0, it.len);
            self.damage.push(Damage { kept, ..it.damage(self.files) });
            self.files.remove(&self.files.segment(it.id))?;
        }
        Ok(())
    }

    /// Scans the segments that may contain records which are not settled. Returns these segments, and the others.
    #[expect(clippy::type_complexity, reason = "the parts have nothing in common")]
    fn scan_all(
        &mut self,
        scanner: &mut Scanner,
        free: Vec<(Segment, u64)>,
    ) -> Result<(Vec<Unsettled>, Vec<(Segment, u64)>), DeviceError> {
        let (mut unsettled, mut free) = (Vec::new(), free);
        for segment in free.iter().map(|it| &it.0).chain(scanner.segments()) {
            self.pool.add_existing(segment.id, segment.len);
        }
        let bytes: u64 = scanner.segments().map(|it| it.len).sum();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        if bytes >= MANY && threads > 1 {
            scanner.scan_ahead(self.files, threads.min(MOST_SCANNING));
        }
        while let Some(scanned) = scanner.next(self.files) {
            let Scanned { segment, scan, damage, .. } = scanned?;
            let sequence = segment.header.sequence;
            for mut it in damage {
                if it.kind.has_bytes() {
                    it.kept = self.kept.keep(sequence, &*segment.file, it.from, it.to);
                }
                self.damage.push(it);
            }
            match scan {
                Some(scan) if scan.unsettled.records > 0 => {
                    unsettled.push(Unsettled { segment, scan });
                }
                _ => free.push((segment, sequence)),
            }
        }
        Ok((unsettled, free))
    }

    pub(crate) fn add_free(&mut self, segment: Segment, before: u64) -> Result<(), DeviceError> {
        if segment.len == self.limits.segment_bytes {
            self.pool.reuse(Free { id: segment.id, file: segment.file, before });
        } else {
            self.files.remove(&self.files.segment(segment.id))?;
            self.pool.give_back(segment.len);
        }
        Ok(())
    }

    pub(crate) fn live(&self, segment: Segment, last: u64, end: u64) -> Live {
        Live {
            id: segment.id,
            file: segment.file,
            epoch: segment.header.epoch,
            first: segment.header.first,
            last,
            end,
            size: segment.len,
            is_sealed: true,
            is_reusable: segment.len == self.limits.segment_bytes,
        }
    }
}
