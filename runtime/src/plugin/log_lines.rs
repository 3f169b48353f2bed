//! Log lines of plugins.

use std::sync::Arc;

use tracing::Level;
use tremor_abi::host as abi;

use crate::log;

/// Expands an expression once for each level, because tracing requires the level to be a constant.
macro_rules! at_level {
    ($level:expr, $constant:ident => $does:expr) => {{
        macro_rules! at {
            ($name:ident) => {{
                const $constant: Level = Level::$name;
                $does
            }};
        }
        match $level {
            abi::LogLevel::ERROR => at!(ERROR),
            abi::LogLevel::WARN => at!(WARN),
            abi::LogLevel::DEBUG => at!(DEBUG),
            abi::LogLevel::TRACE => at!(TRACE),
            // Unknown levels are logged as information.
            _ => at!(INFO),
        }
    }};
}

pub(super) fn is_enabled(level: abi::LogLevel) -> bool {
    at_level!(level, LEVEL => tracing::enabled!(target: "tremor::plugin", LEVEL))
}

/// Returns the highest level of lines that are written; 0 if none is.
pub(super) fn max_level() -> u8 {
    let levels = (abi::LogLevel::ERROR.0..=abi::LogLevel::TRACE.0).rev();
    levels.map(abi::LogLevel).find(|level| is_enabled(*level)).map_or(0, |level| level.0)
}

/// Logs a line of a component, with the name of its flow if there is one.
pub(super) fn write_log(
    flow: Option<&Arc<str>>,
    component: &str,
    level: abi::LogLevel,
    message: &str,
) {
    match flow {
        Some(flow) => log::within(flow, || write_line(component, level, message)),
        None => write_line(component, level, message),
    }
}

fn write_line(component: &str, level: abi::LogLevel, message: &str) {
    at_level!(level, LEVEL => {
        tracing::event!(target: "tremor::plugin", LEVEL, component, "{message}");
    });
}
