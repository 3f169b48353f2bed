//! The operator `vrl`: runs a program in the Vector Remap Language on each event.
//!
//! ```yaml
//! pipelines:
//!   main:
//!     operators:
//!       - type: vrl
//!         config:
//!           source: |
//!             .level = downcase(string!(.level))
//!             if .level == "debug" { %port = "noise" }
//!             del(.internal)
//!           ports: [noise]
//! ```
//!
//! The event is `.`, and its metadata is `%`. Only the parts of an event that the program uses are
//! converted, when they are first read. Only the parts that the program changes are written back.
//! `docs/guide/vrl.md` describes the conversion.
//!
//! An event on which the program fails leaves by `err`, unchanged.

mod cache;
mod config;
mod convert;
mod edits;
mod functions;
mod layout;
mod limits;
mod log;
mod memory;
mod program;
mod target;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tremor_pdk::{EventMut, prelude::*};
use vrl::compiler::{
    ExpressionError, TimeZone,
    runtime::{ExecutionControl, Runtime, Terminate},
};

use self::{
    cache::{Cache, Change, Known},
    edits::Plans,
    layout::Input,
    limits::{Control, on_stack, shortened},
    memory::Usage,
    program::Compiled,
    target::{EventTarget, MOST_CONVERTED, Scratch},
};
pub use self::{
    config::Config,
    convert::{Arena, to_vrl},
};

/// Runs a program on each event.
#[derive(Debug)]
pub struct Vrl {
    compiled: Compiled,
    scratch: Scratch,
    cache: Cache,
    plans: Plans,
    runtime: Runtime,
    timezone: TimeZone,
    ports: Vec<String>,
    drop_on_abort: bool,
    /// `true` if the program ran for an event of the batch, because its result was not known.
    runs: bool,
}

/// Reason why a program did not complete.
enum Failure {
    Aborted(ExpressionError),
    Failed(ExpressionError),
    /// The program has exceeded this limit.
    Exceeded(String),
}

impl Vrl {
    fn remap(&mut self, event: &mut EventMut<'_>) -> Verdict {
        let Some(value) = event.value() else {
            return match event.get().raw() {
                Some(_) => Verdict::Reject(Error::bad_data(
                    "the event is bytes that no codec has decoded: give its connector a `codec`",
                )),
                None => Verdict::Keep,
            };
        };
        let input = Input::new(value, event.get().metadata());
        if let Some(known) = self.cache.find(&self.compiled.layout, &input) {
            let Known { port, change } = known;
            let changed = match change {
                Change::Fields(fields) => event.add_metadata(fields),
                Change::Edits(result) => self.plans.apply(&self.compiled.layout, result, event),
            };
            return verdict(*port, changed);
        }
        self.runs = true;
        // Some functions of VRL panic on unusual arguments. Only this event fails: the next run clears the state.
        let ran = on_stack(|| catch_unwind(AssertUnwindSafe(|| self.run(&input))));
        let ran = match ran {
            Ok(ran) => ran,
            Err(payload) => return Verdict::Reject(panicked(payload)),
        };
        if self.scratch.is_exceeded() {
            return Verdict::Reject(Error::bad_data(format!(
                "the program was stopped: the fields that it reads take more than {} MiB as values of VRL",
                MOST_CONVERTED >> 20
            )));
        }
        let failed = |action: &str, cause: &dyn std::fmt::Display| {
            let cause = cause.to_string();
            let cause = shortened(&cause);
            Verdict::Reject(Error::bad_data(format!("the program {action}: {cause}")))
        };
        match ran {
            Ok(()) => {}
            Err(Failure::Aborted(_)) if self.drop_on_abort => return Verdict::Discard,
            Err(Failure::Aborted(cause)) => return failed("aborted", &cause),
            Err(Failure::Failed(cause)) => return failed("failed", &cause),
            Err(Failure::Exceeded(limit)) => return failed("was stopped", &limit),
        }
        if self.scratch.strayed() {
            return Verdict::Reject(Error::internal(
                "the program used a path that its compiler had not reported; this is a bug",
            ));
        }
        let (layout, result) = (&self.compiled.layout, &self.scratch);
        let port = match port(&self.compiled, &self.ports, result) {
            Ok(port) => port,
            Err(error) => return Verdict::Reject(error),
        };
        self.cache.add(layout, &input, result, port);
        verdict(port, self.plans.apply(layout, result, event))
    }

