//! The `tremor` binary with its command line. Everything else is in the library.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::memory::return_freed_memory();
    let arguments = cli::Arguments::parse();
    // Parsing ends the process regularly, for example after `--help`.
    cli::exit::watch();
    let logs = cli::logging::start(arguments.log_format);
    let status = logs.and_then(|()| cli::execute(arguments)).unwrap_or_else(|failure| {
        let status = failure.status();
        failure.print();
        status
    });
    cli::logging::finish();
    cli::exit::returns(status)
}
