//! The commits: writes what waits, makes it durable, and only then acknowledges it.
//!
//! A [`Committer`] is a state machine without a thread, so that tests decide what happens when.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::error::{DeviceError, at};
use crate::faults::fault;
use crate::files::Files;
use crate::layout::{BLOCK, align};
use crate::positions::PositionsFile;
use crate::prepare::{Free, Pool};
use crate::record::stamp;
use crate::segment::{DATA, SegmentHeader, write_header};
use crate::settled::Settled;
use crate::state::{Live, Shared, Waiting};

/// Commits after which changed positions are written, so that a busy log writes them too.
const COMMITS_PER_POSITIONS: u32 = 16;

/// Least bytes of the next segment that are filled after a commit.
const FILL_LEAST: u64 = 64 << 10;

/// Bytes of the next segment that are filled at a time while nothing waits.
const FILL_IDLE: u64 = 1 << 20;

static PADDING: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// Result of a step of the committer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Something was done, and more may be due.
    Worked,
    /// No record waits. Changed positions are written by [`Committer::rest`].
    Idle,
    /// Records wait for a segment.
    Full,
    /// The disk failed. The step has to be repeated after a while.
    Failed,
}

/// The segment to which commits go.
struct Active {
    sequence: u64,
    file: Arc<dyn DiskFile>,
    id: u64,
    /// Offset of the next commit, a multiple of a block.
    offset: u64,
}

/// The end of the durable records of the last segment that has any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Previous {
    pub(crate) sequence: u64,
    pub(crate) end: u64,
    pub(crate) last: u64,
}

/// The only writer of a log.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    files: Files,
    epoch: u64,
    pool: Pool,
    positions: PositionsFile,
    next_sequence: u64,
    active: Option<Active>,
    previous: Previous,
    /// Records that were taken from the queue and are not durable.
    group: VecDeque<Waiting>,
    /// `true` after a failed sync, until a commit succeeds.
    is_failing: bool,
    commits_since_positions: u32,
}

