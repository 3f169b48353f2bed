//! What the experiments run on: log events, and the flat batch that our codecs decode them into.

// Each bench uses what it needs of this.
#![allow(dead_code)]

use std::{env, fs};

use serde_json::Value as Json;
use tremor_runtime::{
    codec::{Bytes, Codec, Decoder, Encoder, Nodes, Span},
    components,
};

/// Messages, one after the other.
pub(crate) type Messages = Vec<Vec<u8>>;

/// Log events as JSON: 100 of the project's generator, or the lines of the file that the environment
/// variable `EXPERIMENT_DATA` names.
pub(crate) fn messages() -> Messages {
    let text = env::var_os("EXPERIMENT_DATA").map_or_else(
        || {
            let mut lines = Vec::new();
            sample_logs::write_lines(100, 42, &mut lines).expect("memory takes any lines");
            lines
        },
        |path| fs::read(path).expect("the file in EXPERIMENT_DATA"),
    );
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(<[u8]>::to_vec).collect()
}

/// A batch as codecs see it, used again and again, with a codec at both of its ends.
pub(crate) struct Flat {
    pub(crate) bytes: Bytes,
    pub(crate) nodes: Nodes,
    /// The root node of each event.
    pub(crate) roots: Vec<u32>,
    pub(crate) decoder: Decoder,
    pub(crate) encoder: Encoder,
    spans: Vec<Span>,
}

impl Flat {
    /// An empty batch with the codec of a name.
    pub(crate) fn new(codec: &str) -> Self {
        let codec: Codec = components::codec(codec, &Json::Null).expect("a codec of the runtime");
        Self {
            bytes: Bytes::new(),
            nodes: Nodes::new(),
            roots: Vec::new(),
            decoder: codec.decoder(),
            encoder: codec.encoder(),
            spans: Vec::new(),
        }
    }

    /// Empties the batch, which keeps its buffers.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.nodes.clear();
        self.roots.clear();
    }

    /// Fills the batch anew, as a source does, and decodes it.
    pub(crate) fn decode(&mut self, messages: &[Vec<u8>]) {
        self.clear();
        for message in messages {
            let start = self.bytes.len();
            self.bytes.extend_from_copy_slice(message);
            self.spans.push(span(start, self.bytes.len()));
        }
        for span in &self.spans {
            let root = self.decoder.decode(&mut self.bytes, *span, &mut self.nodes);
            self.roots.push(root.expect("a message of the format"));
        }
    }

    /// Encodes every event behind the other into `out`, which is emptied first.
    pub(crate) fn encode(&mut self, out: &mut Bytes) {
        out.clear();
        for root in &self.roots {
            let encoded = self.encoder.document(&self.bytes, &self.nodes, *root, out);
            encoded.expect("a document that was decoded");
        }
    }
}

fn span(start: usize, end: usize) -> Span {
    let narrow = |at: usize| u32::try_from(at).expect("a batch below 4 GiB");
    Span { start: narrow(start), len: narrow(end - start) }
}
