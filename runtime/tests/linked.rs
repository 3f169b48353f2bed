//! A plugin that is linked into the program runs flows as a loaded one does, and no file is looked
//! for.

#![allow(clippy::unwrap_used)] // a test that cannot go on says where

use std::{fs, path::Path, time::Duration};

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
    let reports = run(&[(&flow, &components)], &Stopper::default(), Duration::from_secs(60));
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
