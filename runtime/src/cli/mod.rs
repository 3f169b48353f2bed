//! The command line: what users type, and what they get to see.

mod bench;
mod check;
mod failure;
#[cfg(feature = "link-static")]
mod linked;
pub(crate) mod logging;
mod plugin;
mod run;
mod signals;
mod test;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
#[cfg(not(feature = "link-static"))]
use tremor_runtime::plugin::Describer;
use tremor_runtime::{
    components::Components,
    flow::{self, Flow},
    plugin::{Policy, SearchPath, describe_main},
};

pub(crate) use self::failure::Failure;

/// A streaming event processor whose connectors are plugins.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// How logs on stderr are written.
    #[arg(long, global = true, value_enum, default_value = "text")]
    pub(crate) log_format: logging::Format,
    #[command(flatten)]
    plugins: PluginArguments,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct PluginArguments {
    /// A folder or file to look for plugins in. May be given several times.
    #[arg(
        long = "plugin-path",
        global = true,
        value_name = "DIR",
        env = "TREMOR_PLUGIN_PATH",
        value_delimiter = if cfg!(windows) { ';' } else { ':' }
    )]
    paths: Vec<PathBuf>,
    /// Loads plugins that were built with `panic = "abort"`. A panic in one of them ends the
    /// process.
    #[arg(long, global = true)]
    allow_panic_abort: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Runs flows until their sources end or a signal comes.
    Run {
        /// The flow files.
        #[arg(required = true, value_name = "FLOW.yaml")]
        flows: Vec<PathBuf>,
        /// How long flows may take to drain once they are asked to end, in seconds.
        #[arg(long, value_name = "S", default_value = "10")]
        drain_timeout: u64,
    },
    /// Checks flows, their plugins and every configuration; connects to nothing.
    Check {
        /// The flow files.
        #[arg(required = true, value_name = "FLOW.yaml")]
        flows: Vec<PathBuf>,
    },
    /// Runs flows without their connectors and compares what comes out with what is expected.
    Test {
        /// Folders with `flow.yaml`, `input/` and `expected/`.
        #[arg(required = true, value_name = "DIR")]
        folders: Vec<PathBuf>,
        /// Makes what comes out what is expected.
        #[arg(long)]
        update: bool,
    },
    /// Runs a flow of `bench` connectors and says how fast it was.
    Bench(bench::Arguments),
    /// Looks at plugins.
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Loads a plugin and tells about it; run by `tremor` itself, so that a plugin that crashes
    /// does no harm.
    #[command(hide = true)]
    PluginDescribe {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
}

/// Does what the command line says.
pub(crate) fn execute(arguments: Arguments) -> Result<ExitCode, Failure> {
    let plugins = arguments.plugins;
    match arguments.command {
        Command::Run { flows, drain_timeout } => {
            run::run(&plugins.prepare(&flows)?, Duration::from_secs(drain_timeout))?;
        }
        Command::Check { flows } => check::report(&plugins.prepare(&flows)?),
        Command::Test { folders, update } => test::execute(&folders, update, &plugins)?,
        Command::Bench(arguments) => bench::execute(&arguments, &plugins)?,
        Command::Plugin(command) => plugin::execute(command, &plugins)?,
        Command::PluginDescribe { arguments } => return Ok(describe_main(arguments)),
    }
    Ok(ExitCode::SUCCESS)
}

/// A flow that was found good, with the components it was checked against.
struct Prepared {
    flow: Flow,
    components: Components,
}

impl PluginArguments {
    fn policy(&self) -> Policy {
        Policy { allow_panic_abort: self.allow_panic_abort }
    }

    fn search_paths(&self) -> impl Iterator<Item = SearchPath> {
        self.paths.iter().map(|path| SearchPath::new(path, "--plugin-path or TREMOR_PLUGIN_PATH"))
    }

    /// Reads and checks flows; everything that is wrong with any of them is told at once.
    fn prepare(&self, files: &[PathBuf]) -> Result<Vec<Prepared>, Failure> {
        self.prepare_with(files, |file| flow::load(file))
    }

    /// As [`PluginArguments::prepare`], with what `load` makes of a file.
    fn prepare_with(
        &self,
        files: &[PathBuf],
        load: impl Fn(&Path) -> Result<Flow, flow::Error>,
    ) -> Result<Vec<Prepared>, Failure> {
        let mut prepared = Vec::with_capacity(files.len());
        let mut failure = Failure::default();
        for file in files {
            match load(file) {
                Ok(flow) => {
                    missing_folders(&flow).iter().for_each(|missing| failure.usage(missing));
                    match self.resolve(flow) {
                        Ok(resolved) => prepared.push(resolved),
                        Err(error) => failure.usage(&error),
                    }
                }
                Err(error) => failure.usage(&error),
            }
        }
        for path in self.paths.iter().filter(|path| !path.exists()) {
            failure.usage(&format_args!(
                "error: {}: there is no such file or folder\n  help: correct `--plugin-path` or \
                 TREMOR_PLUGIN_PATH",
                path.display()
            ));
        }
        for Prepared { flow, components } in &prepared {
            if let Err(error) = components.check(flow) {
                failure.usage(&error);
            }
            for warning in &flow.warnings {
                eprintln!("{warning}");
            }
        }
        let mut names: Vec<&str> = prepared.iter().map(|prepared| prepared.flow.name()).collect();
        names.sort_unstable();
        if let Some(name) =
            names.windows(2).find_map(|pair| (pair[0] == pair[1]).then_some(pair[0]))
        {
            failure.usage(&format_args!(
                "error: two flows are named `{name}`\n  help: give one of them another `name:`"
            ));
        }
        failure.or(prepared)
    }

    /// The flow's own plugin folders come before those of the command line.
    #[cfg(not(feature = "link-static"))]
    #[expect(clippy::unnecessary_wraps, reason = "the other build has something to fail with")]
    fn resolve(&self, flow: Flow) -> Result<Prepared, tremor_runtime::plugin::Error> {
        let origin = format!("`plugins` of {}", flow.path().display());
        let own = flow.spec.plugins.iter();
        let own = own.map(|path| SearchPath::new(&path.value, &*origin));
        let paths: Vec<SearchPath> = own.chain(self.search_paths()).collect();
        let describer = Describer::new(self.policy()).comparing();
        let (components, problems) = Components::find(&paths, describer, self.policy());
        // What is broken and not used hurts nobody, but somebody may wonder where their plugin is.
        problems.iter().for_each(|problem| tracing::warn!("{problem}"));
        Ok(Prepared { flow, components })
    }

    /// This build has its plugins in it and looks for no others.
    #[cfg(feature = "link-static")]
    fn resolve(&self, flow: Flow) -> Result<Prepared, tremor_runtime::plugin::Error> {
        let components = Components::linked(linked::plugins(), self.policy())?;
        Ok(Prepared { flow, components })
    }
}

/// The entries of `plugins` that lead nowhere.
fn missing_folders(flow: &Flow) -> Vec<flow::Diagnostic> {
    // What is linked needs no folder.
    let needed = !cfg!(feature = "link-static");
    let missing = flow.spec.plugins.iter().filter(|path| needed && !path.value.exists());
    missing
        .map(|path| {
            let message = format!("{}: there is no such file or folder", path.value.display());
            flow.error(path.at, message).help("build the plugins, or correct the path")
        })
        .collect()
}
