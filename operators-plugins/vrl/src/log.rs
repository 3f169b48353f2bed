//! The function `log`, which writes to the log of the host.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tremor_pdk::{Host, LogLevel};
use vrl::compiler::prelude::*;

const LEVELS: [(&str, LogLevel); 5] = [
    ("trace", LogLevel::TRACE),
    ("debug", LogLevel::DEBUG),
    ("info", LogLevel::INFO),
    ("warn", LogLevel::WARN),
    ("error", LogLevel::ERROR),
];

/// Replacement of the function `log` of VRL: `log(value, level: "info", rate_limit_secs: 1)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log;

impl Function for Log {
    fn identifier(&self) -> &'static str {
        "log"
    }

    fn usage(&self) -> &'static str {
        "Writes the `value` to the log, at most once in `rate_limit_secs` seconds."
    }

    fn category(&self) -> &'static str {
        Category::Debug.as_ref()
    }

    fn return_kind(&self) -> u16 {
        kind::NULL
    }

    fn pure(&self) -> bool {
        false
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter::required("value", kind::ANY, "Value that is written to the log."),
            Parameter::optional("level", kind::BYTES, "Level of the line."),
            Parameter::optional(
                "rate_limit_secs",
                kind::INTEGER,
                "Minimum time between two lines, in seconds.",
            ),
        ];
        PARAMETERS
    }

    fn examples(&self) -> &'static [Example] {
        &[]
    }

    fn compile(
        &self,
        state: &TypeState,
        context: &mut FunctionCompileContext,
        arguments: ArgumentList,
    ) -> Compiled {
        let levels = LEVELS.map(|(name, _)| Value::from(name));
        let level = arguments.optional_enum("level", &levels, state)?;
        let known = level.and_then(|level| levels.iter().position(|known| *known == level));
        Ok(LogCall {
            value: arguments.required("value"),
            level: known.map_or(LogLevel::INFO, |known| LEVELS[known].1),
            rate_limit: arguments.optional("rate_limit_secs"),
            host: context.get_external_context::<Host>().cloned(),
            next_ns: Arc::default(),
        }
        .as_expr())
    }
}

/// A call of `log` in a program.
#[derive(Clone, Debug)]
struct LogCall {
    value: Box<dyn Expression>,
    level: LogLevel,
    rate_limit: Option<Box<dyn Expression>>,
    /// Host that gets the log lines; `None` if the program is only compiled and never run.
    host: Option<Host>,
    /// Earliest time of the next line in ns, by the monotonic clock of the host.
    next_ns: Arc<AtomicU64>,
}

impl FunctionExpression for LogCall {
    fn resolve(&self, context: &mut Context) -> Resolved {
        let value = self.value.resolve(context)?;
        let seconds = match &self.rate_limit {
            Some(seconds) => u64::try_from(seconds.resolve(context)?.try_integer()?).unwrap_or(0),
            None => 1,
        };
        if let Some(host) = self.host.as_ref().filter(|host| host.log_enabled(self.level)) {
            let now = host.monotonic_ns();
            if now >= self.next_ns.load(Ordering::Relaxed) {
                let next = now.saturating_add(seconds.saturating_mul(1_000_000_000));
                self.next_ns.store(next, Ordering::Relaxed);
                host.log(self.level, &value.to_string_lossy());
            }
        }
        Ok(Value::Null)
    }

    fn type_def(&self, _state: &TypeState) -> TypeDef {
        TypeDef::null().infallible().impure()
    }
}
