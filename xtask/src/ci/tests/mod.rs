//! The step `test`: the tests of the main workspace. Test programs run side by side, and a pass is remembered for each
//! of them.

mod programs;

use anyhow::{Context, Result, ensure};

use self::programs::{Executable, Program};
use super::passed;
use crate::inputs::Sources;
use crate::packages::{Package, Target};
use crate::project::{cargo, run as run_command};

/// Package whose tests run `tremor` and load the plugins of the workspace.
const RUNTIME: &str = "tremor-runtime";
/// Builds `tremor` and all plugins. The selection is that with which the tests build them (`runtime/tests/support`), so
/// that these builds find everything built.
const PLUGINS: [&str; 5] = ["build", "--workspace", "--lib", "--examples", "--bin=tremor"];

/// The tests of one target of a package, or in the documentation of its library.
struct Unit<'s> {
    package: &'s Package,
    /// `None` for the tests in the documentation.
    target: Option<&'s Target>,
    /// Hash of the inputs before the tests run.
    hash: String,
}

impl<'s> Unit<'s> {
    fn new(sources: &Sources, package: &'s Package, target: Option<&'s Target>) -> Result<Self> {
        let hash = sources.hash(&match target {
            Some(target) => sources.of_target(package, target),
            None => sources.of_package(package),
        })?;
        Ok(Self { package, target, hash })
    }

    /// Returns the name of the test program.
    fn name(&self) -> String {
        let target = self.target.map_or("documentation", |target| &target.name);
        format!("{} {target}", self.package.name)
    }

    /// Returns the name under which a pass is remembered.
    fn key(&self) -> String {
        let kind = self.target.map_or("doc", |target| &target.kind);
        format!("test {kind} {}", self.name())
    }
}

/// Runs the tests without a remembered pass, or all tests if `all` is set. Returns a remark for the summary.
pub(super) fn test(all: bool) -> Result<String> {
    let sources = Sources::read()?;
    let units = units(&sources)?;
    let count = units.len();
    let is_known = |unit: &Unit<'_>| !all && passed::find(&unit.key(), &unit.hash).is_some();
    let pending: Vec<_> = units.into_iter().filter(|unit| !is_known(unit)).collect();
    if !pending.is_empty() {
        let built = build(&pending)?;
        let programs = pending.iter().map(|unit| program(unit, &built));
        let failed = programs::run(programs.collect::<Result<_>>()?)?;
        ensure!(failed.is_empty(), "{} failed", failed.join(", "));
        let after = Sources::read()?;
        for Unit { package, target, hash } in &pending {
            let unit = Unit::new(&after, package, *target)?;
            passed::keep_if_unchanged(&unit.key(), hash, &unit.hash, "");
        }
    }
    Ok(passed::remark(count - pending.len(), count, "test programs"))
}

/// Returns all tests of the main workspace.
fn units(sources: &Sources) -> Result<Vec<Unit<'_>>> {
    let mut units = Vec::new();
    for package in sources.packages("") {
        let tested = package.targets.iter().filter(|target| target.is_tested).map(Some);
        let has_documentation = package.targets.iter().any(|target| target.has_doc_tests);
        for target in tested.chain(has_documentation.then_some(None)) {
            units.push(Unit::new(sources, package, target)?);
        }
    }
    Ok(units)
}

/// Builds the test programs of the units, and the program and the plugins that they run.
///
/// Cargo unifies the features of the packages that it builds together. The tests of the runtime are built with the
/// whole workspace, because the plugins that they load are built so too.
fn build(pending: &[Unit<'_>]) -> Result<Vec<Executable>> {
    let is_whole =
        pending.iter().any(|unit| unit.package.name == RUNTIME && !unit.is_integration());
    if is_whole {
        let built = programs::build(&["--workspace".to_owned()])?;
        return run_command(cargo(PLUGINS)).map(|()| built);
    }
    let (of_runtime, of_others): (Vec<_>, Vec<_>) =
        pending.iter().partition(|unit| unit.package.name == RUNTIME);
    let mut built = Vec::new();
    if !of_runtime.is_empty() {
        let tests =
            of_runtime.iter().filter_map(|unit| Some(format!("--test={}", unit.target?.name)));
        built.extend(programs::build(
            &["--workspace".to_owned()].into_iter().chain(tests).collect::<Vec<_>>(),
        )?);
        run_command(cargo(PLUGINS))?;
    }
    let packages: Vec<_> =
        of_others.iter().map(|unit| format!("--package={}", unit.package.name)).collect();
    if !packages.is_empty() {
        built.extend(programs::build(&packages)?);
    }
    Ok(built)
}

/// Returns the program with the tests of a unit.
fn program(unit: &Unit<'_>, built: &[Executable]) -> Result<Program> {
    let name = unit.name();
    let Some(target) = unit.target else {
        return Ok(Program::new(name, cargo(["test", "--doc", "--package", &unit.package.name])));
    };
    let executable = built.iter().find(|executable| executable.is_of(unit.package, target));
    let executable = executable.with_context(|| format!("cargo has not built `{name}`"))?;
    Ok(Program::new(name, executable.command(unit.package)))
}

impl Unit<'_> {
    fn is_integration(&self) -> bool {
        self.target.is_some_and(|target| target.kind == "test")
    }
}
