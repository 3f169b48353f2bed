//! The `tremor` binary: its command line. What it does is in the library.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::memory::give_back();
    let arguments = cli::Arguments::parse();
    cli::logging::start(arguments.log_format);
    match cli::execute(arguments) {
        Ok(status) => status,
        Err(failure) => {
            eprint!("{failure}");
            failure.status()
        }
    }
}
