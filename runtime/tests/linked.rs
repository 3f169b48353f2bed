//! Tests of plugins that are linked into the program. They run in flows like loaded plugins, without a search for
//! files.

#![allow(clippy::unwrap_used)] // a failed test reports its location

use std::{fs, path::Path, thread, time::Duration};

use serde_json::Value;
use tremor_abi::metadata::{JsonText, Record};
use tremor_pdk::{
    Batch, Component, ComponentContext, Connector, Delivery, Error, ErrorKind, Exceptions, Halves,
    Host, Pull, Result, Sides, Sink, Source, StructuredBatch,
};
use tremor_runtime::{
    components::Components,
    engine::State,
    flow,
    linked::{LinkedPlugin, connectors},
    plugin::{Library, Policy},
    run::{RunHandle, run},
};

fn components() -> Components {
    Components::linked([connector_file::__tremor_plugin::linked()], Policy::default()).unwrap()
}

fn flow(folder: &Path, mode: &str) -> flow::Flow {
    let text = format!(
        "connectors:
  in: {{ type: file, preprocessors: [lines], codec: json, config: {{ path: in, mode: {mode} }} }}
  out: {{ type: file, postprocessors: [lines], codec: json, config: {{ path: out, mode: truncate }} }}
links: [in -> out]"
    );
    let path = folder.join("flow.yaml");
    fs::write(&path, text).unwrap();
    flow::load(&path).unwrap()
}

#[test]
fn flow_runs_with_linked_connectors() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "{\"n\":1}\n[2]\n\"three\"\n";
    fs::write(folder.path().join("in"), lines).unwrap();
    let (flow, components) = (flow(folder.path(), "read"), components());
    components.check(&flow).unwrap();
    let reports = run(&[(&flow, &components)], &RunHandle::default(), Duration::from_mins(1));
    let counts = reports.unwrap()[0].counts;
    assert_eq!((counts.events_in, counts.events_out), (3, 3));
    assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), lines);
}

#[test]
fn configurations_of_linked_connectors_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let error = components().check(&flow(folder.path(), "sideways")).unwrap_err().to_string();
    assert!(error.contains("sideways") && error.contains("flow.yaml:2"), "{error}");
}

#[test]
fn linked_plugin_has_metadata() {
    let libraries = Library::linked([connector_file::__tremor_plugin::linked()]).unwrap();
    let [library] = &libraries[..] else { panic!("one plugin, one library") };
    assert_eq!(library.metadata().name, "connector-file");
    assert_eq!(library.path(), Path::new("(linked)/connector-file"));
    library.check(Policy::default()).unwrap();
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let hash = twox_hash::XxHash3_128::oneshot(&program);
    assert_eq!(
        library.hash().unwrap().to_string(),
        format!("{hash:032x}"),
        "the hash is that of the program"
    );
}

/// Returns a plugin with the connector [`Odd`].
fn odd() -> LinkedPlugin {
    const METADATA: Record = Record::new(
        &JsonText::new()
            .raw(r#"{"name":"odd","version":"1","abi":"1.2","pdk":"1","panic":"unwind","#)
            .raw(r#""artefacts":[{"kind":"connector","name":"odd","codec":"structured"}]}"#),
    );
    static RECORD: Record = METADATA;
    LinkedPlugin { metadata: &RECORD, components: vec![connectors::<Odd>()] }
}

/// A connector whose source emits one event and never ends. Depending on the configuration, its sink returns a wrong
/// result or ends the run.
#[derive(Clone)]
struct Odd {
    config: Value,
    host: Host,
    has_pulled: bool,
}

impl Component for Odd {
    const NAME: &str = "odd";
    type Config = Value;

    fn new(config: Value, context: ComponentContext) -> Result<Self> {
        Ok(Self { config, host: context.into(), has_pulled: false })
    }
}

impl Connector for Odd {
    type Source = Self;
    type Sink = Self;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Self, Self>> {
        Ok(Halves::both(self.clone(), self.clone()))
    }
}

impl Source for Odd {
    type Batch = StructuredBatch;

    async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
        if self.has_pulled && self.config["endless"].is_boolean() {
            batch.push(&1_u64)?;
            return Ok(Pull::Idle(Duration::from_millis(1)));
        }
        if self.has_pulled {
            return Ok(Pull::Idle(Duration::MAX));
        }
        self.has_pulled = true;
        batch.push(&1_u64)?;
        Ok(Pull::Events)
    }
}

impl Sink for Odd {
    type Batch = StructuredBatch;

    async fn deliver(&mut self, _batch: &StructuredBatch) -> Delivery {
        let mut exceptions = Exceptions::none();
        if self.config["nonsense"].is_boolean() {
            let mut other = Batch::new();
            (0..100).for_each(|_| other.push_message(b"of another batch"));
            exceptions.reject_all(&other, &Error::full("all hundred of them"));
        } else if !self.config["endless"].is_boolean() {
            self.host.request_stop("one is enough");
        }
        exceptions.into()
    }
}

/// Runs a flow from one connector [`Odd`] to another, and returns its report.
fn run_odd(config: &str) -> tremor_runtime::engine::Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flow.yaml");
    let text = format!(
        "connectors: {{ in: {{ type: odd }}, out: {{ type: odd, config: {config} }} }}\n\
         links: [in -> out]"
    );
    fs::write(&path, text).unwrap();
    let flow = flow::load(&path).unwrap();
    let components = Components::linked([odd()], Policy::default()).unwrap();
    components.check(&flow).unwrap();
    let reports = run(&[(&flow, &components)], &RunHandle::default(), Duration::from_mins(1));
    reports.unwrap().remove(0)
}

