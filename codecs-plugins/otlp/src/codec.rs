//! The codec and its options.

use tremor_pdk::{Document, Value, prelude::*, schemars::JsonSchema, serde::Deserialize};

use crate::{
    message::Message,
    read::{most, read},
    scalar::Integers,
    signal::Signal,
    write::{Unknown, write},
};

/// Options of the codec.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Contents of the requests: `logs`, `metrics` or `traces`, like the path of an HTTP request. With `any`, each
    /// message names its signal: a message in JSON by its key, and a message in protobuf by a field at its beginning,
    /// which `http_server` and `http_client` write and read with `preset: { otlp: any }`.
    signal: Signals,
    /// Encoding of the requests, like the content type of an HTTP request: `protobuf` (application/x-protobuf) or
    /// `json` (application/json). `any` reads both, and writes protobuf.
    #[serde(default)]
    encoding: Encoding,
    /// Representation of 64-bit integers in an event: `text`, as in the JSON encoding of OTLP, or a `number`. The
    /// encoder accepts both representations.
    #[serde(default)]
    integers: IntegersAre,
}

/// The contents of requests.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", crate = "tremor_pdk::serde")]
#[schemars(crate = "tremor_pdk::schemars")]
enum Signals {
    /// Log records.
    Logs,
    /// Metrics.
    Metrics,
    /// Spans.
    Traces,
    /// Logs, metrics and traces.
    Any,
}

/// The encoding of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", crate = "tremor_pdk::serde")]
#[schemars(crate = "tremor_pdk::schemars")]
enum Encoding {
    /// Reads and writes protobuf.
    #[default]
    Protobuf,
    /// Reads and writes JSON.
    Json,
    /// Reads both, and writes protobuf.
    Any,
}

impl Encoding {
    /// Returns whether a message is JSON. No request in protobuf begins with `{`, because its only field has the number
    /// 1 and a length.
    fn is_json(self, message: &[u8]) -> bool {
        match self {
            Self::Protobuf => false,
            Self::Json => true,
            Self::Any => message.trim_ascii_start().first() == Some(&b'{'),
        }
    }
}

/// The representation of 64-bit integers in an event.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", crate = "tremor_pdk::serde")]
#[schemars(crate = "tremor_pdk::schemars")]
enum IntegersAre {
    /// Text.
    #[default]
    Text,
    /// Numbers.
    Number,
}

/// The codec `otlp`.
pub struct Otlp {
    /// Signal of all messages; `None` if each message names its signal.
    signal: Option<Signal>,
    encoding: Encoding,
    integers: Integers,
    /// Buffer for the protobuf form of a JSON message, which is the intermediate form between JSON
    /// and events.
    normal: Vec<u8>,
}

/// Maximum capacity in bytes that is kept for the next message.
const KEPT: usize = 1 << 20;

impl Component for Otlp {
    const NAME: &str = "otlp";
    const DESCRIPTION: &str =
        "Export requests of OTLP: logs, metrics and traces, in protobuf or JSON.";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let signal = match config.signal {
            Signals::Logs => Some(Signal::Logs),
            Signals::Metrics => Some(Signal::Metrics),
            Signals::Traces => Some(Signal::Traces),
            Signals::Any => None,
        };
        let integers = match config.integers {
            IntegersAre::Text => Integers::Text,
            IntegersAre::Number => Integers::Number,
        };
        Ok(Self { signal, encoding: config.encoding, integers, normal: Vec::new() })
    }
}

impl Codec for Otlp {
    fn holds_no_event(&self, message: &[u8]) -> bool {
        self.encoding != Encoding::Protobuf && self.text(message).trim_ascii().is_empty()
    }

    fn decode(&mut self, message: &[u8], value: &mut Writer<'_>) -> Result<()> {
        let message = self.text(message);
        let most = most(message.len());
        if !self.encoding.is_json(message) {
            let (signal, request) = self.signal_of(message)?;
            return read(signal, request, self.integers, most, value);
        }
        let json: Value<'static> = serde_json::from_slice(message).map_err(Error::bad_data)?;
        let json = ValueRef::from(&json);
        let Some(signal) = self.signal_of_value(json)? else {
            value.begin_object();
            value.end_object();
            return Ok(());
        };
        self.normalize(|normal| write(signal.request(), json, Unknown::Ignored, normal))?;
        read(signal.request(), &self.normal, self.integers, most, value)
    }

    fn encode(&mut self, value: ValueRef<'_>, message: &mut tremor_pdk::Message<'_>) -> Result<()> {
        let Some(signal) = self.signal_of_value(value)? else {
            if self.encoding == Encoding::Json {
                message.extend_from_slice(b"{}");
            }
            return Ok(());
        };
        self.normalize(|normal| write(signal.request(), value, Unknown::Refused, normal))?;
        if self.encoding != Encoding::Json {
            if self.signal.is_none() {
                message.extend_from_slice(&signal.mark());
            }
            message.extend_from_slice(&self.normal);
            return Ok(());
        }
        let (mut bytes, mut nodes) = Default::default();
        let mut writer = Writer::new(&mut bytes, &mut nodes);
        read(signal.request(), &self.normal, Integers::Text, usize::MAX, &mut writer)?;
        let root = writer.finish().map_err(Error::internal)?;
        let json = Document::new(&bytes, &nodes).root(root).to_string();
        message.extend_from_slice(json.as_bytes());
        Ok(())
    }
}

impl Otlp {
    /// Returns a message without the UTF-8 signature that a text may have. No message in protobuf begins with a
    /// signature.
    fn text<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        let text = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
        if self.encoding == Encoding::Protobuf { message } else { text }
    }

    /// Stores the protobuf form of a message in `normal`. `make` appends it.
    fn normalize(&mut self, make: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        self.normal.clear();
        self.normal.shrink_to(KEPT);
        make(&mut self.normal)
    }

    /// Returns the schema of a message in protobuf, and the request in it.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the message has another signal, or does not name its signal.
    fn signal_of<'m>(&self, message: &'m [u8]) -> Result<(&'static Message, &'m [u8])> {
        let (signal, request) = match (self.signal, Signal::split(message)) {
            (Some(signal), (Some(said), _)) if signal != said => {
                return Err(Error::bad_data(format_args!(
                    "the message contains {}, but the codec has `signal: {}`",
                    said.name(),
                    signal.name()
                )));
            }
            (Some(signal), (_, request)) | (None, (Some(signal), request)) => (signal, request),
            // An empty request may have any signal.
            (None, (None, b"")) => (Signal::Logs, message),
            (None, (None, _)) => {
                return Err(Error::bad_data(
                    "the message does not name its signal, which `signal: any` requires: set `signal`, or receive \
                     the message from an `http_server` with `preset: { otlp: any }`",
                ));
            }
        };
        Ok((signal.request(), request))
    }

    /// Returns the signal of a value, or `None` for a request without content if `signal` is `any`.
    fn signal_of_value(&self, value: ValueRef<'_>) -> Result<Option<Signal>> {
        self.signal.map_or_else(|| Signal::of_value(value), |signal| Ok(Some(signal)))
    }
}
