//! Levels of the log, which change while the process runs: for all lines, and for the lines of single components.
//!
//! `tracing` caches for each line in the code whether it can be enabled. A change of a level computes these caches again,
//! so a line that is disabled costs the same as with levels that never change. While a component has a level of its own,
//! lines up to this level are formatted for all components, and those of other components are then dropped.

use std::{
    fmt,
    sync::{Mutex, OnceLock},
};

use serde::Serialize;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
    subscriber::Interest,
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    layer::Context,
    reload::{self, Handle},
};
use tremor_pdk::lock;

use super::current_flow;

/// Words for the levels of the log, from the fewest lines to the most.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Beginning of the targets of all log lines of this program and its plugins.
pub const TARGETS: &str = "tremor";

static LOG: OnceLock<Log> = OnceLock::new();

/// The levels of this process.
struct Log {
    handle: Handle<Levels, Registry>,
    /// Filter of the beginning.
    initial: String,
    in_force: Mutex<InForce>,
}

/// The levels that are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InForce {
    /// Level of all lines, or the filter with which the process has begun.
    pub level: String,
    /// Components that have a level of their own.
    pub components: Vec<ComponentLevel>,
}

/// A component that has a level of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComponentLevel {
    /// Name of the flow.
    pub flow: String,
    /// Name of the component in the flow.
    pub component: String,
    /// Level of the lines of the component.
    pub level: &'static str,
}

/// Level for [`set`]: one of [`LEVELS`], or the filter with which the process has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(Option<&'static str>);

impl LogLevel {
    /// Word for the filter with which the process has begun.
    pub const DEFAULT: &'static str = "default";

    /// Returns the level that the word stands for.
    pub fn of(word: &str) -> Option<Self> {
        if word == Self::DEFAULT {
            return Some(Self(None));
        }
        LEVELS.iter().find(|level| **level == word).map(|level| Self(Some(level)))
    }
}

/// Returns the layer that filters the log of this process, at first with `filter`. Later calls of [`set`] change it.
pub fn layer(filter: EnvFilter) -> reload::Layer<Levels, Registry> {
    let initial = filter.to_string();
    let (layer, handle) = reload::Layer::new(Levels { filter, components: Vec::new() });
    let in_force = Mutex::new(InForce { level: initial.clone(), components: Vec::new() });
    // A process has one log. Further layers, in tests, are not changed.
    _ = LOG.set(Log { handle, initial, in_force });
    layer
}

/// Returns the levels that are in force. `None` if this process has no log.
pub fn in_force() -> Option<InForce> {
    LOG.get().map(|log| lock(&log.in_force).clone())
}

/// Changes the level of all lines, or of the lines of one component, which `component` names after its flow. A change
/// of the level of all lines also ends those of components. Returns the levels that are in force, or `None` if this
/// process has no log.
pub fn set(level: LogLevel, component: Option<(&str, &str)>) -> Option<InForce> {
    let log = LOG.get()?;
    let mut in_force = lock(&log.in_force);
    in_force.set(level, component, &log.initial);
    let changed = in_force.clone();
    // The filter of the beginning was parsed before, and a level is a valid filter.
    let levels = Levels::of(&changed)?;
    // The layer exists until the process ends.
    log.handle.reload(levels).ok()?;
    Some(changed)
}

impl InForce {
    fn set(&mut self, level: LogLevel, component: Option<(&str, &str)>, initial: &str) {
        let Some((flow, component)) = component else {
            level.0.unwrap_or(initial).clone_into(&mut self.level);
            self.components.clear();
            return;
        };
        self.components.retain(|it| (&*it.flow, &*it.component) != (flow, component));
        if let Some(level) = level.0 {
            let (flow, component) = (flow.to_owned(), component.to_owned());
            self.components.push(ComponentLevel { flow, component, level });
        }
    }
}

/// Filter of log lines by level.
pub struct Levels {
    /// Filter of all lines that are not about a component in `components`.
    filter: EnvFilter,
    /// Components with a level of their own: flow, component and level.
    components: Vec<(String, String, LevelFilter)>,
}

impl Levels {
    fn of(in_force: &InForce) -> Option<Self> {
        let components = in_force.components.iter().map(|it| {
            let level = it.level.parse().unwrap_or(LevelFilter::INFO);
            (it.flow.clone(), it.component.clone(), level)
        });
        let components = components.collect();
        Some(Self { filter: EnvFilter::try_new(&in_force.level).ok()?, components })
    }

    /// Returns the level of the component with the most lines.
    fn most(&self) -> Option<LevelFilter> {
        self.components.iter().map(|(_, _, level)| *level).max()
    }

    /// Returns whether a line may be enabled because of the level of a component.
    fn may_be_of_component(&self, line: &Metadata<'_>) -> bool {
        let is_within = |most: LevelFilter| most >= *line.level();
        line.target().starts_with(TARGETS) && !line.is_span() && self.most().is_some_and(is_within)
    }

    /// Returns the level of the component that an event is about, if it has one of its own.
    fn of_event(&self, event: &Event<'_>) -> Option<LevelFilter> {
        let flow = current_flow()?;
        let mut of_flow = self.components.iter().filter(|(it, ..)| **it == *flow).peekable();
        of_flow.peek()?;
        let mut named = Named(None);
        event.record(&mut named);
        let name = named.0?;
        of_flow.find(|(_, component, _)| *component == name).map(|(_, _, level)| *level)
    }

    /// Returns whether a line with this level is logged for the component that the event is about. `None` if the
    /// component has no level of its own.
    fn judges(&self, event: &Event<'_>, level: Level) -> Option<bool> {
        if self.components.is_empty() {
            return None;
        }
        self.of_event(event).map(|of_component| of_component >= level)
    }
}

/// Value of the field `component` of an event.
struct Named(Option<String>);

impl Visit for Named {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "component" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "component" {
            self.0 = Some(format!("{value:?}"));
        }
    }
}

impl<S: Subscriber> Layer<S> for Levels {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let interest = Layer::<S>::register_callsite(&self.filter, metadata);
        if interest.is_never() && self.may_be_of_component(metadata) {
            return Interest::sometimes();
        }
        interest
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        self.may_be_of_component(metadata) || Layer::enabled(&self.filter, metadata, context)
    }

    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let judged = self.judges(event, *metadata.level());
        judged.unwrap_or_else(|| {
            !self.may_be_of_component(metadata) || Layer::enabled(&self.filter, metadata, context)
        })
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let hint = Layer::<S>::max_level_hint(&self.filter)?;
        Some(hint.max(self.most().unwrap_or(LevelFilter::OFF)))
    }

    fn on_new_span(&self, span: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        Layer::on_new_span(&self.filter, span, id, context);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        Layer::on_record(&self.filter, id, values, context);
    }

    fn on_enter(&self, id: &span::Id, context: Context<'_, S>) {
        Layer::on_enter(&self.filter, id, context);
    }

    fn on_exit(&self, id: &span::Id, context: Context<'_, S>) {
        Layer::on_exit(&self.filter, id, context);
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        Layer::on_close(&self.filter, id, context);
    }
}

#[cfg(test)]
mod tests;
