"""Records the requests of real OpenTelemetry exporters as fixtures: the bodies that the exporters send over HTTP, and
the same requests in OTLP's JSON mapping, as protobuf's own library writes it.

    python3 -m venv venv
    venv/bin/pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http opentelemetry-exporter-otlp-json-http
    venv/bin/python scripts/record.py fixtures

With `--send`, the script records nothing, but sends requests with the exporter for `protobuf` or for `json` to a server
for each signal. Only the package of this exporter has to be installed:

    venv/bin/python scripts/record.py --send protobuf logs=http://127.0.0.1:4318/v1/logs metrics=… traces=…
"""

import base64
import json
import logging
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from opentelemetry import trace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

REQUESTS = {
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "traces": ExportTraceServiceRequest,
}
IDS = {"traceId", "spanId", "parentSpanId"}
received = {}


class Recorder(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        signal = self.path.removeprefix("/v1/")
        received[signal, self.headers["content-type"]] = body
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def mapped(value):
    """Converts protobuf's JSON mapping to that of OTLP, in which ids are hexadecimal digits."""
    if isinstance(value, list):
        return [mapped(element) for element in value]
    if not isinstance(value, dict):
        return value
    hexadecimal = lambda key, text: base64.b64decode(text).hex() if key in IDS else mapped(text)
    return {key: hexadecimal(key, inner) for key, inner in value.items()}


def mapping(message):
    return mapped(MessageToDict(message, use_integers_for_enums=True))


def exporters(encoding):
    """Returns the exporters of spans, logs and metrics. Each encoding has its own package."""
    folder = {"protobuf": "proto", "json": "json"}[encoding]
    package = f"opentelemetry.exporter.otlp.{folder}.http"
    return (
        import_module(f"{package}.trace_exporter").OTLPSpanExporter,
        import_module(f"{package}._log_exporter").OTLPLogExporter,
        import_module(f"{package}.metric_exporter").OTLPMetricExporter,
    )


def export(urls, encoding):
    """Sends one request of each signal to its URL."""
    spans, logs, metrics = exporters(encoding)
    resource = Resource.create({"service.name": "shop", "host.cpus": 4, "tags": ["a", "b"], "rate": 0.5})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(SimpleSpanProcessor(spans(endpoint=urls["traces"])))
    tracer = tracers.get_tracer("cart", "1.2.0")
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    caller = trace.SpanContext(0x5B8EFFF798038103D269B633813FC60C, 0xEEE19B7EC3C1B174, True, sampled)
    parent = trace.NonRecordingSpan(caller)
    with tracer.start_as_current_span(
        "checkout", context=trace.set_span_in_context(parent), kind=trace.SpanKind.SERVER
    ) as span:
        span.set_attribute("http.response.status_code", 500)
        span.add_event("retry", {"attempt": 2, "urgent": True})
        span.add_link(parent.get_span_context(), {"why": "cause"})
        span.set_status(trace.StatusCode.ERROR, "no stock")
        loggers = LoggerProvider(resource=resource)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(logs(endpoint=urls["logs"])))
        logger = logging.Logger("shop")
        logger.addFilter(lambda record: setattr(record, "pathname", "shop.py") or True)
        logger.addHandler(LoggingHandler(logger_provider=loggers))
        logger.error("paid %d € \"twice\"", 12, extra={"customer": "müller", "items": 3, "total": 12.5})
    reader = PeriodicExportingMetricReader(metrics(endpoint=urls["metrics"]))
    views = [View(instrument_name="size", aggregation=ExponentialBucketHistogramAggregation())]
    meters = MeterProvider([reader], resource, views=views)
    meter = meters.get_meter("cart", "1.2.0")
    meter.create_counter("orders", "1", "Orders.").add(3, {"kind": "new"})
    meter.create_up_down_counter("stock").add(-2.5)
    meter.create_gauge("temperature", "Cel").set(21.5)
    duration = meter.create_histogram("duration", "s")
    size = meter.create_histogram("size", "By")
    for value in (0.001, 0.02, 7, 80000):
        duration.record(value)
        size.record(value)
    for provider in (tracers, loggers, meters):
        provider.shutdown()


