//! The codec and its options.

use tremor_pdk::{Document, prelude::*};

use crate::{
    message::Message,
    read::{most, read},
    scalar::Integers,
    schema::{
        EXPORT_LOGS_SERVICE_REQUEST, EXPORT_METRICS_SERVICE_REQUEST, EXPORT_TRACE_SERVICE_REQUEST,
    },
    write::{Unknown, write},
};

/// What messages are.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What requests have in them: `logs`, `metrics` or `traces`, as the path of an HTTP request says.
    signal: Signal,
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
enum Signal {
    /// Log records.
    Logs,
    /// Metrics.
    Metrics,
    /// Spans.
    Traces,
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
    message: &'static Message,
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
        "Export requests of OTLP: logs, metrics or traces, in protobuf or JSON.";
    type Config = Config;

    fn new(config: Config, _context: Context) -> Result<Self> {
        let message = match config.signal {
            Signal::Logs => &EXPORT_LOGS_SERVICE_REQUEST,
            Signal::Metrics => &EXPORT_METRICS_SERVICE_REQUEST,
            Signal::Traces => &EXPORT_TRACE_SERVICE_REQUEST,
        };
        let integers = match config.integers {
            IntegersAre::Text => Integers::Text,
            IntegersAre::Number => Integers::Number,
        };
        Ok(Self { message, encoding: config.encoding, integers, normal: Vec::new() })
    }
}

impl Codec for Otlp {
    fn decode(&mut self, message: &[u8], value: &mut Writer<'_>) -> Result<()> {
        let most = most(message.len());
        if !self.encoding.is_json(message) {
            return read(self.message, message, self.integers, most, value);
        }
        self.normalize(|schema, normal| {
            let json: Value<'static> = serde_json::from_slice(message).map_err(Error::bad_data)?;
            write(schema, ValueRef::from(&json), Unknown::Ignored, normal)
        })?;
        read(self.message, &self.normal, self.integers, most, value)
    }

    fn encode(&mut self, value: ValueRef<'_>, message: &mut ByteBuffer) -> Result<()> {
        self.normalize(|schema, normal| write(schema, value, Unknown::Refused, normal))?;
        if self.encoding != Encoding::Json {
            message.extend_from_copy_slice(&self.normal);
            return Ok(());
        }
        let (mut bytes, mut nodes) = Default::default();
        let mut writer = Writer::new(&mut bytes, &mut nodes);
        read(self.message, &self.normal, Integers::Text, usize::MAX, &mut writer)?;
        let root = writer.finish().map_err(Error::internal)?;
        let json = Document::new(&bytes, &nodes).root(root).to_string();
        message.extend_from_copy_slice(json.as_bytes());
        Ok(())
    }
}

impl Otlp {
    /// Makes the normal form of a message.
    fn normalize(
        &mut self,
        make: impl FnOnce(&'static Message, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.normal.clear();
        self.normal.shrink_to(KEPT);
        make(self.message, &mut self.normal)
    }
}
