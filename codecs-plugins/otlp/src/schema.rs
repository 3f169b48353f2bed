//! The messages of OTLP, made by `scripts/schema.py` of the package opentelemetry-proto 1.45.2.

use crate::message::{Field, Kind, Message};

pub(crate) static EXPORT_LOGS_SERVICE_REQUEST: Message = Message {
    name: "ExportLogsServiceRequest",
    fields: &[Field::new(1, "resourceLogs", Kind::Message(&RESOURCE_LOGS)).repeated()],
};

static RESOURCE_LOGS: Message = Message {
    name: "ResourceLogs",
    fields: &[
        Field::new(1, "resource", Kind::Message(&RESOURCE)),
        Field::new(2, "scopeLogs", Kind::Message(&SCOPE_LOGS)).repeated(),
        Field::new(3, "schemaUrl", Kind::Text),
    ],
};

static RESOURCE: Message = Message {
    name: "Resource",
    fields: &[
        Field::new(1, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(2, "droppedAttributesCount", Kind::Uint32),
        Field::new(3, "entityRefs", Kind::Message(&ENTITY_REF)).repeated(),
    ],
};

static KEY_VALUE: Message = Message {
    name: "KeyValue",
    fields: &[
        Field::new(1, "key", Kind::Text),
        Field::new(2, "value", Kind::Message(&ANY_VALUE)),
        Field::new(3, "keyStrindex", Kind::Int32),
    ],
};

static ANY_VALUE: Message = Message {
    name: "AnyValue",
    fields: &[
        Field::new(1, "stringValue", Kind::Text).one_of(),
        Field::new(2, "boolValue", Kind::Bool).one_of(),
        Field::new(3, "intValue", Kind::Int64).one_of(),
        Field::new(4, "doubleValue", Kind::Double).one_of(),
        Field::new(5, "arrayValue", Kind::Message(&ARRAY_VALUE)).one_of(),
        Field::new(6, "kvlistValue", Kind::Message(&KEY_VALUE_LIST)).one_of(),
        Field::new(7, "bytesValue", Kind::Base64).one_of(),
        Field::new(8, "stringValueStrindex", Kind::Int32).one_of(),
    ],
};

static ARRAY_VALUE: Message = Message {
    name: "ArrayValue",
    fields: &[Field::new(1, "values", Kind::Message(&ANY_VALUE)).repeated()],
};

static KEY_VALUE_LIST: Message = Message {
    name: "KeyValueList",
    fields: &[Field::new(1, "values", Kind::Message(&KEY_VALUE)).repeated()],
};

static ENTITY_REF: Message = Message {
    name: "EntityRef",
    fields: &[
        Field::new(1, "schemaUrl", Kind::Text),
        Field::new(2, "type", Kind::Text),
        Field::new(3, "idKeys", Kind::Text).repeated(),
        Field::new(4, "descriptionKeys", Kind::Text).repeated(),
    ],
};

static SCOPE_LOGS: Message = Message {
    name: "ScopeLogs",
    fields: &[
        Field::new(1, "scope", Kind::Message(&INSTRUMENTATION_SCOPE)),
        Field::new(2, "logRecords", Kind::Message(&LOG_RECORD)).repeated(),
        Field::new(3, "schemaUrl", Kind::Text),
    ],
};

static INSTRUMENTATION_SCOPE: Message = Message {
    name: "InstrumentationScope",
    fields: &[
        Field::new(1, "name", Kind::Text),
        Field::new(2, "version", Kind::Text),
        Field::new(3, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(4, "droppedAttributesCount", Kind::Uint32),
    ],
};

static LOG_RECORD: Message = Message {
    name: "LogRecord",
    fields: &[
        Field::new(1, "timeUnixNano", Kind::Fixed64),
        Field::new(2, "severityNumber", Kind::Int32),
        Field::new(3, "severityText", Kind::Text),
        Field::new(5, "body", Kind::Message(&ANY_VALUE)),
        Field::new(6, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(7, "droppedAttributesCount", Kind::Uint32),
        Field::new(8, "flags", Kind::Fixed32),
        Field::new(9, "traceId", Kind::Hex),
        Field::new(10, "spanId", Kind::Hex),
        Field::new(11, "observedTimeUnixNano", Kind::Fixed64),
        Field::new(12, "eventName", Kind::Text),
    ],
};

pub(crate) static EXPORT_METRICS_SERVICE_REQUEST: Message = Message {
    name: "ExportMetricsServiceRequest",
    fields: &[Field::new(1, "resourceMetrics", Kind::Message(&RESOURCE_METRICS)).repeated()],
};

static RESOURCE_METRICS: Message = Message {
    name: "ResourceMetrics",
    fields: &[
        Field::new(1, "resource", Kind::Message(&RESOURCE)),
        Field::new(2, "scopeMetrics", Kind::Message(&SCOPE_METRICS)).repeated(),
        Field::new(3, "schemaUrl", Kind::Text),
    ],
};

static SCOPE_METRICS: Message = Message {
    name: "ScopeMetrics",
    fields: &[
        Field::new(1, "scope", Kind::Message(&INSTRUMENTATION_SCOPE)),
        Field::new(2, "metrics", Kind::Message(&METRIC)).repeated(),
        Field::new(3, "schemaUrl", Kind::Text),
    ],
};

static METRIC: Message = Message {
    name: "Metric",
    fields: &[
        Field::new(1, "name", Kind::Text),
        Field::new(2, "description", Kind::Text),
        Field::new(3, "unit", Kind::Text),
        Field::new(5, "gauge", Kind::Message(&GAUGE)).one_of(),
        Field::new(7, "sum", Kind::Message(&SUM)).one_of(),
        Field::new(9, "histogram", Kind::Message(&HISTOGRAM)).one_of(),
        Field::new(10, "exponentialHistogram", Kind::Message(&EXPONENTIAL_HISTOGRAM)).one_of(),
        Field::new(11, "summary", Kind::Message(&SUMMARY)).one_of(),
        Field::new(12, "metadata", Kind::Message(&KEY_VALUE)).repeated(),
    ],
};

static GAUGE: Message = Message {
    name: "Gauge",
    fields: &[Field::new(1, "dataPoints", Kind::Message(&NUMBER_DATA_POINT)).repeated()],
};

static NUMBER_DATA_POINT: Message = Message {
    name: "NumberDataPoint",
    fields: &[
        Field::new(2, "startTimeUnixNano", Kind::Fixed64),
        Field::new(3, "timeUnixNano", Kind::Fixed64),
        Field::new(4, "asDouble", Kind::Double).one_of(),
        Field::new(5, "exemplars", Kind::Message(&EXEMPLAR)).repeated(),
        Field::new(6, "asInt", Kind::Sfixed64).one_of(),
        Field::new(7, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(8, "flags", Kind::Uint32),
    ],
};

static EXEMPLAR: Message = Message {
    name: "Exemplar",
    fields: &[
        Field::new(2, "timeUnixNano", Kind::Fixed64),
        Field::new(3, "asDouble", Kind::Double).one_of(),
        Field::new(4, "spanId", Kind::Hex),
        Field::new(5, "traceId", Kind::Hex),
        Field::new(6, "asInt", Kind::Sfixed64).one_of(),
        Field::new(7, "filteredAttributes", Kind::Message(&KEY_VALUE)).repeated(),
    ],
};

static SUM: Message = Message {
    name: "Sum",
    fields: &[
        Field::new(1, "dataPoints", Kind::Message(&NUMBER_DATA_POINT)).repeated(),
        Field::new(2, "aggregationTemporality", Kind::Int32),
        Field::new(3, "isMonotonic", Kind::Bool),
    ],
};

static HISTOGRAM: Message = Message {
    name: "Histogram",
    fields: &[
        Field::new(1, "dataPoints", Kind::Message(&HISTOGRAM_DATA_POINT)).repeated(),
        Field::new(2, "aggregationTemporality", Kind::Int32),
    ],
};

static HISTOGRAM_DATA_POINT: Message = Message {
    name: "HistogramDataPoint",
    fields: &[
        Field::new(2, "startTimeUnixNano", Kind::Fixed64),
        Field::new(3, "timeUnixNano", Kind::Fixed64),
        Field::new(4, "count", Kind::Fixed64),
        Field::new(5, "sum", Kind::Double).optional(),
        Field::new(6, "bucketCounts", Kind::Fixed64).repeated(),
        Field::new(7, "explicitBounds", Kind::Double).repeated(),
        Field::new(8, "exemplars", Kind::Message(&EXEMPLAR)).repeated(),
        Field::new(9, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(10, "flags", Kind::Uint32),
        Field::new(11, "min", Kind::Double).optional(),
        Field::new(12, "max", Kind::Double).optional(),
    ],
};

static EXPONENTIAL_HISTOGRAM: Message = Message {
    name: "ExponentialHistogram",
    fields: &[
        Field::new(1, "dataPoints", Kind::Message(&EXPONENTIAL_HISTOGRAM_DATA_POINT)).repeated(),
        Field::new(2, "aggregationTemporality", Kind::Int32),
    ],
};

static EXPONENTIAL_HISTOGRAM_DATA_POINT: Message = Message {
    name: "ExponentialHistogramDataPoint",
    fields: &[
        Field::new(1, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(2, "startTimeUnixNano", Kind::Fixed64),
        Field::new(3, "timeUnixNano", Kind::Fixed64),
        Field::new(4, "count", Kind::Fixed64),
        Field::new(5, "sum", Kind::Double).optional(),
        Field::new(6, "scale", Kind::Sint32),
        Field::new(7, "zeroCount", Kind::Fixed64),
        Field::new(8, "positive", Kind::Message(&BUCKETS)),
        Field::new(9, "negative", Kind::Message(&BUCKETS)),
        Field::new(10, "flags", Kind::Uint32),
        Field::new(11, "exemplars", Kind::Message(&EXEMPLAR)).repeated(),
        Field::new(12, "min", Kind::Double).optional(),
        Field::new(13, "max", Kind::Double).optional(),
        Field::new(14, "zeroThreshold", Kind::Double),
    ],
};

static BUCKETS: Message = Message {
    name: "Buckets",
    fields: &[
        Field::new(1, "offset", Kind::Sint32),
        Field::new(2, "bucketCounts", Kind::Uint64).repeated(),
    ],
};

static SUMMARY: Message = Message {
    name: "Summary",
    fields: &[Field::new(1, "dataPoints", Kind::Message(&SUMMARY_DATA_POINT)).repeated()],
};

static SUMMARY_DATA_POINT: Message = Message {
    name: "SummaryDataPoint",
    fields: &[
        Field::new(2, "startTimeUnixNano", Kind::Fixed64),
        Field::new(3, "timeUnixNano", Kind::Fixed64),
        Field::new(4, "count", Kind::Fixed64),
        Field::new(5, "sum", Kind::Double),
        Field::new(6, "quantileValues", Kind::Message(&VALUE_AT_QUANTILE)).repeated(),
        Field::new(7, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(8, "flags", Kind::Uint32),
    ],
};

static VALUE_AT_QUANTILE: Message = Message {
    name: "ValueAtQuantile",
    fields: &[Field::new(1, "quantile", Kind::Double), Field::new(2, "value", Kind::Double)],
};

pub(crate) static EXPORT_TRACE_SERVICE_REQUEST: Message = Message {
    name: "ExportTraceServiceRequest",
    fields: &[Field::new(1, "resourceSpans", Kind::Message(&RESOURCE_SPANS)).repeated()],
};

static RESOURCE_SPANS: Message = Message {
    name: "ResourceSpans",
    fields: &[
        Field::new(1, "resource", Kind::Message(&RESOURCE)),
        Field::new(2, "scopeSpans", Kind::Message(&SCOPE_SPANS)).repeated(),
        Field::new(3, "schemaUrl", Kind::Text),
    ],
};

static SCOPE_SPANS: Message = Message {
    name: "ScopeSpans",
    fields: &[
        Field::new(1, "scope", Kind::Message(&INSTRUMENTATION_SCOPE)),
        Field::new(2, "spans", Kind::Message(&SPAN)).repeated(),
        Field::new(3, "schemaUrl", Kind::Text),
    ],
};

static SPAN: Message = Message {
    name: "Span",
    fields: &[
        Field::new(1, "traceId", Kind::Hex),
        Field::new(2, "spanId", Kind::Hex),
        Field::new(3, "traceState", Kind::Text),
        Field::new(4, "parentSpanId", Kind::Hex),
        Field::new(5, "name", Kind::Text),
        Field::new(6, "kind", Kind::Int32),
        Field::new(7, "startTimeUnixNano", Kind::Fixed64),
        Field::new(8, "endTimeUnixNano", Kind::Fixed64),
        Field::new(9, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(10, "droppedAttributesCount", Kind::Uint32),
        Field::new(11, "events", Kind::Message(&EVENT)).repeated(),
        Field::new(12, "droppedEventsCount", Kind::Uint32),
        Field::new(13, "links", Kind::Message(&LINK)).repeated(),
        Field::new(14, "droppedLinksCount", Kind::Uint32),
        Field::new(15, "status", Kind::Message(&STATUS)),
        Field::new(16, "flags", Kind::Fixed32),
    ],
};

static EVENT: Message = Message {
    name: "Event",
    fields: &[
        Field::new(1, "timeUnixNano", Kind::Fixed64),
        Field::new(2, "name", Kind::Text),
        Field::new(3, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(4, "droppedAttributesCount", Kind::Uint32),
    ],
};

static LINK: Message = Message {
    name: "Link",
    fields: &[
        Field::new(1, "traceId", Kind::Hex),
        Field::new(2, "spanId", Kind::Hex),
        Field::new(3, "traceState", Kind::Text),
        Field::new(4, "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(5, "droppedAttributesCount", Kind::Uint32),
        Field::new(6, "flags", Kind::Fixed32),
    ],
};

static STATUS: Message = Message {
    name: "Status",
    fields: &[Field::new(2, "message", Kind::Text), Field::new(3, "code", Kind::Int32)],
};
