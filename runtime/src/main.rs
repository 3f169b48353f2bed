//! The `tremor` binary: its command line. What it does is in the library.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::memory::give_back();
    let arguments = cli::Arguments::parse();
    cli::logging::start(arguments.log_format);
    let status = cli::execute(arguments).unwrap_or_else(|failure| {
        let status = failure.status();
        failure.print();
        status
    });
    cli::logging::finish();
    status
}
