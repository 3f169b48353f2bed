//! The files that are read, and how far each of them is acknowledged.

use std::{
    collections::HashSet,
    io,
    path::{self, Path, PathBuf},
    time::Duration,
};

use tremor_pdk::{Acks, Batch, Error, ErrorKind, Host, Result, Watermarks, warn};

use super::{
    checkpoint::Entry,
    clock::nanoseconds,
    input::{How, Input, Look, Stage},
    kept::Kept,
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
    kept: Option<Kept>,
    next_stream: u64,
    /// Whose turn it is.
    turn: usize,
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
    pub(super) path: PathBuf,
    pub(super) position: u64,
    is_half: bool,
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
        let how = How {
            chunk_bytes: config.chunk_bytes.get(),
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
            turn: 0,
            poll_ns: nanoseconds(config.poll_interval.get()),
            search_at_ns: 0,
            searching: None,
            search_began_ns: None,
            told: HashSet::new(),
        };
        if let Some((kept, known)) = Kept::open(config)? {
            (files.kept, files.known) = (Some(kept), known);
        }
        files.search_first(&path)?;
        Ok(files)
    }

    /// What hears of acknowledgements, if that is kept. Does not block.
    pub(super) fn acks(&self) -> Option<Box<dyn Acks>> {
        self.kept.as_ref().map(|kept| Box::new(kept.marks.clone()) as Box<dyn Acks>)
    }

    /// Keeps what is acknowledged where that is due, and reads on.
    pub(super) fn next(&mut self, batch: &mut Batch) -> Result<Next> {
        let now_ns = self.host.monotonic_ns();
        if self.how.follow && now_ns >= self.search_at_ns {
            self.search(now_ns)?;
        }
        if self.kept.as_ref().is_some_and(|kept| kept.is_due(now_ns)) {
            self.commit()?;
        }
        for _ in 0..self.inputs.len() {
            self.turn = (self.turn + 1) % self.inputs.len();
            if let Some(position) = self.look(self.turn, batch, now_ns)? {
                let input = &self.inputs[self.turn];
                let (stream, path) = (input.stream, input.path.clone());
                let is_half = input.ends_in_part();
                return Ok(Next::Brought(Brought { stream, path, position, is_half }));
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
    fn look(&mut self, at: usize, batch: &mut Batch, now_ns: u64) -> Result<Option<u64>> {
        let input = &self.inputs[at];
        if input.is_finished() || now_ns < input.look_at_ns || !self.may_look(at) {
            return Ok(None);
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
                Ok(Some(position))
            }
            Look::Nothing => {
                input.look_at_ns = now_ns + self.poll_ns;
                Ok(None)
            }
            Look::Truncated => self.restart(at, batch),
        }
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
        self.kept.iter_mut().for_each(Kept::keep_soon);
    }

    /// The file was truncated: what it has now is another stream.
    fn restart(&mut self, at: usize, batch: &mut Batch) -> Result<Option<u64>> {
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
        let (path, file) = (input.path.clone(), input.file().clone());
        let anew = Input::new(stream, path, file, 0, &self.how);
        *input = anew.map_err(|error| cannot_read(&input.path, &error))?;
        if let Some(kept) = &self.kept {
            kept.marks.forget(was);
        }
        // The rest of a message that was begun never comes.
        if is_half {
            batch.stream(was).abort();
        }
        Ok(is_half.then_some(0))
    }

    /// A pull of this stream has failed: it is read again from there. Gives whether a part of a message
    /// was brought, which never becomes one.
    pub(super) fn rewind(&mut self, stream: u64, to: Option<u64>) -> Result<bool> {
        let how = &self.how;
        let Some(input) = self.inputs.iter_mut().find(|input| input.stream == stream) else {
            return Ok(false);
        };
        let rewound = input.rewind(to.unwrap_or(input.start), how);
        rewound.map_err(|error| cannot_read(&input.path, &error))?;
        Ok(std::mem::take(&mut input.is_half))
    }

    /// Says what a pull has brought. Does not block.
    pub(super) fn brought(&mut self, pull: u64, brought: &Brought) {
        let stream = self.inputs.iter_mut().find(|input| input.stream == brought.stream);
        stream.into_iter().for_each(|input| input.is_half = brought.is_half);
        if let Some(kept) = &mut self.kept {
            kept.brought(pull, brought.stream, brought.position);
        }
    }

    /// The streams of which a pull has failed, each with the place from where it is to be read again.
    /// Does not block.
    pub(super) fn failed(&self) -> Vec<(u64, Option<u64>)> {
        let Some(kept) = &self.kept else { return Vec::new() };
        kept.marks.take().again.into_iter().map(|again| (again.stream, again.from)).collect()
    }

    /// Keeps up to where each file is acknowledged.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.settle();
        let Some(kept) = &mut self.kept else { return Ok(()) };
        for input in &mut self.inputs {
            // What cannot be read any more is told of by the next look.
            let _ = input.grow();
        }
        let live = self.inputs.iter().map(|input| entry(input, Some(&kept.marks)));
        let entries = self.known.iter().cloned().chain(live).collect();
        kept.save(entries, self.host.monotonic_ns())
    }

    /// Closes the files that are read to their ends, once all of that is acknowledged.
    pub(super) fn settle(&mut self) {
        let (known, marks) = (&mut self.known, self.kept.as_ref().map(|kept| &kept.marks));
        self.inputs.retain(|input| {
            let is_settled = marks.is_none_or(|marks| marks.is_settled(input.stream));
            let is_done = input.is_finished() && is_settled;
            if is_done {
                known.push(entry(input, marks));
                marks.map(|marks| marks.forget(input.stream));
            }
            !is_done
        });
    }

    pub(super) fn new_stream(&mut self) -> u64 {
        self.next_stream += 1;
        self.next_stream - 1
    }
}

/// Returns an error that is final, because a new instance without a checkpoint would read again what was read by now.
/// Only a shortage is not: the same instance tries again after it.
pub(super) fn cannot_read(path: &Path, error: &io::Error) -> Error {
    let kind = ErrorKind::of_shortage(error).unwrap_or(ErrorKind::UNSUPPORTED);
    Error::new(kind, format!("cannot read `{}`: {error}", path.display()))
}

fn entry(input: &Input, marks: Option<&Watermarks<u64>>) -> Entry {
    let acknowledged = marks.and_then(|marks| marks.of(input.stream));
    Entry {
        path: input.path.to_string_lossy().into_owned(),
        identity: input.identity.clone(),
        position: acknowledged.unwrap_or(input.start),
    }
}
