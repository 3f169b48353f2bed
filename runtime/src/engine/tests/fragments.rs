use serde_json::Value as Config;
use tremor_pdk::testing::TestHost;

use super::{
    Setup,
    doubles::{Pulls, SinkScript},
    pulls,
};
use crate::{
    components::factory, engine::source::preprocessors::Preprocessors, flow::Kind,
    plugin::HostContext, processor::Join,
};

/// Creates preprocessors that split streams into lines.
pub(super) fn lines() -> Preprocessors {
    let lines = factory(Kind::Preprocessor, "lines").unwrap();
    let lines = lines.preprocessor(&Config::Null, &HostContext::new("", "", ())).unwrap();
    Preprocessors::new(vec![lines, Box::new(Join::preprocessor(TestHost::new().context()))])
}

#[test]
fn pulls_of_fragments_are_acknowledged_with_their_message() {
    for helpers in [0, 3] {
        let codec = "string";
        let setup = Setup { source_codec: codec, sink_codec: codec, helpers, ..Setup::default() };
        let mut harness = setup.harness();
        harness.source.intake.preprocessors = lines();
        let parts = Pulls::of(&[&["one "], &["and "], &["a half\ntwo"], &[" and "], &["more\n"]]);
        let outcome = harness.run(Pulls { fragments: true, ..parts }, &SinkScript::of([]));
        assert_eq!(outcome.messages(), ["one and a half", "two and more"]);
        assert_eq!(outcome.reports, pulls(5, true));
    }
}

/// A pull that reads a part of a long line has no output, so its bytes are counted together with the next output.
#[test]
fn bytes_of_pulls_without_output_are_counted() {
    let codec = "string";
    let setup = Setup { source_codec: codec, sink_codec: codec, ..Setup::default() };
    let mut harness = setup.harness();
    harness.source.intake.preprocessors = lines();
    let stats = harness.source.worker.router.stats.clone();
    let parts = Pulls::of(&[&["one "], &["long "], &["line\n"], &["two\n"]]);
    let outcome = harness.run(Pulls { fragments: true, ..parts }, &SinkScript::of([]));
    assert_eq!(outcome.messages(), ["one long line", "two"]);
    assert_eq!(stats.counts().bytes, 18);
}
