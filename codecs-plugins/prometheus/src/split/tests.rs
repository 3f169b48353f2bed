use tremor_pdk::{
    Batch, EventRef, Output, Preprocessor,
    testing::{TestHost, decode},
};

use super::{MAX_INCOMPLETE_BYTES, Split};
use crate::Prometheus;

const TEXT: &str = "# HELP h A histogram.
# TYPE h histogram
h_bucket{le=\"1\"} 1

# For people.
h_bucket{le=\"+Inf\"} 2
h_sum 3
h_count 2
alone 5
  # TYPE up gauge
  up{a=\"b # c\"} 1 2
other 6";

fn split(config: &str) -> Split {
    TestHost::new().component(config).unwrap()
}

/// Processes a batch. Returns the messages, and the errors of the rejected events.
fn process(split: &mut Split, mut batch: Batch) -> (Vec<String>, Vec<String>) {
    let (mut messages, mut rejected) = (Vec::new(), Vec::new());
    loop {
        let mut output = Output::new();
        split.process(&mut batch, &mut output).unwrap();
        let bytes: usize = batch.iter().filter_map(EventRef::raw).map(<[u8]>::len).sum();
        assert!(bytes < 4 << 20, "one call emitted {bytes} bytes, more than a batch");
        let texts = batch.iter().filter(|event| !event.is_stream_end()).filter_map(EventRef::raw);
        messages.extend(texts.map(|text| String::from_utf8_lossy(text).into_owned()));
        rejected.extend(output.rejected().iter().map(|it| it.error.to_string()));
        if !split.has_more() {
            return (messages, rejected);
        }
        batch = Batch::new();
    }
}

fn stream(text: &str, size: usize) -> (Vec<String>, Vec<String>) {
    stream_with("{}", text, size)
}

fn stream_with(config: &str, text: &str, size: usize) -> (Vec<String>, Vec<String>) {
    let mut split = split(config);
    let (mut messages, mut rejected) = (Vec::new(), Vec::new());
    let mut add = |batch| {
        let (more, why) = process(&mut split, batch);
        messages.extend(more);
        rejected.extend(why);
    };
    for piece in text.as_bytes().chunks(size) {
        let mut batch = Batch::new();
        batch.stream(7).push_fragment(piece);
        add(batch);
    }
    let mut batch = Batch::new();
    batch.stream(7).end();
    add(batch);
    assert!(split.streams().is_empty() && split.incomplete_bytes == 0);
    (messages, rejected)
}

#[test]
fn samples_are_split_with_family_lines_in_any_fragments() {
    let about = "# HELP h A histogram.\n# TYPE h histogram\n";
    let expected = [
        format!("{about}h_bucket{{le=\"1\"}} 1"),
        format!("{about}h_bucket{{le=\"+Inf\"}} 2"),
        format!("{about}h_sum 3"),
        format!("{about}h_count 2"),
        "alone 5".to_owned(),
        "  # TYPE up gauge\n  up{a=\"b # c\"} 1 2".to_owned(),
        "other 6".to_owned(),
    ];
    for size in 1..=TEXT.len() {
        let (messages, rejected) = stream(TEXT, size);
        assert_eq!(messages, expected, "in fragments of {size} bytes");
        assert!(rejected.is_empty(), "{rejected:?}");
    }
    let mut codec: Prometheus = TestHost::new().component("{}").unwrap();
    for message in &expected {
        decode(&mut codec, message.as_bytes()).unwrap();
    }
}

/// Ceph's exporter writes the lines of a family before each of its samples.
#[test]
fn repeated_lines_of_a_family_are_kept_once() {
    let about = "# HELP a Objects.\n# TYPE a counter\n";
    let count = 1_000;
    let piece = |n| format!("{about}# TYPE a\na{{n=\"{n}\"}} {n}\n");
    let text = (0..count).map(piece).collect::<Vec<_>>().concat();
    let (messages, rejected) = stream(&text, 4_096);
    assert!(rejected.is_empty(), "{rejected:?}");
    let expected: Vec<_> = (0..count).map(|n| format!("{about}a{{n=\"{n}\"}} {n}")).collect();
    assert_eq!(messages, expected);
}

#[test]
fn whole_messages_are_independent() {
    let mut batch = Batch::new();
    batch.push_message(b"# TYPE a gauge\na 1");
    batch.push_message(b"a 2\n");
    let mut split = split("{}");
    let (messages, rejected) = process(&mut split, batch);
    assert_eq!(messages, ["# TYPE a gauge\na 1", "a 2"]);
    assert!(rejected.is_empty() && split.streams().is_empty());
}

#[test]
fn large_scrape_leaves_in_light_batches() {
    let samples = (0..20_000).map(|n| format!("a{{n=\"{n}\"}} 1\n")).collect::<Vec<_>>().concat();
    let text = format!("# HELP a {}\n{samples}", "x".repeat(1_000));
    let mut batch = Batch::new();
    batch.push_message(text.as_bytes());
    let (messages, rejected) = process(&mut split("{}"), batch);
    assert!(rejected.is_empty());
    assert_eq!(messages.len(), 20_000);
    assert!(messages.iter().all(|message| message.starts_with("# HELP a xxx")));
}

#[test]
fn data_after_the_end_and_truncated_data_are_rejected() {
    let text = "a 1\n# EOF\n\nb 2\n";
    let (messages, rejected) = stream_with(r#"{ "format": "openmetrics" }"#, text, 3);
    assert_eq!(messages, ["a 1"]);
    assert!(rejected[0].contains("expected nothing after `# EOF`"), "{rejected:?}");
    let mut batch = Batch::new();
    batch.stream(1).push_fragment(b"a 1\nb 23");
    batch.stream(1).abort();
    let (messages, rejected) = process(&mut split("{}"), batch);
    assert_eq!(messages, ["a 1"]);
    assert!(rejected[0].contains("the stream was cut off within a line"), "{rejected:?}");
}

#[test]
fn end_of_openmetrics_is_a_comment_in_the_text_format() {
    let (messages, rejected) = stream("a 1\n# EOF\n\nb 2\n", 3);
    assert_eq!(messages, ["a 1", "b 2"]);
    assert!(rejected.is_empty(), "{rejected:?}");
}

#[test]
fn utf8_signature_of_a_scrape_is_removed() {
    for text in ["\u{feff}a 1\nb 2", "\u{feff}# TYPE a gauge\na 1\nb 2"] {
        for size in 1..=text.len() {
            let (messages, rejected) = stream(text, size);
            assert_eq!(messages.len(), 2, "{text:?} by {size} bytes: {messages:?}");
            assert!(messages.iter().all(|message| !message.contains('\u{feff}')), "{messages:?}");
            assert!(rejected.is_empty(), "{rejected:?}");
        }
    }
}

#[test]
fn too_long_line_affects_no_other_sample() {
    let text = format!("a 1\nb{{c=\"{}\"}} 1\nd 1\n", "x".repeat(100));
    for size in [7, 1_000] {
        let mut split = split(r#"{ "max_length": 50 }"#);
        let (mut messages, mut rejected) = (Vec::new(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            let mut batch = Batch::new();
            batch.stream(0).push_fragment(piece);
            let (more, why) = process(&mut split, batch);
            messages.extend(more);
            rejected.extend(why);
        }
        assert_eq!(messages, ["a 1", "d 1"]);
        let [error] = &rejected[..] else { panic!("{rejected:?}") };
        assert!(
            error.contains("a line of 109 bytes is longer than `max_length`, 50 bytes"),
            "{error}"
        );
    }
    let about = format!("# HELP a {}\na 1\n", "x".repeat(9_000));
    let (messages, rejected) = stream(&about, 4_000);
    assert_eq!(messages, ["a 1"]);
    assert!(rejected[0].contains("its samples omit this line"), "{rejected:?}");
}

#[test]
fn incomplete_lines_of_all_streams_are_bounded() {
    let mut split = split("{}");
    let piece = vec![b'x'; (1 << 20) - 8];
    for stream in 0..100 {
        let mut batch = Batch::new();
        batch.stream(stream).push_fragment(&piece);
        process(&mut split, batch);
        assert!(split.incomplete_bytes <= MAX_INCOMPLETE_BYTES + 100 * 4_096);
    }
    let mut batch = Batch::new();
    (0..100).for_each(|stream| batch.stream(stream).push_fragment(b" 1\n"));
    let (messages, rejected) = process(&mut split, batch);
    assert!(messages.len() < 33 && messages.len() + rejected.len() == 100);
    assert!(rejected[0].contains("the incomplete lines of all streams reached"));
}
