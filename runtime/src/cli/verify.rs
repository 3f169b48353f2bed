//! `tremor plugin verify`: checks whether a plugin follows the contract of plugins.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;
use tremor_runtime::{
    components::is_built_in,
    plugin::{Configurations, Library, NO_EVENT, UNCONNECTED, Verification, verify},
    redact,
};

use super::{Failure, PluginArguments, duration};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Library, or manifest of an executable.
    path: PathBuf,
    /// Configuration of a component in a JSON or YAML file; may be repeated, also for the same component. Without
    /// it, a configuration is generated from the schema.
    #[arg(long, value_name = "NAME=FILE")]
    config: Vec<String>,
    /// File with a message in the format of a codec, or a byte stream of a processor; may be repeated.
    #[arg(long, value_name = "NAME=FILE")]
    sample: Vec<String>,
    /// Maximum time of a check, such as `20s`; a number without a unit is in seconds.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    limit: Duration,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Returns the report to print, and an error if the plugin does not follow the contract.
pub(crate) fn execute(
    arguments: &Arguments,
    plugins: &PluginArguments,
) -> Result<(String, Result<(), Failure>), Failure> {
    let configurations = configurations(arguments)?;
    let (path, policy, limit) = (&arguments.path, plugins.policy(), arguments.limit);
    let verification = verify(path, policy, &configurations, limit, is_built_in);
    let counts = Counts::of(&verification);
    let json = arguments.json.then(|| counts.json(&verification));
    let report = json.unwrap_or_else(|| counts.text(&verification));
    // Messages of a plugin can contain values of its configuration, so secrets are removed.
    Ok((redact::owned(report), counts.result()))
}

fn configurations(arguments: &Arguments) -> Result<Configurations, Failure> {
    let mut configurations = Configurations::default();
    let mut failure = Failure::default();
    let configs = arguments.config.iter().map(|given| ("config", given));
    let samples = arguments.sample.iter().map(|given| ("sample", given));
    for (option, given) in configs.chain(samples) {
        let Some((name, file)) = given.split_once('=') else {
            failure.usage(&format_args!(
                "error: `--{option} {given}`: expected NAME=FILE, the name of a component and a file"
            ));
            continue;
        };
        let file = Path::new(file);
        if option == "config" {
            if let Err(error) = configurations.add(name, file) {
                failure.usage(&format_args!("error: {error}"));
            }
        } else if let Err(error) = configurations.add_sample(name, file) {
            failure
                .usage(&format_args!("error: cannot read the sample {}: {error}", file.display()));
        }
    }
    // Errors of the library other than a wrong component name are reported by the first check.
    if let Ok(library) = Library::inspect(&arguments.path)
        && let Some(name) = configurations.unknown(&library.metadata().artefacts)
    {
        let components = library.metadata().artefacts.iter();
        let components: Vec<_> = components.map(|it| format!("`{}`", it.name)).collect();
        failure.usage(&format_args!(
            "error: `{name}=…`: the library has no component `{name}`\n  help: it has {}; `tremor \
             plugin inspect` describes them",
            components.join(", ")
        ));
    }
    failure.or(configurations)
}

/// Number of checks by result.
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Components of which no instance could be created.
    unchecked: usize,
    /// Connectors for which a check was skipped because they did not connect, each with the reason at the first of
    /// these checks.
    unconnected: Vec<String>,
    /// Connectors whose source received no event, each with the reason.
    silent: Vec<String>,
}

impl Counts {
    fn of(verification: &Verification) -> Self {
        let reports = || verification.components.iter().map(|component| &component.report);
        let all = std::iter::once(&verification.stages).chain(reports());
        let failed = all.clone().map(|report| report.faults().count()).sum();
        let skipped = all.map(|report| report.skipped().count()).sum();
        let passed = verification.checks().count() - failed - skipped;
        let unchecked =
            reports().filter(|report| report.skipped().any(|(check, _)| check == "makes")).count();
        let unconnected = verification.components.iter().filter_map(|component| {
            let makes = component.report.skipped().any(|(check, _)| check == "makes");
            let mut skipped = component.report.skipped().map(|(_, reason)| reason);
            let reason = skipped.find(|reason| reason.starts_with(UNCONNECTED))?;
            (!makes).then(|| format!("{} `{}`: {reason}", component.kind, component.name))
        });
        let silent = verification.components.iter().filter_map(|component| {
            let is_silent = |(check, reason)| check == "pulls" && reason == NO_EVENT;
            let is_silent = component.report.skipped().any(is_silent);
            is_silent.then(|| format!("{} `{}`: {NO_EVENT}", component.kind, component.name))
        });
        let (unconnected, silent) = (unconnected.collect(), silent.collect());
        Self { passed, failed, skipped, unchecked, unconnected, silent }
    }

    fn text(&self, verification: &Verification) -> String {
        let mut text =
            format!("library {}\n{}", verification.library.display(), verification.stages);
        for component in &verification.components {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "{} `{}`, with the configuration {}\n{}",
                component.kind, component.name, component.config, component.report
            );
        }
        let Self { passed, failed, skipped, .. } = self;
        let _ = writeln!(text, "{passed} checks passed, {failed} failed, {skipped} skipped");
        text
    }

    fn json(&self, verification: &Verification) -> String {
        let all = json!({
            "library": verification.library,
            "checks": verification.stages.checks,
            "components": verification.components,
            "passed": self.passed, "failed": self.failed, "skipped": self.skipped,
        });
        format!("{all:#}\n")
    }

    /// Returns the failure that determines the exit status.
    ///
    /// A failed check takes precedence over a missing configuration. A missing configuration takes precedence over a
    /// connector that did not connect or received no event.
    fn result(&self) -> Result<(), Failure> {
        let mut failure = Failure::default();
        if self.unchecked > 0 {
            failure.usage(&format_args!(
                "error: {} components need a configuration\n  help: write one that works for each of \
                 them, and pass it with `--config NAME=FILE`",
                self.unchecked
            ));
        }
        if self.failed > 0 {
            return Err(Failure::of_flow(format_args!("error: {} checks failed", self.failed)));
        }
        failure.or(())?;
        if !self.unconnected.is_empty() {
            return Err(Failure::not_checked(format_args!(
                "error: checks of {} connectors were skipped because they did not connect:\n  {}\n  \
                 help: start a peer for each of them, and name it in a configuration with \
                 `--config NAME=FILE`",
                self.unconnected.len(),
                self.unconnected.join("\n  ")
            )));
        }
        if !self.silent.is_empty() {
            return Err(Failure::not_checked(format_args!(
                "error: checks of {} sources were skipped because they received no event:\n  {}\n  help: for a \
                 server, start a client that connects repeatedly and sends the same events",
                self.silent.len(),
                self.silent.join("\n  ")
            )));
        }
        Ok(())
    }
}
