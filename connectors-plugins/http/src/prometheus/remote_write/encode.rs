//! Encoding of samples to write requests.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    ops::Range,
};

use tremor_pdk::{Error, Result};

use crate::{
    prometheus::{
        number::MS,
        sample::{Labels, METRIC_NAME, Sample},
    },
    protobuf::{FIRST, SECOND, field_len, put_pair, put_varint, varint_len},
};

/// Field 1 of a sample: its value, a double.
const VALUE: u8 = 1 << 3 | 1;

/// Field 2 of a sample: its time in ms, an int64.
const TIME: u8 = 2 << 3;

/// A sample of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Index of the series.
    series: usize,
    timestamp_ms: i64,
    value: f64,
    /// Position of the event in its batch.
    pub(crate) position: usize,
}

/// The samples of a delivery, by series.
///
/// A sample whose series is known allocates nothing: the labels of all series are encoded in one buffer, in which the
/// labels of the next sample are encoded as well, and removed if the series is known.
#[derive(Default)]
pub(crate) struct Encoder {
    /// Encoded labels of all series, one after the other.
    labels: Vec<u8>,
    series: Vec<Range<usize>>,
    /// Index of the last series with the hash of its encoded labels.
    by_hash: HashMap<u64, usize>,
    hasher: RandomState,
    points: Vec<Point>,
}

impl Encoder {
    /// Creates an encoder for about `samples` samples.
    pub(crate) fn with_capacity(samples: usize) -> Self {
        Self { points: Vec::with_capacity(samples), ..Self::default() }
    }

    /// Adds a sample of the event at `position` with these labels. A sample without a time gets the time `now_ns`, in
    /// ns since the Unix epoch.
    ///
    /// # Errors
    /// The sample alone exceeds a request of `most` bytes. The sample is not added.
    pub(crate) fn add<'v>(
        &mut self,
        sample: &Sample<'v>,
        labels: &mut Labels<'v>,
        now_ns: u64,
        position: usize,
        most: usize,
    ) -> Result<()> {
        let timestamp_ns =
            sample.timestamp_ns.unwrap_or_else(|| i64::try_from(now_ns).unwrap_or(i64::MAX));
        labels.add(METRIC_NAME, sample.name);
        labels.sort();
        let start = self.labels.len();
        for (name, value) in labels.iter() {
            put_pair(FIRST, name, value, &mut self.labels);
        }
        let point = Point {
            series: 0,
            timestamp_ms: timestamp_ns.div_euclid(MS),
            value: sample.value,
            position,
        };
        let length = field_len(self.labels.len() - start + point.len_in_series());
        if length > most {
            self.labels.truncate(start);
            return Err(Error::bad_data(format_args!(
                "the sample needs a request of {length} bytes, but `max_body_bytes` is {most}"
            )));
        }
        let series = self.series_of(start);
        self.points.push(Point { series, ..point });
        Ok(())
    }

    /// Returns the index of the series whose encoded labels begin at `start`. Removes these labels if the series is
    /// known.
    fn series_of(&mut self, start: usize) -> usize {
        let own = &self.labels[start..];
        let hash = self.hasher.hash_one(own);
        if let Some(index) = self.by_hash.get(&hash)
            && self.labels[self.series[*index].clone()] == *own
        {
            self.labels.truncate(start);
            return *index;
        }
        let index = self.series.len();
        self.series.push(start..self.labels.len());
        self.by_hash.insert(hash, index);
        index
    }

    /// Sorts the samples by series, and those of a series by time. Call this after the last [`Encoder::add`].
    pub(crate) fn sort(&mut self) {
        self.points.sort_by_key(|point| (point.series, point.timestamp_ms));
    }

    /// Returns all samples.
    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the end of the longest range of samples from `start` that fits into a request of `most` bytes, at least
    /// one sample.
    pub(crate) fn fitting(&self, start: usize, most: usize) -> usize {
        let (mut end, mut total, mut inner) = (start, 0, 0);
        // `inner` is the length of the current series without its own head, and `total` that of the series before.
        for point in &self.points[start..] {
            if end == start || point.series != self.points[end - 1].series {
                total += if inner == 0 { 0 } else { field_len(inner) };
                inner = self.series[point.series].len();
            }
            inner += point.len_in_series();
            if total + field_len(inner) > most && end > start {
                break;
            }
            end += 1;
        }
        end
    }

    /// Appends the request with a range of the samples.
    pub(crate) fn write(&self, range: Range<usize>, out: &mut Vec<u8>) {
        for points in self.points[range].chunk_by(|one, next| one.series == next.series) {
            let labels = &self.labels[self.series[points[0].series].clone()];
            let samples: usize = points.iter().map(Point::len_in_series).sum();
            out.push(FIRST);
            put_varint((labels.len() + samples) as u64, out);
            out.extend_from_slice(labels);
            for point in points {
                out.push(SECOND);
                put_varint(point.len() as u64, out);
                out.push(VALUE);
                out.extend_from_slice(&point.value.to_bits().to_le_bytes());
                out.push(TIME);
                put_varint(point.timestamp_ms.cast_unsigned(), out);
            }
        }
    }
}

impl Point {
    /// Returns the length of the message, in bytes.
    const fn len(&self) -> usize {
        1 + 8 + 1 + varint_len(self.timestamp_ms.cast_unsigned())
    }

    /// Returns the length of the message with the head of its field, in bytes.
    const fn len_in_series(&self) -> usize {
        field_len(self.len())
    }
}
