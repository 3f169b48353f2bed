//! Checks whether components keep the contract of the kit's traits. Used by tests of plugins and by
//! `tremor plugin verify`.
//!
//! Each check creates its own instances and compares their results with the documentation of the traits. It calls the
//! instances as the runtime does, and also in unusual ways that the traits allow. The checks use the clock of a
//! [`TestHost`], so they do not sleep.
//!
//! ```
//! # use tremor_pdk::prelude::*;
//! # #[tremor_pdk::config]
//! # struct Config { count: u64 }
//! # struct Count { next: u64, end: u64 }
//! # impl Component for Count {
//! #     const NAME: &str = "count";
//! #     type Config = Config;
//! #     fn new(config: Config, _context: ComponentContext) -> Result<Self> {
//! #         Ok(Self { next: 0, end: config.count })
//! #     }
//! # }
//! # impl Source for Count {
//! #     type Batch = StructuredBatch;
//! #     async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
//! #         while !batch.is_full() {
//! #             if self.next == self.end { return Ok(Pull::Finished) }
//! #             batch.push(&self.next)?;
//! #             self.next += 1;
//! #         }
//! #         Ok(Pull::Events)
//! #     }
//! # }
//! use tremor_pdk::testing::conformance;
//!
//! conformance::source::<Count>(r#"{ "count": 3 }"#).expect_no_faults();
//! ```

mod call;
mod checks;
mod codec;
mod config;
mod connector;
mod construct;
mod corpus;
mod operator;
mod process;
mod processor;
mod report;
mod sink;
mod source;
mod subject;
#[cfg(test)]
mod tests;
mod transcript;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
};

use serde_json::Value as Json;
use tremor_abi::value::to_value;

pub use self::{
    call::Patience,
    config::{FILE, working},
    report::{Checked, Fault, Outcome, Report, UNCONNECTED},
    source::NO_EVENT,
    subject::{Instance, Make, Subject},
};
use self::{checks::Check, report::Finding};
use super::TestHost;
use crate::{
    Codec, Component, Connector, Error, Operator, Postprocessor, Preprocessor, Sink, Source,
    StreamSplitter,
    linked::{self, LinkedComponent, Make as Linked},
};

/// Returns the names of the checks for a kind of component, in their order. `kind` is written as in the metadata of a
/// plugin.
pub fn checks(kind: &str) -> Vec<&'static str> {
    checks::of(kind).map(|check| check.name).collect()
}

impl Subject {
    /// Runs one check by its name. `before` contains the results of earlier checks of the same component: the check is
    /// skipped if a check that it depends on failed or could not be run.
    pub fn check(&self, name: &str, before: &Report) -> Checked {
        let check = checks::of(&self.kind).find(|check| check.name == name);
        let outcome = match check {
            None => Outcome::Skipped { reason: "the check does not exist".to_owned() },
            Some(check) => match depends_on(check, before) {
                Some(reason) => Outcome::Skipped { reason },
                None => self.run(check),
            },
        };
        Checked { check: name.to_owned(), outcome }
    }

    /// Runs all checks.
    pub fn check_all(&self) -> Report {
        let mut report = Report::default();
        for name in checks(&self.kind) {
            let checked = self.check(name, &report);
            report.checks.push(checked);
        }
        report
    }

    fn run(&self, check: &Check) -> Outcome {
        // A panic of a component that was not loaded from a library is caught here.
        let verdict =
            catch_unwind(AssertUnwindSafe(|| (check.run)(self))).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text =
                    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
                let help = "methods must not panic: return an error of a suitable kind";
                Err(report::fault(format_args!("it panicked: {text}"), help).of(call::OF_CALLS))
            });
        match verdict {
            Ok(()) => Outcome::Passed,
            Err(Finding::Skip(reason)) => Outcome::Skipped { reason },
            Err(Finding::Fault { seen, contract, help }) => Outcome::Failed(Fault {
                seen,
                contract: contract.unwrap_or(check.contract).to_owned(),
                help: help.to_owned(),
            }),
        }
    }
}

