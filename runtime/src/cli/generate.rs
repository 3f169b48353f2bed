//! What a package of the program has beside it: completions for shells, and manual pages.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::{Arguments, Failure};

const NAME: &str = "tremor";

fn command() -> Command {
    Arguments::command().name(NAME)
}

/// The completions of a shell, as a script.
pub(super) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a page for each command to a folder.
pub(super) fn manual_pages(folder: &Path) -> Result<(), Failure> {
    clap_mangen::generate_to(command(), folder).map_err(|error| {
        let folder = folder.display();
        Failure::of_flow(format_args!("error: no manual page can be written to {folder}: {error}"))
    })
}
