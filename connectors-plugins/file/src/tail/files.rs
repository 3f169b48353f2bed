//! The files of a source, and the order in which they are read.

use std::{
    collections::{HashMap, HashSet},
    io,
    ops::ControlFlow,
    path::{self, Path, PathBuf},
    time::Duration,
};

use tremor_pdk::{
    Error, ErrorKind, ErrorPolicy, Host, RawBatch, Result, info,
    units::{Interval, Size},
    warn,
};

use super::{
    checkpoint::Entry,
    clock::nanoseconds,
    gauges::Gauges,
    identity::FileId,
    input::{Input, ReadOptions, ReadOutcome, Stage},
    losses::Losses,
    open::{OpenCount, max_open},
    pattern::Pattern,
    positions::{PULL_BYTES, Positions},
    predecessors::{Deferred, Predecessor},
    pull::{self, PullInfo},
    results::{Snapshot, Stamp},
    summary::Summary,
    unreadable::Unreadable,
    walk::Walk,
};
use crate::{Config, Start, origin};

/// Time without new data after which a renamed or deleted file is finished. The process that writes
/// to the file may notice the rename late and continue to write.
const LINGER: Duration = Duration::from_secs(5);

/// Time for which a file is silent, divided by the pause until its next check.
const SILENCE_PER_PAUSE: u64 = 8;

/// Maximum number of files that are all checked in each poll interval.
const FEW: usize = 256;

/// Default of `max_deleted_bytes`.
const MAX_DELETED: u64 = 1 << 30;

/// Number of files that are checked in each poll interval if there are more than [`FEW`] and all are
/// silent. The other files are checked in turn, so that the work does not grow with their number.
const CHECKED: u64 = 85;

/// The files of one source. Methods may block unless stated otherwise.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(crate) struct Files {
    pub(super) host: Host,
    pub(super) options: ReadOptions,
    pub(super) pattern: Pattern,
    pub(super) inputs: Vec<Input>,
    /// State of `inputs`, which is cleared when they change other than by a read.
    pub(super) summary: Summary,
    /// Checkpoint entries of files that are not being read: files of earlier runs, and files that
    /// are read to their end.
    pub(super) known: Vec<Entry>,
    /// Contents that were read from files that no longer have them.
    pub(super) predecessors: Vec<Predecessor>,
    /// New files that may be copies of files that still exist.
    pub(super) deferred: Deferred,
    /// Followed files that are read to their ends and not read again unless they change.
    pub(super) done: HashMap<FileId, Stamp>,
    /// `true` if the checkpoint has an entry of each file.
    pub(super) is_published: bool,
    /// Streams to forget once the checkpoint no longer has entries of them.
    pub(super) forgotten: Vec<u64>,
    /// `true` if there may be files that no path leads to.
    pub(super) has_gone: bool,
    /// `true` if the files that the next search finds are read from their ends.
    pub(super) starts_at_end: bool,
    /// Age from which a new file is not read, in ns.
    pub(super) ignore_older: Option<Duration>,
    /// `true` if the current search or check found no file to close in favour of another.
    pub(super) is_full: bool,
    /// `true` until the results of a search were applied for the first time.
    pub(super) is_first_search: bool,
    pub(super) positions: Option<Positions>,
    next_stream: u64,
    /// Maximum number of files that may be open at the same time.
    pub(super) max_open: usize,
    /// Number of files that are open.
    pub(super) open: OpenCount,
    pub(super) gauges: Gauges,
    pub(super) losses: Losses,
    /// Maximum number of bytes that deleted files may take on the disk.
    pub(super) max_deleted: u64,
    /// Time at which a chunk was read last, by the monotonic clock.
    pub(super) read_at_ns: u64,
    /// Sequence number of the last use of a file.
    uses: u64,
    /// Index in `inputs` of the file that was read last; files are read in turn.
    turn: usize,
    /// Stream that the current pull aborts.
    pub(super) cut_off: Option<u64>,
    /// Streams with pulls that were read but not returned yet. The files of these streams stay in
    /// `inputs`.
    pub(super) waiting: Vec<u64>,
    /// `true` if bytes of a compressed file are left to skip.
    is_skipping: bool,
    pub(super) poll_ns: u64,
    pub(super) search_at_ns: u64,
    /// A search that has not ended yet.
    pub(super) searching: Option<Walk>,
    /// Start of that search, by the monotonic clock.
    pub(super) search_began_ns: Option<u64>,
    /// Folders of the last search; `None` if the next search has to read the folders.
    pub(super) snapshot: Option<Snapshot>,
    /// Paths that exist and cannot be read at the moment. They are retried.
    pub(super) unreadable: Unreadable,
    /// Files whose contents cannot be read, and that were reported already.
    pub(super) reported: HashSet<PathBuf>,
}

