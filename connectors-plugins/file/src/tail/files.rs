//! The files that are read, and how far each of them is acknowledged.

use std::{
    collections::HashSet,
    io,
    ops::ControlFlow,
    path::{self, Path, PathBuf},
    time::Duration,
};

use rustix::process::{Resource, getrlimit};
use tremor_pdk::{Error, ErrorKind, Host, RawBatch, Result, Watermarks, warn};

use super::{
    checkpoint::Entry,
    clock::nanoseconds,
    input::{How, Input, Look, Stage},
    kept::{Kept, PULL_BYTES, Tracked},
    pattern::Pattern,
    walk::Walk,
};
use crate::Config;

/// How long a file is still looked at after it was renamed or deleted: the process that writes to it
/// learns of that later.
const LINGER: Duration = Duration::from_secs(5);

/// All files of one source. All methods but those that say otherwise may block.
pub(crate) struct Files {
    pub(super) host: Host,
    pub(super) how: How,
    pub(super) pattern: Pattern,
    pub(super) inputs: Vec<Input>,
    /// How far other files were read: those that are done with.
    pub(super) known: Vec<Entry>,
    /// Whether no search has seen all files yet.
    pub(super) is_first_search: bool,
    pub(super) kept: Option<Kept>,
    next_stream: u64,
    /// Maximum number of files that are open at the same time.
    pub(super) max_open: usize,
    /// Sequence number of the last use of a file.
    uses: u64,
    /// Whose turn it is.
    turn: usize,
    /// Streams of pulls that were read and not handed out. Their files are not done with.
    pub(super) waiting: Vec<u64>,
    pub(super) poll_ns: u64,
    pub(super) search_at_ns: u64,
    /// A search that has not ended.
    pub(super) searching: Option<Walk>,
    /// When it began, by the monotonic clock.
    pub(super) search_began_ns: Option<u64>,
    /// What was said of a path is not said again.
    pub(super) told: HashSet<PathBuf>,
}

/// Events of a file.
pub(super) struct Brought {
    pub(super) stream: u64,
    /// Position after the last whole message.
    pub(super) position: u64,
    /// Whether they end in a part of a message.
    pub(super) is_half: bool,
    /// The stream that the file was before it was truncated, if that ends here within a message.
    pub(super) cut_off: Option<u64>,
}

/// What there is to read.
pub(super) enum Next {
    Brought(Brought),
    /// Nothing now.
    Nothing,
    /// Nothing yet: the search for files has not ended.
    Searching,
    /// Nothing, and there never will be.
    Finished,
}

impl Files {
    pub(crate) fn open(config: &Config, host: Host) -> Result<Self> {
        let chunk_bytes = config.chunk_bytes.get();
        let how = How {
            chunk_bytes,
            pull_bytes: match config.checkpoint {
                Some(_) => chunk_bytes.min(PULL_BYTES),
                None => chunk_bytes,
            },
            message_end: config.message_end.clone().into_bytes(),
            format: config.compression.of(&config.path),
            follow: config.follow,
        };
        // The next run may begin in another folder.
        let path =
            path::absolute(&config.path).map_err(|error| cannot_read(&config.path, &error))?;
        let mut files = Self {
            host,
            how,
            pattern: Pattern::new(&path)?,
            inputs: Vec::new(),
            known: Vec::new(),
            is_first_search: true,
            kept: None,
            next_stream: 0,
            max_open: max_open(),
            uses: 0,
            turn: 0,
            waiting: Vec::new(),
            poll_ns: nanoseconds(config.poll_interval.get()),
            search_at_ns: 0,
            searching: None,
            search_began_ns: None,
            told: HashSet::new(),
        };
        if let Some((kept, known)) = Kept::open(config, files.how.pull_bytes as u64, &files.host)? {
            (files.kept, files.known) = (Some(kept), known);
        }
        files.search_first(&path)?;
        Ok(files)
    }

    /// Sets how much the next pulls bring.
    pub(super) fn pace(&mut self) {
        if let Some(kept) = &self.kept {
            self.how.pull_bytes = self.how.chunk_bytes.min(kept.pull_bytes());
        }
    }

