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
mod log;
mod program;
mod target;

use tremor_pdk::{EventMut, prelude::*};
use vrl::compiler::{self, ExpressionError, TimeZone, state::RuntimeState};

use self::{
    cache::Cache,
    edits::Plans,
    program::Compiled,
    target::{EventTarget, Scratch},
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
    state: RuntimeState,
    timezone: TimeZone,
    ports: Vec<String>,
    drop_on_abort: bool,
}

/// Reason why a program did not complete.
enum Failure {
    Aborted(ExpressionError),
    Failed(ExpressionError),
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
        let metadata = event.get().metadata();
        if let Some(known) = self.cache.find(&self.compiled.layout, value, metadata) {
            return finish(&self.compiled, &self.ports, &mut self.plans, known, event);
        }
        match self.run(value, metadata) {
            Ok(()) => {}
            Err(Failure::Aborted(_)) if self.drop_on_abort => return Verdict::Discard,
            Err(Failure::Aborted(cause)) => {
                return Verdict::Reject(Error::bad_data(format!("the program aborted: {cause}")));
            }
            Err(Failure::Failed(cause)) => {
                return Verdict::Reject(Error::bad_data(format!("the program failed: {cause}")));
            }
        }
        if self.scratch.strayed() {
            return Verdict::Reject(Error::internal(
                "the program used a path that its compiler had not reported; this is a bug",
            ));
        }
        self.cache.add(&self.compiled.layout, value, metadata, &self.scratch);
        finish(&self.compiled, &self.ports, &mut self.plans, &self.scratch, event)
    }

    /// Runs the program. Its edits stay in `scratch`.
    fn run(&mut self, event: ValueRef<'_>, metadata: Option<ValueRef<'_>>) -> Result<(), Failure> {
        self.scratch.clear();
        self.state.clear();
        let Compiled { program, layout, .. } = &self.compiled;
        let mut target = EventTarget::new(layout, &mut self.scratch, event, metadata);
        let mut context = compiler::Context::new(&mut target, &mut self.state, &self.timezone);
        // This code replaces `vrl::compiler::runtime::Runtime::resolve`, which would convert the whole event first.
        match program.resolve(&mut context) {
            Ok(_) | Err(ExpressionError::Return { .. }) => Ok(()),
            Err(
                cause @ (ExpressionError::Abort { .. }
                | ExpressionError::Fallible { .. }
                | ExpressionError::Missing { .. }),
            ) => Err(Failure::Aborted(cause)),
            Err(cause) => Err(Failure::Failed(cause)),
        }
    }
}

/// Writes the result of the program into the event, and returns the verdict on the event.
fn finish(
    compiled: &Compiled,
    ports: &[String],
    plans: &mut Plans,
    result: &Scratch,
    event: &mut EventMut<'_>,
) -> Verdict {
    let verdict = match port(compiled, ports, result) {
        Ok(port) => port.map_or(Verdict::Keep, Verdict::Port),
        Err(error) => return Verdict::Reject(error),
    };
    let written = plans.apply(&compiled.layout, result, event);
    written.map_or_else(Verdict::Reject, |()| verdict)
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
            "the program set `%port` to {set}; `ports` has: {}",
            ports.join(", ")
        ))),
    }
}

impl Operator for Vrl {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| self.remap(event));
        // Free the values of this batch now instead of with the next batch.
        self.scratch.clear();
        self.state.clear();
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
            state: RuntimeState::default(),
            timezone: config.timezone()?,
            drop_on_abort: config.drop_on_abort,
            compiled,
            ports: config.ports,
        })
    }
}

tremor_pdk::export! { operators: [Vrl] }

#[cfg(test)]
mod tests;
