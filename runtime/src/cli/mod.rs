//! Command line: options, and messages to users.

mod api;
mod background;
mod bench;
mod check;
mod closed_output;
pub(crate) mod exit;
mod failure;
mod files;
mod generate;
mod keys;
#[cfg(feature = "link-static")]
mod linked;
mod log;
pub(crate) mod logging;
pub(crate) mod memory;
mod plugin;
mod prepare;
mod progress;
mod queue;
mod reload;
mod remote;
mod run;
mod schema;
mod service;
mod signals;
mod stderr;
mod tap;
mod terminal;
mod test;
mod top;
mod verify;
mod version;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Parser, Subcommand};
use tremor_runtime::{
    components::Components,
    executor,
    flow::{Environment, Flow},
    parse_time,
    plugin::{describe_main, exec_main, process_main, verify_main},
};

pub(crate) use self::failure::Failure;
use self::prepare::PluginArguments;

/// Error for an argument in an unexpected form. Contains the description of the expected form.
#[derive(Debug, thiserror::Error)]
#[error("expected {0}")]
struct Expected(&'static str);

/// Parses a duration: a number of seconds, or a whole number with a unit as in flow files.
///
/// # Errors
/// The text has neither form, or the duration is negative or too long for `Duration`.
fn duration(text: &str) -> Result<Duration, Expected> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .or_else(|| parse_time(text))
        .ok_or(Expected("a duration such as `250ms`, `10s` or `2m`, or a number of seconds"))
}

/// A streaming event processor whose connectors are plugins.
#[derive(Parser)]
#[command(name = "tremor", version = version::version(), arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// Format of the log, which is written to stderr.
    #[arg(long, global = true, value_enum, default_value = "text")]
    pub(crate) log_format: logging::Format,
    #[command(flatten)]
    plugins: PluginArguments,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs flows until their sources end or a signal arrives.
    Run {
        /// Flow files, and folders with flow files.
        #[arg(required = true, value_name = "FLOW.yaml")]
        flows: Vec<PathBuf>,
        /// Reloads the flows when a flow file is added, removed or written.
        #[arg(long)]
        watch: bool,
        /// Maximum time for flows to drain after a signal, such as `30s`; a number without a unit is in seconds.
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
        drain_timeout: Duration,
        /// Maximum memory of all flows together, such as `512MiB`; by default, half of the memory of the machine, or of
        /// its control group if that has less. At this limit, sources wait.
        #[arg(long, value_name = "SIZE", value_parser = run::memory_limit)]
        memory_limit: Option<usize>,
        /// Condition under which a service manager is notified that the run is ready.
        #[arg(long, value_name = "WHEN", value_enum, default_value = "started")]
        ready: service::Ready,
        #[command(flatten)]
        api: api::Arguments,
    },
    /// Checks flows, their plugins and their configurations, without connecting to anything.
    Check {
        /// Flow files, and folders with flow files.
        #[arg(required = true, value_name = "FLOW.yaml")]
        flows: Vec<PathBuf>,
        /// Fails if there are warnings.
        #[arg(long)]
        deny_warnings: bool,
    },
    /// Runs flows without their connectors, and compares the results with files.
    Test {
        /// Folders that contain `flow.yaml`, `input/` and `expected/`.
        #[arg(required = true, value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// Writes the results to `expected/`.
        #[arg(long)]
        update: bool,
    },
    /// Shows components, states, rates, queues and errors of a running process, updated every second.
    Top(top::Arguments),
    /// Shows a sample of the events at a port of a running flow.
    Tap(tap::Arguments),
    /// Lets a running process read its flow files again, and shows what changes.
    Reload(reload::Arguments),
    /// Shows and changes the level of the log of a running process, for all lines or those of one component.
    Log(log::Arguments),
    /// Measures throughput and latency of a flow between `bench` connectors.
    Bench(bench::Arguments),
    /// Prints a JSON Schema of flow files with the available plugins, for editors.
    Schema,
    /// Lists and describes plugins.
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Inspects queues on disk, also while a process uses them, and repairs them.
    #[command(subcommand)]
    Queue(queue::Command),
    /// Prints a script that completes commands and options in a shell.
    Completions {
        /// Shell that the script is for.
        shell: clap_complete::Shell,
    },
    /// Writes manual pages, for packages.
    #[command(hide = true)]
    ManualPages {
        /// Folder for the pages.
        folder: PathBuf,
    },
    /// Loads a plugin and describes it. `tremor` starts this command itself, so that a plugin that crashes ends no
    /// other process.
    #[command(hide = true)]
    PluginDescribe {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Checks a component of a plugin. `tremor` starts this command itself, so that a plugin that crashes ends no
    /// other process.
    #[command(hide = true)]
    PluginVerify,
    /// Runs a connector of a plugin. `tremor` starts this command itself for connectors with `isolation: process`.
    #[command(hide = true)]
    PluginProcess {
        /// Name of the connector in its flow, which lists of processes show.
        component: String,
        /// Library to load, if the command is that of an executable.
        #[arg(long)]
        library: Option<PathBuf>,
        /// Maximum number of bytes of memory of an executable.
        #[arg(long, default_value_t = u64::MAX)]
        memory: u64,
        /// Program and arguments of an executable, which this process becomes.
        #[arg(last = true)]
        command: Vec<std::ffi::OsString>,
    },
}

/// Executes the command.
pub(crate) fn execute(arguments: Arguments) -> Result<ExitCode, Failure> {
    let plugins = arguments.plugins;
    executor::check_threads().map_err(|error| Failure::of_usage(format_args!("error: {error}")))?;
    match arguments.command {
        Command::Run { flows, watch, drain_timeout, memory_limit, ready, api } => {
            logging::write_from_thread();
            signals::survive();
            closed_output::fail_writes().map_err(|error| {
                let what = "cannot replace the closed standard output";
                Failure::of_usage(format_args!("error: {what}: {error}"))
            })?;
            let files = run::Files { given: flows, watch };
            run::execute(plugins, files, drain_timeout, memory_limit, ready, &api)?;
        }
        Command::Check { flows, deny_warnings } => {
            let flows = files::expanded(&flows)?;
            let flows = plugins.prepare(&flows, &Environment::default().elsewhere())?;
            check::report(&flows, deny_warnings)?;
        }
        Command::Test { folders, update } => test::execute(&folders, update, &plugins)?,
        Command::Top(arguments) => top::execute(&arguments)?,
        Command::Tap(arguments) => tap::execute(&arguments)?,
        Command::Reload(arguments) => reload::execute(&arguments)?,
        Command::Log(arguments) => log::execute(&arguments)?,
        Command::Bench(arguments) => {
            logging::write_from_thread();
            bench::execute(&arguments, &plugins)?;
        }
        Command::Schema => plugin::print(&schema::text(&plugins)?)?,
        Command::Plugin(command) => plugin::execute(command, &plugins)?,
        Command::Queue(command) => queue::execute(command)?,
        Command::Completions { shell } => plugin::print(&generate::completions(shell))?,
        Command::ManualPages { folder } => generate::manual_pages(&folder)?,
        Command::PluginVerify => return Ok(verify_main()),
        Command::PluginProcess { component: _, library, memory, command } => {
            return Ok(match &command[..] {
                [] => process_main(library.as_deref()),
                command => exec_main(memory, command),
            });
        }
        Command::PluginDescribe { arguments } => return Ok(describe_main(arguments)),
    }
    Ok(ExitCode::SUCCESS)
}

/// A valid flow, and the components against which it was checked.
struct Prepared {
    flow: Flow,
    components: Arc<Components>,
}
