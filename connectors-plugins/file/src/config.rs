//! The `config` section of the connector in a flow file.

mod by_event;
mod midnight;

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::{self, Path, PathBuf},
    sync::Arc,
};

use tremor_pdk::{
    ChunkBytes, path_without_placeholders,
    prelude::*,
    units::{Interval, Size},
    without_placeholders,
};

use self::by_event::SinkPath;
pub(crate) use self::{
    by_event::{ByEvent, NAME_MAX},
    midnight::Midnights,
};
use crate::{Compression, tail::Pattern};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of the file. A relative path is resolved against the folder of the flow file. A source
    /// also accepts a pattern, such as `logs/*.json`, and a sink a template, such as
    /// `remote/{host}/{:+%F}.log`, with which each event names its file.
    #[schemars(extend("format" = "template"))]
    pub path: PathBuf,
    /// Access to the file: read or write, and the treatment of existing contents.
    pub mode: Mode,
    /// Compression format of the file. Default: detected from the file name.
    #[serde(default)]
    pub compression: Compression,
    /// Maximum number of bytes per read; decompressed bytes if the file is compressed.
    #[serde(default = "default_chunk_bytes")]
    pub chunk_bytes: ChunkBytes,
    /// `true` to wait for more data at the end of the file, for a file that does not exist yet,
    /// and for a successor after the file was renamed.
    #[serde(default)]
    pub follow: bool,
    /// Patterns of files that are not read although `path` matches them, such as `*.gz`. A pattern
    /// without `/` is compared with the name of a file, and any other with the whole path. A relative
    /// pattern is resolved against the folder of the flow file.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// With `follow`, the position at which the first start begins to read the files that exist at
    /// that time. Later files are read from their beginning, and files in the checkpoint from their
    /// stored position.
    #[serde(default)]
    pub start: Start,
    /// Maximum time since the last modification of a new file, such as `24h`. An older file is not
    /// read until it is modified.
    pub ignore_older: Option<Interval>,
    /// Maximum number of files that are open at the same time; the files without new data for the
    /// longest time are closed first. Default: 256 for a source and 4,096 for a sink, or a quarter of
    /// the file descriptors that the process may have if that is less.
    pub max_open_files: Option<NonZeroU32>,
    /// Maximum number of bytes that deleted files with unread data may take on the disk. The source
    /// closes deleted files beyond this limit, and counts their unread data as lost. Default: 1 GiB.
    pub max_deleted_bytes: Option<Size>,
    /// File that stores the acknowledged positions, so that the next run continues after them. A
    /// relative path is resolved against the folder of the flow file.
    #[schemars(extend("x-message-end" = "message_end", "x-exclusive" = "file"))]
    pub checkpoint: Option<PathBuf>,
    /// Minimum time between two durable writes of the checkpoint.
    #[serde(default = "default_checkpoint_interval")]
    pub checkpoint_interval: Interval,
    /// Maximum number of chunks that were read but are not yet in the checkpoint, and are
    /// redelivered after a crash. Half of these chunks may wait for their acknowledgement.
    #[serde(default = "default_read_ahead")]
    pub read_ahead: NonZeroU64,
    /// Time between two polls of a followed file for more data.
    #[serde(default = "default_poll_interval")]
    pub poll_interval: Interval,
    /// `true` to set the metadata `%file.offset` of each event: the offset of the first byte of the
    /// message in the decompressed content.
    #[serde(default)]
    #[schemars(extend("x-message-end" = "message_end"))]
    pub offset: bool,
    /// Terminator of each message in the file. Empty if the end of a message cannot be found.
    #[serde(default = "default_message_end")]
    pub message_end: String,
    /// Point at which written data is made durable on the disk. Events are acknowledged after that.
    #[serde(default)]
    pub sync: SyncMode,
    /// With `sync: interval`, the time between two syncs to the disk.
    #[serde(default = "default_sync_interval")]
    pub sync_interval: Interval,
    /// Limits at which the file is renamed and a new one is started. A batch is never split between
    /// two files.
    pub rotate: Option<Rotate>,

    /// The path of a sink with fields or times.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) by_event: Option<Arc<ByEvent>>,
}