    /// Keeps what is acknowledged where that is due, and reads on.
    pub(super) fn next(&mut self, batch: &mut RawBatch) -> Result<Next> {
        let now_ns = self.host.monotonic_ns();
        if self.how.follow && now_ns >= self.search_at_ns {
            self.search(now_ns)?;
        }
        if self.kept.as_ref().is_some_and(Kept::is_due) {
            self.commit()?;
        }
        for _ in 0..self.inputs.len() {
            self.turn = (self.turn + 1) % self.inputs.len();
            let Input { stream: before, identity, .. } = &self.inputs[self.turn];
            let (before, known_by) = (*before, identity.first_bytes());
            if let Some(position) = self.look(self.turn, batch, now_ns)? {
                let input = &mut self.inputs[self.turn];
                let (stream, is_half) = (input.stream, input.ends_in_part());
                input.is_half = is_half;
                batch.set_origin(&input.path.to_string_lossy());
                // The checkpoint is to know it by no fewer bytes than were read.
                if input.identity.first_bytes() != known_by {
                    self.publish(|_, _, _| {});
                }
                let cut_off = (stream != before).then_some(before);
                return Ok(Next::Brought(Brought { stream, position, is_half, cut_off }));
            }
        }
        let is_over = !self.how.follow && self.inputs.iter().all(Input::is_finished);
        Ok(match (is_over, &self.searching) {
            (true, _) => Next::Finished,
            (false, Some(_)) => Next::Searching,
            (false, None) => Next::Nothing,
        })
    }

    /// Looks at one file. Gives up to where it has brought something, if it has.
    fn look(&mut self, at: usize, batch: &mut RawBatch, now_ns: u64) -> Result<Option<u64>> {
        let input = &self.inputs[at];
        if input.is_finished() || now_ns < input.look_at_ns || !self.may_look(at) {
            return Ok(None);
        }
        if let ControlFlow::Break(position) = self.open_input(at, batch, now_ns)? {
            return Ok(position);
        }
        let input = &mut self.inputs[at];
        input.stage = Stage::Reading;
        let gone_ns = input.gone_since_ns.map(|since| now_ns.saturating_sub(since));
        let is_last = !self.how.follow || gone_ns.is_some_and(|time| time >= nanoseconds(LINGER));
        let look = input.look(batch, &self.how, is_last);
        match look.map_err(|error| cannot_read(&input.path, &error))? {
            Look::Brought(position) => {
                // More may follow: it is not gone before it is quiet.
                input.gone_since_ns = input.gone_since_ns.map(|_| now_ns);
                self.uses += 1;
                input.used = self.uses;
                Ok(Some(position))
            }
            Look::Nothing => {
                input.look_at_ns = now_ns + self.poll_ns;
                Ok(None)
            }
            Look::Truncated => self.restart(at, batch),
        }
    }

