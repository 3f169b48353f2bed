//! The options of the codec.

/// What an event is, and how it is written.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// What an event is: a `sample`, for which the preprocessor `prometheus` comes before the codec, or
    /// an `exposition`, an array of samples.
    #[serde(default)]
    pub(crate) event: EventIs,
    /// The version of the format: `text` is version 0.0.4 of Prometheus' text format, `openmetrics` is
    /// version 1.0 of `OpenMetrics`.
    #[serde(default)]
    pub(crate) format: Format,
    /// What a value that is not finite is in an event: a `float`, or `text`: `NaN`, `+Inf`, `-Inf`. JSON
    /// cannot hold such a float.
    #[serde(default)]
    pub(crate) non_finite: NonFinite,
}

/// What an event is.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventIs {
    /// One sample.
    #[default]
    Sample,
    /// All samples of a message.
    Exposition,
}

/// The version of the format.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// 0.0.4.
    #[default]
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

/// What values that are not finite become.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NonFinite {
    /// A float, as all values.
    #[default]
    Float,
    /// As the format writes them.
    Text,
}
