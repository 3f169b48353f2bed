//! One file that is read: a stream.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
};

use memchr::memmem;
use tremor_pdk::{ErrorKind, RawBatch};

use super::{
    identity::{Identity, Place, place, read_at},
    pattern::renamed,
};
use crate::compression::{self, Format};

/// How all files are read.
#[derive(Debug)]
pub(super) struct How {
    /// Number of bytes that are read together.
    pub(super) chunk_bytes: usize,
    /// Number of bytes that a pull brings, at most, unless a single message has more.
    pub(super) pull_bytes: usize,
    /// What each message ends in; empty: a file is read as a whole.
    pub(super) message_end: Vec<u8>,
    pub(super) format: Option<Format>,
    /// Whether more is waited for at the end.
    pub(super) follow: bool,
}

/// A file, and how far it is read.
///
/// What a pull brings ends with a whole message wherever there is one, so that the next begins with
/// another: the rest is read again with what follows it. Only of a message that is longer than a chunk a part is
/// brought.
pub(super) struct Input {
    /// Its number. What it is made of anew is another one.
    pub(super) stream: u64,
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    /// `None` while it is closed, because other files are read.
    file: Option<Arc<File>>,
    /// When the file was last changed before it was closed.
    closed_changed: Option<Changed>,
    /// Sequence number of the last use: the file with the lowest is closed first.
    pub(super) used: u64,
    content: Content,
    /// Where this stream begins: all before that is acknowledged.
    pub(super) start: u64,
    /// Up to where it is read.
    read: u64,
    /// After the last whole message that was brought.
    whole: u64,
    /// Up to where it was looked at, without a whole message after `read`.
    seen: u64,
    has_begun: bool,
    /// Whether a part of a message was read for the flow, and not yet its end.
    pub(super) is_half: bool,
    pub(super) stage: Stage,
    /// When to look at it again, by the host's clock.
    pub(super) look_at_ns: u64,
    /// Since when it has no name that is asked for.
    pub(super) gone_since_ns: Option<u64>,
}

/// Time of the last change of a file's contents or metadata, in seconds and nanoseconds.
type Changed = (i64, i64);

fn changed(metadata: &Metadata) -> Changed {
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Where a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// What had its name before may have to be read to its end first.
    Waiting,
    Reading,
    /// There is nothing more to it.
    Finished,
}

enum Content {
    Plain,
    /// `None` before the first read and after the end.
    Compressed(Option<compression::Input>),
}

/// What a look at a file came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There are events in the batch; the place after the last whole message of them.
    Brought(u64),
    Nothing,
    /// It has other contents than before, of which nothing is read.
    Truncated,
}

impl Input {
    /// A file to be read from `start` on.
    pub(super) fn new(
        stream: u64,
        path: PathBuf,
        file: Arc<File>,
        start: u64,
        how: &How,
    ) -> io::Result<Self> {
        let identity = Identity::of(&file)?;
        let mut input = Self {
            stream,
            path,
            identity,
            file: Some(file),
            closed_changed: None,
            used: 0,
            content: Content::Plain,
            start,
            read: start,
            whole: start,
            seen: start,
            has_begun: false,
            is_half: false,
            stage: Stage::Waiting,
            look_at_ns: 0,
            gone_since_ns: None,
        };
        input.rewind(start, how);
        Ok(input)
    }