def every_field(message, depth=0):
    """Sets every field of a message to a value other than its default. Repeated fields get two values. Of the fields of
    a `oneof`, only the first one that `depth` allows is set."""
    numbers = iter(range(1, 100))
    for field in message.DESCRIPTOR.fields:
        repeated = field.is_repeated
        one_of = field.containing_oneof
        if one_of and len(one_of.fields) > 1 and message.WhichOneof(one_of.name):
            continue
        number = next(numbers)
        if field.message_type:
            if depth > 12:
                continue
            for _ in range(2 if repeated else 1):
                inner = getattr(message, field.name)
                inner = inner.add() if repeated else inner
                inner.SetInParent()
                every_field(inner, depth + 1)
            continue
        value = {
            field.CPPTYPE_STRING: f"{field.name} \"é\"\n",
            field.CPPTYPE_BOOL: True,
            field.CPPTYPE_DOUBLE: number + 0.25,
            field.CPPTYPE_ENUM: 2,
            field.CPPTYPE_INT32: -number,
            field.CPPTYPE_INT64: -(2**62) - number,
            field.CPPTYPE_UINT32: 2**32 - number,
            field.CPPTYPE_UINT64: 2**64 - number,
        }[field.cpp_type]
        if field.type == field.TYPE_BYTES:
            value = bytes(range(240, 256)) if "id" in field.name else b"\x00\xff\xfe>"
        if repeated:
            getattr(message, field.name).extend([value, value])
        else:
            setattr(message, field.name, value)


def variants(message):
    """Adds messages with the fields of each `oneof` that `every_field` does not set, and with special values."""
    any_value = ExportLogsServiceRequest().resource_logs.add().resource.attributes.add().value
    if isinstance(message, ExportLogsServiceRequest):
        attributes = message.resource_logs.add().resource.attributes
        for field in any_value.DESCRIPTOR.fields:
            value = attributes.add(key=field.name).value
            if field.message_type:
                inner = getattr(value, field.name).values.add()
                if field.name == "kvlist_value":
                    inner.key = "inner"
                    inner.value.double_value = float("-inf")
                else:
                    inner.int_value = 0
            else:
                zero = {"string_value": "", "bytes_value": b"\xfb\xff", "bool_value": False, "double_value": float("nan")}
                setattr(value, field.name, zero.get(field.name, -(2**31)))
        attributes.add(key="nothing").value.SetInParent()
    if isinstance(message, ExportMetricsServiceRequest):
        metrics = message.resource_metrics[0].scope_metrics[0].metrics
        for field in metrics[0].DESCRIPTOR.fields:
            if field.containing_oneof and field.name != "gauge":
                metric = metrics.add(name=field.name)
                every_field(getattr(metric, field.name), 4)
        metrics.add(name="number").gauge.data_points.add(as_int=-(2**63))
        metrics.add(name="zero").gauge.data_points.add(as_double=-0.0)
        metrics.add(name="none").gauge.data_points.add()
        metrics.add(name="empty").histogram.data_points.add(sum=0.0)


def main(folder):
    server = HTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    urls = {signal: f"http://127.0.0.1:{server.server_port}/v1/{signal}" for signal in REQUESTS}
    for encoding in ("protobuf", "json"):
        export(urls, encoding)
    for (signal, content_type), body in received.items():
        print(signal, content_type, len(body))
        if content_type == "application/json":
            (folder / f"{signal}.exporter.json").write_bytes(body)
            continue
        (folder / f"{signal}.pb").write_bytes(body)
        text = json.dumps(mapping(REQUESTS[signal].FromString(body)), indent=1, ensure_ascii=False)
        (folder / f"{signal}.json").write_text(text + "\n")
    for signal, request in REQUESTS.items():
        message = request()
        every_field(message)
        variants(message)
        (folder / f"every-field-{signal}.pb").write_bytes(message.SerializeToString())
        text = json.dumps(mapping(message), indent=1, ensure_ascii=False)
        (folder / f"every-field-{signal}.json").write_text(text + "\n")


if sys.argv[1] == "--send":
    export(dict(pair.split("=", 1) for pair in sys.argv[3:]), sys.argv[2])
else:
    main(Path(sys.argv[1]))
