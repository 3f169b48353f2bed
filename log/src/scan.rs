//! Reads all records of a segment when a log is opened.

use crate::error::{DeviceError, at};
use crate::faults::fault;
use crate::files::Files;
use crate::find::Segment;
use crate::layout::{BLOCK, align, is_zero, u64_at};
use crate::record::{HEADER_LEN, events, may_be_new};
use crate::report::{Damage, DamageKind, RecordInfo};
use crate::segment::DATA;
use crate::settled::Settled;
use crate::walker::{Step, Walker};

/// Bytes that are searched for the end of a tail at a time.
const PART: u64 = 1 << 20;

/// The records of a segment.
pub(crate) struct Scan {
    /// Number of the last record, or the number before the first one.
    pub(crate) last: u64,
    /// Offset of the end of the last record.
    pub(crate) end: u64,
    /// Offset at which the last commit may have begun, and the last number before it.
    pub(crate) commit: (u64, u64),
    /// The records that are not settled.
    pub(crate) unsettled: Amount,
    /// Upper bound of the numbers that the records had which are lost at the end.
    pub(crate) highest: u64,
}

/// An amount of records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amount {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// Number of events, as the headers of the records say.
    pub(crate) events: u64,
}

/// The end of a segment, as the header of the next one records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownEnd {
    pub(crate) end: u64,
    pub(crate) last: u64,
}

/// A segment, with what its follower says about it.
pub(crate) struct Linked {
    pub(crate) segment: Segment,
    /// The end that the follower records, unless there is no follower or it names another segment.
    pub(crate) known: Option<KnownEnd>,
    /// Records with a higher number are copies of records in a later segment, which a commit left that failed.
    pub(crate) bound: u64,
}

/// Scans a segment. Numbers of records that are lost become settled, so that nobody waits for them. Adds the records to
/// `records`, if it is set.
pub(crate) fn scan(
    files: &Files,
    linked: &Linked,
    settled: &mut Settled,
    damage: &mut Vec<Damage>,
    mut records: Option<&mut Vec<RecordInfo>>,
) -> Result<Scan, DeviceError> {
    let Linked { segment, known, bound } = linked;
    let (known, bound) = (*known, *bound);
    let path = files.segment(segment.id);
    let read = |it| at("read", &path)(it);
    let header = &segment.header;
    let limit = known.map_or(segment.len, |it| it.end);
    let before = header.first.saturating_sub(1);
    let mut walker = Walker::new(segment.file.clone(), header.epoch, DATA, before);
    let mut scan = Scan {
        last: before,
        end: DATA,
        commit: (DATA, before),
        unsettled: Amount::default(),
        highest: before,
    };
    let mut holes: Vec<(u64, u64, u64, bool)> = Vec::new();
    let mut lost_after = None;
    let mut report = |kind, from, to, records| {
        damage.push(Damage { kind, path: path.clone(), from, to, records, kept: None });
    };
    let end = loop {
        match walker.next(limit).map_err(read)? {
            Step::Record { number, .. } if number > bound => break None,
            Step::Record { number, offset, len } => {
                if let Some((from, to)) = lost_after.take() {
                    let records = number - scan.last - 1;
                    let is_settled = records > 0 && settled.covers(scan.last + 1, number - 1);
                    holes.push((from, to, records, is_settled));
                    if records > 0 {
                        settled.insert(scan.last + 1, number - 1);
                    }
                }
                if walker.commit() == offset {
                    scan.commit = (offset, scan.last);
                }
                let is_settled = settled.contains(number);
                if !is_settled || records.is_some() {
                    let header = walker.bytes(offset, HEADER_LEN as u64, limit).map_err(read)?;
                    let events = events(header);
                    if !is_settled {
                        scan.unsettled.records += 1;
                        scan.unsettled.bytes += len;
                        scan.unsettled.events += u64::from(events);
                    }
                    if let Some(records) = &mut records {
                        records.push(RecordInfo { number, offset, len, events, is_settled });
                    }
                }
                scan.last = number;
                scan.end = offset + len;
            }
            Step::Damage { from, to } => lost_after = Some((from, to)),
            Step::End { at } => break Some(at),
        }
    };
    scan.highest = scan.last;
    let Some(end) = end else { return Ok(scan) };
    for (from, to, records, is_settled) in holes {
        // A commit begins only when the previous one is durable. Only the last one may be unfinished.
        let is_tail = known.is_none() && to > scan.commit.0;
        match is_tail {
            _ if is_settled => report(DamageKind::Settled, from, to, 0),
            true => report(DamageKind::Tail, from, to, records),
            false if records == 0 => report(DamageKind::Padding, from, to, 0),
            false => report(DamageKind::Records, from, to, records),
        }
    }
    if let Some(known) = known {
        if end < known.end {
            let records = known.last.saturating_sub(scan.last);
            report(DamageKind::Records, end, known.end, records);
        }
        let padded = align(known.end).min(segment.len).max(known.end);
        let padding = walker.bytes(known.end, padded - known.end, padded).map_err(read)?;
        if padding.iter().any(|it| *it != 0) {
            report(DamageKind::Padding, known.end, padded, 0);
        }
        scan.highest = scan.last.max(known.last);
    } else if let Some(to) = tail(&mut walker, segment, end, &scan).map_err(read)? {
        let records = (to - scan.end) / HEADER_LEN as u64;
        scan.highest = scan.last + records;
        report(DamageKind::Tail, scan.end, to, records);
    }
    if fault("numbers used again after a cut") {
        scan.highest = scan.last;
    }
    Ok(scan)
}

/// Returns the end of the bytes after the last record that are neither zeros nor what the file contained before it was
/// reused.
fn tail(
    walker: &mut Walker,
    segment: &Segment,
    end: u64,
    scan: &Scan,
) -> std::io::Result<Option<u64>> {
    let limit = segment.len;
    let padded = align(scan.end).min(limit);
    let is_padding_zero =
        walker.bytes(scan.end, padded - scan.end, limit)?.iter().all(|it| *it == 0);
    let start = end.max(scan.end);
    let header = &segment.header;
    let head = walker.bytes(start, HEADER_LEN as u64, limit)?;
    let claimed = if head.len() == HEADER_LEN { u64_at(head, 8).min(limit - start) } else { 0 };
    let bytes = walker.bytes(start, claimed.max(HEADER_LEN as u64), limit)?;
    let is_new = may_be_new(bytes, header.epoch, scan.last, header.first);
    if header.before != 0 && is_padding_zero && !is_new {
        return Ok(None);
    }
    let mut last = None;
    let mut from = scan.end;
    while from < limit {
        let bytes = walker.bytes(from, PART.min(limit - from), limit)?;
        if bytes.is_empty() {
            break;
        }
        let mut blocks = bytes.chunks(BLOCK as usize).enumerate();
        if let Some((index, block)) = blocks.rfind(|(_, block)| !is_zero(block)) {
            let at = block.iter().rposition(|it| *it != 0).unwrap_or(0);
            last = Some(from + index as u64 * BLOCK + at as u64 + 1);
        }
        from += bytes.len() as u64;
    }
    Ok(last.map(|it| it.next_multiple_of(BLOCK).min(limit)))
}