/// Result of an attempt to read.
pub(super) enum Next {
    Pull(PullInfo),
    /// No file has unread data.
    Nothing,
    /// No file has unread data, but work is left: the search for files has not ended, or bytes of a
    /// compressed file are being skipped.
    Working,
    /// Every file is read to its end, and none will grow.
    Finished,
}

impl Files {
    pub(crate) fn open(config: &Config, host: Host) -> Result<Self> {
        let chunk_bytes = config.chunk_bytes.get();
        // Make the path absolute, because a checkpoint contains the path, and the next run may
        // start in another working directory.
        let path =
            path::absolute(&config.path).map_err(|error| cannot_read(&config.path, &error))?;
        let pattern = Pattern::new(&path, &config.exclude)?;
        let options = ReadOptions {
            chunk_bytes,
            pull_bytes: match config.checkpoint {
                Some(_) => chunk_bytes.min(PULL_BYTES),
                None => chunk_bytes,
            },
            part_bytes: 0,
            message_end: config.message_end.clone().into_bytes(),
            compression: config.compression,
            has_offsets: config.offset,
            is_pattern: matches!(pattern, Pattern::Many(_)),
            follow: config.follow,
        };
        let mut files = Self {
            gauges: Gauges::new(&host),
            losses: Losses::new(&host),
            max_deleted: config.max_deleted_bytes.map_or(MAX_DELETED, Size::get),
            read_at_ns: 0,
            unreadable: Unreadable::new(&host),
            host,
            options,
            pattern,
            inputs: Vec::new(),
            summary: Summary::default(),
            known: Vec::new(),
            predecessors: Vec::new(),
            deferred: HashMap::new(),
            done: HashMap::new(),
            is_published: false,
            forgotten: Vec::new(),
            has_gone: false,
            starts_at_end: config.start == Start::End,
            ignore_older: config.ignore_older.map(Interval::get),
            is_full: false,
            is_first_search: true,
            positions: None,
            next_stream: 0,
            max_open: config.max_open_files.map_or_else(max_open, |it| it.get() as usize),
            open: OpenCount::default(),
            uses: 0,
            turn: 0,
            cut_off: None,
            waiting: Vec::new(),
            is_skipping: false,
            poll_ns: nanoseconds(config.poll_interval.get()),
            search_at_ns: 0,
            searching: None,
            search_began_ns: None,
            snapshot: None,
            reported: HashSet::new(),
        };
        if let Some((positions, known)) =
            Positions::open(config, files.options.pull_bytes as u64, &files.host)?
        {
            files.starts_at_end &= positions.is_new;
            (files.positions, files.known) = (Some(positions), known);
        }
        files.search_first(&path)?;
        Ok(files)
    }

    /// Updates the maximum number of bytes of the next pulls.
    pub(super) fn update_pull_bytes(&mut self) {
        if let Some(positions) = &self.positions {
            self.options.pull_bytes = self.options.chunk_bytes.min(positions.pull_bytes());
            self.options.part_bytes = positions.part_bytes();
        }
    }

    /// Reads from the next file that has data. Before that, searches for files and saves the
    /// checkpoint, if these are due.
    pub(super) fn next(&mut self, batch: &mut RawBatch) -> Result<Next> {
        let next = self.read_next(batch);
        // Publish only once, because each call copies all entries.
        self.publish_changes();
        self.report_losses(self.host.monotonic_ns());
        next
    }