    pub(super) fn place(&self) -> Place {
        self.identity.place()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Returns whether the file can be closed and opened again later without reading anything twice. A file without
    /// a name could not be opened again.
    pub(super) fn may_close(&self, how: &How) -> bool {
        let is_between = matches!(self.content, Content::Plain | Content::Compressed(None));
        let is_named = self.gone_since_ns.is_none();
        self.is_open() && is_named && is_between && (how.follow || self.is_finished())
    }

    pub(super) fn close(&mut self) {
        let metadata = self.file.take().and_then(|file| file.metadata().ok());
        self.closed_changed = metadata.as_ref().map(changed);
    }

    /// Returns whether the file, which is open, is the one that was closed. The inode of a closed file may be used again.
    pub(super) fn is_same(&self) -> io::Result<bool> {
        self.file.as_ref().map_or(Ok(true), |file| self.identity.is_of(file))
    }

    /// Returns the file, which is opened if it was closed. One that was renamed meanwhile is looked for in its folder.
    ///
    /// # Errors
    /// Kind not found, if it was deleted or moved to another folder; those of the system.
    pub(super) fn open(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let ours = self.place();
        let opened = match File::open(&self.path) {
            Ok(file) if place(&file.metadata()?) == ours => file,
            Err(error) if ErrorKind::of_shortage(&error).is_some() => return Err(error),
            _ => match renamed(&self.path, |_, found| found == ours) {
                Some(path) => File::open(path)?,
                None => return Err(io::ErrorKind::NotFound.into()),
            },
        };
        Ok(self.file.insert(opened.into()).clone())
    }

    /// Returns whether there is more in the file than was looked at, or it was changed since it was closed, by its name
    /// alone. A file of another name has not changed before a search finds it.
    pub(super) fn has_changed(&self) -> bool {
        let has_changed = |it: &Metadata| {
            it.len() != self.seen || self.closed_changed.is_none_or(|closed| closed != changed(it))
        };
        fs::metadata(&self.path).is_ok_and(|it| place(&it) == self.place() && has_changed(&it))
    }

    /// Knows the file by more of its first bytes. Once something was read of a file that was empty, what
    /// is there may be other contents, and nothing tells.
    pub(super) fn grow(&mut self) -> io::Result<()> {
        match &self.file {
            Some(file) if self.read == 0 || self.identity.is_known() => self.identity.grow(file),
            _ => Ok(()),
        }
    }

    /// Returns up to where the file is read, in bytes.
    pub(super) fn read_to(&self) -> u64 {
        self.read
    }

    /// Begins anew from there. What is before that may still be in flight.
    pub(super) fn rewind(&mut self, to: u64, how: &How) {
        self.content = match how.format {
            None => Content::Plain,
            Some(_) => Content::Compressed(None),
        };
        (self.read, self.whole, self.seen) = (to, to, to);
        self.look_at_ns = 0;
        self.is_half = false;
        if how.format.is_some() {
            self.has_begun = false;
        }
        if self.is_finished() {
            self.stage = Stage::Reading;
        }
    }

    /// Whether what is read ends in a part of a message. Where messages end in compressed content is not
    /// known: they may, as long as it has not ended.
    pub(super) fn ends_in_part(&self) -> bool {
        match self.content {
            Content::Plain => self.read != self.whole,
            Content::Compressed(_) => self.has_begun,
        }
    }

    /// Whether all that is in the file was looked at.
    pub(super) fn is_caught_up(&self) -> bool {
        let is_read = |file: &Arc<File>| file.metadata().is_ok_and(|it| it.len() == self.seen);
        self.is_finished() || self.file.as_ref().is_some_and(is_read)
    }

    /// Ends the stream: the rest, if there is one, is a message.
    pub(super) fn end(&mut self, batch: &mut RawBatch) -> Option<u64> {
        self.stage = Stage::Finished;
        self.whole = self.read;
        if let Content::Compressed(input) = &mut self.content {
            *input = None;
        }
        let has_begun = std::mem::take(&mut self.has_begun);
        has_begun.then(|| {
            batch.stream(self.stream).end();
            self.read
        })
    }

    /// Reads on into the batch. `is_last` says that no more is waited for.
    pub(super) fn look(
        &mut self,
        batch: &mut RawBatch,
        how: &How,
        is_last: bool,
    ) -> io::Result<Look> {
        if let Content::Compressed(_) = self.content {
            return self.decompress(batch, how);
        }
        let file = self.open()?;
        let length = file.metadata()?.len();
        if length < self.read {
            return Ok(Look::Truncated);
        }
        if length == self.seen && !is_last {
            return Ok(Look::Nothing);
        }
        // Written anew, and by now as long as it was.
        if how.follow && length > self.read && !self.identity.is_of(&file)? {
            return Ok(Look::Truncated);
        }
        // Before anything of it is read: what is there after that may be other contents.
        self.grow()?;
        let position = self.read;
        let mut is_whole = false;
        let mut count = 0;
        for space in [how.pull_bytes, how.chunk_bytes] {
            let space = space.max(how.message_end.len());
            let mut read = 0;
            count = batch.stream(self.stream).read_fragment(space, |buffer| {
                read = read_at(&file, buffer, position)?;
                let cut = cut(&buffer[..read], &how.message_end, read == space, is_last);
                is_whole = cut.is_whole;
                // A message that is longer than a pull is read as a whole where a chunk has it.
                let is_too_little = !is_whole && read == space && space < how.chunk_bytes;
                io::Result::Ok(if is_too_little { 0 } else { cut.length })
            })?;
            self.seen = position + read as u64;
            if count > 0 || read < space {
                break;
            }
        }
        if count == 0 {
            let ended = is_last.then(|| self.end(batch)).flatten();
            return Ok(ended.map_or(Look::Nothing, Look::Brought));
        }
        self.has_begun = true;
        self.read += count as u64;
        if is_whole {
            self.whole = self.read;
        }
        Ok(Look::Brought(self.whole))
    }

    /// A compressed file has no position but its start and its end.
    fn decompress(&mut self, batch: &mut RawBatch, how: &How) -> io::Result<Look> {
        if let Content::Compressed(None) = self.content {
            let file = self.open()?;
            (&*file).seek(SeekFrom::Start(self.start))?;
            self.content = Content::Compressed(Some(compression::Input::new(file, how.format)));
        }
        let Content::Compressed(Some(input)) = &mut self.content else { return Ok(Look::Nothing) };
        let count = batch
            .stream(self.stream)
            .read_fragment(how.chunk_bytes, |buffer| read_some(input, buffer))?;
        if count > 0 {
            self.has_begun = true;
            return Ok(Look::Brought(self.start));
        }
        self.read = self.start + input.position();
        Ok(self.end(batch).map_or(Look::Nothing, Look::Brought))
    }
}

fn read_some(input: &mut compression::Input, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// How much of what was read is brought now.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    length: usize,
    /// Whether a message ends there.
    is_whole: bool,
}

fn cut(bytes: &[u8], message_end: &[u8], is_full: bool, is_last: bool) -> Cut {
    if message_end.is_empty() {
        return Cut { length: bytes.len(), is_whole: false };
    }
    if let Some(at) = memmem::rfind(bytes, message_end) {
        return Cut { length: at + message_end.len(), is_whole: true };
    }
    let length = match (is_full, is_last) {
        // The end may have begun.
        (true, _) => bytes.len() - (message_end.len() - 1),
        (false, true) => bytes.len(),
        (false, false) => 0,
    };
    Cut { length, is_whole: false }
}

#[cfg(test)]
mod tests {
    use super::{Cut, cut};

    #[test]
    fn what_is_brought_ends_with_a_message_wherever_there_is_one() {
        let whole = |length| Cut { length, is_whole: true };
        let part = |length| Cut { length, is_whole: false };
        for (bytes, end, is_full, is_last, expected) in [
            ("one\ntwo\nth", "\n", true, false, whole(8)),
            ("one\ntwo\nth", "\n", false, true, whole(8)),
            ("a long one", "\n", true, false, part(10)),
            ("growing", "\n", false, false, part(0)),
            ("the last", "\n", false, true, part(8)),
            ("", "\n", false, true, part(0)),
            ("one\r\ntwo\r", "\r\n", true, false, whole(5)),
            ("a long one\r", "\r\n", true, false, part(10)),
            ("anything", "", false, false, part(8)),
        ] {
            assert_eq!(
                cut(bytes.as_bytes(), end.as_bytes(), is_full, is_last),
                expected,
                "{bytes:?}"
            );
        }
    }
}
