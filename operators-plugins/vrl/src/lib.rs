//! The `vrl` operator: runs a program in the Vector Remap Language over every event.
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
//! The event is `.`, its metadata `%`. Of both only what the program reaches for is converted, each
//! part at most once an event and only when it is read; and only what the program changes is written
//! back. What is converted into what is said in the book, in the chapter on VRL.
//!
//! An event on which the program fails leaves by `err`, unchanged.

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

pub use self::{
    config::Config,
    convert::{Arena, to_vrl},
};
use self::{
    program::Compiled,
    target::{EventTarget, Scratch},
};

/// The operator.
#[derive(Debug)]
pub struct Vrl {
    compiled: Compiled,
    scratch: Scratch,
    state: RuntimeState,
    timezone: TimeZone,
    ports: Vec<String>,
    drop_on_abort: bool,
}

/// How a program ended that did not end well.
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
        match self.run(value, event.get().metadata()) {
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
                "the program reached for a place that its compiler had not told of; this is a bug",
            ));
        }
        let verdict = match self.port() {
            Ok(port) => port.map_or(Verdict::Keep, Verdict::Port),
            Err(error) => return Verdict::Reject(error),
        };
        let written = edits::apply(&self.compiled.layout, &self.scratch, event);
        written.map_or_else(Verdict::Reject, |()| verdict)
    }

    /// Runs the program. What it does stays in `scratch`.
    fn run(&mut self, event: ValueRef<'_>, metadata: Option<ValueRef<'_>>) -> Result<(), Failure> {
        self.scratch.clear();
        self.state.clear();
        let Compiled { program, layout, .. } = &self.compiled;
        let mut target = EventTarget::new(layout, &mut self.scratch, event, metadata);
        let mut context = compiler::Context::new(&mut target, &mut self.state, &self.timezone);
        // As `vrl::compiler::runtime::Runtime::resolve`, which would ask for the whole event first.
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

    /// The port that the program has set for the event, if it has.
    fn port(&self) -> Result<Option<u16>> {
        let (false, Some(port)) = (self.ports.is_empty(), self.compiled.port) else {
            return Ok(None);
        };
        let place = self.compiled.layout.place(port);
        let is_set = self.scratch.edits().iter().any(|edit| {
            let written = &self.compiled.layout.place(edit.place).written;
            written.prefix == place.written.prefix
                && place.written.path.segments.starts_with(&written.path.segments)
        });
        let Some(set) = self.scratch.value(place).filter(|_| is_set) else { return Ok(None) };
        let name = set.to_str_lossy();
        if set.is_null() || name.as_deref() == Some("out") {
            return Ok(None);
        }
        let known = self.ports.iter().position(|port| name.as_deref() == Some(port));
        match known.and_then(|known| u16::try_from(known).ok()) {
            Some(port) => Ok(Some(port)),
            None => Err(Error::bad_data(format!(
                "the program set `%port` to {set}; `ports` has: {}",
                self.ports.join(", ")
            ))),
        }
    }
}

impl Operator for Vrl {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.divert(batch, |event| self.remap(event));
        // Nothing of the batch is kept.
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
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let source = config.program(&context)?;
        let compiled = program::compile(&source, config.allow_environment, &context)?;
        config.check_ports(&compiled)?;
        if !compiled.warnings.is_empty() {
            tremor_pdk::warn!(context, "of the program VRL says:{}", compiled.warnings);
        }
        Ok(Self {
            scratch: Scratch::new(&compiled.layout),
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
