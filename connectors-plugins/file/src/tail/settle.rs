//! Changes of the set of files: truncated files, files that are read to their ends, and the entries
//! of all files in the checkpoint.

use tremor_pdk::{RawBatch, Result, warn};

use super::{
    checkpoint::Entry,
    files::{Files, cannot_read},
    input::Input,
    losses::Cause,
    positions::{Positions, Tracked},
};

impl Files {
    /// Makes the checkpoint due immediately: a new file has to be in the checkpoint before the file is
    /// read, so that the file is recognised after a crash.
    pub(super) fn save_soon(&mut self) {
        self.is_published = false;
        self.positions.iter().for_each(Positions::save_soon);
    }

    /// Starts a new stream for a file that was truncated or rewritten. The next pull aborts the old stream if the flow
    /// has received a part of a message. Returns whether a copy of the old contents could be recognised.
    pub(super) fn restart(&mut self, at: usize, now_ns: u64) -> Result<bool> {
        let stream = self.new_stream();
        let is_remembered = self.remember_input(at, now_ns);
        let input = &mut self.inputs[at];
        let was = input.stream;
        let unless = if is_remembered { ", unless `path` matches a copy of the file" } else { "" };
        warn!(
            self.host,
            "`{}` was truncated or rewritten: it is read from its start; earlier data that was not read yet \
             is lost{unless}",
            input.path.display()
        );
        // The remainder of the incomplete message will never arrive.
        let aborted = input.aborted.or(input.is_partial.then_some(was));
        let path = input.path.clone();
        let restarted =
            input.open().and_then(|it| Input::new(stream, path, it, 0, &self.options, &self.open));
        *input = restarted.map_err(|error| cannot_read(&input.path, &error))?;
        (input.active_ns, input.aborted) = (now_ns, aborted);
        self.is_published = false;
        if !is_remembered {
            self.forgotten.push(was);
        }
        Ok(is_remembered)
    }

    /// Starts a new stream for a file that a pull has found to be truncated or rewritten, after `unread` bytes were not
    /// read. Aborts the old stream if necessary: see [`Files::abort`].
    pub(super) fn restart_in_pull(
        &mut self,
        at: usize,
        unread: u64,
        batch: &mut RawBatch,
        now_ns: u64,
    ) -> Result<Option<u64>> {
        if !self.restart(at, now_ns)? {
            self.losses.add(Cause::Truncated, &self.inputs[at].path, unread);
        }
        Ok(self.abort(at, batch))
    }

    /// Aborts the stream of earlier contents of a file, if that was left to do. Only then the batch has events, and the
    /// result is a position.
    pub(super) fn abort(&mut self, at: usize, batch: &mut RawBatch) -> Option<u64> {
        self.cut_off = self.inputs[at].aborted.take();
        self.cut_off.map(|was| {
            batch.stream(was).abort();
            0
        })
    }

    /// Writes the acknowledged positions of all files to the checkpoint. The write is delayed if the
    /// set of files has changed and the checkpoint is long.
    pub(super) fn commit(&mut self) -> Result<()> {
        // A file that was read is extended by its reads.
        self.summary.refresh(&self.inputs);
        for at in self.summary.waiting() {
            let input = &mut self.inputs[at];
            let known_by = input.identity.first_bytes();
            // Ignore an error: the next read of the file reports it.
            let _ = input.grow();
            self.is_published &= input.identity.first_bytes() == known_by;
        }
        self.settle();
        let due = self.positions.as_ref().filter(|positions| positions.is_due());
        due.map_or(Ok(()), Positions::save)
    }

    /// Writes the checkpoint for the last time and closes it. The checkpoint has the present numbers
    /// of unread bytes, so that the next run can report the loss of a file that was deleted since.
    pub(super) fn close(&mut self) -> Result<()> {
        self.inputs.iter_mut().for_each(|input| _ = input.update_length());
        self.is_published = false;
        let committed = self.commit();
        self.positions.as_ref().map_or(Ok(()), Positions::close).and(committed)
    }

    /// Removes the files that are read to their ends and completely acknowledged, and keeps their
    /// positions for the checkpoint.
    pub(super) fn settle(&mut self) {
        self.summary.refresh(&self.inputs);
        if self.summary.has_finished() {
            self.settle_finished();
        } else {
            self.publish_changes();
        }
    }

    fn settle_finished(&mut self) {
        let now_ns = self.host.monotonic_ns();
        let mut done = Vec::new();
        let Self { inputs, positions, waiting, .. } = self;
        inputs.retain(|input| {
            let is_settled = || positions.as_ref().is_none_or(|it| it.is_settled(input.stream));
            let is_done = input.is_finished() && !waiting.contains(&input.stream) && is_settled();
            if is_done {
                let entry = entry(input);
                let mut entry = match positions {
                    Some(positions) => positions.entry(input.stream, entry),
                    None => entry,
                };
                let stamp = input.stamp().filter(|(length, _)| *length == input.read_to());
                let is_gone = input.gone_since_ns.is_some();
                let is_remembered = is_gone && input.is_plain();
                let read = is_remembered.then(|| (input.whole_to(), input.ending));
                if is_remembered {
                    entry.earlier.clone_from(&input.earlier);
                }
                done.push((input.stream, entry, stamp, read));
            }
            !is_done
        });
        if !done.is_empty() {
            self.summary.clear();
            self.is_published = false;
        }
        for (stream, entry, stamp, read) in done {
            self.forgotten.push(stream);
            let file_id = entry.identity.file_id();
            if let Some(read) = read {
                self.remember(None, entry, read, now_ns);
            } else {
                self.known.push(entry);
            }
            self.done.extend(stamp.map(|stamp| (file_id, stamp)));
        }
        self.publish_changes();
    }

    /// Makes later checkpoints contain the present files if the set of files has changed, and then
    /// forgets streams that have no entries any more.
    pub(super) fn publish_changes(&mut self) {
        if !self.is_published {
            self.publish();
        }
        for stream in self.forgotten.drain(..) {
            self.positions.iter().for_each(|positions| positions.forget(stream));
        }
    }

    fn publish(&mut self) {
        self.is_published = true;
        let Some(positions) = &self.positions else { return };
        let known = self.known.iter().map(|it| Tracked { stream: None, entry: it.clone() });
        let gone = self.predecessors.iter();
        let gone = gone.map(|it| Tracked { stream: it.stream, entry: it.entry.clone() });
        let read = self.inputs.iter();
        let read = read.map(|it| Tracked { stream: Some(it.stream), entry: entry(it) });
        positions.replace(known.chain(gone).chain(read).collect());
    }
}

/// Returns the checkpoint entry of a file, with the position at which the file's stream started.
pub(super) fn entry(input: &Input) -> Entry {
    let (skip, ending) = input.skipped();
    Entry {
        path: input.path.to_string_lossy().into_owned(),
        identity: input.identity.clone(),
        position: input.start,
        unread: input.length.saturating_sub(input.start),
        skip,
        ending,
        earlier: Vec::new(),
    }
}
