//! Opening a log: repairs what a crash or damage left, and makes durable what it found before anything is delivered.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use crate::commit::{Committer, Previous};
use crate::disk::{Disk, DiskFile};
use crate::error::{DeviceError, OpenError, at};
use crate::faults::fault;
use crate::files::Files;
use crate::find::{Contents, Identity, Segment, find, write_identity};
use crate::kept::Kept;
use crate::layout::BLOCK;
use crate::limits::{Limits, STAGING};
use crate::positions::PositionsFile;
use crate::prepare::{Free, Pool};
use crate::record::HEADER_LEN;
use crate::report::{Damage, DamageKind, Opened};
use crate::scan::{KnownEnd, Scan, scan};
use crate::segment::{Copies, DATA, SegmentHeader, repair};
use crate::settled::Settled;
use crate::state::{Live, Shared, State};

/// Maximum number of records that a run may have numbered without making them durable: those that fit into the bytes
/// that may wait for the disk.
const MOST_WAITING: u64 = STAGING / HEADER_LEN as u64;

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
    let files = Files { disk, dir: dir.to_owned() };
    let path = files.lock();
    let lock = files.disk.lock(&path).map_err(at("lock", &path))?;
    let lock = lock.ok_or_else(|| OpenError::InUse(dir.to_owned()))?;
    let contents = find(&files, owner)?;
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
        let mut settled = contents.positions.settled.clone();
        self.report_positions(&contents);
        let segments = std::mem::take(&mut contents.segments);
        let next_sequence = segments.last().map_or(0, |it| it.header.sequence) + 1;
        let (mut unsettled, free, mut previous, highest) =
            self.scan_all(segments, &mut settled, had_positions)?;
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
        if !contents.is_new() {
            let (kind, path) = (DamageKind::Identity, self.files.identity());
            self.damage.push(Damage { kind, path, from: 0, to: 2 * BLOCK, records: 0, kept: None });
        }
        write_identity(self.files, owner)
    }

    fn report_positions(&mut self, contents: &Contents) {
        let is_lost = contents.positions.unreadable == 0 && contents.positions.is_missing();
        if contents.positions.unreadable > 0 || (is_lost && !contents.segments.is_empty()) {
            let (kind, path) = (DamageKind::Positions, self.files.positions());
            self.damage.push(Damage { kind, path, from: 0, to: 0, records: 0, kept: None });
        }
    }

    fn keep_unreadable(&mut self, contents: &Contents) -> Result<(), DeviceError> {
        for it in &contents.unreadable {
            let path = self.files.segment(it.id);
            let kept = self.kept.keep(it.id, &*it.file, 0, it.len);
            let (kind, from, to) = (DamageKind::Segment, 0, it.len);
            self.damage.push(Damage { kind, path: path.clone(), from, to, records: 0, kept });
            self.files.remove(&path)?;
        }
        Ok(())
    }

    /// Scans the segments that may contain records which are not settled. Returns these segments, the others, the end
    /// of the last one, and the highest number that may have been used.
    #[expect(clippy::type_complexity, reason = "the parts have nothing in common")]
    fn scan_all(
        &mut self,
        segments: Vec<Segment>,
        settled: &mut Settled,
        had_positions: bool,
    ) -> Result<(Vec<Unsettled>, Vec<(Segment, u64)>, Previous, u64), DeviceError> {
        let mut free = Vec::new();
        let mut chain: VecDeque<(Segment, Option<KnownEnd>, u64)> = VecDeque::new();
        let mut follower: Option<SegmentHeader> = None;
        for segment in segments.into_iter().rev() {
            self.pool.add_existing(segment.id, segment.len);
            let sequence = segment.header.sequence;
            // A segment that its follower does not name got no durable records before it was given back.
            if sequence == 0 || follower.is_some_and(|it| it.previous < sequence) {
                let before = if sequence == 0 { 0 } else { sequence };
                free.push((segment, before));
                continue;
            }
            let is_named = follower.is_some_and(|it| it.previous == sequence);
            let known = follower.filter(|_| is_named);
            let known = known.map(|it| KnownEnd { end: it.previous_end, last: it.previous_last });
            let bound = follower.map_or(u64::MAX, |it| it.previous_last);
            follower = Some(segment.header);
            chain.push_front((segment, known, bound));
        }
        let mut unsettled = Vec::new();
        let mut previous = Previous::default();
        let mut highest = 0;
        while let Some((segment, known, bound)) = chain.pop_front() {
            let header = segment.header;
            self.check_missing(&segment, previous, settled, had_positions);
            settled.insert(previous.last.saturating_add(1), header.first.saturating_sub(1));
            let skipped = known.filter(|it| settled.covers(header.first, it.last));
            if let Some(known) = skipped {
                highest = highest.max(known.last);
                previous = Previous { sequence: header.sequence, end: known.end, last: known.last };
                free.push((segment, header.sequence));
                continue;
            }
            if matches!(segment.copies, Copies::Unreadable(_)) {
                let (kind, path) = (DamageKind::Header, self.files.segment(segment.id));
                self.damage.push(Damage { kind, path, from: 0, to: DATA, records: 0, kept: None });
            }
            let scan = scan(
                self.files,
                &segment,
                known,
                bound,
                settled,
                &mut self.kept,
                &mut self.damage,
            )?;
            highest = highest.max(scan.highest);
            let (end, last) =
                known.map_or((scan.end, scan.last), |it| (it.end, it.last.max(scan.last)));
            let last = last.max(previous.last);
            previous = Previous { sequence: header.sequence, end, last };
            if scan.unsettled.records == 0 {
                settled.insert(header.first, last);
                free.push((segment, header.sequence));
            } else {
                unsettled.push(Unsettled { segment, scan });
            }
        }
        Ok((unsettled, free, previous, highest))
    }

    /// Reports records of segments that are gone although the records were not settled.
    fn check_missing(
        &mut self,
        segment: &Segment,
        previous: Previous,
        settled: &Settled,
        had_positions: bool,
    ) {
        let header = &segment.header;
        let is_first = previous.sequence == 0;
        let is_gone = header.previous != previous.sequence && (had_positions || !is_first);
        if is_gone && !settled.covers(previous.last + 1, header.previous_last) {
            let path = self.files.segment(segment.id);
            let records =
                header.previous_last.saturating_sub(previous.last.max(settled.position()));
            let kind = DamageKind::Missing;
            self.damage.push(Damage { kind, path, from: 0, to: 0, records, kept: None });
        }
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