impl Committer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        files: Files,
        epoch: u64,
        pool: Pool,
        positions: PositionsFile,
        previous: Previous,
        next_sequence: u64,
    ) -> Self {
        Self {
            shared,
            files,
            epoch,
            pool,
            positions,
            next_sequence,
            active: None,
            previous,
            group: VecDeque::new(),
            is_failing: false,
            commits_since_positions: 0,
        }
    }

    /// Continues a segment that opening has begun.
    pub(crate) fn resume(&mut self, sequence: u64, id: u64, file: Arc<dyn DiskFile>, offset: u64) {
        self.active = Some(Active { sequence, file, id, offset });
    }

    /// Makes one commit, if records wait, and what is due besides.
    pub(crate) fn step(&mut self) -> Progress {
        let progress = match self.work() {
            Ok(progress) => progress,
            Err(error) => {
                let is_full = error.is_full();
                let mut state = self.shared.lock();
                state.failure = Some(error.to_string());
                state.is_full |= is_full;
                if is_full { Progress::Full } else { Progress::Failed }
            }
        };
        if progress == Progress::Full {
            let notify = {
                let mut state = self.shared.lock();
                state.is_full = true;
                std::mem::take(&mut state.on_capacity)
            };
            notify.into_iter().for_each(|it| it());
        }
        progress
    }

    /// Removes and returns the records that wait, if they are to be refused. Their numbers count as settled. Call this
    /// only after a step that found no segment for them.
    pub(crate) fn take_refused(&mut self) -> Vec<Waiting> {
        // The next record has a gap in the numbers before it, so it begins a segment.
        if !std::mem::take(&mut self.shared.lock().refuses_waiting) {
            return Vec::new();
        }
        self.seal();
        let mut state = self.shared.lock();
        let state = &mut *state;
        let refused: Vec<_> = self.group.drain(..).chain(state.waiting.drain(..)).collect();
        if let (Some(first), Some(last)) = (refused.first(), refused.last()) {
            state.settled.insert(first.number, last.number);
            state.is_settled_changed = true;
        }
        state.staged_bytes -= refused.iter().map(|it| it.record.len() as u64).sum::<u64>();
        refused
    }

    fn work(&mut self) -> Result<Progress, DeviceError> {
        self.group.extend(self.shared.lock().waiting.drain(..));
        if self.group.is_empty() {
            // No record waits for a segment: the next one finds out whether there is one.
            self.shared.lock().is_full = false;
            self.reclaim();
            if self.pool.wants_more() {
                match self.pool.prepare(FILL_IDLE) {
                    Ok(_) => {
                        // The disk works again.
                        self.shared.lock().failure = None;
                        return Ok(Progress::Worked);
                    }
                    Err(error) if error.is_full() => {}
                    Err(error) => return Err(error),
                }
            }
            let mut state = self.shared.lock();
            if !state.is_settled_changed && !self.pool.lacks_space() {
                // The work is done, so no failure lasts.
                state.failure = None;
            }
            return Ok(Progress::Idle);
        }
        let Some(written) = self.commit()? else { return Ok(Progress::Full) };
        self.commits_since_positions += 1;
        if self.commits_since_positions >= COMMITS_PER_POSITIONS
            && self.shared.lock().is_settled_changed
        {
            self.write_positions()?;
            self.reclaim();
        }
        if self.pool.wants_more() && self.is_reclaimable() {
            // A segment that is reused need not be filled.
            self.write_positions()?;
            self.reclaim();
        }
        if self.pool.wants_more()
            && let Err(error) = self.pool.prepare(FILL_LEAST.max(2 * written))
            && !error.is_full()
        {
            // No commit waits for this segment yet, so the commit counts as done, and the error is shown.
            self.shared.lock().failure = Some(error.to_string());
        }
        Ok(Progress::Worked)
    }

    /// Returns whether the next step fills a part of the next segment if no record waits.
    pub(crate) fn fills_when_idle(&self) -> bool {
        self.group.is_empty() && self.pool.wants_more()
    }

    /// Writes changed positions while nothing else is to do. Returns `Progress::Idle` if there is nothing left.
    pub(crate) fn rest(&mut self) -> Progress {
        if !self.shared.lock().is_settled_changed {
            return Progress::Idle;
        }
        match self.write_positions() {
            Ok(()) => Progress::Worked,
            Err(error) => {
                self.shared.lock().failure = Some(error.to_string());
                Progress::Failed
            }
        }
    }

    /// Commits the first records of the group: those that fit into the segment. Returns the bytes written, or `None`
    /// if there is no segment.
    fn commit(&mut self) -> Result<Option<u64>, DeviceError> {
        let first = self.group.front().map_or(0, |it| it.record.len() as u64);
        if self.active.as_ref().is_some_and(|it| it.offset + first > self.pool.segment_bytes) {
            self.seal();
        }
        let mut opened = None;
        if self.active.is_none() {
            let Some(free) = self.take_segment()? else { return Ok(None) };
            opened = Some(free.before);
            self.active = Some(Active {
                sequence: self.next_sequence,
                file: free.file,
                id: free.id,
                offset: DATA,
            });
            // A sequence is not used twice, even if this segment gets no durable records.
            self.next_sequence += 1;
        }
        let Some(active) = &self.active else { return Ok(None) };
        let (sequence, file, id) = (active.sequence, Arc::clone(&active.file), active.id);
        let mut end = active.offset;
        let mut count = 0;
        for waiting in &mut self.group {
            let len = waiting.record.len() as u64;
            if end + len > self.pool.segment_bytes {
                break;
            }
            stamp(&mut waiting.record, waiting.number, self.epoch);
            end += len;
            count += 1;
        }
        match self.write(&*file, id, sequence, opened, count, end) {
            Ok(()) => {
                let written = end - self.active.as_ref().map_or(end, |it| it.offset);
                self.acknowledge(sequence, id, file, opened.is_some(), count, end);
                Ok(Some(written))
            }
            Err((error, is_sync)) => {
                self.is_failing = true;
                if let Some(before) = opened {
                    self.active = None;
                    self.pool.put_back(Free { id, file, before: before.max(1) });
                } else if is_sync {
                    // The sync may have dropped bytes without another error, so no later sync of this file counts.
                    self.seal();
                }
                Err(error)
            }
        }
    }

    /// Writes the first `count` records of the group and makes them durable. `opened` is set for the first commit to a
    /// segment. An error says whether a sync failed.
    fn write(
        &self,
        file: &dyn DiskFile,
        id: u64,
        sequence: u64,
        opened: Option<u64>,
        count: usize,
        end: u64,
    ) -> Result<(), (DeviceError, bool)> {
        let path = self.files.segment(id);
        let mut offset = self.active.as_ref().map_or(DATA, |it| it.offset);
        let mut head = Vec::new();
        if let Some(before) = opened {
            let header = SegmentHeader {
                sequence,
                epoch: self.epoch,
                first: self.group.front().map_or(0, |it| it.number),
                previous: self.previous.sequence,
                previous_end: self.previous.end,
                previous_last: self.previous.last,
                before,
            };
            // The first copy is durable before the second one is overwritten, so that a crash leaves a valid header.
            write_header(file, &header, 0)
                .map_err(|it| (at("write the header of", &path)(it), true))?;
            head = header.encode();
            offset = BLOCK;
        }
        let mut buffers = Vec::with_capacity(count + 2);
        buffers.push(IoSlice::new(&head));
        buffers.extend(self.group.iter().take(count).map(|it| IoSlice::new(&it.record)));
        buffers.push(IoSlice::new(&PADDING[..(align(end) - end) as usize]));
        file.write_at(&buffers, offset).map_err(|it| (at("write to", &path)(it), false))?;
        if fault("acknowledged after write") {
            return Ok(());
        }
        let synced = file.sync();
        let synced =
            if synced.is_err() && fault("second sync believed") { file.sync() } else { synced };
        synced.map_err(|it| (at("sync", &path)(it), true))
    }

    /// Reports the first `count` records of the group as durable.
    fn acknowledge(
        &mut self,
        sequence: u64,
        id: u64,
        file: Arc<dyn DiskFile>,
        is_opened: bool,
        count: usize,
        end: u64,
    ) {
        let durable: Vec<_> = self.group.drain(..count).collect();
        let last = durable.last().map_or(self.previous.last, |it| it.number);
        let bytes: u64 = durable.iter().map(|it| it.record.len() as u64).sum();
        self.previous = Previous { sequence, end, last };
        if let Some(active) = &mut self.active {
            active.offset = if fault("durable block written again") { end } else { align(end) };
        }
        self.is_failing = false;
        let mut state = self.shared.lock();
        if is_opened {
            let first = durable.first().map_or(last, |it| it.number);
            let size = self.pool.segment_bytes;
            let epoch = self.epoch;
            let live = Live {
                id,
                file,
                epoch,
                first,
                last,
                end,
                size,
                is_sealed: false,
                is_reusable: true,
            };
            state.live.insert(sequence, live);
        } else if let Some(live) = state.live.get_mut(&sequence) {
            (live.last, live.end) = (last, end);
        }
        state.staged_bytes -= bytes;
        state.is_full = false;
        state.failure = None;
        let notify: Vec<_> = {
            let state = &mut *state;
            state.on_record.drain(..).chain(state.on_capacity.drain(..)).collect()
        };
        drop(state);
        for waiting in durable {
            (waiting.done)(Ok(waiting.number));
        }
        notify.into_iter().for_each(|it| it());
    }

    /// Ends the segment at its last durable record.
    fn seal(&mut self) {
        if let Some(active) = self.active.take()
            && let Some(live) = self.shared.lock().live.get_mut(&active.sequence)
        {
            live.is_sealed = true;
        }
    }

    /// Returns a segment for the group: a free one, one whose records are settled, or a new one.
    fn take_segment(&mut self) -> Result<Option<Free>, DeviceError> {
        let takes_reserve = self.is_failing;
        if let Some(free) = self.pool.take(takes_reserve) {
            return Ok(Some(free));
        }
        // Segments are reused only when both blocks say so, hence at most two writes.
        for _ in 0..2 {
            self.reclaim();
            if let Some(free) = self.pool.take(takes_reserve) {
                return Ok(Some(free));
            }
            if !self.is_reclaimable() {
                break;
            }
            self.write_positions()?;
        }
        self.reclaim();
        loop {
            if let Some(free) = self.pool.take(takes_reserve) {
                return Ok(Some(free));
            }
            let is_limit_lifted = self.shared.lock().is_limit_lifted;
            if !self.pool.may_grow(is_limit_lifted) {
                return Ok(None);
            }
            self.pool.prepare_now()?;
        }
    }

    /// Returns whether writing positions would make a segment free.
    fn is_reclaimable(&self) -> bool {
        let state = self.shared.lock();
        let settled = state.settled.lowest(self.positions.max_ranges());
        state.live.values().any(|it| it.is_sealed && settled.covers(it.first, it.last))
            && !self.positions.is_durable(&settled)
    }

    /// Writes the settled numbers to the older of both blocks.
    pub(crate) fn write_positions(&mut self) -> Result<(), DeviceError> {
        self.commits_since_positions = 0;
        let settled = {
            let mut state = self.shared.lock();
            state.is_settled_changed = false;
            state.settled.clone()
        };
        let written = self.positions.write(&settled, false);
        if written.is_err() || !self.positions.is_durable(&settled) {
            self.shared.lock().is_settled_changed = true;
        }
        written
    }

    /// Returns the settled numbers that a crash cannot lose.
    #[cfg(test)]
    pub(crate) fn durably_settled(&self) -> &Settled {
        self.positions.newest()
    }

    /// Frees the segments whose records are durably settled.
    fn reclaim(&mut self) {
        let mut state = self.shared.lock();
        let is_free = |it: &Live| {
            let is_early = fault("segment reused before positions are durable");
            let is_settled = self.positions.covers(it.first, it.last)
                || (is_early && state.settled.covers(it.first, it.last));
            it.is_sealed && is_settled
        };
        let sequences: Vec<u64> = state
            .live
            .iter()
            .filter(|(_, it)| is_free(it))
            .map(|(sequence, _)| *sequence)
            .collect();
        let freed: Vec<_> =
            sequences.into_iter().filter_map(|it| Some((it, state.live.remove(&it)?))).collect();
        drop(state);
        for (sequence, live) in freed {
            if live.is_reusable {
                self.pool.reuse(Free { id: live.id, file: live.file, before: sequence });
            } else if self.files.remove(&self.files.segment(live.id)).is_ok() {
                self.pool.give_back(live.size);
            }
        }
    }

    /// Writes which records are settled, before the log is closed. If no record waits, the next run continues with the
    /// next number. After an error, the call may be repeated.
    pub(crate) fn write_last_positions(&mut self) -> Result<(), DeviceError> {
        let settled = {
            let mut state = self.shared.lock();
            self.group.extend(state.waiting.drain(..));
            state.settled.clone()
        };
        self.positions.write(&settled, self.group.is_empty())
    }

    /// Returns an upper bound of the number of settled records that the next run may find as not settled, because it is
    /// not durable that they are settled.
    pub(crate) fn may_return(&self) -> u64 {
        let state = self.shared.lock();
        let durable = self.positions.newest();
        let count = |settled: &Settled, live: &Live| -> u64 {
            settled.within(live.first, live.last).iter().map(|it| it.1 - it.0 + 1).sum()
        };
        let left = |it: &Live| count(&state.settled, it).saturating_sub(count(durable, it));
        state.live.values().map(left).sum()
    }

    /// Removes and returns the records that are not durable.
    pub(crate) fn take_lost(&mut self) -> Vec<Waiting> {
        self.group.drain(..).collect()
    }
}
