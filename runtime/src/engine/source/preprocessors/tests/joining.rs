//! Preprocessors that join lines, and the pulls of these lines.

use serde_json::json;

use super::Scene;
use crate::engine::source::preprocessors::StreamEnd;

#[test]
fn pulls_of_one_side_stay_open_while_the_other_is_delivered() {
    let multiline = ("multiline", json!({ "continue": "^ " }));
    let mut scene = Scene::new(&[("lines", json!({})), ("cri", json!({})), multiline]);
    assert!(scene.pull(&[(0, b"2026 stdout F a\n")]).is_empty());
    assert_eq!(scene.pull(&[(0, b"2026 stderr F x\n2026 stderr F y\n20")]), ["x"]);
    assert_eq!(scene.open(), [1, 2], "`a`, `y` and the half line are buffered");
    assert_eq!(scene.pull(&[(0, b"26 stderr F z\n2026 stdout F  b\n")]), ["y"]);
    assert_eq!(scene.open(), [1, 2, 3]);
    assert_eq!(scene.pull(&[(0, b"2026 stdout F c\n"), (1, b"2026 stdout F d\n")]), ["a\n b"]);
    assert_eq!(scene.open(), [2, 3, 4], "`z`, whose line began in the second pull, and `c`");
    assert_eq!(scene.end(StreamEnd::Complete), ["c", "z", "d"]);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![]));
}

#[test]
fn parts_of_a_line_keep_their_pulls_open() {
    let mut scene = Scene::new(&[("cri", json!({}))]);
    assert!(scene.pull(&[(0, b"2026 stdout P a\n")]).is_empty());
    assert_eq!(scene.pull(&[(0, b"2026 stderr F x\n")]), ["x"]);
    assert_eq!(scene.open(), [1, 2]);
    assert_eq!(scene.pull(&[(0, b"2026 stdout F b\n2026 stderr P y\n")]), ["ab"]);
    assert_eq!((scene.open(), scene.failed()), (vec![3], vec![]));
    scene.chain.drop_tokens();
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![3]));
    assert_eq!(scene.end(StreamEnd::Aborted), ["rejected y"]);
}

#[test]
fn first_fragment_of_a_joined_line_keeps_its_pull_open() {
    let multiline = json!({ "continue": "^ " });
    let docker: [&[u8]; 3] = [
        br#"{"log":"a","stream":"stdout","#,
        b"\"time\":\"2026\"}\n",
        b"{\"log\":\"b\\n\",\"stream\":\"stdout\",\"time\":\"2026\"}\n",
    ];
    for (name, config, [first, second, last], expected) in [
        ("cri", json!({}), [&b"2026 stdout P a"[..], b"\n", b"2026 stdout F b\n"], "ab"),
        ("docker", json!({}), docker, "ab"),
        ("multiline", multiline, [&b"a"[..], b"\n", b" b\nc\nd\n"], "a\n b"),
    ] {
        let mut scene = Scene::new(&[(name, config)]);
        assert!(scene.pull(&[(0, first)]).is_empty());
        assert!(scene.pull(&[(1, b"2")]).is_empty());
        assert!(scene.pull(&[(0, second)]).is_empty());
        assert_eq!(scene.open(), [1, 2, 3], "{name}");
        assert_eq!(scene.pull(&[(0, last)])[0], expected);
        assert!(!scene.open().contains(&1) && !scene.open().contains(&3), "{name}");
        assert_eq!(scene.failed(), [] as [u64; 0]);
    }
}

#[test]
fn joined_line_releases_the_pulls_before_it() {
    let mut scene = Scene::new(&[("cri", json!({}))]);
    assert!(scene.pull(&[(0, b"2026 stdout P a")]).is_empty());
    assert_eq!(scene.pull(&[(0, b"\n2026 stdout F b\n2026 st")]), ["ab"]);
    assert_eq!(scene.open(), [2]);
    assert!(scene.pull(&[(0, b"dout P c\n2026 stdou")]).is_empty());
    assert_eq!(scene.open(), [2, 3]);
    assert_eq!(scene.pull(&[(0, b"t F d\n2026 stdout P e\n2")]), ["cd"]);
    assert_eq!(scene.open(), [4], "`e` began in the fourth pull");
    assert_eq!(scene.pull(&[(0, b"x\n2026 stdout F f\n")]), ["ef", "rejected 2x"]);
    assert_eq!((scene.open(), scene.failed()), (vec![], vec![]));
}
