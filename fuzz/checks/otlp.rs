//! Any bytes as requests of OTLP, of each signal and in each encoding: what is read is written, and read as the
//! same again.

use codec_otlp::Otlp;
use tremor_pdk::testing::{TestHost, decode, encode};

/// # Panics
/// Where what was read cannot be written, or is something else then.
pub(crate) fn check(message: &[u8]) {
    let host = TestHost::new();
    for signal in ["logs", "metrics", "traces", "any"] {
        for encoding in ["protobuf", "json", "any"] {
            let config = format!(r#"{{ "signal": "{signal}", "encoding": "{encoding}" }}"#);
            let mut codec = host.component::<Otlp>(&config).expect("a good configuration");
            let Ok(read) = decode(&mut codec, message) else { continue };
            let written = encode(&mut codec, &read).expect("what was read can be written");
            let again = decode(&mut codec, &written).expect("what was written can be read");
            assert_eq!(again, read, "{config}");
        }
    }
}
