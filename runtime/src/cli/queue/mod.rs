//! `tremor queue`: inspects queues on disk, also while a process uses them, and repairs them.

mod check;
mod contents;
mod dump;
mod list;
mod repair;

use std::path::{Path, PathBuf};

use tremor_log::{InspectError, Inspection};

use super::{Failure, plugin::print};

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Shows the sizes, the events, the age and the user of queues.
    List {
        /// Folders of queues, as in `queue.disk.path`.
        #[arg(required = true, value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// Prints JSON: one object for each queue.
        #[arg(long)]
        json: bool,
    },
    /// Reads all records, also those that were delivered and not overwritten yet, and reports damaged parts.
    ///
    /// Changes nothing. The exit status is 0 if no event can be lost, 1 if a part is damaged or cannot be read, and 2 if
    /// the folder contains no queue or a newer version of tremor wrote it.
    Check {
        /// Folders of queues, as in `queue.disk.path`.
        #[arg(required = true, value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// Prints JSON: one object for each queue.
        #[arg(long)]
        json: bool,
    },
    /// Prints a line of JSON for each event that was not delivered yet, in the order of the queue. Changes nothing.
    Dump {
        /// Folder of a queue, as in `queue.disk.path`.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Number of the first record to print. A record contains the events of a batch.
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
        /// Maximum number of events to print.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Repairs a queue that no process uses, as far as the next run would not repair it itself.
    ///
    /// If both headers of a segment are damaged, writes them again from the records of the segment; otherwise the next run
    /// would give up these records. Renames files whose names prevent opening the queue. Discards nothing: a file that is
    /// changed or cannot be used is kept beside it, with a name that ends with `.aside`. The next run repairs all other
    /// damage: it skips damaged records and keeps them in the folder `kept`, and if both halves of the positions are
    /// damaged, delivers all events again. A second repair changes nothing.
    Repair {
        /// Folder of a queue, as in `queue.disk.path`.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

pub(super) fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::List { folders, json } => each(&folders, |folder| {
            let found = list::Found::read(folder)?;
            print(&if json { found.json() } else { found.text() })
        }),
        Command::Check { folders, json } => each(&folders, |folder| {
            let checked = check::Checked::read(folder)?;
            print(&if json { checked.json() } else { checked.text() })?;
            checked.result()
        }),
        Command::Dump { folder, from, limit } => dump::execute(&folder, from, limit),
        Command::Repair { folder } => repair::execute(&folder),
    }
}

/// Does work for each folder, and collects the errors.
fn each(
    folders: &[PathBuf],
    mut work: impl FnMut(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut failure = Failure::default();
    folders.iter().filter_map(|folder| work(folder).err()).for_each(|it| failure.join(it));
    failure.or(())
}

/// Begins to inspect a queue.
fn inspect(folder: &Path) -> Result<Inspection, Failure> {
    Inspection::open(folder).map_err(|error| not_inspected(&error))
}

fn not_inspected(error: &InspectError) -> Failure {
    match error {
        InspectError::Device(_) | InspectError::Changing(_) => failed(error),
        InspectError::NotFound(path) => wrong(&format_args!(
            "there is no folder {}; name the folder of a queue, as in `queue.disk.path`",
            path.display()
        )),
        InspectError::NotALog(path) => wrong(&format_args!(
            "the folder {} contains no queue; name the folder of a queue, as in `queue.disk.path`",
            path.display()
        )),
        InspectError::Newer { .. } => wrong(error),
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::of_flow(format_args!("error: {error}"))
}

fn wrong(error: &dyn std::fmt::Display) -> Failure {
    Failure::of_usage(format_args!("error: {error}"))
}
