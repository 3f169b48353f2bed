//! Scans the segments of a log in their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::commit::Previous;
use crate::error::DeviceError;
use crate::files::Files;
use crate::find::Segment;
use crate::report::{Damage, DamageKind, RecordInfo};
use crate::scan::{KnownEnd, Linked, Scan, scan};
use crate::segment::{Copies, DATA, SegmentHeader};
use crate::settled::Settled;

/// Maximum number of scans of a segment that is in use, until two of them agree about its damage.
const MOST_SCANS: u32 = 8;

/// Segments with records, in their order, and what is known from those that were scanned.
pub(crate) struct Scanner {
    linked: VecDeque<Linked>,
    /// Scans of the same segments that were made ahead.
    ahead: VecDeque<Option<Scan>>,
    /// The settled numbers on which these scans depend.
    ahead_settled: Settled,
    /// The settled numbers. Numbers of records that are lost are added.
    pub(crate) settled: Settled,
    /// The end of the last segment that was scanned.
    pub(crate) previous: Previous,
    /// The highest number that may have been used.
    pub(crate) highest: u64,
    had_positions: bool,
    /// `true` for an inspection, which lists the records, and during which another process may write to the log. Damage
    /// counts only if a second scan finds it too, because a scan may see a part of a write.
    pub(crate) is_inspection: bool,
    /// `true` if segments without unsettled records are scanned too.
    pub(crate) scans_settled: bool,
}

/// A segment that was scanned.
pub(crate) struct Scanned {
    pub(crate) segment: Segment,
    /// The result of the scan; `None` if all records are settled and the segment was not scanned.
    pub(crate) scan: Option<Scan>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) records: Vec<RecordInfo>,
}

impl Scanner {
    /// Links the segments. Returns a scanner, and the segments without records, each with the sequence of its earlier
    /// use.
    pub(crate) fn new(
        segments: Vec<Segment>,
        settled: Settled,
        had_positions: bool,
    ) -> (Self, Vec<(Segment, u64)>) {
        let mut free = Vec::new();
        let mut linked = VecDeque::new();
        let mut follower: Option<SegmentHeader> = None;
        for segment in segments.into_iter().rev() {
            let sequence = segment.header.sequence;
            // A segment that its follower does not name got no durable records before it was given back.
            if sequence == 0 || follower.is_some_and(|it| it.previous < sequence) {
                free.push((segment, sequence));
                continue;
            }
            let known = follower.filter(|it| it.previous == sequence);
            let known = known.map(|it| KnownEnd { end: it.previous_end, last: it.previous_last });
            let bound = follower.map_or(u64::MAX, |it| it.previous_last);
            follower = Some(segment.header);
            linked.push_front(Linked { segment, known, bound });
        }
        let scanner = Self {
            linked,
            ahead: VecDeque::new(),
            ahead_settled: Settled::default(),
            settled,
            previous: Previous::default(),
            highest: 0,
            had_positions,
            is_inspection: false,
            scans_settled: false,
        };
        (scanner, free)
    }