/// Limits at which the written file is renamed, and number of renamed files to keep.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Rotate {
    /// Maximum length of a file, such as `100MiB` or a number of bytes. The file is renamed before
    /// a batch would exceed this length.
    pub max_bytes: Option<Size>,
    /// Maximum age of a file, such as `1h`. An older file is renamed at the next write.
    pub every: Option<Interval>,
    /// Time of day. A file with events of an earlier day is renamed at the next write.
    pub at: Option<TimeOfDay>,
    /// Time zone of `at`: `local` for the zone of the machine, a name such as `Europe/Berlin` or `UTC`,
    /// or an offset such as `+02:00`. Default: `local`.
    pub timezone: Option<String>,
    /// Number of renamed files to keep; older ones are deleted. Default: all files are kept.
    pub keep: Option<NonZeroU32>,
}

impl Rotate {
    /// Returns the times of day at which files are renamed, if there are any.
    pub(crate) fn midnights(&self) -> Result<Option<Midnights>> {
        let timezone = self.timezone.as_deref().unwrap_or("local");
        self.at.map(|at| Midnights::new(at, timezone)).transpose()
    }

    fn check(&self) -> Result<()> {
        if self.max_bytes.is_none() && self.every.is_none() && self.at.is_none() {
            return Err(Error::configuration(
                "`rotate` has neither `max_bytes` nor `every` nor `at`: set at least one of them",
            ));
        }
        if self.timezone.is_some() && self.at.is_none() {
            return Err(Error::configuration(
                "`rotate.timezone` needs `rotate.at`: set `at: midnight`, or remove `timezone`",
            ));
        }
        self.midnights().map(drop)
    }
}

/// Time of day of a rotation.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum TimeOfDay {
    /// The start of a day.
    Midnight,
}

const fn default_chunk_bytes() -> ChunkBytes {
    ChunkBytes::new(256 << 10)
}

const fn default_checkpoint_interval() -> Interval {
    Interval::of_ms(1_000)
}

const fn default_read_ahead() -> NonZeroU64 {
    NonZeroU64::new(1_024).expect("the default is not zero")
}

const fn default_poll_interval() -> Interval {
    Interval::of_ms(100)
}

fn default_message_end() -> String {
    "\n".to_owned()
}

const fn default_sync_interval() -> Interval {
    Interval::of_ms(100)
}

/// Access to the file.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Reads the file from its start to its end.
    Read,
    /// Creates the file. An existing file that is not empty is an error and stays unchanged.
    Write,
    /// Appends to the file, and creates it if it does not exist.
    Append,
    /// Truncates the file: its previous contents are lost.
    Truncate,
}

/// Position at which the first start of a source begins to read a file.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Reads the whole file.
    #[default]
    Beginning,
    /// Reads only what is added to the file.
    End,
}

/// Point at which written data is made durable on the disk.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, tremor_pdk::serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncMode {
    /// At the end of a run. Events are acknowledged once the operating system has them: they survive a
    /// killed process, but not necessarily a power failure.
    #[default]
    Never,
    /// Once per `sync_interval`, for all batches written since the previous sync.
    Interval,
    /// After every batch, together with other batches that were written at the same time.
    Batch,
}

