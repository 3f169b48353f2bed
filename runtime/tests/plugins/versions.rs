//! Tests of plugins that were built for another version of the ABI, and of a plugin with the same version but another
//! layout. The plugins are built from changed sources of the kit.

use serde_json::json;
use tremor_runtime::{
    executor::block_on,
    plugin::{ErrorKind, Library, Policy, load},
};

use crate::{
    drive::{Instance, factory, host},
    support::derive::{self, Change},
};

/// Removes the declaration of the sink's method `close` from the ABI. The method follows the last prefix field, so an
/// older plugin may lack it.
const WITHOUT_CLOSE: Change<'static> = (
    "tremor-pdk/abi/src/connector.rs",
    "
    /// Ends the sink: no event follows, and every delivery has been answered. Called again if the call failed with the
    /// policy to retry.
    fn close(&mut self) -> CallFuture<'_, ()> {
        BorrowingFfiFuture::new(std::future::ready(RResult::ROk(())))
    }
",
    "",
);

/// Moves the kit's implementation of `close` out of the trait implementation, so that the kit compiles without the
/// declaration.
const CLOSE_UNUSED: Change<'static> = (
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

/// Removes the declarations of `brings_again` and `undecodable`, the methods after the last prefix field of
/// acknowledgements.
const WITHOUT_ACKS: Change<'static> = (
    "tremor-pdk/abi/src/connector.rs",
    "

    /// Returns whether the source redelivers failed events. Called once; if the method is missing, the answer is
    /// `true`.
    fn brings_again(&self) -> bool {
        true
    }

    /// Reports messages of `pull` that could not be decoded, and the reasons. `fail` of the pull follows and names the
    /// messages too. If the method is missing, the reasons are discarded.
    fn undecodable(&mut self, pull: u64, messages: RSlice<'_, ExceptionRange>) -> CallResult<()> {
        let _ = (pull, messages);
        RResult::ROk(())
    }",
    "",
);

/// Moves the kit's implementations of these two methods out of the trait implementation.
const ACKS_UNUSED: Change<'static> = (
    "tremor-pdk/src/ffi/stream.rs",
    "

    fn undecodable(",
    "
}

#[allow(dead_code)]
impl FfiAcks {
    fn undecodable(",
);

/// Removes the field `constructors` of artefacts, which follows their last prefix field.
const WITHOUT_CONSTRUCTORS: Change<'static> = (
    "tremor-pdk/abi/src/module.rs",
    "
    /// Constructors for the kinds other than connectors.
    pub constructors: ConstructorsRef,",
    "",
);

/// Removes the code of the kit that sets `constructors`.
const CONSTRUCTORS_UNSET: Change<'static> = (
    "tremor-pdk/src/ffi/artefact.rs",
    "\n        constructors: constructors.leak_into_prefix(),",
    "",
);

/// Builds the plugin `name` for `version` of the ABI, with further `changes` to the sources, and returns the path of
/// its library.
fn of_version(name: &str, version: &str, changes: &[Change<'_>]) -> std::path::PathBuf {
    let version = derive::abi_version(version);
    let version = version.iter().map(|(file, old, new)| (*file, *old, &**new));
    derive::plugin(name, &version.chain(changes.iter().copied()).collect::<Vec<_>>())
}

#[test]
fn older_plugin_loads_with_defaults_for_new_methods() {
    // Load plugins of older releases first: after that, a plugin of the current version must still have all its
    // methods.
    crate::kept::kept_libraries_load_and_behave_as_before();
    let changes = [
        WITHOUT_CLOSE,
        CLOSE_UNUSED,
        WITHOUT_ACKS,
        ACKS_UNUSED,
        WITHOUT_CONSTRUCTORS,
        CONSTRUCTORS_UNSET,
    ];
    let path = of_version("abi-earlier-minor", "2.0.0", &changes);
    assert_eq!(Library::inspect(&path).unwrap().metadata().abi, "2.0");
    let context = host("old");
    let old = factory(&path, "relay");
    let mut instance = Instance::start(&old, &json!({ "count": 2 }), &context).unwrap();
    assert_eq!(instance.pull_all().unwrap(), ["old 0", "old 1"]);
    assert_eq!(instance.deliver(&["good", "bad"]).unwrap().len(), 1);
    assert_eq!(context.metrics().snapshot()[0].count, 1);
    // The plugin has no method `close`, so a call does nothing, and a second call is not an error.
    let sink = instance.sink.as_mut().unwrap();
    block_on(sink.close()).unwrap();
    block_on(sink.close()).unwrap();
    // A plugin of the current version in the same process has `close`, which rejects a second call.
    let new = factory(&crate::support::library("fixture-relay"), "relay");
    let mut instance = Instance::start(&new, &json!({ "count": 1 }), &host("new")).unwrap();
    let sink = instance.sink.as_mut().unwrap();
    block_on(sink.close()).unwrap();
    block_on(sink.close()).unwrap_err();
}

#[test]
fn plugin_of_next_minor_version_is_rejected() {
    let method: Change<'_> = (
        WITHOUT_CLOSE.0,
        WITHOUT_CLOSE.1,
        &format!(
            "{}
    /// A method that a later minor version adds.
    fn on_idle(&mut self) {{}}
",
            WITHOUT_CLOSE.1
        ),
    );
    let path = of_version("abi-next-minor", "2.2.0", &[method]);
    let error = load(&path, Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AbiVersion);
    let text = error.to_string();
    assert!(text.lines().count() <= 5, "{text}");
    for part in ["ABI 2.2", "this tremor supports ABI 2.1", "help: update tremor"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn other_layout_of_same_version_is_rejected() {
    let wider: Change<'_> = (
        "tremor-pdk/abi/src/batch/mod.rs",
        "    /// Maximum bytes of payload.\n    pub bytes: u32,",
        "    /// Maximum bytes of payload.\n    pub bytes: u64,",
    );
    let kit: Change<'_> =
        ("tremor-pdk/src/batch.rs", "narrow(limit.bytes) }", "limit.bytes as u64 }");
    let path = derive::plugin("abi-other-layout", &[wider, kit]);
    let error = load(&path, Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Layout, "{error}");
    let text = error.to_string();
    assert!(text.lines().count() <= 10 && text.len() < 1_500, "{text}");
    for part in
        ["`Limit`, in ", "Batch", "bytes: u64", "bytes: u32", "ABI 2.1", "help: rebuild the plugin"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}