    /// Runs the program. Its edits stay in `scratch`.
    fn run(&mut self, input: &Input<'_>) -> Result<(), Failure> {
        self.clear();
        let Compiled { program, layout, .. } = &self.compiled;
        let mut target = EventTarget::new(layout, &mut self.scratch, input);
        Usage::measure(|usage| {
            let mut control = Control::new(usage);
            let (runtime, timezone) = (&mut self.runtime, &self.timezone);
            match runtime.resolve_with_control(&mut target, program, timezone, &mut control) {
                // The last expression is checked as well, because its values are written to the event.
                Ok(_) if control.checkpoint().is_continue() => Ok(()),
                Ok(_) | Err(Terminate::Interrupted) => {
                    Err(Failure::Exceeded(control.exceeded.unwrap_or_default()))
                }
                Err(Terminate::Abort(cause)) => Err(Failure::Aborted(cause)),
                Err(Terminate::Error(cause)) => Err(Failure::Failed(cause)),
            }
        })
    }

    /// Drops the values of the last event.
    fn clear(&mut self) {
        self.scratch.clear();
        self.runtime.clear();
    }
}

/// Returns the error of an event on which the program has panicked.
fn panicked(payload: Box<dyn Any + Send>) -> Error {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let cause = shortened(text.unwrap_or("the panic has no message"));
    let error = Error::bad_data(format!(
        "the program panicked: {cause}; check the arguments of its functions, for example with `is_string`"
    ));
    // The drop of a payload of another type may panic again.
    std::mem::forget(payload);
    error
}

/// Returns the verdict on an event that leaves by `port`, or by `out`. `changed` is the result of its changes.
fn verdict(port: Option<u16>, changed: Result<()>) -> Verdict {
    changed.map_or_else(Verdict::Reject, |()| port.map_or(Verdict::Keep, Verdict::Port))
}

/// Returns the port that the program has set for the event, if any.
fn port(compiled: &Compiled, ports: &[String], result: &Scratch) -> Result<Option<u16>> {
    let (false, Some(port)) = (ports.is_empty(), compiled.port) else {
        return Ok(None);
    };
    let used = compiled.layout.path(port);
    let is_set = result.edits().iter().any(|edit| {
        let written = &compiled.layout.path(edit.path).written;
        written.prefix == used.written.prefix
            && used.written.path.segments.starts_with(&written.path.segments)
    });
    let Some(set) = result.value(used).filter(|_| is_set) else { return Ok(None) };
    let name = set.to_str_lossy();
    if set.is_null() || name.as_deref() == Some("out") {
        return Ok(None);
    }
    let known = ports.iter().position(|port| name.as_deref() == Some(port));
    match known.and_then(|known| u16::try_from(known).ok()) {
        Some(port) => Ok(Some(port)),
        None => Err(Error::bad_data(format!(
            "the program set `%port` to {}; `ports` has: {}",
            name.as_deref()
                .map_or_else(|| set.kind_str().into(), |name| format!("{:?}", shortened(name))),
            ports.join(", ")
        ))),
    }
}

impl Operator for Vrl {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        // Changing the stack once for a batch costs less than for each event.
        if std::mem::take(&mut self.runs) {
            on_stack(|| output.divert(batch, |event| self.remap(event)));
        } else {
            output.divert(batch, |event| self.remap(event));
        }
        // Free the values of this batch now instead of with the next batch.
        if self.runs {
            on_stack(|| self.clear());
        }
        Ok(())
    }

    fn ports(&self) -> Vec<String> {
        self.ports.clone()
    }
}

impl Component for Vrl {
    const NAME: &str = "vrl";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    const STATELESS: bool = true;
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let source = config.program(&context)?;
        let compiled = program::compile(&source, config.allow_environment, &context)?;
        config.check_ports(&compiled)?;
        if !compiled.warnings.is_empty() {
            tremor_pdk::warn!(context, "VRL warns about the program:{}", compiled.warnings);
        }
        Ok(Self {
            scratch: Scratch::new(&compiled.layout),
            cache: Cache::new(&compiled.layout, compiled.is_pure),
            plans: Plans::default(),
            runtime: Runtime::default(),
            timezone: config.timezone()?,
            drop_on_abort: config.drop_on_abort,
            compiled,
            ports: config.ports,
            runs: false,
        })
    }
}

tremor_pdk::export! { operators: [Vrl] }

#[cfg(test)]
mod tests;
