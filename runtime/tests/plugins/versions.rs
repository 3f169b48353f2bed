//! Plugins of other versions of the ABI, and of the same version with fewer methods or other layouts.

use serde_json::json;
use tremor_runtime::{
    executor::block_on,
    plugin::{ErrorKind, Library, Policy, load},
};

use crate::{
    drive::{Instance, factory, host},
    support::derive::{self, Change},
};

/// A method after the last prefix field of the sink, where it is declared.
const METHOD: Change<'static> = (
    "tremor-pdk/abi/src/connector.rs",
    "
    /// Ends the sink: no event follows, and every delivery has been answered. Repeated if it fails with the policy
    /// to retry.
    fn close(&mut self) -> CallFuture<'_, ()> {
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }
",
    "",
);

/// Where the plugin's side implements it. It stays as a method that nobody calls.
const ADAPTER: Change<'static> = (
    "tremor-pdk/src/ffi/stream.rs",
    "
    fn close(&mut self) -> CallFuture<'_, ()> {
        self.start(\"close\", |sink| sink.close())",
    "
}

impl FfiSink {
    #[allow(dead_code)]
    fn close(&mut self) -> CallFuture<'_, ()> {
        self.start(\"close\", |sink| sink.close())",
);

/// Two of acknowledgements.
const ANSWER: Change<'static> = (
    "tremor-pdk/abi/src/connector.rs",
    "

    /// Whether the source brings again what has failed. Asked once; without it, the source does.
    fn brings_again(&self) -> bool {
        true
    }

    /// These messages of this pull could not be decoded, and why; `fail` of the pull follows, and names them
    /// as well. Without it, nobody hears why.
    fn undecodable(&mut self, pull: u64, messages: RSlice<'_, ExceptionRange>) -> CallResult<()> {
        let _ = (pull, messages);
        RResult::ROk(())
    }",
    "",
);

/// Where the plugin's side implements them.
const ANSWERED: Change<'static> = (
    "tremor-pdk/src/ffi/stream.rs",
    "

    fn undecodable(",
    "
}

#[allow(dead_code)]
impl FfiAcks {
    fn undecodable(",
);

/// A field after the last prefix field of artefacts.
const FIELD: Change<'static> = (
    "tremor-pdk/abi/src/module.rs",
    "
    /// How to make an instance of an artefact that is no connector.
    pub constructors: ConstructorsRef,",
    "",
);

/// Where the plugin's side sets it.
const SET: Change<'static> = (
    "tremor-pdk/src/ffi/artefact.rs",
    "\n        constructors: constructors.leak_into_prefix(),",
    "",
);

/// A plugin of another version of the ABI, with changes.
fn of_version(name: &str, version: &str, changes: &[Change<'_>]) -> std::path::PathBuf {
    let version = derive::abi_version(version);
    let version = version.iter().map(|(file, old, new)| (*file, *old, &**new));
    derive::plugin(name, &version.chain(changes.iter().copied()).collect::<Vec<_>>())
}

#[test]
fn a_plugin_that_lacks_what_was_added_last_loads_and_gets_the_defaults() {
    // One that was loaded before does not narrow what this one may have.
    crate::kept::libraries_that_are_kept_load_and_do_what_they_did();
    let changes = [METHOD, ADAPTER, ANSWER, ANSWERED, FIELD, SET];
    let path = of_version("abi-earlier-minor", "2.0.0", &changes);
    assert_eq!(Library::inspect(&path).unwrap().metadata().abi, "2.0");
    let context = host("old");
    let old = factory(&path, "relay");
    let mut instance = Instance::start(&old, &json!({ "count": 2 }), &context).unwrap();
    assert_eq!(instance.pull_all().unwrap(), ["old 0", "old 1"]);
    assert_eq!(instance.deliver(&["good", "bad"]).unwrap().len(), 1);
    assert_eq!(context.metrics().snapshot()[0].count, 1);
    // The method: without it the plugin is not closed, so that the second call is no error.
    let sink = instance.sink.as_mut().unwrap();
    block_on(sink.close()).unwrap();
    block_on(sink.close()).unwrap();
    // A plugin of this version beside it has all of it.
    let new = factory(&crate::support::library("fixture-relay"), "relay");
    let mut instance = Instance::start(&new, &json!({ "count": 1 }), &host("new")).unwrap();
    let sink = instance.sink.as_mut().unwrap();
    block_on(sink.close()).unwrap();
    block_on(sink.close()).unwrap_err();
}

#[test]
fn the_next_minor_is_refused_on_one_screen() {
    let method: Change<'_> = (
        METHOD.0,
        METHOD.1,
        &format!(
            "{}
    /// What a later minor adds.
    fn on_idle(&mut self) {{}}
",
            METHOD.1
        ),
    );
    let path = of_version("abi-next-minor", "2.1.0", &[method]);
    let error = load(&path, Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AbiVersion);
    let text = error.to_string();
    assert!(text.lines().count() <= 5, "{text}");
    for part in ["ABI 2.1", "this tremor speaks ABI 2.0", "help: update tremor"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn another_layout_under_the_same_version_is_refused_on_one_screen() {
    let wider: Change<'_> = (
        "tremor-pdk/abi/src/batch/mod.rs",
        "    /// In bytes of payload.\n    pub bytes: u32,",
        "    /// In bytes of payload.\n    pub bytes: u64,",
    );
    let path = derive::plugin("abi-other-layout", &[wider]);
    let error = load(&path, Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Layout, "{error}");
    let text = error.to_string();
    assert!(text.lines().count() <= 10 && text.len() < 1_500, "{text}");
    for part in
        ["`Limit`, in ", "Batch", "bytes: u64", "bytes: u32", "ABI 2.0", "help: rebuild the plugin"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}
