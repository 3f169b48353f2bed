//! A file that is read as a stream of events.

mod compressed;
mod held;

use std::{
    fs::{self, File, Metadata},
    io,
    path::PathBuf,
    sync::Arc,
};

use tremor_pdk::RawBatch;

pub(super) use self::{compressed::unsupported, held::Contents};
use super::{
    cut::cut,
    identity::{
        Changed, Ending, FileId, Identity, changed, file_id, is_settled, read_at, thin_out,
    },
    open::{Open, OpenCount},
    packed::Packed,
    results::{Stamp, stamp},
};
use crate::{compression::Compression, offset::Offsets};

/// Settings that apply to all files of a source.
#[derive(Debug)]
pub(super) struct ReadOptions {
    /// Maximum number of bytes of one read (`chunk_bytes`).
    pub(super) chunk_bytes: usize,
    /// Maximum number of bytes of a pull, except for a single longer message.
    pub(super) pull_bytes: usize,
    /// Minimum number of bytes of a part of a pull that is acknowledged by itself.
    pub(super) part_bytes: usize,
    /// Terminator of messages; empty if a file is read as a whole.
    pub(super) message_end: Vec<u8>,
    pub(super) compression: Compression,
    /// `true` if events have the metadata `%file.offset`.
    pub(super) has_offsets: bool,
    /// `true` if the files match a pattern: their contents decide whether they are compressed, and
    /// not only their names.
    pub(super) is_pattern: bool,
    /// `true` if the source waits for more data at the end of a file.
    pub(super) follow: bool,
}

/// A file, and the position up to which it is read.
///
/// If the bytes of a pull contain the end of a message, the pull ends after the last whole message,
/// so that the next pull starts with a message. The bytes after that message are read again by the
/// next pull. Only a message that is longer than a chunk is split between pulls.
pub(super) struct Input {
    /// Number of the stream. A truncated file continues with a new number.
    pub(super) stream: u64,
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    /// The open file; `None` while the file is closed in favour of other files.
    file: Option<Open>,
    open: OpenCount,
    /// Length of the file at the last check, in bytes.
    pub(super) length: u64,
    /// Time of the last change of the file at the last read attempt.
    changed: Changed,
    /// Time of the file's last change at the last check that found the contents unchanged.
    checked: Option<Changed>,
    /// `true` if a later change of the file would have another time than `checked`.
    is_settled: bool,
    /// Sequence number of the last use; the file with the lowest number is closed first.
    pub(super) used: u64,
    content: Content,
    /// Position at which this stream starts: everything before it is acknowledged.
    pub(super) start: u64,
    /// Hash of the bytes before `start`, if known.
    pub(super) start_ending: Option<Ending>,
    /// Hash of the bytes before `whole`, if known.
    pub(super) ending: Option<Ending>,
    /// Hash of the bytes before `read`, if the last pull contained no end of a message.
    partial_ending: Option<Ending>,
    /// Hashes of the bytes before some earlier positions, which are denser near `whole`.
    pub(super) earlier: Vec<Ending>,
    /// Position up to which the file is read.
    read: u64,
    /// Position after the last whole message that was read.
    whole: u64,
    /// Position up to which the file was scanned. Between `read` and this position no message ends.
    seen: u64,
    /// `true` if the stream has events and has not ended.
    has_begun: bool,
    /// `true` if the last events that the flow received end within a message.
    pub(super) is_partial: bool,
    /// Offsets of messages; `None` unless events have the metadata `%file.offset`.
    pub(super) offsets: Option<Offsets>,
    pub(super) stage: Stage,
    /// Time of the next read attempt, by the host's monotonic clock.
    pub(super) poll_at_ns: u64,
    /// Time at which the source last read new data of the file, or at which the file was added, by
    /// the host's monotonic clock. The times of the file are not used, because the clock of a
    /// network file system may differ by minutes.
    pub(super) active_ns: u64,
    /// Stream of earlier contents of the file that the next pull aborts, because the flow has only a part of their last
    /// message.
    pub(super) aborted: Option<u64>,
    /// Time since which no path that matches the pattern leads to the file, in ns.
    pub(super) gone_since_ns: Option<u64>,
}

/// Reading state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not read yet. A renamed file that had the same path may have to be read to its end first.
    Waiting,
    Reading,
    /// The unread data is lost: the next pull ends the stream.
    Lost,
    /// Read to its end. The source does not wait for more data.
    Finished,
}

enum Content {
    /// The file is too short to detect whether it is compressed.
    Unknown,
    Plain,
    Compressed(Box<Packed>),
}

/// Result of an attempt to read from one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// The batch has events. Contains the position after the last whole message.
    Events(u64),
    Nothing,
    /// Bytes were skipped, and more are left to skip.
    Skipping,
    /// A compressed file ends within its compressed data. It may still be written.
    Incomplete,
    /// The file was truncated or rewritten. Nothing was read.
    Truncated,
}

