//! The `config` section of the connector in a flow file.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{Command, Stdio},
};

use tremor_pdk::{
    ErrorKind, path_without_placeholders,
    prelude::*,
    units::{Interval, Size},
};

use crate::point::{Point, Position};

/// Names of priorities, from 0 to 7.
const PRIORITIES: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Units whose entries are read, such as `nginx.service`. Patterns such as `nginx*` are
    /// allowed. Default: all units.
    #[serde(default)]
    pub units: Vec<String>,
    /// Syslog identifiers (`SYSLOG_IDENTIFIER`) whose entries are read, such as `sshd`. Default:
    /// all identifiers.
    #[serde(default)]
    pub identifiers: Vec<String>,
    /// Lowest priority that is read, such as `warning`, or a range such as `err..notice`.
    /// Default: all priorities.
    #[schemars(extend("examples" = ["warning"]))]
    pub priority: Option<String>,
    /// Fields that an entry must have, each as `FIELD=VALUE`. Several values of one field are
    /// alternatives.
    #[serde(default)]
    #[schemars(extend("examples" = [["_TRANSPORT=kernel"]]))]
    pub matches: Vec<String>,
    /// `true` to read only entries of the current boot.
    #[serde(default)]
    pub boot: bool,
    /// Time of the first entry that the first run reads, as `journalctl --since` accepts it, such
    /// as `2026-01-31 12:00`, `-1h` or `today`; `now` for new entries only. Default: the start of
    /// the journal.
    #[schemars(extend("examples" = ["-1h"]))]
    pub since: Option<String>,
    /// `true` to wait for new entries at the end of the journal.
    #[serde(default = "default_follow")]
    pub follow: bool,
    /// Folder with journal files, if they are not those of this machine. A relative path is
    /// resolved against the folder of the flow file.
    pub directory: Option<PathBuf>,
    /// File that stores the acknowledged cursor, so that the next run continues after it. A
    /// relative path is resolved against the folder of the flow file.
    #[schemars(extend("x-exclusive" = "file"))]
    pub checkpoint: Option<PathBuf>,
    /// Minimum time between two writes of the checkpoint, unless 1 MiB of entries is acknowledged
    /// meanwhile.
    #[serde(default = "default_checkpoint_interval")]
    pub checkpoint_interval: Interval,
    /// Maximum number of bytes of entries in JSON that wait for their acknowledgement. Has no
    /// effect without `checkpoint`.
    #[serde(default = "default_read_ahead")]
    pub read_ahead_bytes: Size,
    /// Maximum length of an entry in JSON. The codec gets only the start of a longer entry, and
    /// rejects it.
    #[serde(default = "default_max_entry")]
    pub max_entry_bytes: Size,
    /// The program `journalctl`: a name that is searched for in `PATH`, or a path relative to the
    /// folder of the flow file.
    #[serde(default = "default_command")]
    pub command: String,
}

const fn default_follow() -> bool {
    true
}

const fn default_checkpoint_interval() -> Interval {
    Interval::of_ms(1_000)
}

fn default_read_ahead() -> Size {
    Size::of_bytes(8 << 20)
}

fn default_max_entry() -> Size {
    Size::of_bytes(4 << 20)
}

fn default_command() -> String {
    "journalctl".to_owned()
}

impl Config {
    /// Validates the configuration, and resolves its paths.
    pub(crate) fn check(mut self, context: &ComponentContext) -> Result<Self> {
        let wrong =
            |key: &str, what: &str| Err(Error::configuration(format!("invalid `{key}`: {what}")));
        if self.command.is_empty() || self.command.contains('\0') {
            return wrong("command", "expected the name or the path of a program");
        }
        for (key, values, what) in [
            ("units", &self.units, "the name of a unit, such as `nginx.service`"),
            ("identifiers", &self.identifiers, "an identifier of syslog, such as `sshd`"),
        ] {
            if let Some(at) = values.iter().position(|it| it.is_empty() || it.contains('\0')) {
                return wrong(&format!("{key}[{at}]"), &format!("expected {what}"));
            }
        }
        if let Some(at) = self.matches.iter().position(|it| !is_match(it)) {
            let found = &self.matches[at];
            return wrong(
                &format!("matches[{at}]"),
                &format!("expected `FIELD=VALUE`, such as `_TRANSPORT=kernel`, found `{found}`"),
            );
        }
        if let Some(priority) = self.priority.as_deref().filter(|it| !is_priority(it)) {
            return wrong(
                "priority",
                &format!(
                    "expected one of {}, a number from 0 to 7, or a range of two of them such as `err..notice`, \
                     found `{priority}`",
                    PRIORITIES.join(", ")
                ),
            );
        }
        if self.since.as_deref().is_some_and(|it| it.is_empty() || it.contains('\0')) {
            return wrong("since", "expected a time, such as `now`, `-1h` or `2026-01-31 12:00`");
        }
        if self.max_entry_bytes.get() > MAX_ENTRY {
            return wrong("max_entry_bytes", "expected at most `1GiB`");
        }
        let resolve =
            |key, path| path_without_placeholders(key, path).map(|it| context.resolve(it));
        self.directory = self.directory.map(|path| resolve("directory", path)).transpose()?;
        self.checkpoint = self.checkpoint.map(|path| resolve("checkpoint", path)).transpose()?;
        Ok(self)
    }