    /// Opens a file that is closed, if there is something to read, and closes another one for that. Continues if it
    /// is open, and breaks otherwise with to where it has brought something, as [`look`](Self::look) does.
    fn open_input(
        &mut self,
        at: usize,
        batch: &mut RawBatch,
        now_ns: u64,
    ) -> Result<ControlFlow<Option<u64>>> {
        let input = &mut self.inputs[at];
        if !input.is_open() {
            let is_gone = input.gone_since_ns.is_some();
            if self.how.follow && !is_gone && !input.has_changed() {
                input.look_at_ns = now_ns + self.poll_ns;
                return Ok(ControlFlow::Break(None));
            }
            // Without another to close, this one is read once one has ended.
            if !self.leave_one_closed() {
                return Ok(ControlFlow::Break(None));
            }
            let input = &mut self.inputs[at];
            match input.open() {
                Ok(_) => {
                    self.uses += 1;
                    input.used = self.uses;
                    let is_same = input.is_same();
                    if self.how.follow
                        && !is_same.map_err(|error| cannot_read(&input.path, &error))?
                    {
                        return self.restart(at, batch).map(ControlFlow::Break);
                    }
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(cannot_read(&input.path, &error));
                }
                // The next search finds out where it is.
                Err(_) if self.how.follow && !is_gone => {
                    input.look_at_ns = now_ns + self.poll_ns;
                    return Ok(ControlFlow::Break(None));
                }
                Err(_) => {
                    warn!(
                        self.host,
                        "`{}` was deleted or moved while it was closed, because more files than {} \
                         are read: what it had after its first {} bytes, if anything, is lost",
                        input.path.display(),
                        self.max_open,
                        input.read_to()
                    );
                    return Ok(ControlFlow::Break(input.end(batch)));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn count_open(&self) -> usize {
        self.inputs.iter().filter(|input| input.is_open()).count()
    }

    /// Closes the least recently used file if as many are open as may be. Returns whether another may be opened.
    fn leave_one_closed(&mut self) -> bool {
        if self.count_open() < self.max_open {
            return true;
        }
        let closable = self.inputs.iter_mut().filter(|input| input.may_close(&self.how));
        let unused = closable.min_by_key(|input| input.used);
        unused.map(Input::close).is_some()
    }

    /// Whether all files that had the name of this one before are read to their ends.
    fn may_look(&self, at: usize) -> bool {
        let Input { path, stage, .. } = &self.inputs[at];
        let comes_first =
            |it: &Input| it.gone_since_ns.is_some() && it.path == *path && !it.is_caught_up();
        *stage == Stage::Reading || !self.inputs[..at].iter().any(comes_first)
    }

    /// A file has come: it is to be known after a crash, before anything of it is read.
    pub(super) fn keep_soon(&mut self) {
        self.kept.iter().for_each(Kept::keep_soon);
    }

    /// The file was truncated: what it has now is another stream.
    fn restart(&mut self, at: usize, batch: &mut RawBatch) -> Result<Option<u64>> {
        let stream = self.new_stream();
        let input = &mut self.inputs[at];
        let was = input.stream;
        warn!(
            self.host,
            "`{}` was truncated, or written anew: it is read from its start. What was written before \
             that and not yet read is lost",
            input.path.display()
        );
        let is_half = input.is_half;
        let path = input.path.clone();
        let anew = input.open().and_then(|file| Input::new(stream, path, file, 0, &self.how));
        *input = anew.map_err(|error| cannot_read(&input.path, &error))?;
        self.publish(|_, _, marks| {
            marks.into_iter().for_each(|marks| _ = marks.forget(was));
        });
        // The rest of a message that was begun never comes.
        if is_half {
            batch.stream(was).abort();
        }
        Ok(is_half.then_some(0))
    }

    /// Reads a stream again from `to`, because a pull of it has failed. Returns whether that is the start of the stream.
    pub(super) fn rewind(&mut self, stream: u64, to: Option<u64>) -> bool {
        let how = &self.how;
        let Some(input) = self.inputs.iter_mut().find(|input| input.stream == stream) else {
            return false;
        };
        let to = to.unwrap_or(input.start);
        input.rewind(to, how);
        to == input.start
    }

    /// Writes up to where each file is acknowledged.
    pub(super) fn commit(&mut self) -> Result<()> {
        for input in &mut self.inputs {
            // A file that cannot be read any more is reported by the next look.
            let _ = input.grow();
        }
        self.settle();
        self.kept.as_ref().map_or(Ok(()), Kept::save)
    }

    /// Writes the checkpoint for the last time.
    pub(super) fn close(&mut self) -> Result<()> {
        let committed = self.commit();
        self.kept.as_ref().map_or(Ok(()), Kept::close).and(committed)
    }

    /// Closes the files that are read to their ends, once all of that is acknowledged.
    pub(super) fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.publish(|inputs, known, marks| {
            inputs.retain(|input| {
                let is_settled = marks.is_none_or(|marks| marks.is_settled(input.stream));
                let is_done = input.is_finished() && is_settled && !waiting.contains(&input.stream);
                if is_done {
                    let position = marks.and_then(|marks| marks.forget(input.stream));
                    known.push(Entry { position: position.unwrap_or(input.start), ..entry(input) });
                }
                !is_done
            });
        });
        self.waiting = waiting;
    }

    /// Changes the files, and has the checkpoint contain the changed ones from then on.
    fn publish(
        &mut self,
        change: impl FnOnce(&mut Vec<Input>, &mut Vec<Entry>, Option<&Watermarks<u64>>),
    ) {
        let Self { inputs, known, kept, .. } = self;
        let Some(kept) = kept else { return change(inputs, known, None) };
        kept.replace(|marks| {
            change(inputs, known, Some(marks));
            let known = known.iter().map(|entry| Tracked { stream: None, entry: entry.clone() });
            let read =
                inputs.iter().map(|it| Tracked { stream: Some(it.stream), entry: entry(it) });
            known.chain(read).collect()
        });
    }

    pub(super) fn new_stream(&mut self) -> u64 {
        self.next_stream += 1;
        self.next_stream - 1
    }
}

/// Returns a quarter of the descriptors that the process may have, and 256 at most: others need some.
fn max_open() -> usize {
    const MAX: u64 = if cfg!(test) { 8 } else { 256 };
    let limit = getrlimit(Resource::Nofile).current.map_or(MAX, |limit| limit / 4);
    usize::try_from(limit.clamp(1, MAX)).unwrap_or(1)
}

/// Returns an error that is final, because a new instance without a checkpoint would read again what was read by now.
/// Only a shortage is not: the same instance tries again after it.
pub(super) fn cannot_read(path: &Path, error: &io::Error) -> Error {
    let kind = ErrorKind::of_shortage(error).unwrap_or(ErrorKind::UNSUPPORTED);
    Error::new(kind, format!("cannot read `{}`: {error}", path.display()))
}

/// Returns the entry of a file of which nothing is acknowledged.
fn entry(input: &Input) -> Entry {
    Entry {
        path: input.path.to_string_lossy().into_owned(),
        identity: input.identity.clone(),
        position: input.start,
    }
}
