//! The processors `base64`, [RFC 4648](https://www.rfc-editor.org/rfc/rfc4648), which encode and decode each message.

use base64::{
    DecodeSliceError, Engine, alphabet, decoded_len_estimate, encoded_len,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use tremor_pdk::{
    Batch, Component, ComponentContext, Error, Output, Postprocessor, Preprocessor, Result,
    Splitter,
};

use super::Join;

/// Decodes each message, padded or not. The fragments of a stream form one message.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct DecodeConfig {
    /// Alphabet, which determines the characters for 62 and 63.
    #[serde(default)]
    alphabet: Alphabet,
}

/// Encodes each message.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct EncodeConfig {
    /// Alphabet, which determines the characters for 62 and 63.
    #[serde(default)]
    alphabet: Alphabet,
    /// `true` if `=` pads the last group to four characters.
    #[serde(default = "yes")]
    padding: bool,
}

const fn yes() -> bool {
    true
}

/// The alphabets of RFC 4648.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default)]
#[serde(rename_all = "lowercase")]
enum Alphabet {
    /// The standard alphabet, with `+` and `/`.
    #[default]
    Standard,
    /// The alphabet for file names and URLs, with `-` and `_`.
    Url,
}

impl Alphabet {
    fn engine(self, padding: bool) -> GeneralPurpose {
        let alphabet = match self {
            Self::Standard => &alphabet::STANDARD,
            Self::Url => &alphabet::URL_SAFE,
        };
        let config = GeneralPurposeConfig::new()
            .with_encode_padding(padding)
            .with_decode_padding_mode(DecodePaddingMode::Indifferent);
        GeneralPurpose::new(alphabet, config)
    }
}

/// The preprocessor `base64`.
pub(crate) struct Decode {
    engine: GeneralPurpose,
    join: Splitter<Join>,
}

impl Component for Decode {
    const NAME: &str = "base64";
    type Config = DecodeConfig;

    fn new(config: DecodeConfig, context: ComponentContext) -> Result<Self> {
        let engine = config.alphabet.engine(true);
        Ok(Self { engine, join: Join::preprocessor(context) })
    }
}

impl Decode {
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) {
        let engine = &self.engine;
        output.reject_all(batch.cut(|cutter| {
            let most = decoded_len_estimate(cutter.payload().len());
            let decoded =
                cutter.emit_filled(most, |message, out| engine.decode_slice(message, out));
            if let Err(error) = decoded {
                let error = match error {
                    DecodeSliceError::DecodeError(error) => error.to_string(),
                    DecodeSliceError::OutputSliceTooSmall => error.to_string(),
                };
                cutter.refuse(Error::bad_data(format_args!("invalid base64: {error}")));
            }
        }));
    }
}

impl Preprocessor for Decode {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.join.process(batch, output)?;
        self.decode(batch, output);
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.join.has_more()
    }

    fn buffers(&self, stream: u64) -> bool {
        self.join.buffers(stream)
    }

    fn streams(&self) -> Vec<u64> {
        self.join.streams()
    }
}

/// The postprocessor `base64`.
pub(crate) struct Encode {
    engine: GeneralPurpose,
    padding: bool,
}

impl Component for Encode {
    const NAME: &str = "base64";
    type Config = EncodeConfig;

    fn new(config: EncodeConfig, _context: ComponentContext) -> Result<Self> {
        let EncodeConfig { alphabet, padding } = config;
        Ok(Self { engine: alphabet.engine(padding), padding })
    }
}

impl Postprocessor for Encode {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.reject_all(batch.cut(|cutter| {
            let length = cutter.payload().len();
            // The length is `None` only if it exceeds the address space.
            let most = encoded_len(length, self.padding).unwrap_or(0);
            let fill = |message: &[u8], out: &mut [u8]| self.engine.encode_slice(message, out);
            if let Err(error) = cutter.emit_filled(most, fill) {
                cutter.refuse(Error::internal(format_args!("base64 of {length} bytes: {error}")));
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tremor_pdk::Batch;

    use crate::processor::testing::{frame, messages, pre, process};

    #[test]
    fn every_message_is_encoded_separately() {
        for (config, expected) in [
            (json!({}), ["+/8=", "", "YWI="]),
            (json!({ "alphabet": "url" }), ["-_8=", "", "YWI="]),
            (json!({ "padding": false }), ["+/8", "", "YWI"]),
        ] {
            let (framed, _) = frame("base64", &config, &[&b"\xfb\xff"[..], b"", b"ab"]);
            assert_eq!(framed, expected.map(str::as_bytes), "{config}");
        }
    }

    #[test]
    fn invalid_message_is_rejected_with_the_position() {
        let mut decode = pre("base64", &json!({}));
        let mut batch = Batch::new();
        for message in ["YWI=", "YWI", "Y!I=", "", "+/8="] {
            batch.push_message(message.as_bytes());
        }
        let rejected = process(&mut *decode, &mut batch);
        assert_eq!(messages(&batch), [&b"ab"[..], b"ab", b"", b"\xfb\xff"]);
        assert_eq!(rejected, ["invalid base64: Invalid symbol 33, offset 1."]);
    }

    #[test]
    fn stream_is_one_message() {
        let mut decode = pre("base64", &json!({}));
        let mut batch = Batch::new();
        batch.stream(0).push_fragment(b"YW");
        batch.stream(0).push_fragment(b"I=");
        batch.stream(0).end();
        assert!(process(&mut *decode, &mut batch).is_empty());
        assert_eq!(messages(&batch), [b"ab"]);
    }
}