    fn read_next(&mut self, batch: &mut RawBatch) -> Result<Next> {
        let now_ns = self.host.monotonic_ns();
        if self.options.follow && now_ns >= self.search_at_ns {
            self.search(now_ns)?;
        }
        if self.positions.as_ref().is_some_and(Positions::is_due) {
            // Retry after every error, because the checkpoint could be written when the source started.
            self.commit().map_err(|error| error.with_policy(ErrorPolicy::RETRY))?;
        }
        self.summary.refresh(&self.inputs);
        self.gauges.update(&self.summary, &self.open, now_ns);
        self.is_skipping = false;
        for _ in 0..self.inputs.len() {
            self.turn = (self.turn + 1) % self.inputs.len();
            if !self.summary.is_due(self.turn, now_ns) {
                continue;
            }
            let known_by = self.inputs[self.turn].identity.first_bytes();
            let read = self.read_more(self.turn, batch, now_ns);
            self.summary.update(self.turn, &self.inputs[self.turn]);
            let input = &mut self.inputs[self.turn];
            // Publish the extended identity: it has to be in the checkpoint together with the
            // position.
            if let Some(positions) = &self.positions
                && input.identity.first_bytes() != known_by
            {
                positions.set_identity(input.stream, &input.identity);
            }
            if let Some(position) = read? {
                let (stream, is_partial) = (input.stream, input.ends_in_part());
                input.is_partial = is_partial;
                let bytes = batch.bytes().len();
                let end = input.content_position();
                let is_divisible = input.is_plain() && !is_partial && self.positions.is_some();
                if is_divisible && input.offsets.is_none() {
                    pull::divide(batch, &self.options.message_end, self.options.part_bytes);
                }
                match &mut input.offsets {
                    Some(offsets) => offsets.divide(batch, end, &input.path),
                    None => batch.apply_origin(0, &origin::of(&input.path)),
                }
                let ends = if is_divisible { pull::ends(batch, position) } else { Vec::new() };
                let mut endings = pull::endings(batch, &ends);
                if ends.is_empty() {
                    endings.extend(input.ending.filter(|ending| ending.position == position));
                }
                let cut_off = self.cut_off.take();
                let length = input.length;
                return Ok(Next::Pull(PullInfo {
                    stream,
                    position,
                    ends,
                    bytes,
                    length,
                    is_partial,
                    endings,
                    cut_off,
                }));
            }
        }
        let is_over = !self.options.follow && self.summary.is_finished();
        Ok(match (is_over, self.searching.is_some() || self.is_skipping) {
            (true, _) => Next::Finished,
            (false, true) => Next::Working,
            (false, false) => Next::Nothing,
        })
    }

    /// Reads from one file. Returns the position after the last whole message if the batch has
    /// events.
    fn read_more(&mut self, at: usize, batch: &mut RawBatch, now_ns: u64) -> Result<Option<u64>> {
        let input = &self.inputs[at];
        if input.is_finished() || now_ns < input.poll_at_ns || !self.may_read(at) {
            return Ok(None);
        }
        if let Some(position) = self.abort(at, batch) {
            return Ok(Some(position));
        }
        let unread = self.inputs[at].unread();
        if let ControlFlow::Break(position) = self.open_input(at, batch, now_ns)? {
            return Ok(position);
        }
        let input = &mut self.inputs[at];
        input.stage = Stage::Reading;
        let gone_ns = input.gone_since_ns.map(|since| now_ns.saturating_sub(since));
        let is_last =
            !self.options.follow || gone_ns.is_some_and(|time| time >= nanoseconds(LINGER));
        match input.read_more(batch, &self.options, is_last) {
            Err(error) if self.options.follow && input.is_damaged(&error) => {
                warn!(
                    self.host,
                    "cannot read `{}`: {error}; the remainder of the file is skipped",
                    input.path.display()
                );
                Ok(input.give_up(batch))
            }
            Err(error) => Err(cannot_read(&input.path, &error)),
            Ok(ReadOutcome::Events(position)) => {
                // Restart [`LINGER`] after each read.
                input.gone_since_ns = input.gone_since_ns.map(|_| now_ns);
                self.uses += 1;
                input.used = self.uses;
                input.active_ns = now_ns;
                Ok(Some(position))
            }
            Ok(ReadOutcome::Nothing) => {
                self.poll_later(at, now_ns);
                Ok(None)
            }
            Ok(ReadOutcome::Skipping) => {
                self.is_skipping = true;
                Ok(None)
            }
            Ok(ReadOutcome::Incomplete) => {
                let path = input.path.clone();
                if self.reported.insert(path) {
                    info!(
                        self.host,
                        "`{}` ends within its compressed data: it is read on once it has grown",
                        input.path.display()
                    );
                }
                self.poll_later(at, now_ns);
                Ok(None)
            }
            Ok(ReadOutcome::Truncated) => self.restart_in_pull(at, unread, batch, now_ns),
        }
    }

