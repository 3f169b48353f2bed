//! Generated files of a package: completions for shells, and manual pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Arguments, Failure};

const NAME: &str = "tremor";

/// Returns the script with the completions for a shell.
pub(super) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a manual page for each command to a folder.
pub(super) fn manual_pages(folder: &Path) -> Result<(), Failure> {
    clap_mangen::generate_to(Arguments::command(), folder).map_err(|error| {
        let folder = folder.display();
        Failure::of_flow(format_args!("error: cannot write manual pages to {folder}: {error}"))
    })
}
