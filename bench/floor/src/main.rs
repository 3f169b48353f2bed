//! Loops to which flows are compared: they do the work of a flow on the same events, without plugins
//! and without a runtime. Their report has the format of `tremor bench --json`.
//!
//! ```text
//! floor tape --data bench/data/logs.json              simd-json parses to its tape, and writes the tape
//! floor copy --data bench/data/logs.json              the bytes are copied, nothing else
//! floor loop --data bench/data/logs.json              this project's codecs in a loop
//! floor loop --threads 2 --logging --codec msgpack …  the same on two threads, with the logic of
//!                                                     the flow `throughput-logging-msgpack`
//! ```

#![allow(clippy::print_stderr)] // people read the output

mod copy;
mod data;
mod handwritten;
mod report;
mod tape;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};

use self::data::Data;

#[derive(Parser)]
#[command(name = "floor", about = "Loops with which flows are compared", version)]
struct Arguments {
    /// Work to do for each event
    #[arg(value_enum)]
    work: Work,
    /// File to replay, one event per line
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// The lines are base64-encoded events
    #[arg(long)]
    base64: bool,
    /// Time to work before counting starts, in seconds
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    warmup: f64,
    /// Time to count, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    duration: f64,
    /// File for the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// `loop`: number of threads
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..), default_value_t = 1)]
    threads: u8,
    /// `loop`: codec
    #[arg(long, default_value = "json")]
    codec: String,
    /// `loop`: classify and limit events
    #[arg(long)]
    logging: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Work {
    /// simd-json parses an event to its tape and writes the tape; one thread
    Tape,
    /// The bytes of an event are copied; one thread
    Copy,
    /// This project's codecs, and the operators' logic, in a loop written by hand
    Loop,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| Duration::try_from_secs_f64(*number).is_ok());
    number.ok_or_else(|| "expected seconds, 0 or more".to_owned())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let data = Data::read(&arguments.data, arguments.base64)?;
    let clock = report::Clock::start(arguments.warmup, arguments.duration);
    let counted = match arguments.work {
        Work::Tape => tape::run(&data, clock)?,
        Work::Copy => copy::run(&data, clock),
        Work::Loop => handwritten::Loop::new(&arguments.codec, arguments.logging)?.run(
            &data,
            clock,
            arguments.threads,
        )?,
    };
    let report = counted.report();
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n";
        std::fs::write(path, text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    #[expect(clippy::print_stdout, reason = "the report is the output of the program")]
    {
        println!("{report}");
    }
    Ok(())
}
