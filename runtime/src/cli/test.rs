//! `tremor test`: runs flows and compares the results with files.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde_json::Map;
use tracing::Level;
use tremor_runtime::{
    flow::{self, Environment},
    flow_test::FlowTest,
    redact,
};

use super::{Failure, PluginArguments, Prepared, logging};

/// Runs the tests in these folders, and reports the result of each.
pub(crate) fn execute(
    folders: &[PathBuf],
    update: bool,
    plugins: &PluginArguments,
) -> Result<(), Failure> {
    let say = |text: &str| logging::print(Level::INFO, text, Map::new());
    let mut failure = Failure::default();
    for folder in folders {
        let name = folder.display();
        match run(folder, update, plugins) {
            Ok(Outcome::Same) => say(&format!("{name}: ok")),
            Ok(Outcome::Updated(files)) => {
                let files = files.iter().map(|file| format!("\n  {}", file.display()));
                say(&format!("{name}: updated{}", files.collect::<String>()));
            }
            Ok(Outcome::Different(text)) => {
                failure.flow(&format_args!("{name}: FAILED\n{}", redact::text(&text)));
            }
            Err(error) => failure.usage(&error),
        }
        // The values of this flow's references may be ordinary words, so they must not be redacted in messages about
        // the next flow, which has references of its own.
        redact::forget();
    }
    failure.or(())
}

enum Outcome {
    Same,
    Updated(Vec<PathBuf>),
    Different(String),
}

fn run(folder: &Path, update: bool, plugins: &PluginArguments) -> Result<Outcome, Failure> {
    let failed = |error: &dyn fmt::Display| {
        let error = error.to_string();
        Failure::of_usage(format_args!("error: {}", redact::text(&error)))
    };
    let test = FlowTest::open(folder).map_err(|error| failed(&error))?;
    let draft = flow::read(test.flow(), &Environment::default()).map_err(Failure::of_usage)?;
    let Prepared { flow, components } =
        plugins.check(draft, |draft, components| draft.check(&components.without_connectors()))?;
    if update {
        let files = test.update(&flow, &components).map_err(|error| failed(&error))?;
        return Ok(if files.is_empty() { Outcome::Same } else { Outcome::Updated(files) });
    }
    let differences = test.run(&flow, &components).map_err(|error| failed(&error))?;
    if differences.is_empty() {
        return Ok(Outcome::Same);
    }
    let text = differences.iter().map(ToString::to_string).collect::<String>();
    let help = "help: if the results are right, `--update` writes them to `expected/`";
    Ok(Outcome::Different(format!("{text}{help}")))
}
