//! Data of files that can no longer be read.

use std::path::{Path, PathBuf};

use tremor_pdk::{Counter, Error, Host, Problem, warn};

/// Minimum time between two reports, in ns. The problem is shown for this time after the last loss.
const INTERVAL_NS: u64 = 60_000_000_000;

/// Maximum number of files that a report names.
const NAMED: usize = 3;

/// Reason why unread data of a file is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The file was deleted or moved while it was closed.
    Closed,
    /// The deleted file was closed, because deleted files take too much space.
    Released,
    /// The file was truncated or rewritten.
    Truncated,
}

/// Counts the lost bytes and the files that had them, and reports them once in [`INTERVAL_NS`].
pub(super) struct Losses {
    host: Host,
    files: Counter,
    bytes: Counter,
    problem: Problem,
    /// Losses that were not reported yet.
    new: Vec<Loss>,
    /// Time of the next report.
    report_at_ns: u64,
    is_reported: bool,
}

/// Losses with the same cause.
struct Loss {
    cause: Cause,
    files: u64,
    bytes: u64,
    /// Paths of the first files, at most [`NAMED`].
    named: Vec<PathBuf>,
}

/// Limits that the reports name.
pub(super) struct Limits {
    pub(super) max_open: usize,
    pub(super) max_deleted: u64,
}

impl Losses {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            files: host.counter("files_lost", "Files of which unread data was lost."),
            bytes: host
                .counter("bytes_lost", "Unread bytes that were lost, as far as they are known."),
            problem: host.problem("lost_files"),
            host: host.clone(),
            new: Vec::new(),
            report_at_ns: 0,
            is_reported: false,
        }
    }

    /// Adds a loss of `bytes` unread bytes. Does nothing if `bytes` is 0.
    pub(super) fn add(&mut self, cause: Cause, path: &Path, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.files.add(1);
        self.bytes.add(bytes);
        let at = self.new.iter().position(|it| it.cause == cause);
        let at = at.unwrap_or_else(|| {
            self.new.push(Loss { cause, files: 0, bytes: 0, named: Vec::new() });
            self.new.len() - 1
        });
        let loss = &mut self.new[at];
        loss.files += 1;
        loss.bytes = loss.bytes.saturating_add(bytes);
        if loss.named.len() < NAMED {
            loss.named.push(path.to_owned());
        }
    }

    /// Reports new losses, unless the last report is more recent than [`INTERVAL_NS`].
    pub(super) fn report(&mut self, now_ns: u64, limits: &Limits) {
        if now_ns < self.report_at_ns {
            return;
        }
        if self.new.is_empty() {
            if std::mem::take(&mut self.is_reported) {
                self.problem.clear();
            }
            return;
        }
        let lines: Vec<_> = self.new.drain(..).map(|loss| loss.describe(limits)).collect();
        for line in &lines {
            warn!(self.host, "{line}");
        }
        self.problem.set(&Error::full(lines.join("; ")));
        (self.report_at_ns, self.is_reported) = (now_ns + INTERVAL_NS, true);
    }
}

impl Loss {
    fn describe(&self, Limits { max_open, max_deleted }: &Limits) -> String {
        let Self { cause, files, bytes, named } = self;
        let names: Vec<_> = named.iter().map(|path| format!("`{}`", path.display())).collect();
        let more = match files - named.len() as u64 {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let names = names.join(", ");
        let (files, were) = if *files == 1 {
            ("1 file".to_owned(), "was")
        } else {
            (format!("{files} files"), "were")
        };
        let why = match cause {
            Cause::Closed => format!(
                "{were} deleted or moved while closed, because more than {max_open} files are read; raise \
                 `max_open_files`"
            ),
            Cause::Released => format!(
                "{were} deleted, and closed because deleted files had more than {max_deleted} bytes; raise \
                 `max_deleted_bytes`"
            ),
            Cause::Truncated => format!(
                "{were} truncated or rewritten before everything was read; have files renamed instead of truncated"
            ),
        };
        format!("at least {bytes} bytes of {files} are lost: {names}{more} {why}")
    }
}
