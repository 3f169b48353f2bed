//! The contract of components as checks: for the tests of a plugin, and for `tremor plugin verify`.
//!
//! Each check makes instances of its own, calls them as the runtime does, or worse, and compares what
//! they do with what the traits say. Nothing of it sleeps: time is that of a [`TestHost`].
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

pub use self::{
    call::Patience,
    config::{FILE, working},
    report::{Checked, Fault, Outcome, Report},
    source::NO_EVENT,
    subject::{Instance, Make, Subject},
};
use self::{checks::Check, report::Finding};
use super::TestHost;
use crate::{
    Codec, Component, Connector, Operator, Postprocessor, Preprocessor, Sink, Source,
    StreamSplitter,
    linked::{self, LinkedComponent, Make as Linked},
};

/// The names of the checks of components of this kind, in the words of metadata, in their order.
pub fn checks(kind: &str) -> Vec<&'static str> {
    checks::of(kind).map(|check| check.name).collect()
}

impl Subject {
    /// Makes one check, by its name. `before` are those that were made of the same component: where one
    /// failed that this one rests on, this one is skipped.
    pub fn check(&self, name: &str, before: &Report) -> Checked {
        let check = checks::of(&self.kind).find(|check| check.name == name);
        let outcome = match check {
            None => Outcome::Skipped { reason: "there is no such check".to_owned() },
            Some(check) => match rests_on(check, before) {
                Some(reason) => Outcome::Skipped { reason },
                None => self.run(check),
            },
        };
        Checked { check: name.to_owned(), outcome }
    }

    /// Makes all checks.
    pub fn check_all(&self) -> Report {
        let mut report = Report::default();
        for name in checks(&self.kind) {
            let checked = self.check(name, &report);
            report.checks.push(checked);
        }
        report
    }

    fn run(&self, check: &Check) -> Outcome {
        // A panic of a component that was not loaded comes up to here.
        let verdict =
            catch_unwind(AssertUnwindSafe(|| (check.run)(self))).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text =
                    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
                let help = "no method panics: return an error of a fitting kind";
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

/// Why a check is not made: one that it rests on was not passed, or one that this rests on.
fn rests_on(check: &Check, before: &Report) -> Option<String> {
    check.rests_on.iter().find_map(|name| {
        let checked = before.checks.iter().find(|checked| checked.check == *name)?;
        match &checked.outcome {
            Outcome::Passed => None,
            Outcome::Failed(_) => Some(format!("`{name}` failed")),
            Outcome::Skipped { .. } if checks::is_basic(name) => {
                Some(format!("`{name}` was skipped"))
            }
            // Of what has no source, say, the sink is checked.
            Outcome::Skipped { .. } => {
                rests_on(checks::of(check.kind).find(|on| on.name == *name)?, before)
            }
        }
    })
}

/// What a check that was begun and not ended has come to: the process has ended in it, or hangs.
pub fn cut_short(kind: &str, name: &str, seen: &str) -> Checked {
    let help = "answer every call: with an error where something is wrong, and never with the end of \
        the process, or with waiting on the thread of the caller";
    let contract = match checks::of(kind).find(|check| check.name == name) {
        Some(check) => format!("{}; {}", call::OF_CALLS, check.contract),
        None => call::OF_CALLS.to_owned(),
    };
    let fault = Fault { seen: seen.to_owned(), contract, help: help.to_owned() };
    Checked { check: name.to_owned(), outcome: Outcome::Failed(fault) }
}

/// Checks a component of any kind, made without the boundary.
pub fn linked(component: LinkedComponent, config: &str) -> Report {
    linked_with(component, config, &[])
}

/// Checks a codec as [`codec`] does, with messages of its format besides those that the suite makes: a format that has
/// only values of its own, such as records of a schema, can encode none of the suite's values.
pub fn codec_with<T: Codec + Component>(config: &str, samples: &[&[u8]]) -> Report {
    linked_with(linked::codecs::<T>(), config, samples)
}

/// Checks a preprocessor as [`preprocessor`] does, with byte streams of its format besides those of the suite.
pub fn preprocessor_with<T: Preprocessor + Component>(config: &str, samples: &[&[u8]]) -> Report {
    linked_with(linked::preprocessors::<T>(), config, samples)
}

/// Checks a splitter of streams as [`splitter`] does, with byte streams of its format besides those of the suite.
pub fn splitter_with<T: StreamSplitter + Component>(config: &str, samples: &[&[u8]]) -> Report {
    linked_with(linked::splitters::<T>(), config, samples)
}

fn linked_with(component: LinkedComponent, config: &str, samples: &[&[u8]]) -> Report {
    let make = move |config: &Json, host: &TestHost| {
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
        schema: (component.config_schema)(),
        // What is no JSON is no configuration either.
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
        /// `config` is a configuration that works, as JSON text. What it needs, a file or a peer, is
        /// there.
        pub fn $function<T: $trait + Component>(config: &str) -> Report {
            linked(linked::$kinds::<T>(), config)
        }
    )*};
}

of_kinds! {
    /// Checks a connector.
    connector: connectors, Connector;
    /// Checks a source that is a component by itself.
    source: sources, Source;
    /// Checks a sink that is a component by itself.
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
