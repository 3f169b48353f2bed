//! The step `test`: the tests of the main workspace. Test programs run side by side, and a pass is remembered for each
//! of them.

mod programs;

use std::io::{self, Write};

use anyhow::{Context, Result, ensure};

use self::programs::{Executable, Program};
use super::passed;
use crate::inputs::Sources;
use crate::packages::{Package, Target};
use crate::project::cargo;

/// Package whose tests run `tremor` and load the plugins of the workspace.
const RUNTIME: &str = "tremor-runtime";

/// Tests that one program runs.
#[derive(Clone, Copy)]
enum Unit<'s> {
    Target(&'s Package, &'s Target),
    /// The examples in the documentation of all libraries.
    Documentation,
}

impl Unit<'_> {
    /// Returns a hash of the inputs.
    fn hash(&self, sources: &Sources) -> Result<String> {
        sources.hash(&match self {
            Self::Target(package, target) => sources.of_target(package, target),
            Self::Documentation => sources.of_documentation(""),
        })
    }

    /// Returns the name of the test program.
    fn name(&self) -> String {
        match self {
            Self::Target(package, target) => format!("{} {}", package.name, target.name),
            Self::Documentation => "documentation".to_owned(),
        }
    }

    /// Returns the name under which a pass is remembered.
    fn key(&self) -> String {
        let kind = if let Self::Target(_, target) = self { &target.kind } else { "doc" };
        format!("test {kind} {}", self.name())
    }
}

/// Runs the tests without a remembered pass, or all tests if `all` is set. Returns a remark for the summary.
pub(super) fn test(all: bool) -> Result<String> {
    let sources = Sources::read()?;
    let units = units(&sources);
    let mut pending = Vec::new();
    for unit in &units {
        let hash = unit.hash(&sources)?;
        if all || passed::find(&unit.key(), &hash).is_none() {
            pending.push((*unit, hash));
        }
    }
    let targets: Vec<_> = pending.iter().filter_map(|(unit, _)| target(unit)).collect();
    let built = build(&targets)?;
    let programs = pending.iter().map(|(unit, _)| program(unit, &built));
    let print = |output: &[u8]| io::stdout().write_all(output);
    let failed = programs::run(programs.collect::<Result<_>>()?, print)?;
    let after = Sources::read()?;
    for (unit, hash) in pending.iter().filter(|(unit, _)| !failed.contains(&unit.name())) {
        passed::keep_if_unchanged(&unit.key(), hash, &unit.hash(&after)?, "");
    }
    ensure!(failed.is_empty(), "{} failed", failed.join(", "));
    Ok(passed::remark(units.len() - pending.len(), units.len(), "test programs"))
}

/// Returns all tests of the main workspace.
fn units(sources: &Sources) -> Vec<Unit<'_>> {
    let targets = sources.packages("").flat_map(|package| {
        let tested = package.targets.iter().filter(|target| target.is_tested);
        tested.map(move |target| Unit::Target(package, target))
    });
    targets.chain([Unit::Documentation]).collect()
}

fn target<'s>(unit: &Unit<'s>) -> Option<(&'s Package, &'s Target)> {
    if let Unit::Target(package, target) = unit { Some((package, target)) } else { None }
}

/// Builds the test programs of these targets, and the program and the plugins that they run.
///
/// Cargo unifies the features of the packages that it builds together. The tests of the runtime are built with the
/// whole workspace, because the plugins that they load are built so too.
fn build(targets: &[(&Package, &Target)]) -> Result<Vec<Executable>> {
    let (of_runtime, of_others): (Vec<_>, Vec<_>) =
        targets.iter().partition(|(package, _)| package.name == RUNTIME);
    let is_whole = of_runtime.iter().any(|(_, target)| target.kind != "test");
    let mut selections = Vec::new();
    if !of_runtime.is_empty() {
        let tests = of_runtime.iter().map(|(_, target)| format!("--test={}", target.name));
        let tests = tests.filter(|_| !is_whole);
        selections.push([String::from("--workspace")].into_iter().chain(tests).collect());
    }
    if !is_whole && !of_others.is_empty() {
        let names = of_others.iter().map(|(package, _)| format!("--package={}", package.name));
        selections.push(names.collect::<Vec<_>>());
    }
    let built = selections.iter().map(|selection| programs::build(selection));
    let built = built.collect::<Result<Vec<_>>>()?;
    if !of_runtime.is_empty() {
        programs::build_plugins()?;
    }
    Ok(built.into_iter().flatten().collect())
}

/// Returns the program with the tests of a unit.
fn program(unit: &Unit<'_>, built: &[Executable]) -> Result<Program> {
    let command = match unit {
        Unit::Documentation => cargo(["test", "--workspace", "--doc"]),
        Unit::Target(package, target) => {
            let executable = built.iter().find(|executable| executable.is_of(package, target));
            let missing = || format!("cargo has not built `{}`", unit.name());
            executable.with_context(missing)?.command(package)
        }
    };
    Ok(Program::new(unit.name(), command))
}
