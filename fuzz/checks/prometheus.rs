//! Any bytes as a text of Prometheus or of `OpenMetrics`: what is written of it is read again, and written as the
//! same then.

use codec_prometheus::Prometheus;
use tremor_pdk::testing::{TestHost, decode, encode};

/// # Panics
/// Where what was written cannot be read, or is written otherwise then.
pub(crate) fn check(message: &[u8]) {
    let host = TestHost::new();
    for format in ["text", "openmetrics"] {
        for event in ["sample", "exposition"] {
            let keys = format!(r#""event": "{event}", "format": "{format}""#);
            let config = format!(r#"{{ {keys}, "non_finite": "text" }}"#);
            let mut codec = host.component::<Prometheus>(&config).expect("a good configuration");
            let Ok(read) = decode(&mut codec, message) else { continue };
            // Not all that is read may be written: a family may be there twice, say.
            let Ok(written) = encode(&mut codec, &read) else { continue };
            let again = decode(&mut codec, &written).expect("what was written can be read");
            let once_more = encode(&mut codec, &again).expect("what was written can be written");
            assert_eq!(once_more, written, "{config}");
        }
    }
}