    /// Returns the segments that were not scanned yet.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.linked.iter().map(|it| &it.segment)
    }

    /// Scans all segments with several threads, so that [`Scanner::next`] need not. A scan that finds damage is discarded,
    /// because the numbers that it settles may concern the segments that follow.
    pub(crate) fn scan_ahead(&mut self, files: &Files, threads: usize) {
        let settled = &self.settled;
        let linked = &*self.linked.make_contiguous();
        let scans: Vec<Mutex<Option<Scan>>> = linked.iter().map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        let begin = || {
            let at = next.fetch_add(1, Ordering::Relaxed);
            linked.get(at).zip(scans.get(at))
        };
        let work = || {
            while let Some((linked, found)) = begin() {
                *found.lock().unwrap_or_else(PoisonError::into_inner) =
                    scan_intact(files, linked, settled);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // Without a thread, this one has more to do.
                let _ = thread::Builder::new().name("log".to_owned()).spawn_scoped(scope, work);
            }
            work();
        });
        let scans = scans.into_iter().map(Mutex::into_inner);
        self.ahead = scans.map(|it| it.unwrap_or_else(PoisonError::into_inner)).collect();
        self.ahead_settled = self.settled.clone();
    }

    /// Scans the next segment. After an error, the next call continues behind the segment.
    pub(crate) fn next(&mut self, files: &Files) -> Option<Result<Scanned, DeviceError>> {
        let linked = self.linked.pop_front()?;
        let ahead = self.ahead.pop_front().flatten();
        let header = linked.segment.header;
        let mut damage: Vec<_> = self.missing(files, &linked.segment).into_iter().collect();
        self.settled.insert(self.previous.last.saturating_add(1), header.first.saturating_sub(1));
        let skipped = linked.known.filter(|_| is_settled(&linked, &self.settled));
        if let Some(known) = skipped {
            self.highest = self.highest.max(known.last);
            self.previous =
                Previous { sequence: header.sequence, end: known.end, last: known.last };
            if !self.scans_settled {
                let segment = linked.segment;
                return Some(Ok(Scanned { segment, scan: None, damage, records: Vec::new() }));
            }
        } else {
            // Without the records, this is the best that is known, in case that the segment cannot be read.
            let (end, last) =
                linked.known.map_or((DATA, self.previous.last), |it| (it.end, it.last));
            let last = last.max(self.previous.last);
            self.previous = Previous { sequence: header.sequence, end, last };
        }
        if matches!(linked.segment.copies, Copies::Unreadable(_)) {
            let (kind, path) = (DamageKind::Header, files.segment(linked.segment.id));
            damage.push(Damage { kind, path, from: 0, to: DATA, records: 0, kept: None });
        }
        let mut records = Vec::new();
        // A scan depends on which of its records are settled.
        let ahead = ahead.filter(|it| {
            let within = |settled: &Settled| settled.within(header.first, it.last);
            within(&self.settled) == within(&self.ahead_settled)
        });
        let scan = match ahead {
            Some(scan) => scan,
            None => match self.scan(files, &linked, &mut damage, &mut records) {
                Ok(scan) => scan,
                Err(error) => return Some(Err(error)),
            },
        };
        self.highest = self.highest.max(scan.highest);
        if linked.known.is_none() {
            self.previous.end = scan.end;
        }
        self.previous.last = self.previous.last.max(scan.last);
        if scan.unsettled.records == 0 {
            self.settled.insert(header.first, self.previous.last);
        }
        Some(Ok(Scanned { segment: linked.segment, scan: Some(scan), damage, records }))
    }

    fn scan(
        &mut self,
        files: &Files,
        linked: &Linked,
        damage: &mut Vec<Damage>,
        records: &mut Vec<RecordInfo>,
    ) -> Result<Scan, DeviceError> {
        if !self.is_inspection {
            return scan(files, linked, &mut self.settled, damage, None);
        }
        let mut before = None;
        for _ in 1..MOST_SCANS {
            let (mut settled, mut found) = (self.settled.clone(), Vec::new());
            let scan = scan(files, linked, &mut settled, &mut found, Some(records))?;
            if found.is_empty() || before.as_ref() == Some(&found) {
                self.settled = settled;
                damage.append(&mut found);
                return Ok(scan);
            }
            before = Some(found);
            records.clear();
        }
        scan(files, linked, &mut self.settled, damage, Some(records))
    }

    /// Returns the damage if records before the segment are gone although they were not settled.
    fn missing(&self, files: &Files, segment: &Segment) -> Option<Damage> {
        let (header, previous) = (&segment.header, self.previous);
        let is_first = previous.sequence == 0;
        let is_gone = header.previous != previous.sequence && (self.had_positions || !is_first);
        if !is_gone || self.settled.covers(previous.last + 1, header.previous_last) {
            return None;
        }
        let path = files.segment(segment.id);
        let records =
            header.previous_last.saturating_sub(previous.last.max(self.settled.position()));
        let kind = DamageKind::Missing;
        Some(Damage { kind, path, from: 0, to: 0, records, kept: None })
    }
}

/// Returns whether all records of a segment are settled, so that it need not be scanned.
fn is_settled(linked: &Linked, settled: &Settled) -> bool {
    linked.known.is_some_and(|it| settled.covers(linked.segment.header.first, it.last))
}

/// Scans a segment. Returns `None` if all of its records are settled, if it is damaged, or if it cannot be read.
fn scan_intact(files: &Files, linked: &Linked, settled: &Settled) -> Option<Scan> {
    if is_settled(linked, settled) {
        return None;
    }
    let (mut found, mut damage) = (settled.clone(), Vec::new());
    let scan = scan(files, linked, &mut found, &mut damage, None).ok()?;
    (damage.is_empty() && found == *settled).then_some(scan)
}