impl Input {
    /// Creates the input for an open file, which is read from position `start` on.
    pub(super) fn new(
        stream: u64,
        path: PathBuf,
        file: Arc<File>,
        start: u64,
        options: &ReadOptions,
        open: &OpenCount,
    ) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let mut input = Self {
            stream,
            path,
            identity: Identity::of(&file)?,
            length: metadata.len(),
            changed: changed(&metadata),
            file: Some(open.open(file)),
            open: open.clone(),
            checked: None,
            is_settled: false,
            used: 0,
            content: Content::Unknown,
            start,
            start_ending: None,
            ending: None,
            partial_ending: None,
            earlier: Vec::new(),
            read: start,
            whole: start,
            seen: start,
            has_begun: false,
            is_partial: false,
            offsets: options.has_offsets.then(|| Offsets::new(&options.message_end)),
            stage: Stage::Waiting,
            poll_at_ns: 0,
            active_ns: 0,
            aborted: None,
            gone_since_ns: None,
        };
        input.detect(options, !options.follow)?;
        input.rewind(start);
        Ok(input)
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self.content, Content::Plain)
    }

    pub(super) fn is_compressed(&self) -> bool {
        matches!(self.content, Content::Compressed(_))
    }

    pub(super) fn file_id(&self) -> FileId {
        self.identity.file_id()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// Returns whether a file with this stamp has no unread data and the contents that were read.
    pub(super) fn is_read(&self, (length, changed): &Stamp) -> bool {
        *length == self.seen && self.is_settled && self.checked == Some(*changed)
    }

    /// Returns whether the file has unread data or was changed since it was closed. Only the path
    /// is checked: a renamed file counts as unchanged until a search finds it.
    pub(super) fn has_changed(&mut self) -> bool {
        let found = fs::metadata(&self.path).ok().filter(|it| file_id(it) == self.file_id());
        let Some(metadata) = found else { return false };
        self.length = metadata.len();
        !self.is_read(&stamp(&metadata))
    }

    /// Returns whether the file still has the contents that were read. They are compared only if the
    /// file has changed since the last check.
    fn has_same_contents(&mut self, file: &File, metadata: &Metadata) -> io::Result<bool> {
        let changed = changed(metadata);
        if self.is_settled && self.checked == Some(changed) {
            return Ok(true);
        }
        (self.checked, self.is_settled) = (Some(changed), is_settled(changed));
        let has_ending = || self.ending.map_or(Ok(true), |ending| ending.is_of(file));
        Ok(!self.identity.is_known() || (self.identity.is_of(file)? && has_ending()?))
    }

    /// Returns the present length of the file in bytes. Returns `None` if the file no longer has the
    /// contents that were read.
    pub(super) fn intact_length(&self) -> io::Result<Option<u64>> {
        let opened;
        let file = match &self.file {
            Some(open) => open.file(),
            None => {
                opened = File::open(&self.path)?;
                &opened
            }
        };
        let length = file.metadata()?.len();
        let has_ending = || self.ending.map_or(Ok(true), |ending| ending.is_of(file));
        let is_intact = length >= self.read && self.identity.is_of(file)? && has_ending()?;
        Ok(is_intact.then_some(length))
    }

    /// Returns the length and the time of the last change of the file, if it is open.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.file.as_ref().and_then(|open| open.file().metadata().ok()).as_ref().map(stamp)
    }

    /// Extends the identity of the file to more of the file's first bytes, if the file has grown. A
    /// file that was empty when it was opened is not extended after a read, because its contents
    /// may have been replaced unnoticed.
    pub(super) fn grow(&mut self) -> io::Result<()> {
        match &self.file {
            Some(open) if self.read == 0 || self.identity.is_known() => {
                self.identity.grow(open.file())
            }
            _ => Ok(()),
        }
    }

    /// Returns the position up to which the file is read, in bytes.
    pub(super) fn read_to(&self) -> u64 {
        self.read
    }

    /// Returns the position in the decompressed content up to which the file is read, in bytes.
    pub(super) fn content_position(&self) -> u64 {
        match &self.content {
            Content::Compressed(packed) => packed.position,
            Content::Plain | Content::Unknown => self.read,
        }
    }

    /// Returns the position after the last whole message that was read.
    pub(super) fn whole_to(&self) -> u64 {
        self.whole
    }

    /// Returns the number of bytes at the end of the file that were not read yet.
    pub(super) fn unread(&self) -> u64 {
        let read = match &self.content {
            Content::Compressed(packed) => self.read.max(self.start + packed.bytes_read()),
            Content::Plain | Content::Unknown => self.read,
        };
        if self.is_finished() { 0 } else { self.length.saturating_sub(read) }
    }

    /// Continues reading at position `to`. Pulls of data before `to` may still be in flight.
    pub(super) fn rewind(&mut self, to: u64) {
        (self.read, self.whole, self.seen) = (to, to, to);
        self.ending = self.start_ending.filter(|ending| ending.position == to);
        self.earlier.retain(|ending| ending.position <= to);
        self.partial_ending = None;
        self.poll_at_ns = 0;
        self.is_partial = false;
        if let Content::Compressed(packed) = &mut self.content {
            packed.rewind();
            self.has_begun = false;
        }
        if matches!(self.stage, Stage::Finished | Stage::Lost) {
            self.stage = Stage::Reading;
        }
    }

    /// Returns whether the data that was read ends in a part of a message. In a compressed file the
    /// ends of messages are unknown, so the answer is `true` from the first event to the end of the
    /// file.
    pub(super) fn ends_in_part(&self) -> bool {
        match self.content {
            Content::Plain | Content::Unknown => self.read != self.whole,
            Content::Compressed(_) => self.has_begun,
        }
    }

    /// Returns whether all data in the file was scanned.
    pub(super) fn is_caught_up(&self) -> bool {
        let is_read = |open: &Open| open.file().metadata().is_ok_and(|it| it.len() == self.seen);
        self.is_finished() || self.file.as_ref().is_some_and(is_read)
    }

    /// Ends the stream. Preprocessors turn the bytes after the last message, if any, into a
    /// message. Returns the position of the end if the stream has events.
    pub(super) fn end(&mut self, batch: &mut RawBatch) -> Option<u64> {
        self.stage = Stage::Finished;
        self.whole = self.read;
        if let Some(ending) = self.partial_ending.take_if(|it| it.position == self.read) {
            self.set_last_ending(Some(ending));
        }
        if let Content::Compressed(packed) = &mut self.content {
            packed.close();
        }
        let has_begun = std::mem::take(&mut self.has_begun);
        has_begun.then(|| {
            batch.stream(self.stream).end();
            self.read
        })
    }

    /// Reads more data into `batch`. `is_last` is set if no more data will follow.
    pub(super) fn read_more(
        &mut self,
        batch: &mut RawBatch,
        options: &ReadOptions,
        is_last: bool,
    ) -> io::Result<ReadOutcome> {
        let file = self.open()?;
        let metadata = file.metadata()?;
        (self.length, self.changed) = (metadata.len(), changed(&metadata));
        if let Content::Unknown = self.content
            && (self.length > 0 || is_last)
        {
            self.detect(options, is_last)?;
        }
        if let Content::Compressed(_) = self.content {
            return self.decompress(&file, batch, options, is_last);
        }
        let length = self.length;
        if length < self.read {
            return Ok(ReadOutcome::Truncated);
        }
        if length == self.seen && !is_last {
            let is_same = self.has_same_contents(&file, &metadata)?;
            return Ok(if is_same { ReadOutcome::Nothing } else { ReadOutcome::Truncated });
        }
        // The file may have been rewritten, and may have grown beyond its old length already.
        if options.follow && length > self.read {
            // Compare more bytes if the file was silent before.
            let is_same = if self.is_settled {
                self.has_same_contents(&file, &metadata)?
            } else {
                self.identity.is_of(&file)?
            };
            if !is_same {
                return Ok(ReadOutcome::Truncated);
            }
        }
        // A change after the check of the length gets another time if this change is settled.
        (self.checked, self.is_settled) = (Some(self.changed), is_settled(self.changed));
        // Extend the identity before reading, because the contents may be replaced after the read.
        self.grow()?;
        let position = self.read;
        let mut is_whole = false;
        let mut ending = None;
        let mut count = 0;
        for space in [options.pull_bytes, options.chunk_bytes] {
            let space = space.max(options.message_end.len());
            let mut read = 0;
            count = batch.stream(self.stream).read_fragment(space, |buffer| {
                read = read_at(&file, buffer, position)?;
                let cut = cut(&buffer[..read], &options.message_end, read == space, is_last);
                is_whole = cut.is_whole;
                ending = Some(Ending::of(&buffer[..cut.length], position + cut.length as u64));
                // A message that is longer than a pull is read again with the length of a chunk, so
                // that it is whole.
                let is_too_little = !is_whole && read == space && space < options.chunk_bytes;
                io::Result::Ok(if is_too_little { 0 } else { cut.length })
            })?;
            self.seen = position + read as u64;
            if count > 0 || read < space {
                break;
            }
        }
        if count == 0 {
            let ended = is_last.then(|| self.end(batch)).flatten();
            return Ok(ended.map_or(ReadOutcome::Nothing, ReadOutcome::Events));
        }
        self.has_begun = true;
        self.read += count as u64;
        if is_whole {
            self.set_last_ending(ending);
            self.whole = self.read;
        } else {
            self.partial_ending = ending;
        }
        Ok(ReadOutcome::Events(self.whole))
    }

    /// Sets the hash of the bytes before `read`, and keeps the previous hash as an earlier one.
    fn set_last_ending(&mut self, ending: Option<Ending>) {
        self.earlier.extend(self.ending);
        thin_out(&mut self.earlier, self.read);
        (self.ending, self.partial_ending) = (ending, None);
    }
}