#[test]
fn linked_sink_answering_for_unknown_events_fails_flow() {
    let report = run_odd("{ nonsense: true }");
    let failure = report.failure.unwrap();
    assert_eq!((&*failure.component, failure.error.kind()), ("out", ErrorKind::INTERNAL));
    assert!(
        failure.error.to_string().contains("rejected an event of another batch"),
        "{}",
        failure.error
    );
}

#[test]
fn run_ends_although_linked_source_is_idle_forever() {
    let report = run_odd("{ }");
    assert!(report.failure.is_none(), "{:?}", report.failure.map(|it| it.error));
    assert_eq!(report.counts.events_out, 1);
}

#[test]
fn restart_and_drain_from_outside_spare_other_flow() {
    let folder = tempfile::tempdir().unwrap();
    let text = "connectors: { in: { type: odd, config: { endless: true } }, out: { type: odd, config: { endless: true } } }\n\
                links: [in -> out]";
    let flows = ["one", "other"].map(|name| {
        let path = folder.path().join(format!("{name}.yaml"));
        fs::write(&path, text).unwrap();
        flow::load(&path).unwrap()
    });
    let components = Components::linked([odd()], Policy::default()).unwrap();
    flows.iter().for_each(|flow| components.check(flow).unwrap());
    let handle = RunHandle::default();
    let state = |flow: &str, connector: &str| {
        let status = handle.connectors(flow).into_iter().flatten();
        status.filter(|it| it.connector == connector).map(|it| (it.state, it.restarts)).next()
    };
    let taken = |flow: &str| -> u64 {
        let flows = handle.flows();
        let components = flows.iter().filter(|it| it.name == flow).flat_map(|it| &it.components);
        components.map(|it| it.counts.taken).sum()
    };
    let until = |flow: &str, connector: &str, expected| {
        while state(flow, connector) != Some(expected) {
            thread::yield_now();
        }
    };
    let reports = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let flows = flows.each_ref().map(|flow| (flow, &components));
            run(&flows, &handle, Duration::from_mins(1)).unwrap()
        });
        until("one", "out", (State::Running, 0));
        assert!(handle.restart("one", "out") && !handle.restart("one", "nobody"));
        until("one", "out", (State::Running, 1));
        while taken("one") == 0 {
            thread::yield_now();
        }
        assert!(handle.pause("one", "in"));
        until("one", "in", (State::Paused, 0));
        assert!(handle.drain_flow("one", Duration::from_mins(1)));
        assert!(!handle.drain_flow("none", Duration::from_mins(1)));
        until("one", "out", (State::Stopped, 1));
        until("other", "out", (State::Running, 0));
        assert!(handle.stop_flow("other") && !handle.stop_flow("none"));
        running.join().unwrap()
    });
    let [one, other] = &reports[..] else { panic!("two flows, two reports") };
    assert!(one.failure.is_none() && !one.cut_off && other.cut_off);
    assert!(one.counts.events_in > 0);
    assert_eq!(one.counts.events_in, one.counts.events_out, "nothing was lost");
}
