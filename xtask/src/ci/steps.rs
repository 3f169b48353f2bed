//! The steps of CI, and the inputs on which their results depend.

use anyhow::Result;

use super::{packages, passed, tests};
use crate::inputs::{Reads, Sources};
use crate::project::{Skipped, cargo, run as run_command};
use crate::{
    book, boundary, crash, demo, deny, faults, models, new_plugin, outage, perf_gate, python,
    restarts, scripts, servers, tidy, workspaces,
};

/// A check with the name that reports use.
pub(super) struct Step {
    pub(super) name: &'static str,
    check: Check,
    pub(super) load: Load,
    /// Name of a step that has to end before this one starts, because it builds what this one uses.
    pub(super) after: Option<&'static str>,
}

/// Processors that a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// The step builds most of the time.
    AllProcessors,
    /// The step mostly waits, or a single thread of it works, such as the last stage of an optimised build.
    OneProcessor,
}

/// A check, and when it is skipped.
enum Check {
    /// Always runs, because it takes seconds.
    Always(fn() -> Result<Skipped>),
    /// Is skipped if it passed before with the same inputs.
    Remembered(fn() -> Result<Skipped>, Reads),
    /// Remembers the passes of its parts, such as packages, by itself. Gets whether to run all parts, and returns the
    /// remark for the summary.
    Parts(fn(bool) -> Result<String>),
}

impl Step {
    const fn new(name: &'static str, check: Check) -> Self {
        Self { name, check, load: Load::AllProcessors, after: None }
    }

    pub(super) const fn always(name: &'static str, check: fn() -> Result<Skipped>) -> Self {
        Self::new(name, Check::Always(check))
    }

    const fn parts(name: &'static str, check: fn(bool) -> Result<String>) -> Self {
        Self::new(name, Check::Parts(check))
    }

    const fn remembered(name: &'static str, check: fn() -> Result<Skipped>, reads: Reads) -> Self {
        Self::new(name, Check::Remembered(check, reads))
    }

    pub(super) const fn on_one_processor(self) -> Self {
        Self { load: Load::OneProcessor, ..self }
    }

    pub(super) const fn after(self, step: &'static str) -> Self {
        Self { after: Some(step), ..self }
    }

    /// Runs the check, except for what passed before with the same inputs, unless `all` is set. Returns the remark for
    /// the summary.
    pub(super) fn run(&self, all: bool) -> Result<String> {
        let (check, reads) = match &self.check {
            Check::Always(check) => return Ok(check()?.unwrap_or_default().into_owned()),
            Check::Parts(check) => return check(all),
            Check::Remembered(check, reads) => (check, reads),
        };
        let hash = || Sources::read().and_then(|sources| sources.hash(&sources.of_step(reads)));
        let before = hash()?;
        if let Some(left_out) = passed::find(self.name, &before).filter(|_| !all) {
            let without =
                if left_out.is_empty() { left_out } else { format!(", without {left_out}") };
            return Ok(format!("it passed with the same inputs ({before}){without}"));
        }
        let skipped = check()?.unwrap_or_default();
        passed::keep_if_unchanged(self.name, &before, &hash()?, &skipped);
        Ok(skipped.into_owned())
    }
}

const NOTHING: Reads =
    Reads { modules: &[], packages: &[], workspaces: &[], files: &[], except: &[] };

/// Inputs of a step that runs `tremor` with plugins that its modules name.
const fn scenario(modules: &'static [&'static str]) -> Reads {
    Reads { modules, packages: &["tremor-runtime"], ..NOTHING }
}

/// The plugins of connectors that the steps `vrl` and `brokers` load as tools. Their own tests and those of the runtime
/// check them. A change to them does not run these two steps, which take minutes.
const TOOLS: &[&str] = &["codecs-plugins/", "connectors-plugins/"];

