use tremor_pdk::testing::{TestHost, conformance};

use super::NatsConsumer;
use crate::testing::server;

fn config(keys: &str) -> String {
    format!(r#"{{ "servers": ["{}"], {keys} }}"#, server())
}

#[test]
fn invalid_configuration_names_its_key() {
    let host = TestHost::new();
    for (keys, expected) in [
        (r#""prefetch": 1"#, "`stream`"),
        (r#""stream": "S""#, "`consumer`"),
        (r#""consumer": "c""#, "`stream`"),
        (r#""stream": "a.b", "consumer": "c""#, "`stream`"),
        (r#""stream": "S", "consumer": "a b""#, "`consumer`"),
        (r#""stream": "S", "consumer": "c", "queue": "q""#, "`queue`"),
        (r#""stream": "S", "consumer": "c", "max_deliver": 0"#, "`max_deliver`"),
        (r#""stream": "S", "consumer": "c", "ack_wait": "1ms""#, "`ack_wait`"),
        (r#""stream": "S", "consumer": "c", "start": "yesterday""#, "earliest"),
        (r#""subjects": ["a.>.b"]"#, "`subjects`"),
        (r#""subjects": ["a"], "start": "latest""#, "`start`"),
        (r#""subjects": ["a"], "ack": "double""#, "`ack`"),
        (r#""subjects": ["a"], "prefetch": 0"#, "`prefetch`"),
    ] {
        let error = host.component::<NatsConsumer>(&config(keys)).err();
        let error = error.unwrap_or_else(|| panic!("{keys} is rejected")).to_string();
        assert!(error.contains(expected), "{keys}: {error}");
    }
}

#[test]
fn all_forms_of_start_are_accepted() {
    let host = TestHost::new();
    for start in [r#""earliest""#, r#""latest""#, "17", r#""2026-11-23T10:00:00+01:00""#] {
        let keys = format!(r#""stream": "S", "consumer": "c", "start": {start}"#);
        assert!(host.component::<NatsConsumer>(&config(&keys)).is_ok(), "{start}");
    }
}

#[test]
fn consumer_passes_conformance() {
    let config = config(r#""subjects": ["a.>"], "queue": "q""#);
    conformance::connector::<NatsConsumer>(&config).expect_no_faults();
}
