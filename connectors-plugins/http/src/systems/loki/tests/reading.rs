//! Reading of requests, as Loki does.

use snap::raw::Decoder;

use crate::{
    protobuf::{Payload, Reader, Slice},
    testing::Request,
};

/// A line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Labels of the stream.
    pub(super) labels: String,
    pub(super) seconds: i64,
    pub(super) nanoseconds: u64,
    pub(super) text: String,
    /// Names and values of the structured metadata.
    pub(super) metadata: Vec<(String, String)>,
}

/// Returns the lines of a request, which are in the order of the streams.
pub(super) fn lines_of(request: &Request) -> Vec<Line> {
    lines_of_message(&Decoder::new().decompress_vec(&request.body).unwrap())
}

fn lines_of_message(message: &[u8]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, stream) in fields(message) {
        assert_eq!(number, 1, "{stream:?}");
        let mut labels = None;
        for (number, payload) in fields(bytes(stream)) {
            match number {
                1 => labels = Some(text(payload)),
                2 => lines.push(line(labels.clone().unwrap(), bytes(payload))),
                _ => panic!("field {number} of a stream"),
            }
        }
    }
    lines
}

fn line(labels: String, message: &[u8]) -> Line {
    let (mut seconds, mut nanoseconds, mut line, mut metadata) = (0, 0, None, Vec::new());
    for (number, payload) in fields(message) {
        match number {
            1 => {
                for (number, payload) in fields(bytes(payload)) {
                    match (number, payload) {
                        (1, Payload::Varint(value)) => seconds = value.cast_signed(),
                        (2, Payload::Varint(value)) => nanoseconds = value,
                        _ => panic!("field {number} of a time"),
                    }
                }
            }
            2 => line = Some(text(payload)),
            3 => {
                let pair: Vec<_> = fields(bytes(payload));
                let [(1, name), (2, value)] = pair[..] else { panic!("{pair:?}") };
                metadata.push((text(name), text(value)));
            }
            _ => panic!("field {number} of an entry"),
        }
    }
    Line { labels, seconds, nanoseconds, text: line.unwrap(), metadata }
}

fn fields(message: &[u8]) -> Vec<(u64, Payload<'_>)> {
    let mut reader = Reader::new(Slice { bytes: message, at: 0 });
    std::iter::from_fn(|| reader.field().unwrap()).collect()
}

fn bytes(payload: Payload<'_>) -> &[u8] {
    let Payload::Bytes(slice) = payload else { panic!("{payload:?}") };
    slice.bytes
}

fn text(payload: Payload<'_>) -> String {
    String::from_utf8(bytes(payload).to_vec()).unwrap()
}