/// The steps. Those of each load run in this order, beside those of the other load.
pub(super) const STEPS: [Step; 21] = [
    Step::always("fmt", || done(run_command(cargo(["fmt", "--all", "--check"])))),
    Step::always("tidy", || done(tidy::run())),
    Step::parts("clippy", packages::clippy),
    Step::parts("test", tests::test),
    Step::remembered(
        "brokers",
        workspaces::brokers,
        Reads {
            modules: &["broker", "workspaces"],
            packages: &["tremor-runtime"],
            workspaces: &["brokers"],
            files: &[
                "docs/guide/cookbook/kubernetes.md",
                "docs/guide/kafka.md",
                "docs/guide/nats.md",
            ],
            except: TOOLS,
        },
    )
    .on_one_processor()
    .after("clippy"),
    Step::remembered(
        "vrl",
        workspaces::vrl,
        Reads {
            modules: &["workspaces"],
            packages: &["tremor-runtime"],
            workspaces: &["operators-plugins/vrl"],
            files: &[
                "docs/guide/cookbook/prometheus.md",
                "docs/guide/vrl.md",
                "runtime/tests/binary/",
                "runtime/tests/book/",
                "runtime/tests/program/",
                "runtime/tests/support/",
            ],
            except: TOOLS,
        },
    )
    .after("test"),
    Step::remembered(
        "boundary",
        boundary::check,
        Reads {
            modules: &["boundary"],
            packages: &["tremor-abi", "tremor-pdk", "tremor-runtime"],
            files: &["fuzz/seeds/", "scripts/fixed-layouts.sh", "tests/fixtures/"],
            ..NOTHING
        },
    ),
    Step::parts("doc", packages::doc),
    Step::remembered(
        "new-plugin",
        || done(new_plugin::check()),
        Reads { modules: &["new_plugin"], packages: &["tremor-pdk", "tremor-runtime"], ..NOTHING },
    ),
    // The optimised build, whose last stage takes one processor for minutes.
    Step::remembered("demo", || done(demo::check()), scenario(&["demo"])).on_one_processor(),
    Step::remembered(
        "perf",
        || perf_gate::gate(false),
        Reads {
            modules: &["perf_gate"],
            packages: &["sample-logs", "tremor-runtime"],
            files: &["bench/flows/"],
            ..NOTHING
        },
    )
    .on_one_processor()
    .after("demo"),
    Step::remembered(
        "deny",
        deny::check,
        Reads {
            modules: &["deny"],
            files: &["**/Cargo.lock", "**/Cargo.toml", "**/deny.toml"],
            ..NOTHING
        },
    )
    .on_one_processor(),
    Step::remembered(
        "models",
        models::run,
        Reads {
            modules: &["models"],
            packages: &["tremor-abi"],
            workspaces: &["models"],
            ..NOTHING
        },
    )
    .on_one_processor(),
    Step::remembered(
        "python",
        python::check,
        Reads {
            modules: &["python"],
            files: &[
                "docs/plugins/python.md",
                "sdk/python/",
                "tests/fixtures/sessions/",
                "tremor-pdk/abi/tests/golden/",
            ],
            ..NOTHING
        },
    )
    .on_one_processor(),
    Step::remembered(
        "scripts",
        scripts::check,
        Reads {
            modules: &["scripts"],
            packages: &["bench-report"],
            files: &[".ci/", "dist/", "examples/", "scripts/"],
            ..NOTHING
        },
    )
    .on_one_processor(),
    Step::remembered(
        "book",
        book::check,
        Reads { modules: &["book"], packages: &["bench-report"], files: &["docs/"], ..NOTHING },
    )
    .on_one_processor(),
    Step::remembered("crash", || done(crash::check()), scenario(&["crash"]))
        .on_one_processor()
        .after("test"),
    Step::remembered(
        "faults",
        || done(faults::check()),
        Reads { packages: &["hostile-peers", "tremor-runtime"], ..scenario(&["faults"]) },
    )
    .on_one_processor()
    .after("test"),
    Step::remembered("restarts", || done(restarts::check()), scenario(&["restarts"]))
        .on_one_processor()
        .after("test"),
    Step::remembered("outage", || done(outage::check()), scenario(&["outage"]))
        .on_one_processor()
        .after("test"),
    Step::remembered("servers", servers::check, scenario(&["servers"]))
        .on_one_processor()
        .after("test"),
];

/// Returns the result of a check without a skipped part.
fn done(result: Result<()>) -> Result<Skipped> {
    result.map(|()| None)
}

#[cfg(test)]
mod unit_tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the names of the remembered steps that read a file.
    fn readers(file: &str) -> BTreeSet<&'static str> {
        let sources = Sources::read().expect("git and cargo list the project");
        let reads_it = |step: &&Step| match &step.check {
            Check::Remembered(_, reads) => sources.of_step(reads).files.contains(file),
            _ => false,
        };
        STEPS.iter().filter(reads_it).map(|step| step.name).collect()
    }

    #[test]
    fn change_of_a_connector_runs_only_steps_that_load_it() {
        let of_http = readers("connectors-plugins/http/src/lib.rs");
        assert_eq!(of_http, BTreeSet::from(["faults", "servers"]));
        let of_file = readers("connectors-plugins/file/src/lib.rs");
        assert!(of_file.contains("crash") && of_file.contains("demo"), "{of_file:?}");
        for step in ["vrl", "brokers", "boundary"] {
            assert!(!of_file.contains(step), "{step}");
        }
    }

    #[test]
    fn change_of_a_tidy_rule_runs_no_remembered_step() {
        assert_eq!(readers("xtask/src/tidy/rules/mod.rs"), BTreeSet::new());
    }

    #[test]
    fn change_of_the_kit_runs_every_step_that_builds_a_plugin() {
        let readers = readers("tremor-pdk/abi/src/lib.rs");
        for step in STEPS.iter().filter(|step| matches!(step.check, Check::Remembered(..))) {
            let builds_plugins = !["deny", "python", "scripts", "book"].contains(&step.name);
            assert_eq!(readers.contains(step.name), builds_plugins, "{}", step.name);
        }
    }

    #[test]
    fn change_of_a_session_runs_the_package_for_python() {
        assert!(readers("tests/fixtures/sessions/check.session").contains("python"));
        assert!(readers("sdk/python/src/tremor/frame.py").contains("python"));
    }

    #[test]
    fn change_of_a_product_file_runs_its_model() {
        assert!(readers("runtime/src/engine/queue/mailbox.rs").contains("models"));
        assert!(!readers("runtime/src/engine/queue/sender.rs").contains("models"));
    }

    #[test]
    fn steps_run_after_steps_of_the_list() {
        for step in &STEPS {
            let is_known = |name| STEPS.iter().any(|step| step.name == name);
            assert!(step.after.is_none_or(is_known), "{}", step.name);
        }
    }
}
