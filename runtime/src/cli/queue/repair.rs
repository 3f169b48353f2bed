//! `tremor queue repair`: repairs a queue that no process uses.

use std::path::Path;

use tremor_log::{Repair, RepairError, repair};

use super::{
    super::{Failure, plugin::print},
    contents::text,
    failed, not_inspected, wrong,
};

/// Repairs a queue, and prints the changes.
pub(super) fn execute(folder: &Path) -> Result<(), Failure> {
    let repairs = repair(folder).map_err(|error| match &error {
        RepairError::Inspect(error) => not_inspected(error),
        RepairError::InUse(error) => match error.holder {
            Some(holder) => wrong(&format_args!(
                "cannot repair the queue {}: it is in use by the process {holder}; stop this process",
                text(&error.path)
            )),
            None => wrong(&format_args!(
                "cannot repair the queue {}: it is in use; stop the process that uses it",
                text(&error.path)
            )),
        },
        RepairError::Device(_) => failed(&error),
    })?;
    repairs.iter().try_for_each(|repair| print(&format!("{}\n", described(repair))))?;
    if repairs.is_empty() {
        let folder = text(folder);
        print(&format!(
            "{folder}: there is nothing to repair that the next run does not repair\n"
        ))?;
    }
    Ok(())
}

fn described(repair: &Repair) -> String {
    match repair {
        Repair::Headers { path, records, copy } => format!(
            "{}: both headers were damaged and were written again; {records} records can be read; the file as it was is \
             {}",
            text(path),
            text(copy)
        ),
        Repair::Unreadable { path, to } => format!(
            "{}: both headers are damaged, and no record that is needed can be read; renamed to {}",
            text(path),
            text(to)
        ),
        Repair::Renamed { path, to } => {
            format!("{}: this name prevents opening the queue; renamed to {}", text(path), text(to))
        }
    }
}
