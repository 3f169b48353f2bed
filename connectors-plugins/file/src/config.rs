//! The `config` of the flow file.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use tremor_pdk::{
    ChunkBytes,
    prelude::*,
    units::{Interval, Size},
};

use crate::Compression;

/// Which file, and what to do with it.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The file. A relative path starts at the folder of the flow file. Of a source it may be a
    /// pattern: `logs/*.json`.
    pub path: PathBuf,
    /// What to do with it.
    pub mode: Mode,
    /// How the file is compressed.
    #[serde(default)]
    pub compression: Compression,
    /// How much to read at once, in bytes; of a compressed file, decompressed bytes.
    #[serde(default = "default_chunk_bytes")]
    pub chunk_bytes: ChunkBytes,
    /// Whether to wait for more at the end, for a file that is not there yet, and for the next one once
    /// it is renamed.
    #[serde(default)]
    pub follow: bool,
    /// The file that keeps how far the files were acknowledged, for the next run to go on there. A
    /// relative path starts at the folder of the flow file.
    pub checkpoint: Option<PathBuf>,
    /// How often that is kept, at most.
    #[serde(default = "default_checkpoint_interval")]
    pub checkpoint_interval: Interval,
    /// How many chunks may be read that the checkpoint does not have yet: they come again after a
    /// crash. Half of them may wait for their acknowledgement.
    #[serde(default = "default_read_ahead")]
    pub read_ahead: NonZeroU64,
    /// How often to look for more at the end of a file that is followed.
    #[serde(default = "default_poll_interval")]
    pub poll_interval: Interval,
    /// What each message in the file ends with. Empty: messages have no end that can be found.
    #[serde(default = "default_message_end")]
    pub message_end: String,
    /// When what was written is put on the disk. Events are acknowledged after that.
    #[serde(default)]
    pub sync: SyncMode,
    /// With `sync: interval`, the time from one time that data is put on the disk to the next.
    #[serde(default = "default_sync_interval")]
    pub sync_interval: Interval,
    /// When to set the file aside and begin a new one. A batch is never split.
    pub rotate: Option<Rotate>,
}

/// When the file that is written is set aside, and how many of these are kept.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug)]
pub struct Rotate {
    /// Before the file is longer than this: `100MiB`, or a number of bytes.
    pub max_bytes: Option<Size>,
    /// Once it is this old, and something is to be written: `1h`.
    pub every: Option<Interval>,
    /// How many files to keep besides the one that is written; older ones are deleted. Unless set,
    /// all are kept.
    pub keep: Option<NonZeroU32>,
}

const fn default_chunk_bytes() -> ChunkBytes {
    ChunkBytes::new(256 << 10)
}

const fn default_checkpoint_interval() -> Interval {
    Interval::of_ms(1_000)
}

const fn default_read_ahead() -> NonZeroU64 {
    NonZeroU64::new(1_024).expect("it is more than none")
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

/// What to do with the file.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Read it from its start to its end.
    Read,
    /// Write a new file. One that exists and is not empty is left alone, with an error.
    Write,
    /// Write after what is in the file; make it where it does not exist.
    Append,
    /// Write from scratch: what is in the file is lost.
    Truncate,
}

/// When what was written is put on the disk.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, tremor_pdk::serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncMode {
    /// At the end of a run. Events are acknowledged once the system has them: a process that is
    /// killed loses none of these, a machine without power may.
    #[default]
    Never,
    /// Once in every interval, for all batches that were written in it.
    Interval,
    /// After every batch, and after those that were written at the same time.
    Batch,
}

impl Config {
    /// The configuration with its paths as the process has to open them, if its keys go together.
    pub(crate) fn check(mut self, context: &ComponentContext) -> Result<Self> {
        if self.path.as_os_str().is_empty() {
            return Err(Error::configuration("`path` is empty: name a file"));
        }
        let is_compressed = self.compression.of(&self.path).is_some();
        let is_read = self.mode == Mode::Read;
        let for_other_mode = [
            (is_read && self.sync != SyncMode::Never, "sync", "written"),
            (is_read && self.rotate.is_some(), "rotate", "written"),
            (!is_read && self.follow, "follow", "read"),
            (!is_read && self.checkpoint.is_some(), "checkpoint", "read"),
        ];
        if let Some((_, key, doing)) = for_other_mode.iter().find(|(is_wrong, ..)| *is_wrong) {
            let message =
                format!("`{key}` is for a file that is {doing}: leave it out, or change `mode`");
            return Err(Error::configuration(message));
        }
        if let Some(Rotate { max_bytes: None, every: None, .. }) = self.rotate {
            return Err(Error::configuration(
                "`rotate` has neither `max_bytes` nor `every`: say when",
            ));
        }
        if self.follow && is_compressed {
            return Err(Error::configuration(
                "`follow` cannot wait for more of a compressed file: leave one of them out",
            ));
        }
        if self.follow && self.message_end.is_empty() {
            return Err(Error::configuration(
                "`follow` needs `message_end`: without it, the end of a message is that of the file",
            ));
        }
        if self.sync != SyncMode::Never && self.mode == Mode::Append && is_compressed {
            return Err(Error::configuration(
                "`sync` cannot append to a compressed file: where its last whole message ends is \
                 known only after all of it is decompressed. Choose `compression: none`, or the \
                 `mode` `write`",
            ));
        }
        self.path = context.resolve(&self.path);
        self.checkpoint = self.checkpoint.map(|path| context.resolve(path));
        Ok(self)
    }
}
