//! Tests of the filter, with the lines that a subscriber gets.

use std::sync::{Arc, Mutex};

use tracing::{Event, Subscriber, subscriber::with_default};
use tracing_subscriber::{Layer, layer::Context, prelude::*};
use tremor_pdk::lock;

use super::{ComponentLevel, InForce, LEVELS, Levels, LogLevel};
use crate::log::within;

/// Collects the levels of the events that pass the filter.
#[derive(Clone, Default)]
struct Collects(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Collects {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        lock(&self.0).push(event.metadata().level().to_string());
    }
}

fn in_force(level: &str, components: &[(&str, &'static str)]) -> InForce {
    let components = components.iter().map(|(name, level)| {
        let (flow, component) = name.split_once('/').unwrap();
        ComponentLevel { flow: flow.to_owned(), component: component.to_owned(), level }
    });
    InForce { level: level.to_owned(), components: components.collect() }
}

/// Returns the levels of the lines that pass the filter, of one line for each level about a component of the flow `f`.
fn passing(levels: &InForce, component: &str) -> Vec<String> {
    let collects = Collects::default();
    let filter = Levels::of(levels).unwrap();
    with_default(tracing_subscriber::registry().with(filter).with(collects.clone()), || {
        within(&"f".into(), || {
            // Components are logged as text, or by their `Display`.
            tracing::error!(component, "text");
            tracing::warn!(%component, "text");
            tracing::info!(component, "text");
            tracing::debug!(%component, "text");
            tracing::trace!(component, "text");
        });
        // Lines outside of flows, and without a component.
        tracing::debug!(component, "text");
        within(&"f".into(), || tracing::debug!("text"));
    });
    lock(&collects.0).clone()
}

#[test]
fn level_of_component_counts_for_its_lines_only() {
    let levels = in_force("info", &[("f/a", "trace"), ("f/b", "error"), ("other/c", "trace")]);
    assert_eq!(passing(&levels, "a"), ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"]);
    assert_eq!(passing(&levels, "b"), ["ERROR"]);
    assert_eq!(passing(&levels, "c"), ["ERROR", "WARN", "INFO"]);
}

#[test]
fn level_of_all_lines_counts_without_components() {
    assert_eq!(passing(&in_force("warn", &[]), "a"), ["ERROR", "WARN"]);
    assert_eq!(passing(&in_force("off", &[]), "a"), [""; 0]);
    assert_eq!(passing(&in_force("off", &[("f/a", "info")]), "a"), ["ERROR", "WARN", "INFO"]);
    let debug = ["ERROR", "WARN", "INFO", "DEBUG", "DEBUG", "DEBUG"];
    assert_eq!(passing(&in_force("debug", &[]), "a"), debug);
}

#[test]
fn level_of_all_lines_ends_those_of_components() {
    let mut levels = in_force("warn,hyper=off", &[]);
    let initial = "warn,hyper=off";
    let of = |word| LogLevel::of(word).unwrap();
    levels.set(of("debug"), Some(("f", "a")), initial);
    levels.set(of("trace"), Some(("f", "b")), initial);
    levels.set(of("error"), Some(("f", "a")), initial);
    assert_eq!(levels, in_force(initial, &[("f/b", "trace"), ("f/a", "error")]));
    levels.set(of("default"), Some(("f", "b")), initial);
    assert_eq!(levels, in_force(initial, &[("f/a", "error")]));
    levels.set(of("info"), None, initial);
    assert_eq!(levels, in_force("info", &[]));
    levels.set(of("default"), None, initial);
    assert_eq!(levels, in_force(initial, &[]));
}

#[test]
fn each_level_is_a_filter() {
    for level in LEVELS {
        assert!(LogLevel::of(level).is_some() && Levels::of(&in_force(level, &[])).is_some());
    }
    assert_eq!(LogLevel::of("wran"), None);
}