impl Config {
    /// Validates the combination of keys and resolves the paths.
    pub(crate) fn check(mut self, context: &ComponentContext) -> Result<Self> {
        if self.path.as_os_str().is_empty() {
            return Err(Error::configuration(
                "invalid `path`: expected the path of a file; it is empty",
            ));
        }
        let is_read = self.mode == Mode::Read;
        if is_read {
            self.path = path_without_placeholders("path", self.path)?;
        } else {
            self.read_template(context)?;
        }
        let checkpoint = self.checkpoint.map(|it| path_without_placeholders("checkpoint", it));
        self.checkpoint = checkpoint.transpose()?;
        for pattern in &mut self.exclude {
            *pattern = without_placeholders("exclude", pattern)?;
        }
        let is_compressed = match &self.by_event {
            Some(by_event) => by_event.format.is_some(),
            None => self.compression.of(&self.path).is_some(),
        };
        let for_other_mode = [
            (is_read && self.sync != SyncMode::Never, "sync", "written"),
            (is_read && self.rotate.is_some(), "rotate", "written"),
            (!is_read && self.follow, "follow", "read"),
            (!is_read && self.checkpoint.is_some(), "checkpoint", "read"),
            (!is_read && !self.exclude.is_empty(), "exclude", "read"),
            (!is_read && self.start != Start::Beginning, "start", "read"),
            (!is_read && self.ignore_older.is_some(), "ignore_older", "read"),
            (!is_read && self.max_deleted_bytes.is_some(), "max_deleted_bytes", "read"),
            (!is_read && self.offset, "offset", "read"),
        ];
        if let Some((_, key, doing)) = for_other_mode.iter().find(|(is_wrong, ..)| *is_wrong) {
            let message = format!(
                "`{key}` applies only to a file that is {doing}: remove it, or change `mode`"
            );
            return Err(Error::configuration(message));
        }
        self.rotate.as_ref().map_or(Ok(()), Rotate::check)?;
        if self.start == Start::End && !self.follow {
            return Err(Error::configuration(
                "`start: end` needs `follow`: without it nothing would be read; set `follow: true`, or remove `start`",
            ));
        }
        if !is_read && self.max_open_files.is_some() && self.by_event.is_none() {
            return Err(Error::configuration(
                "`max_open_files` applies only to several files: remove it, or write a `path` such as \
                 `logs/{host}.log`",
            ));
        }
        let is_pattern = Pattern::is_pattern(&self.path) || !is_read;
        let for_patterns = [
            (!self.exclude.is_empty(), "exclude"),
            (self.ignore_older.is_some(), "ignore_older"),
            (self.max_open_files.is_some(), "max_open_files"),
        ];
        if let Some((_, key)) = for_patterns.iter().find(|(is_set, _)| *is_set && !is_pattern) {
            let message = format!(
                "`{key}` applies only to a pattern of files: remove it, or write a `path` such as `logs/*.log`"
            );
            return Err(Error::configuration(message));
        }
        if self.follow && self.message_end.is_empty() {
            return Err(Error::configuration(
                "`follow` needs `message_end`: without a terminator a message ends only where the file ends",
            ));
        }
        if self.offset && self.message_end.is_empty() {
            return Err(Error::configuration(
                "`offset` needs `message_end`: without a terminator the offset of a message is unknown",
            ));
        }
        if self.sync != SyncMode::Never && self.mode == Mode::Append && is_compressed {
            return Err(Error::configuration(
                "`sync` cannot append to a compressed file, because its last whole message can be found only by \
                 decompressing all of it: set `compression: none`, or `mode: write`",
            ));
        }
        self.path = context.resolve(&self.path);
        for pattern in &mut self.exclude {
            if let Err(error) = glob::Pattern::new(pattern) {
                let message =
                    format!("invalid `exclude` `{pattern}`: the pattern is invalid: {error}");
                return Err(Error::configuration(message));
            }
            if pattern.contains('/') {
                let path = context.resolve(Path::new(pattern));
                let path = path::absolute(&path).unwrap_or(path);
                *pattern = path.to_string_lossy().into_owned();
            }
        }
        self.checkpoint = self.checkpoint.map(|path| context.resolve(path));
        Ok(self)
    }

    /// Reads the path of a sink, which may be a template.
    fn read_template(&mut self, context: &ComponentContext) -> Result<()> {
        let Some(path) = self.path.to_str() else { return Ok(()) };
        match SinkPath::parse(path, self.compression, context)? {
            SinkPath::File(path) => self.path = path.into(),
            SinkPath::ByEvent(by_event) if self.mode == Mode::Append => {
                self.by_event = Some(Arc::new(by_event));
            }
            SinkPath::ByEvent(_) => {
                return Err(Error::configuration(
                    "a `path` with fields or times needs `mode: append`, because a file may be closed and opened \
                     again during a run; set `mode: append`, or write a `path` without fields and times",
                ));
            }
        }
        Ok(())
    }
}