    /// Returns whether all entries of the journal are read.
    pub(crate) fn has_no_filter(&self) -> bool {
        let lists = [&self.units, &self.identifiers, &self.matches];
        lists.iter().all(|it| it.is_empty()) && self.priority.is_none() && !self.boot
    }

    /// Returns the position at which the first run starts.
    pub(crate) fn start(&self, host: &Host) -> Position {
        let point = match self.since.as_deref() {
            None => Point::Start,
            // Every further process has to read from the same time, because otherwise entries
            // between two processes would be lost.
            Some("now") => {
                let now_us = host.now_ns() / 1_000;
                let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
                Point::Since(format!("@{seconds}.{micros:06}").into())
            }
            Some(since) => Point::Since(since.into()),
        };
        Position { point, read: 0 }
    }

    /// Returns the command that reads the journal from `point` on.
    ///
    /// A cursor is passed with `--cursor`, and the source skips the entry of the cursor. With `--after-cursor`,
    /// `journalctl` 252 would also skip the next entry if the entry of the cursor no longer exists or does not match.
    pub(crate) fn command(&self, host: &Host, point: &Point) -> Command {
        use std::os::unix::process::CommandExt;

        let mut command = Command::new(self.program(host));
        // Without `--all`, fields that are longer than 4 KiB would be null.
        command.args(["--output=json", "--all", "--no-pager"]);
        if self.follow {
            command.args(["--follow", "--no-tail"]);
        }
        if self.boot {
            command.arg("--boot");
        }
        let option = |name: &str, value: &str| format!("--{name}={value}");
        command.args(self.units.iter().map(|it| option("unit", it)));
        command.args(self.identifiers.iter().map(|it| option("identifier", it)));
        command.args(self.priority.iter().map(|it| option("priority", it)));
        if let Some(directory) = &self.directory {
            let mut argument = OsString::from("--directory=");
            argument.push(directory);
            command.arg(argument);
        }
        let start = match point {
            Point::Start => None,
            Point::Since(time) => Some(option("since", time)),
            Point::Cursor(cursor) => Some(option("cursor", cursor)),
        };
        command.args(start).args(&self.matches);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Create a process group, so that a Ctrl-C in the terminal does not end the process.
        command.process_group(0);
        command
    }

    /// Returns the program to start: a name unchanged, and a path resolved against the folder of the flow file.
    fn program(&self, host: &Host) -> PathBuf {
        if self.command.contains('/') {
            host.resolve(&self.command)
        } else {
            (&self.command).into()
        }
    }

    /// Converts the I/O error of a failed start, and adds a remedy.
    pub(crate) fn cannot_start(&self, error: &io::Error) -> Error {
        let command = &self.command;
        match error.kind() {
            io::ErrorKind::NotFound => Error::configuration(format!(
                "cannot start `{command}`: it does not exist; install systemd, or set `command` to the path of \
                 `journalctl`"
            )),
            io::ErrorKind::PermissionDenied => Error::configuration(format!(
                "cannot start `{command}`: it is not executable; set `command` to the path of `journalctl`"
            )),
            _ => {
                let kind = ErrorKind::of_shortage(error).unwrap_or(ErrorKind::CONNECTION_REFUSED);
                Error::new(kind, format!("cannot start `{command}`: {error}"))
            }
        }
    }
}

/// Largest permitted `max_entry_bytes`.
const MAX_ENTRY: u64 = 1 << 30;

/// Returns whether `journalctl` accepts `text` as a match: the name of a field, `=` and a value. Other arguments would
/// be options or paths.
fn is_match(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_first = |c: u8| c.is_ascii_uppercase() || c == b'_';
        name.bytes().next().is_some_and(is_first)
            && name.bytes().all(|c| is_first(c) || c.is_ascii_digit())
    };
    text.split_once('=').is_some_and(|(name, value)| is_name(name) && !value.contains('\0'))
}

fn is_priority(text: &str) -> bool {
    let is_one =
        |text: &str| PRIORITIES.contains(&text) || matches!(text.as_bytes(), [b'0'..=b'7']);
    text.split_once("..").map_or_else(|| is_one(text), |(from, to)| is_one(from) && is_one(to))
}

#[cfg(test)]
mod tests {
    use super::{is_match, is_priority};

    #[test]
    fn options_and_paths_are_not_accepted_as_matches() {
        assert!(is_match("_TRANSPORT=kernel") && is_match("FIELD_2=") && is_match("A=b=c"));
        for wrong in ["", "=x", "--file=x", "/bin/sh", "lower=x", "A", "1A=x", "A=\0", "+"] {
            assert!(!is_match(wrong), "{wrong}");
        }
    }

    #[test]
    fn priorities_are_names_numbers_or_ranges_of_both() {
        for priority in ["emerg", "7", "err..notice", "0..debug"] {
            assert!(is_priority(priority), "{priority}");
        }
        for wrong in ["", "8", "error", "err..", "..err", "1..2..3", "10"] {
            assert!(!is_priority(wrong), "{wrong}");
        }
    }
}
