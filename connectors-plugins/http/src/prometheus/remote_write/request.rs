//! Decoding of write requests: the samples of a request become events.

use tremor_pdk::{
    Result, StructuredBatch,
    serde::{Serialize, Serializer, ser::SerializeMap},
};

use crate::{
    prometheus::{
        family::{is_label_name, is_metric_name},
        number::{self, MS},
        sample::{METRIC_NAME, MOST_LABEL_BYTES, MOST_LABELS},
    },
    protobuf::{Malformed, Payload, Reader, Slice},
};

/// Bytes of a node of a document. An estimate of the memory of an event.
const NODE: usize = 16;

/// Nodes of an event without its labels: the object, its keys and their values.
const NODES: usize = 11;

/// Contents of a request that was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) samples: usize,
    /// Native histograms, exemplars and descriptions of metrics, which are not events.
    pub(crate) histograms: usize,
    pub(crate) exemplars: usize,
    pub(crate) descriptions: usize,
    /// Estimated memory of the events, in bytes.
    pub(crate) decoded: usize,
}

/// Checks a whole request, so that every sample can become an event later.
///
/// # Errors
/// The request, or one of its series, is not valid.
pub(crate) fn check(request: &[u8]) -> Result<Contents, Malformed> {
    let mut contents = Contents::default();
    let mut labels = Vec::new();
    let mut fields = Reader::new(Slice { bytes: request, at: 0 });
    while let Some((number, payload)) = fields.field()? {
        match (number, payload) {
            (1, Payload::Bytes(series)) => check_series(series, &mut labels, &mut contents)?,
            (3, Payload::Bytes(_)) => contents.descriptions += 1,
            (1 | 3, _) => {
                return Err(Malformed::new(fields.at(), "expected a message as field 1 or 3"));
            }
            _ => {}
        }
    }
    Ok(contents)
}

