use super::{
    Setup, component,
    doubles::{Pulls, SinkScript},
    pulls,
};
use crate::engine::Kind;

/// Returns a flow whose source reads lines.
pub(super) fn lines() -> Setup {
    Setup::default().set("source", |it| it.preprocessors.push(component("lines")))
}

#[test]
fn pulls_of_fragments_are_acknowledged_with_their_message() {
    for helpers in [0, 3] {
        let parts = Pulls::of(&[&["[1"], &[", "], &["2]\n[3"], &[","], &[" 4]\n"]]);
        let parts = Pulls { fragments: true, ..parts };
        let outcome = lines().helpers(helpers).run(parts, &SinkScript::of([]));
        assert_eq!(outcome.messages(), ["[1, 2]", "[3, 4]"]);
        assert_eq!(outcome.reports, pulls(5, true));
    }
}

/// A pull that reads a part of a long line has no output, so its bytes are counted together with the next output.
#[test]
fn bytes_of_pulls_without_output_are_counted() {
    let parts = Pulls::of(&[&["[\"one "], &["long "], &["line\"]\n"], &["2\n"]]);
    let outcome = lines().run(Pulls { fragments: true, ..parts }, &SinkScript::of([]));
    assert_eq!(outcome.messages(), ["[\"one long line\"]", "2"]);
    assert_eq!(outcome.of("source", Kind::Source).bytes, 20);
}
