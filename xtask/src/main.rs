//! `cargo xtask …`: tasks that are more than one cargo command.
//!
//! One module a command; [`project`] knows where things lie and how a program is run.

#![allow(clippy::print_stderr)] // people read it

mod book;
mod boundary;
mod broker;
mod build_static;
mod built;
mod ci;
mod crash;
mod demo;
mod dist;
mod faults;
mod fuzz;
mod generate_logs;
mod kafka;
mod manifests;
mod many_flows;
mod models;
mod nats;
mod network;
mod new_plugin;
mod nightly;
mod outage;
mod perf_gate;
mod pictures;
mod process;
mod project;
mod restarts;
mod running;
mod samples;
mod scale_out;
mod scenario;
mod scripts;
mod soak;
mod syslog;
mod terminal;
mod tidy;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::scenario::Harness;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Tasks that are more than one cargo command", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Builds the runtime and two plugins and runs examples/errors.yaml
    Demo(demo::Arguments),
    /// Draws the pictures of the README: the chart of a kept run, and a terminal with the demo
    Pictures,
    /// Builds a `tremor` that contains the plugins of the benchmark's flows, in target/static
    BuildStatic(build_static::Arguments),
    /// Builds the book as a site in target/book, and follows its links
    Book,
    /// Runs every check that a change has to pass, one after the other
    Ci(ci::Arguments),
    /// Checks the habits that no compiler and no linter knows
    Tidy,
    /// Runs the tests of the boundary with AddressSanitizer, plugins included (nightly)
    Sanitize(boundary::Arguments),
    /// Runs the tests of the boundary with other layouts in the host than in plugins (nightly)
    RandomizeLayout,
    /// Checks the models of concurrency protocols in every order (loom; Miri if nightly has it)
    Models,
    /// Makes a plugin of each kind with `tremor plugin new`, and builds it with the packaged kit
    NewPlugin,
    /// Feeds decoders and documents with input that may break them (nightly, cargo-fuzz)
    Fuzz(fuzz::Arguments),
    /// Compares the instructions of the benchmark's flows with the committed counts
    PerfGate(perf_gate::Arguments),
    /// Writes the log events that the flows of the benchmark replay; a seed fixes every byte
    GenerateLogs(generate_logs::Arguments),
    /// Loads, ends, breaks and restarts flows again and again, and fails if memory, descriptors or threads grow
    Soak(Harness<soak::Arguments>),
    /// Kills a flow from a file to a file at random moments, and fails if an acknowledged event is lost
    Crash(Harness<crash::Arguments>),
    /// Runs each fault of a hostile plugin beside a flow at full load, and fails if that loses an event
    Faults(Harness<faults::Arguments>),
    /// Stops, slows and silences the peer of a sink by turns, and fails if that loses an event
    Outage(Harness<outage::Arguments>),
    /// Processes of examples/scale-out that come, go and are killed, on a real broker: what becomes of the records
    ScaleOut(scale_out::Arguments),
    /// Makes an archive with the program, plugins, completions, manual pages, licences and an SBOM
    Dist(dist::Arguments),
    /// Runs a hundred flows in one process: how they start, rest, and leave one another alone
    ManyFlows(Harness<many_flows::Arguments>),
    /// Compares lines of syslog over TCP into a file with rsyslog, syslog-ng and a bare loop
    Syslog(Harness<syslog::Arguments>),
    /// Measures connections, requests and TLS beside tokio, hyper and bare loops
    Network(Harness<network::Arguments>),
    /// Compares records from topic to topic of Kafka through a flow with `kcat -C | kcat -P`
    Kafka(Harness<kafka::Arguments>),
    /// Compares messages of a stream of NATS, taken by a flow, with a bare consumer on `nats.go`
    Nats(Harness<nats::Arguments>),
    /// Starts a real broker for developers, tests and CI, and ends it with Ctrl-C
    Broker(broker::Arguments),
    /// Restarts connectors under load, and fails if that leaves memory, descriptors or threads behind
    Restarts(Harness<restarts::Arguments>),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Pictures => pictures::run(),
        Command::BuildStatic(arguments) => build_static::run(&arguments),
        Command::Book => book::run(),
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Tidy => tidy::run(),
        Command::Sanitize(arguments) => boundary::sanitize(&arguments),
        Command::RandomizeLayout => boundary::randomize_layout(),
        Command::Models => models::run().map(drop),
        Command::NewPlugin => new_plugin::check(),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::PerfGate(arguments) => perf_gate::run(&arguments),
        Command::GenerateLogs(arguments) => generate_logs::run(&arguments),
        Command::Soak(harness) => harness.run(),
        Command::Crash(harness) => harness.run(),
        Command::Faults(harness) => harness.run(),
        Command::Outage(harness) => harness.run(),
        Command::ScaleOut(arguments) => scale_out::measure(&arguments),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::ManyFlows(harness) => harness.run(),
        Command::Broker(arguments) => broker::run(&arguments),
        Command::Restarts(harness) => harness.run(),
        Command::Syslog(harness) => harness.run(),
        Command::Network(harness) => harness.run(),
        Command::Kafka(harness) => harness.run(),
        Command::Nats(harness) => harness.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
