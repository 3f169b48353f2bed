//! Check of OTLP requests. For any bytes, every signal and every encoding, a request that can be decoded can also be
//! encoded, and the output has to be decoded to the same value.

use codec_otlp::Otlp;
use tremor_pdk::testing::{TestHost, decode, encode};

/// Checks one message.
///
/// # Panics
/// A decoded request cannot be encoded, or the output is decoded to another value.
pub(crate) fn check(message: &[u8]) {
    let host = TestHost::new();
    for signal in ["logs", "metrics", "traces", "any"] {
        for encoding in ["protobuf", "json", "any"] {
            let config = format!(r#"{{ "signal": "{signal}", "encoding": "{encoding}" }}"#);
            let mut codec = host.component::<Otlp>(&config).expect("a good configuration");
            let Ok(read) = decode(&mut codec, message) else { continue };
            let written = encode(&mut codec, &read).expect("a decoded request can be encoded");
            let again = decode(&mut codec, &written).expect("an encoded request can be decoded");
            assert_eq!(again, read, "{config}");
        }
    }
}
