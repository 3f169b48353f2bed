use tremor_pdk::{Exceptions, RawBatch, testing::TestHost};

use crate::{
    client::settings::Settings,
    exchange::{Caches, Protocol, Target},
};

fn settings(format: &str) -> Settings {
    let config = format!(r#"{{ "url": "http://a/", "format": "{format}" }}"#);
    Settings::new(serde_json::from_str(&config).unwrap(), &TestHost::new().host()).unwrap()
}

fn body(format: &str, batch: &RawBatch) -> (Vec<u8>, usize) {
    let settings = settings(format);
    let target = Target::new("http://a/".parse().unwrap());
    let events: Vec<_> = batch.iter().collect();
    let mut exceptions = Exceptions::none();
    let (items, remaining) =
        settings.items(&target, &events, &mut Caches::default(), &mut exceptions);
    assert!(remaining.is_empty());
    (settings.body(&target, &items, items.all()), items.all().len())
}

#[test]
fn events_become_lines_or_an_array() {
    let mut batch = RawBatch::new();
    batch.push_message(b"1");
    batch.push_message(b"[2]\n");
    batch.stream(0).end();
    assert_eq!(body("ndjson", &batch), (b"1\n[2]\n".to_vec(), 2));
    assert_eq!(body("array", &batch), (b"[1,[2]\n]".to_vec(), 2));
    assert_eq!(body("joined", &batch), (b"1[2]\n".to_vec(), 2));
}

#[test]
fn message_of_several_lines_does_not_fit_into_ndjson() {
    let mut batch = RawBatch::new();
    for message in ["1\n2", "3", "\n\n", "4\n"] {
        batch.push_message(message.as_bytes());
    }
    assert_eq!(body("ndjson", &batch), (b"3\n4\n".to_vec(), 2));
    assert_eq!(body("array", &batch).1, 4);
}
