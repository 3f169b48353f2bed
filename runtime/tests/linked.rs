//! A plugin that is linked into the program runs flows as a loaded one does, and no file is looked
//! for.

#![allow(clippy::unwrap_used)] // a test that cannot go on says where

use std::{fs, path::Path, time::Duration};

use serde_json::Value;
use tremor_pdk::{
    Batch, Component, Connector, Context, Delivery, Error, ErrorKind, Exceptions, Host, Pull,
    Result, Sink, Source,
    abi::metadata::{JsonText, Record},
    linked::{LinkedPlugin, connectors},
};
use tremor_runtime::{
    components::Components,
    flow,
    plugin::{Library, Policy},
    run::{Stopper, run},
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
fn a_flow_runs_through_linked_connectors() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "{\"n\":1}\n[2]\n\"three\"\n";
    fs::write(folder.path().join("in"), lines).unwrap();
    let (flow, components) = (flow(folder.path(), "read"), components());
    components.check(&flow).unwrap();
    let reports = run(&[(&flow, &components)], &Stopper::default(), Duration::from_mins(1));
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
fn a_linked_plugin_says_what_it_is() {
    let libraries = Library::linked([connector_file::__tremor_plugin::linked()]).unwrap();
    let [library] = &libraries[..] else { panic!("one plugin, one library") };
    assert_eq!(library.metadata().name, "connector-file");
    assert_eq!(library.path(), Path::new("(linked)/connector-file"));
    library.check(Policy::default()).unwrap();
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let hash = twox_hash::XxHash3_128::oneshot(&program);
    assert_eq!(library.hash().to_string(), format!("{hash:032x}"), "it is the program's");
}

/// A plugin with the connector [`Odd`].
fn odd() -> LinkedPlugin {
    const METADATA: Record = Record::new(
        &JsonText::new()
            .raw(r#"{"name":"odd","version":"1","abi":"1.2","pdk":"1","panic":"unwind","#)
            .raw(r#""artefacts":[{"kind":"connector","name":"odd","codec":"structured"}]}"#),
    );
    static RECORD: Record = METADATA;
    LinkedPlugin { metadata: &RECORD, components: vec![connectors::<Odd>()] }
}

/// Brings one event and then waits for the end of time. Says nonsense of what it is given, or ends the
/// run.
#[derive(Clone)]
struct Odd {
    config: Value,
    host: Host,
    has_pulled: bool,
}

impl Component for Odd {
    const NAME: &str = "odd";
    type Config = Value;

    fn new(config: Value, context: Context) -> Result<Self> {
        Ok(Self { config, host: context.into(), has_pulled: false })
    }
}

impl Connector for Odd {
    type Source = Self;
    type Sink = Self;

    async fn create_source(&mut self) -> Result<Option<Self>> {
        Ok(Some(self.clone()))
    }

    async fn create_sink(&mut self) -> Result<Option<Self>> {
        Ok(Some(self.clone()))
    }
}

impl Source for Odd {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        if self.has_pulled {
            return Ok(Pull::Idle(Duration::MAX));
        }
        self.has_pulled = true;
        batch.push(&1_u64)?;
        Ok(Pull::Events)
    }
}

impl Sink for Odd {
    async fn deliver(&mut self, _batch: &Batch) -> Delivery {
        let mut exceptions = Exceptions::none();
        if self.config["nonsense"].is_boolean() {
            exceptions.push(0..100, Error::full("all hundred of them"));
        } else {
            self.host.request_stop("one is enough");
        }
        exceptions.into()
    }
}

/// What becomes of a run from one of these to another.
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
    let reports = run(&[(&flow, &components)], &Stopper::default(), Duration::from_mins(1));
    reports.unwrap().remove(0)
}

#[test]
fn a_linked_sink_that_answers_for_events_that_it_was_not_given_fails_its_flow() {
    let report = run_odd("{ nonsense: true }");
    let failure = report.failure.unwrap();
    assert_eq!((&*failure.component, failure.error.kind()), ("out", ErrorKind::INTERNAL));
    assert!(failure.error.to_string().contains("events 0 to 100"), "{}", failure.error);
}

#[test]
fn a_linked_source_may_be_idle_for_ever() {
    let report = run_odd("{ }");
    assert!(report.failure.is_none(), "{:?}", report.failure.map(|it| it.error));
    assert_eq!(report.counts.events_out, 1);
}
