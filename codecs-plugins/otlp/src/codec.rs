//! The codec and its options.

use tremor_pdk::{Document, Value, prelude::*, schemars::JsonSchema, serde::Deserialize};

use crate::{
    message::Message,
    read::{most, read},
    scalar::Integers,
    signal::Signal,
    write::{Unknown, write},
};

/// What messages are.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What requests have in them: `logs`, `metrics` or `traces`, as the path of an HTTP request says. With `any`
    /// each message says it: one in JSON by its key, and one in protobuf by a field at its beginning, as
    /// `http_server` and `http_client` have it with `preset: { otlp: any }`.
    signal: Signals,
    /// How they are encoded, as the content type of an HTTP request says: `protobuf`
    /// (application/x-protobuf) or `json` (application/json). `any` reads either, and writes protobuf.
    #[serde(default)]
    encoding: Encoding,
    /// What integers of 64 bits are in an event: `text`, as OTLP's JSON has them, or a `number`. Either
    /// is written.
    #[serde(default)]
    integers: IntegersAre,
}

/// What requests have in them.
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
    /// Any of these.
    Any,
}

/// How requests are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", crate = "tremor_pdk::serde")]
#[schemars(crate = "tremor_pdk::schemars")]
enum Encoding {
    /// As protobuf.
    #[default]
    Protobuf,
    /// As JSON.
    Json,
    /// As either; as protobuf where they are written.
    Any,
}

impl Encoding {
    /// Whether a message is JSON. No request in protobuf begins as an object does: its only field is the first,
    /// and has a length.
    fn is_json(self, message: &[u8]) -> bool {
        match self {
            Self::Protobuf => false,
            Self::Json => true,
            Self::Any => message.trim_ascii_start().first() == Some(&b'{'),
        }
    }
}

/// What integers of 64 bits are in an event.
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
    /// Unless each message says it.
    signal: Option<Signal>,
    encoding: Encoding,
    integers: Integers,
    /// A message in protobuf, on the way from JSON or to it.
    normal: Vec<u8>,
}

/// How much room is kept from one message to the next, in bytes.
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

    fn encode(&mut self, value: ValueRef<'_>, message: &mut ByteBuffer) -> Result<()> {
        let Some(signal) = self.signal_of_value(value)? else {
            if self.encoding == Encoding::Json {
                message.extend_from_copy_slice(b"{}");
            }
            return Ok(());
        };
        self.normalize(|normal| write(signal.request(), value, Unknown::Refused, normal))?;
        if self.encoding != Encoding::Json {
            if self.signal.is_none() {
                message.extend_from_copy_slice(&signal.mark());
            }
            message.extend_from_copy_slice(&self.normal);
            return Ok(());
        }
        let (mut bytes, mut nodes) = Default::default();
        let mut writer = Writer::new(&mut bytes, &mut nodes);
        read(signal.request(), &self.normal, Integers::Text, usize::MAX, &mut writer)?;
        let root = writer.finish().map_err(Error::internal)?;
        let json = Document::new(&bytes, &nodes).root(root).to_string();
        message.extend_from_copy_slice(json.as_bytes());
        Ok(())
    }
}

impl Otlp {
    /// Returns a message without the UTF-8 signature that a text may have. No message in protobuf begins with one.
    fn text<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        let text = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
        if self.encoding == Encoding::Protobuf { message } else { text }
    }

    /// Makes the normal form of a message.
    fn normalize(&mut self, make: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        self.normal.clear();
        self.normal.shrink_to(KEPT);
        make(&mut self.normal)
    }

    /// What a message in protobuf is, and the request in it.
    ///
    /// # Errors
    /// Kind bad data: it has another signal, or does not say which one.
    fn signal_of<'m>(&self, message: &'m [u8]) -> Result<(&'static Message, &'m [u8])> {
        let (signal, request) = match (self.signal, Signal::split(message)) {
            (Some(signal), (Some(said), _)) if signal != said => {
                return Err(Error::bad_data(format_args!(
                    "the message has {}, and the codec has `signal: {}`",
                    said.name(),
                    signal.name()
                )));
            }
            (Some(signal), (_, request)) | (None, (Some(signal), request)) => (signal, request),
            // It has nothing.
            (None, (None, b"")) => (Signal::Logs, message),
            (None, (None, _)) => {
                return Err(Error::bad_data(
                    "the message does not say which signal it has, as `signal: any` needs it: name the signal, or \
                     have it come from an `http_server` with `preset: { otlp: any }`",
                ));
            }
        };
        Ok((signal.request(), request))
    }

    /// What a value is. None of a request without content, of which nobody says it.
    fn signal_of_value(&self, value: ValueRef<'_>) -> Result<Option<Signal>> {
        self.signal.map_or_else(|| Signal::of_value(value), |signal| Ok(Some(signal)))
    }
}