fn check_series<'r>(
    series: Slice<'r>,
    labels: &mut Vec<Label<'r>>,
    contents: &mut Contents,
) -> Result<(), Malformed> {
    let name = read_labels(series, labels)?;
    labels.sort_unstable_by_key(|label| label.name);
    if labels.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return Err(Malformed::new(
            series.at,
            "expected labels with different names in the series",
        ));
    }
    let text = labels.iter().map(|label| label.name.len() + label.value.len()).sum::<usize>();
    let decoded = name.len() + text + (NODES + 2 * labels.len()) * NODE;
    let mut fields = Reader::new(series);
    while let Some((number, payload)) = fields.field()? {
        match (number, payload) {
            (2, Payload::Bytes(sample)) => {
                Point::read(sample)?;
                contents.samples += 1;
                contents.decoded = contents.decoded.saturating_add(decoded);
            }
            (3, Payload::Bytes(_)) => contents.exemplars += 1,
            (4, Payload::Bytes(_)) => contents.histograms += 1,
            (2..=4, _) => {
                return Err(Malformed::new(
                    fields.at(),
                    "expected a message as field 2, 3 or 4 of the series",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads the labels of a series, without `__name__` and without empty ones. Returns the name of the metric.
fn read_labels<'r>(series: Slice<'r>, labels: &mut Vec<Label<'r>>) -> Result<&'r str, Malformed> {
    labels.clear();
    let (mut metric, mut bytes) = (None, 0);
    let mut fields = Reader::new(series);
    while let Some((number, payload)) = fields.field()? {
        if number != 1 {
            continue;
        }
        let Payload::Bytes(slice) = payload else {
            return Err(Malformed::new(fields.at(), "expected a message as field 1 of the series"));
        };
        let label = Label::read(slice)?;
        bytes += label.name.len() + label.value.len();
        if bytes > MOST_LABEL_BYTES || labels.len() == MOST_LABELS {
            return Err(Malformed::new(
                slice.at,
                "expected at most 256 labels of 64 KiB together in the series",
            ));
        }
        if label.name == METRIC_NAME {
            if !is_metric_name(label.value) || metric.replace(label.value).is_some() {
                return Err(Malformed::new(
                    slice.at,
                    "expected one valid name of a metric as `__name__`",
                ));
            }
        } else if !is_label_name(label.name) {
            return Err(Malformed::new(
                slice.at,
                "expected the name of a label: letters, digits and `_`, no digit first",
            ));
        } else if !label.value.is_empty() {
            labels.push(label);
        }
    }
    metric.ok_or_else(|| Malformed::new(series.at, "expected the label `__name__` in the series"))
}

struct Label<'r> {
    name: &'r str,
    value: &'r str,
}

impl<'r> Label<'r> {
    fn read(slice: Slice<'r>) -> Result<Self, Malformed> {
        let mut label = Self { name: "", value: "" };
        let mut fields = Reader::new(slice);
        while let Some((number, payload)) = fields.field()? {
            let target = match number {
                1 => &mut label.name,
                2 => &mut label.value,
                _ => continue,
            };
            let Payload::Bytes(text) = payload else {
                return Err(Malformed::new(
                    fields.at(),
                    "expected text as field 1 or 2 of the label",
                ));
            };
            *target = std::str::from_utf8(text.bytes)
                .map_err(|_| Malformed::new(text.at, "expected UTF-8 in the label"))?;
        }
        Ok(label)
    }
}

/// A value and its time.
struct Point {
    value: f64,
    timestamp_ns: i64,
}

impl Point {
    fn read(slice: Slice<'_>) -> Result<Self, Malformed> {
        // A field with its default, which is 0, may be missing.
        let (mut value, mut timestamp_ms) = (0.0, 0_i64);
        let mut fields = Reader::new(slice);
        while let Some((number, payload)) = fields.field()? {
            match (number, payload) {
                (1, Payload::Fixed64(bits)) => value = f64::from_bits(bits),
                (2, Payload::Varint(bits)) => timestamp_ms = bits.cast_signed(),
                (1 | 2, _) => {
                    return Err(Malformed::new(
                        slice.at,
                        "expected a double and an int64 as fields 1 and 2 of the sample",
                    ));
                }
                _ => {}
            }
        }
        let timestamp_ns = timestamp_ms.checked_mul(MS);
        let timestamp_ns = timestamp_ns.ok_or_else(|| {
            Malformed::new(slice.at, "expected a time between the years 1677 and 2262")
        })?;
        Ok(Self { value, timestamp_ns })
    }
}

/// The samples of a checked request that are not in the flow yet.
pub(crate) struct Samples {
    request: Vec<u8>,
    /// Offset of the field of the current series in `request`, in bytes.
    series: usize,
    /// Offset in `request` up to which the samples of the current series were read, in bytes; 0 at its beginning.
    read: usize,
    /// `true` if values that are not finite become text.
    is_text: bool,
}

impl Samples {
    /// Creates the samples of a request that [`check`] has accepted.
    pub(crate) const fn new(request: Vec<u8>, is_text: bool) -> Self {
        Self { request, series: 0, read: 0, is_text }
    }

    /// Adds samples to the batch as events of the stream `stream`, until the batch is full. Returns `true` if no sample
    /// is left.
    ///
    /// # Errors
    /// The batch cannot store a sample.
    pub(crate) fn put(&mut self, batch: &mut StructuredBatch, stream: u64) -> Result<bool> {
        self.try_put(batch, stream).map_err(tremor_pdk::Error::internal)?
    }

    fn try_put(
        &mut self,
        batch: &mut StructuredBatch,
        stream: u64,
    ) -> Result<Result<bool>, Malformed> {
        let left = self.request.get(self.series..).unwrap_or_default();
        let mut fields = Reader::new(Slice { bytes: left, at: self.series });
        let mut labels = Vec::new();
        while let Some((number, payload)) = fields.field()? {
            if let (1, Payload::Bytes(series)) = (number, payload) {
                let name = read_labels(series, &mut labels)?;
                let mut samples = Reader::new(series);
                while let Some((number, payload)) = samples.field()? {
                    let (2, Payload::Bytes(sample)) = (number, payload) else { continue };
                    // The sample is in an earlier batch.
                    if sample.at < self.read {
                        continue;
                    }
                    if batch.is_full() {
                        return Ok(Ok(false));
                    }
                    let Point { value, timestamp_ns } = Point::read(sample)?;
                    let event = Event {
                        name,
                        kind: "untyped",
                        labels: EventLabels(&labels),
                        value: Number { value, is_text: self.is_text },
                        timestamp: timestamp_ns,
                    };
                    if let Err(error) = batch.stream(stream).push(&event) {
                        return Ok(Err(error));
                    }
                    self.read = samples.at();
                }
            }
            (self.series, self.read) = (fields.at(), 0);
        }
        Ok(Ok(true))
    }
}

/// A sample in the form in which the codec `prometheus` decodes it.
#[derive(Serialize)]
#[serde(crate = "tremor_pdk::serde")]
struct Event<'r> {
    name: &'r str,
    #[serde(rename = "type")]
    kind: &'static str,
    labels: EventLabels<'r>,
    value: Number,
    timestamp: i64,
}

struct EventLabels<'r>(&'r [Label<'r>]);

impl Serialize for EventLabels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for Label { name, value } in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

struct Number {
    value: f64,
    is_text: bool,
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_text && !self.value.is_finite() {
            serializer.serialize_str(number::text_of_non_finite(self.value))
        } else {
            serializer.serialize_f64(self.value)
        }
    }
}
