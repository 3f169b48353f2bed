//! Parts of the configuration that several connectors share.

/// A user name and a password.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Basic {
    /// The user name, which must not contain a colon.
    pub user: String,
    /// The password.
    #[schemars(extend("writeOnly" = true))]
    pub password: String,
}

/// Credentials of each request.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// A user name and a password, as the header `Authorization: Basic`.
    Basic(Basic),
    /// A token, as the header `Authorization: Bearer`.
    Bearer(#[schemars(extend("writeOnly" = true))] String),
    /// A secret in a header of any name.
    Header(Secret),
}

/// A header with a secret.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Secret {
    /// Name of the header: `x-api-key`.
    pub name: String,
    /// Value of the header.
    #[schemars(extend("writeOnly" = true))]
    pub value: String,
}

/// Compression of request bodies.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
    /// A block of snappy, for types of bodies that consist of such a block. The configuration cannot name this variant.
    #[serde(skip)]
    SnappyBlock,
}

/// The way in which values of fields become parts of bodies.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Escape {
    /// Escapes values as in a string of JSON, for fields between double quotes.
    #[default]
    Json,
    /// Values are unchanged. With `format: ndjson`, an event goes to `err` if a value contains a line feed.
    None,
}

/// A protocol over HTTP.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// OTLP, the protocol of OpenTelemetry, for one of its signals or for any.
    Otlp(Signal),
}

impl Preset {
    /// Returns whether the signal is taken from the path of each request.
    pub(crate) fn is_by_path(self) -> bool {
        self == Self::Otlp(Signal::Any)
    }
}

/// A signal of OpenTelemetry.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Log records, at `/v1/logs`.
    Logs,
    /// Metrics, at `/v1/metrics`.
    Metrics,
    /// Spans, at `/v1/traces`.
    Traces,
    /// Any of these signals, each at its path.
    Any,
}

/// Prefix that names the signal of a protobuf request: field 1,000, which OTLP does not use, with
/// the number of the signal. The codec `otlp` with `signal: any` reads and writes this prefix.
type Mark = [u8; 3];

impl Signal {
    /// The signals that a request may have, with the key that a JSON request of the signal has. The
    /// index in this array plus 1 is the number of the signal in a [`Mark`].
    const ALL: [(Self, &'static [u8]); 3] = [
        (Self::Logs, b"resourceLogs"),
        (Self::Metrics, b"resourceMetrics"),
        (Self::Traces, b"resourceSpans"),
    ];

    /// Returns the path of requests with this signal, or `None` for [`Signal::Any`].
    pub(crate) const fn path(self) -> Option<&'static str> {
        match self {
            Self::Logs => Some("/v1/logs"),
            Self::Metrics => Some("/v1/metrics"),
            Self::Traces => Some("/v1/traces"),
            Self::Any => None,
        }
    }

    /// Returns the mark of bodies that are sent to `path`, or `None` if no signal has this path.
    pub(crate) fn mark(path: &str) -> Option<Mark> {
        let found = (1..).zip(Self::ALL).find(|(_, (signal, _))| signal.path() == Some(path));
        found.map(|(number, _)| [0xc0, 0x3e, number])
    }

    /// Returns the signal that a message names, and the request that the message contains. A
    /// [`Mark`] names the signal of a protobuf request, and the only key names that of a JSON
    /// request.
    pub(crate) fn split(message: &[u8]) -> (Option<Self>, &[u8]) {
        if let Some([0xc0, 0x3e, number @ 1..=3]) = message.first_chunk() {
            return (Some(Self::ALL[usize::from(*number) - 1].0), &message[3..]);
        }
        let key = message.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
        let key = key.and_then(|rest| rest.strip_prefix(b"\"")?.split(|byte| *byte == b'"').next());
        let found = Self::ALL.into_iter().find(|(_, name)| key == Some(*name));
        (found.map(|(signal, _)| signal), message)
    }
    /// Returns whether a request has no data: the body is empty, or an object in JSON without keys
    /// or with an empty list.
    pub(crate) fn has_no_data(body: &[u8]) -> bool {
        /// Length in bytes that no such object exceeds.
        const LONGEST: usize = 32;
        if body.first() != Some(&b'{') {
            return body.is_empty();
        }
        let text = body.iter().filter(|byte| !byte.is_ascii_whitespace()).take(LONGEST);
        let text: Vec<u8> = text.copied().collect();
        let is_empty = |key: &[u8]| text == [b"{\"", key, b"\":[]}"].concat();
        text == b"{}" || Self::ALL.iter().any(|(_, key)| is_empty(key))
    }
}

#[cfg(test)]
mod tests {
    use super::Signal;

    #[test]
    fn request_without_data_is_recognised() {
        for body in [&b""[..], b"{}", b"{\n}\n", br#"{ "resourceMetrics" : [ ] }"#] {
            assert!(Signal::has_no_data(body), "{body:?}");
        }
        for body in [&b"\n"[..], b"{", b"{}{}", br#"{"resource":[]}"#, br#"{"resourceSpans":[{}]}"#]
        {
            assert!(!Signal::has_no_data(body), "{body:?}");
        }
    }
}
