//! The messages of OTLP, made by `scripts/schema.py` of the package opentelemetry-proto 1.45.2.

use crate::message::{Field, Kind, Message, messages};

messages! {
    pub(crate) EXPORT_LOGS_SERVICE_REQUEST "ExportLogsServiceRequest" {
        1 "resourceLogs" Message(RESOURCE_LOGS) => repeated;
    }

    RESOURCE_LOGS "ResourceLogs" {
        1 "resource" Message(RESOURCE);
        2 "scopeLogs" Message(SCOPE_LOGS) => repeated;
        3 "schemaUrl" Text;
    }

    RESOURCE "Resource" {
        1 "attributes" Message(KEY_VALUE) => repeated;
        2 "droppedAttributesCount" Uint32;
        3 "entityRefs" Message(ENTITY_REF) => repeated;
    }

    KEY_VALUE "KeyValue" {
        1 "key" Text;
        2 "value" Message(ANY_VALUE);
        3 "keyStrindex" Int32;
    }

    ANY_VALUE "AnyValue" {
        1 "stringValue" Text => one_of;
        2 "boolValue" Bool => one_of;
        3 "intValue" Int64 => one_of;
        4 "doubleValue" Double => one_of;
        5 "arrayValue" Message(ARRAY_VALUE) => one_of;
        6 "kvlistValue" Message(KEY_VALUE_LIST) => one_of;
        7 "bytesValue" Base64 => one_of;
        8 "stringValueStrindex" Int32 => one_of;
    }

    ARRAY_VALUE "ArrayValue" {
        1 "values" Message(ANY_VALUE) => repeated;
    }

    KEY_VALUE_LIST "KeyValueList" {
        1 "values" Message(KEY_VALUE) => repeated;
    }

    ENTITY_REF "EntityRef" {
        1 "schemaUrl" Text;
        2 "type" Text;
        3 "idKeys" Text => repeated;
        4 "descriptionKeys" Text => repeated;
    }

    SCOPE_LOGS "ScopeLogs" {
        1 "scope" Message(INSTRUMENTATION_SCOPE);
        2 "logRecords" Message(LOG_RECORD) => repeated;
        3 "schemaUrl" Text;
    }

    INSTRUMENTATION_SCOPE "InstrumentationScope" {
        1 "name" Text;
        2 "version" Text;
        3 "attributes" Message(KEY_VALUE) => repeated;
        4 "droppedAttributesCount" Uint32;
    }

    LOG_RECORD "LogRecord" {
        1 "timeUnixNano" Fixed64;
        2 "severityNumber" Int32;
        3 "severityText" Text;
        5 "body" Message(ANY_VALUE);
        6 "attributes" Message(KEY_VALUE) => repeated;
        7 "droppedAttributesCount" Uint32;
        8 "flags" Fixed32;
        9 "traceId" Hex;
        10 "spanId" Hex;
        11 "observedTimeUnixNano" Fixed64;
        12 "eventName" Text;
    }

    pub(crate) EXPORT_METRICS_SERVICE_REQUEST "ExportMetricsServiceRequest" {
        1 "resourceMetrics" Message(RESOURCE_METRICS) => repeated;
    }

    RESOURCE_METRICS "ResourceMetrics" {
        1 "resource" Message(RESOURCE);
        2 "scopeMetrics" Message(SCOPE_METRICS) => repeated;
        3 "schemaUrl" Text;
    }

    SCOPE_METRICS "ScopeMetrics" {
        1 "scope" Message(INSTRUMENTATION_SCOPE);
        2 "metrics" Message(METRIC) => repeated;
        3 "schemaUrl" Text;
    }

    METRIC "Metric" {
        1 "name" Text;
        2 "description" Text;
        3 "unit" Text;
        5 "gauge" Message(GAUGE) => one_of;
        7 "sum" Message(SUM) => one_of;
        9 "histogram" Message(HISTOGRAM) => one_of;
        10 "exponentialHistogram" Message(EXPONENTIAL_HISTOGRAM) => one_of;
        11 "summary" Message(SUMMARY) => one_of;
        12 "metadata" Message(KEY_VALUE) => repeated;
    }

    GAUGE "Gauge" {
        1 "dataPoints" Message(NUMBER_DATA_POINT) => repeated;
    }

    NUMBER_DATA_POINT "NumberDataPoint" {
        2 "startTimeUnixNano" Fixed64;
        3 "timeUnixNano" Fixed64;
        4 "asDouble" Double => one_of;
        5 "exemplars" Message(EXEMPLAR) => repeated;
        6 "asInt" Sfixed64 => one_of;
        7 "attributes" Message(KEY_VALUE) => repeated;
        8 "flags" Uint32;
    }

    EXEMPLAR "Exemplar" {
        2 "timeUnixNano" Fixed64;
        3 "asDouble" Double => one_of;
        4 "spanId" Hex;
        5 "traceId" Hex;
        6 "asInt" Sfixed64 => one_of;
        7 "filteredAttributes" Message(KEY_VALUE) => repeated;
    }

    SUM "Sum" {
        1 "dataPoints" Message(NUMBER_DATA_POINT) => repeated;
        2 "aggregationTemporality" Int32;
        3 "isMonotonic" Bool;
    }

    HISTOGRAM "Histogram" {
        1 "dataPoints" Message(HISTOGRAM_DATA_POINT) => repeated;
        2 "aggregationTemporality" Int32;
    }

    HISTOGRAM_DATA_POINT "HistogramDataPoint" {
        2 "startTimeUnixNano" Fixed64;
        3 "timeUnixNano" Fixed64;
        4 "count" Fixed64;
        5 "sum" Double => optional;
        6 "bucketCounts" Fixed64 => repeated;
        7 "explicitBounds" Double => repeated;
        8 "exemplars" Message(EXEMPLAR) => repeated;
        9 "attributes" Message(KEY_VALUE) => repeated;
        10 "flags" Uint32;
        11 "min" Double => optional;
        12 "max" Double => optional;
    }

    EXPONENTIAL_HISTOGRAM "ExponentialHistogram" {
        1 "dataPoints" Message(EXPONENTIAL_HISTOGRAM_DATA_POINT) => repeated;
        2 "aggregationTemporality" Int32;
    }

    EXPONENTIAL_HISTOGRAM_DATA_POINT "ExponentialHistogramDataPoint" {
        1 "attributes" Message(KEY_VALUE) => repeated;
        2 "startTimeUnixNano" Fixed64;
        3 "timeUnixNano" Fixed64;
        4 "count" Fixed64;
        5 "sum" Double => optional;
        6 "scale" Sint32;
        7 "zeroCount" Fixed64;
        8 "positive" Message(BUCKETS);
        9 "negative" Message(BUCKETS);
        10 "flags" Uint32;
        11 "exemplars" Message(EXEMPLAR) => repeated;
        12 "min" Double => optional;
        13 "max" Double => optional;
        14 "zeroThreshold" Double;
    }

    BUCKETS "Buckets" {
        1 "offset" Sint32;
        2 "bucketCounts" Uint64 => repeated;
    }

    SUMMARY "Summary" {
        1 "dataPoints" Message(SUMMARY_DATA_POINT) => repeated;
    }

    SUMMARY_DATA_POINT "SummaryDataPoint" {
        2 "startTimeUnixNano" Fixed64;
        3 "timeUnixNano" Fixed64;
        4 "count" Fixed64;
        5 "sum" Double;
        6 "quantileValues" Message(VALUE_AT_QUANTILE) => repeated;
        7 "attributes" Message(KEY_VALUE) => repeated;
        8 "flags" Uint32;
    }

    VALUE_AT_QUANTILE "ValueAtQuantile" {
        1 "quantile" Double;
        2 "value" Double;
    }

    pub(crate) EXPORT_TRACE_SERVICE_REQUEST "ExportTraceServiceRequest" {
        1 "resourceSpans" Message(RESOURCE_SPANS) => repeated;
    }

    RESOURCE_SPANS "ResourceSpans" {
        1 "resource" Message(RESOURCE);
        2 "scopeSpans" Message(SCOPE_SPANS) => repeated;
        3 "schemaUrl" Text;
    }

    SCOPE_SPANS "ScopeSpans" {
        1 "scope" Message(INSTRUMENTATION_SCOPE);
        2 "spans" Message(SPAN) => repeated;
        3 "schemaUrl" Text;
    }

    SPAN "Span" {
        1 "traceId" Hex;
        2 "spanId" Hex;
        3 "traceState" Text;
        4 "parentSpanId" Hex;
        5 "name" Text;
        6 "kind" Int32;
        7 "startTimeUnixNano" Fixed64;
        8 "endTimeUnixNano" Fixed64;
        9 "attributes" Message(KEY_VALUE) => repeated;
        10 "droppedAttributesCount" Uint32;
        11 "events" Message(EVENT) => repeated;
        12 "droppedEventsCount" Uint32;
        13 "links" Message(LINK) => repeated;
        14 "droppedLinksCount" Uint32;
        15 "status" Message(STATUS);
        16 "flags" Fixed32;
    }

    EVENT "Event" {
        1 "timeUnixNano" Fixed64;
        2 "name" Text;
        3 "attributes" Message(KEY_VALUE) => repeated;
        4 "droppedAttributesCount" Uint32;
    }

    LINK "Link" {
        1 "traceId" Hex;
        2 "spanId" Hex;
        3 "traceState" Text;
        4 "attributes" Message(KEY_VALUE) => repeated;
        5 "droppedAttributesCount" Uint32;
        6 "flags" Fixed32;
    }

    STATUS "Status" {
        2 "message" Text;
        3 "code" Int32;
    }
}
