//! `cargo xtask …`: tasks of this project that need more than one cargo command.
//!
//! [`project`] finds files and runs programs for all tasks.

#![allow(clippy::print_stderr)] // because people read the output

mod beside;
mod book;
mod boundary;
mod broker;
mod built;
mod ci;
mod crash;
mod demo;
mod deny;
mod disk_faults;
mod disk_queue;
mod dist;
mod faults;
mod fuzz;
mod generate_logs;
mod growth;
mod inputs;
mod lossy;
mod many_flows;
mod models;
mod network;
mod new_plugin;
mod outage;
mod packages;
mod perf_gate;
mod poster;
mod power_loss;
mod process;
mod project;
mod python;
mod reloads;
mod restarts;
mod samples;
mod scale_out;
mod scenario;
mod scripts;
mod servers;
mod sinks;
mod soak;
mod tidy;
mod tools;
mod vanishing;
mod workspaces;

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
    /// Builds the runtime and two plugins, and runs examples/errors.yaml
    Demo,
    /// Draws the chart of the README
    Pictures,
    /// Builds `tremor` in target/static with the plugins of the benchmark's flows linked into it
    BuildStatic,
    /// Builds the book as a site in target/book
    Book,
    /// Runs the steps of CI, which a change has to pass, one after the other
    Ci(ci::Arguments),
    /// Checks rules of this project that no compiler and no linter checks
    Tidy,
    /// Prints the texts that users see, or what has changed in them since a commit
    Messages {
        /// Print only messages that differ from those of this commit
        #[arg(long, value_name = "COMMIT")]
        since: Option<String>,
    },
    /// Checks the models of concurrency protocols in every order (loom; Miri if nightly has it)
    Models,
    /// Creates a plugin of each kind with `tremor plugin new`, and builds it with the packaged kit
    NewPlugin,
    /// Fuzzes decoders and documents (needs nightly and cargo-fuzz)
    Fuzz(fuzz::Arguments),
    /// Compares the instructions of the benchmark's flows with the committed counts
    PerfGate(perf_gate::Arguments),
    /// Writes the log events that the flows of the benchmark replay; the same seed gives the same bytes
    GenerateLogs(generate_logs::Arguments),
    /// Loads, ends and restarts flows repeatedly, and fails if memory, descriptors or threads grow
    Soak(Harness<soak::Arguments>),
    /// Kills a flow that copies a file at random moments, and fails if an acknowledged event is lost
    Crash(Harness<crash::Arguments>),
    /// Runs each fault of a hostile plugin beside a flow at full load, and fails if that flow loses an event
    Faults(Harness<faults::Arguments>),
    /// Stops, slows and silences the peer of a sink in turn, and fails if an event is lost
    Outage(Harness<outage::Arguments>),
    /// Disturbs one of three sinks of a source, and fails if the others are slower or counts do not balance
    Beside(Harness<beside::Arguments>),
    /// Kills a program that appends to a log on a file system that loses what was not synced, and fails if a record is lost
    PowerLoss(Harness<power_loss::Arguments>),
    /// Measures throughput, acknowledgements and starts of flows with a queue on disk, beside flows and loops without one
    DiskQueue(Harness<disk_queue::Arguments>),
    /// Lets the disk of a queue fail, fill up and lose what was not synced, and fails if an accepted event is lost
    DiskFaults(Harness<disk_faults::Arguments>),
    /// Rotates and deletes files while the peer of a sink is down, and fails if lines are lost
    Vanishing(Harness<vanishing::Arguments>),
    /// Starts, stops and kills processes of examples/scale-out on a real broker, and fails if records are lost
    ScaleOut(scale_out::Arguments),
    /// Creates an archive with the program, plugins, completions, manual pages, licences and an SBOM
    Dist(dist::Arguments),
    /// Runs a hundred flows in one process, and measures startup, idle cost and latency
    ManyFlows(Harness<many_flows::Arguments>),
    /// Measures lines, connections, requests, TLS and messages of brokers, and compares with other programs
    Network(Harness<network::Arguments>),
    /// Starts a real broker for developers, tests and CI, and ends it with Ctrl-C
    Broker(broker::Arguments),
    /// Runs flows to real servers, kills both, and fails if the servers lack acknowledged events
    Servers(Harness<servers::Arguments>),
    /// Measures the processor time of sinks for systems, and the samples per second of remote write
    Sinks(Harness<sinks::Arguments>),
    /// Restarts connectors under load, and fails if memory, descriptors or threads leak
    Restarts(Harness<restarts::Arguments>),
    /// Reloads flows under load, and fails if events are lost, clients notice, or memory grows
    Reloads(Harness<reloads::Arguments>),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo => demo::run(),
        Command::Pictures => book::draw(),
        Command::BuildStatic => built::build_static(),
        Command::Book => book::run(),
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Tidy => tidy::run(),
        Command::Messages { since } => tidy::messages::print(since.as_deref()),
        Command::Models => models::run().map(drop),
        Command::NewPlugin => new_plugin::check(),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::PerfGate(arguments) => perf_gate::run(&arguments),
        Command::GenerateLogs(arguments) => generate_logs::run(&arguments),
        Command::Soak(harness) => harness.run(),
        Command::Crash(harness) => harness.run(),
        Command::Faults(harness) => harness.run(),
        Command::Outage(harness) => harness.run(),
        Command::Beside(harness) => harness.run(),
        Command::PowerLoss(harness) => lossy::run_or_skip("power-loss", || harness.run()),
        Command::DiskQueue(harness) => harness.run(),
        Command::DiskFaults(harness) => harness.run(),
        Command::Vanishing(harness) => harness.run(),
        Command::ScaleOut(arguments) => scale_out::measure(&arguments),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::ManyFlows(harness) => harness.run(),
        Command::Broker(arguments) => broker::run(&arguments),
        Command::Restarts(harness) => harness.run(),
        Command::Reloads(harness) => harness.run(),
        Command::Network(harness) => harness.run(),
        Command::Servers(harness) => harness.run(),
        Command::Sinks(harness) => harness.run(),
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
    fn command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