/// Returns the reason for skipping `check` if a check that it depends on did not pass. `before` contains the results of
/// earlier checks.
fn depends_on(check: &Check, before: &Report) -> Option<String> {
    check.depends_on.iter().find_map(|name| {
        let checked = before.checks.iter().find(|checked| checked.check == *name)?;
        match &checked.outcome {
            Outcome::Passed => None,
            Outcome::Failed(_) => Some(format!("`{name}` failed")),
            Outcome::Skipped { .. } if checks::is_basic(name) => {
                Some(format!("`{name}` was skipped"))
            }
            // Other skipped checks do not prevent this one: for example, the sink of a connector without a source is
            // still checked.
            Outcome::Skipped { .. } => {
                depends_on(checks::of(check.kind).find(|on| on.name == *name)?, before)
            }
        }
    })
}

/// Returns the result of a check that did not end, because its process ended or because it hangs. `seen` describes what
/// was observed.
pub fn cut_short(kind: &str, name: &str, seen: &str) -> Checked {
    let help = "let every call return, with an error if the call fails; do not end the process, and do not \
        block the thread of the caller";
    let contract = match checks::of(kind).find(|check| check.name == name) {
        Some(check) => format!("{}; {}", call::OF_CALLS, check.contract),
        None => call::OF_CALLS.to_owned(),
    };
    let fault = Fault { seen: seen.to_owned(), contract, help: help.to_owned() };
    Checked { check: name.to_owned(), outcome: Outcome::Failed(fault) }
}

/// Checks a component of any kind that is linked into the test instead of being loaded from a library.
pub fn linked(component: LinkedComponent, config: &str) -> Report {
    linked_with(component, config, &[])
}

/// Checks a codec like [`codec`], with `samples` as additional messages. Use this for a codec whose format cannot
/// encode any of the values that the suite generates, such as records of a schema.
pub fn codec_with<T: Codec + Component>(config: &str, samples: &[&[u8]]) -> Report {
    linked_with(linked::codecs::<T>(), config, samples)
}

/// Checks a preprocessor like [`preprocessor`], with `samples` as additional byte streams.
pub fn preprocessor_with<T: Preprocessor + Component>(config: &str, samples: &[&[u8]]) -> Report {
    linked_with(linked::preprocessors::<T>(), config, samples)
}

/// Checks a splitter of streams like [`splitter`], with `samples` as additional byte streams.
pub fn splitter_with<T: StreamSplitter + Component>(config: &str, samples: &[&[u8]]) -> Report {
    linked_with(linked::splitters::<T>(), config, samples)
}

fn linked_with(component: LinkedComponent, config: &str, samples: &[&[u8]]) -> Report {
    let make = move |config: &Json, host: &TestHost| {
        let config = &to_value(config).map_err(Error::configuration)?;
        let (id, handle) = ("verify", host.handle());
        match component.make {
            Linked::Connector(make) => make(id, config, handle).map(Instance::Connector),
            Linked::Operator(make) => make(id, config, handle).map(Instance::Operator),
            Linked::Codec(make) => make(id, config, handle).map(Instance::Codec),
            Linked::Preprocessor(make) => make(id, config, handle).map(Instance::Preprocessor),
            Linked::Postprocessor(make) => make(id, config, handle).map(Instance::Postprocessor),
        }
    };
    let subject = Subject {
        kind: component.kind.to_owned(),
        stateless: component.stateless,
        schema: (component.config_schema)(),
        // A configuration that is not valid JSON is passed on as text, and rejected by the component.
        config: serde_json::from_str(config).unwrap_or_else(|_| config.into()),
        samples: samples.iter().map(|sample| sample.to_vec()).collect(),
        folder: PathBuf::new(),
        is_alone: false,
        patience: Patience::default(),
        make: Box::new(make),
    };
    subject.check_all()
}

macro_rules! of_kinds {
    ($($(#[$doc:meta])* $function:ident: $kinds:ident, $trait:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// `config` is a valid configuration as JSON text. Files and peers that it names must exist.
        pub fn $function<T: $trait + Component>(config: &str) -> Report {
            linked(linked::$kinds::<T>(), config)
        }
    )*};
}

of_kinds! {
    /// Checks a connector.
    connector: connectors, Connector;
    /// Checks a source that is a component without a connector.
    source: sources, Source;
    /// Checks a sink that is a component without a connector.
    sink: sinks, Sink;
    /// Checks an operator.
    operator: operators, Operator;
    /// Checks a codec.
    codec: codecs, Codec;
    /// Checks a preprocessor.
    preprocessor: preprocessors, Preprocessor;
    /// Checks a splitter of streams.
    splitter: splitters, StreamSplitter;
    /// Checks a postprocessor.
    postprocessor: postprocessors, Postprocessor;
}
