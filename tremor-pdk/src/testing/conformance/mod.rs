//! The contract of components as checks: for the tests of a plugin, and for `tremor plugin verify`.
//!
//! Each check makes instances of its own, calls them as the runtime does, or worse, and compares what
//! they do with what the traits say. Nothing of it sleeps: time is that of a [`TestHost`].
//!
//! ```
//! # use tremor_pdk::prelude::*;
//! # #[tremor_pdk::config]
//! # struct Config { count: u64 }
//! # struct Count(u64);
//! # impl Component for Count {
//! #     const NAME: &str = "count";
//! #     type Config = Config;
//! #     fn new(config: Config, _context: Context) -> Result<Self> { Ok(Self(config.count)) }
//! # }
//! # impl Connector for Count {
//! #     const CODEC: CodecRequirement = CodecRequirement::Structured;
//! #     type Source = Numbers;
//! #     type Sink = NoSink;
//! #     async fn create_source(&mut self) -> Result<Option<Numbers>> {
//! #         Ok(Some(Numbers(0..self.0)))
//! #     }
//! # }
//! # struct Numbers(std::ops::Range<u64>);
//! # impl Source for Numbers {
//! #     async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
//! #         while !batch.is_full() {
//! #             let Some(number) = self.0.next() else { return Ok(Pull::Finished) };
//! #             batch.push_value(0, &number)?;
//! #         }
//! #         Ok(Pull::Events)
//! #     }
//! # }
//! use tremor_pdk::testing::conformance;
//!
//! conformance::connector::<Count>(r#"{ "count": 3 }"#).expect_no_faults();
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
mod transcript;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
};

use self::{checks::Check, report::Finding};
pub use self::{
    codec::BatchCodec,
    config::{FILE, working},
    report::{Checked, Fault, Outcome, Report},
    subject::{Instance, Make, Subject},
};
use super::TestHost;
use crate::{
    Codec, Component, Connector, ConnectorDriver, Operator, Postprocessor, Preprocessor, Result,
    config::read, ffi, linked::config_schema,
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
        // A panic of a component that is not behind the boundary comes up to here.
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
            Outcome::Skipped { reason } if checks::is_basic(name) => Some(reason.clone()),
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

/// A component of an author's crate.
fn subject<T: Component>(kind: &str, config: &str, instance: fn(T) -> Instance) -> Subject {
    let make = move |config: &serde_json::Value, host: &TestHost| {
        let made: Result<T> = T::new(read(config)?, host.context());
        made.map(instance)
    };
    Subject {
        kind: kind.to_owned(),
        schema: config_schema::<T::Config>(),
        // What is no JSON is no configuration either.
        config: serde_json::from_str(config).unwrap_or_else(|_| config.into()),
        folder: PathBuf::new(),
        is_alone: false,
        make: Box::new(make),
    }
}

macro_rules! of_kinds {
    ($($(#[$doc:meta])* $function:ident: $trait:ident, |$made:ident| $instance:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// `config` is a configuration that works, as JSON text. What it needs, a file or a peer, is
        /// there.
        pub fn $function<T: $trait + Component>(config: &str) -> Report {
            subject::<T>(stringify!($function), config, |$made| $instance).check_all()
        }
    )*};
}

of_kinds! {
    /// Checks a connector.
    connector: Connector, |made| Instance::Connector(Box::new(ConnectorDriver::new(made)));
    /// Checks an operator.
    operator: Operator, |made| Instance::Operator(Box::new(made));
    /// Checks a codec.
    codec: Codec, |made| Instance::Codec(Box::new(ffi::raw_codec(made)));
    /// Checks a preprocessor.
    preprocessor: Preprocessor, |made| Instance::Preprocessor(Box::new(made));
    /// Checks a postprocessor.
    postprocessor: Postprocessor, |made| Instance::Postprocessor(Box::new(made));
}
