//! The options of the codec.

/// The contents and format of events.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Contents of an event: a `sample`, which requires the preprocessor `prometheus` before the codec, or an
    /// `exposition`, an array of samples.
    #[serde(default)]
    pub(crate) event: EventIs,
    /// Version of the format: `text` is version 0.0.4 of the Prometheus text format, `openmetrics` is version 1.0 of
    /// `OpenMetrics`.
    #[serde(default)]
    pub(crate) format: Format,
    /// Representation of values that are not finite in an event: a `float`, which JSON cannot represent, or `text`:
    /// `NaN`, `+Inf`, `-Inf`.
    #[serde(default)]
    pub(crate) non_finite: NonFinite,
}

/// The contents of an event.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventIs {
    /// A single sample.
    #[default]
    Sample,
    /// The samples of a message, as an array.
    Exposition,
}

/// The version of the format.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Prometheus text format 0.0.4.
    #[default]
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

/// The representation of values that are not finite.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NonFinite {
    /// A float, like other values.
    #[default]
    Float,
    /// The text of the value in the format.
    Text,
}