    /// Opens a closed file that may have unread data. If the maximum number of files is open,
    /// closes another file first. Continues if the file is open; otherwise breaks with the result
    /// of [`Files::read_more`].
    fn open_input(
        &mut self,
        at: usize,
        batch: &mut RawBatch,
        now_ns: u64,
    ) -> Result<ControlFlow<Option<u64>>> {
        let input = &mut self.inputs[at];
        if input.stage == Stage::Lost {
            return Ok(ControlFlow::Break(input.end(batch)));
        }
        if !input.is_open() {
            let is_gone = input.gone_since_ns.is_some();
            if self.options.follow && !is_gone && !input.has_changed() {
                self.poll_later(at, now_ns);
                return Ok(ControlFlow::Break(None));
            }
            // If no other file can be closed, this file is read after another file was read to its
            // end.
            if !self.leave_one_closed() {
                return Ok(ControlFlow::Break(None));
            }
            let input = &mut self.inputs[at];
            match input.open() {
                Ok(_) => {
                    self.unreadable.remove(&input.path);
                    self.uses += 1;
                    input.used = self.uses;
                    let is_same = input.is_same();
                    if self.options.follow
                        && !is_same.map_err(|error| cannot_read(&input.path, &error))?
                    {
                        let unread = input.unread();
                        return self
                            .restart_in_pull(at, unread, batch, now_ns)
                            .map(ControlFlow::Break);
                    }
                }
                Err(error)
                    if self.options.follow
                        && error.kind() != io::ErrorKind::NotFound
                        && ErrorKind::of_shortage(&error).is_none() =>
                {
                    input.poll_at_ns = now_ns + self.poll_ns;
                    self.unreadable.add(&input.path, &error);
                    return Ok(ControlFlow::Break(None));
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(cannot_read(&input.path, &error));
                }
                // The next search finds the new path of the file.
                Err(_) if self.options.follow && !is_gone => {
                    input.poll_at_ns = now_ns + self.poll_ns;
                    return Ok(ControlFlow::Break(None));
                }
                Err(_) => {
                    self.open_gone(at);
                    let input = &mut self.inputs[at];
                    let is_lost = input.stage == Stage::Lost;
                    return Ok(ControlFlow::Break(is_lost.then(|| input.end(batch)).flatten()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Sets the time of the next check of a file that has no new data.
    fn poll_later(&mut self, at: usize, now_ns: u64) {
        let count = self.inputs.len();
        let input = &mut self.inputs[at];
        input.poll_at_ns = now_ns + pause_ns(input, count, self.poll_ns, now_ns);
    }

    /// Closes the least recently used files if the maximum number of files is open. Returns whether another file may be
    /// opened.
    fn leave_one_closed(&mut self) -> bool {
        self.open.get() < self.max_open || self.close_files(|_| true)
    }

    /// Returns whether the file may be read: renamed files that had the same path have to be read
    /// to their ends first.
    fn may_read(&self, at: usize) -> bool {
        let Input { path, stage, .. } = &self.inputs[at];
        let comes_first =
            |it: &Input| it.gone_since_ns.is_some() && it.path == *path && !it.is_caught_up();
        *stage == Stage::Reading || !self.has_gone || !self.inputs[..at].iter().any(comes_first)
    }

    /// Rewinds a stream to position `to` after one of its pulls failed. `None` stands for the start
    /// of the stream. Returns `true` if the stream is now at its start.
    pub(super) fn rewind(&mut self, stream: u64, to: Option<u64>) -> bool {
        let Some(input) = self.inputs.iter_mut().find(|input| input.stream == stream) else {
            return false;
        };
        let to = to.unwrap_or(input.start);
        input.rewind(to);
        self.summary.clear();
        to == input.start
    }

    /// Adds a file to those that are read. The file counts as active at this time.
    pub(super) fn add_input(&mut self, mut input: Input, now_ns: u64) {
        input.active_ns = now_ns;
        self.inputs.push(input);
    }

    pub(super) fn new_stream(&mut self) -> u64 {
        self.next_stream += 1;
        self.next_stream - 1
    }
}

/// Returns the pause until the next check of one of `count` files. If there are many files, the pause
/// grows with the time for which the file is silent.
pub(super) fn pause_ns(input: &Input, count: usize, poll_ns: u64, now_ns: u64) -> u64 {
    if count <= FEW || input.gone_since_ns.is_some() {
        return poll_ns;
    }
    let turns = (count as u64).div_ceil(CHECKED);
    // Different files get different pauses, so that they are not all checked at once.
    let longest_ns = poll_ns.saturating_mul(turns.div_ceil(2) + input.stream % turns);
    let silent_ns = now_ns.saturating_sub(input.active_ns);
    (silent_ns / SILENCE_PER_PAUSE).clamp(poll_ns, longest_ns)
}

/// Returns the error of a file that cannot be read. The error is final unless the cause is a
/// shortage: without a checkpoint, a restarted instance would read all files from their starts.
/// After a shortage the same instance tries again.
pub(super) fn cannot_read(path: &Path, error: &io::Error) -> Error {
    let kind = ErrorKind::of_shortage(error).unwrap_or(ErrorKind::UNSUPPORTED);
    Error::new(kind, format!("cannot read `{}`: {error}", path.display()))
}
