//! Check of the Prometheus and `OpenMetrics` text formats. If a message can be decoded and its
//! value can be encoded, the output can be decoded, and its value is encoded as the same text.

use codec_prometheus::Prometheus;
use tremor_pdk::testing::{TestHost, decode, encode};

/// Checks one message.
///
/// # Panics
/// Encoded text cannot be decoded, or its value is encoded as another text.
pub(crate) fn check(message: &[u8]) {
    let host = TestHost::new();
    for format in ["text", "openmetrics"] {
        for event in ["sample", "exposition"] {
            let keys = format!(r#""event": "{event}", "format": "{format}""#);
            let config = format!(r#"{{ {keys}, "non_finite": "text" }}"#);
            let mut codec = host.component::<Prometheus>(&config).expect("a good configuration");
            let Ok(read) = decode(&mut codec, message) else { continue };
            // Some decoded values cannot be encoded, for example if a family occurs twice.
            let Ok(written) = encode(&mut codec, &read) else { continue };
            let again = decode(&mut codec, &written).expect("encoded text can be decoded");
            let once_more = encode(&mut codec, &again).expect("decoded text can be encoded");
            assert_eq!(once_more, written, "{config}");
        }
    }
}
