"""Prints src/schema.rs: the messages of OTLP, from the descriptors of the Python package opentelemetry-proto.

    python3 -m venv venv && venv/bin/pip install opentelemetry-proto
    venv/bin/python scripts/schema.py > src/schema.rs
"""

from importlib.metadata import version
import re

from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace

KINDS = {
    1: "Double", 3: "Int64", 4: "Uint64", 5: "Int32", 6: "Fixed64", 7: "Fixed32", 8: "Bool",
    9: "Text", 12: "Base64", 13: "Uint32", 14: "Int32", 16: "Sfixed64", 17: "Sint32",
}
IDS = {"trace_id", "span_id", "parent_span_id"}

ROOTS = [
    logs.ExportLogsServiceRequest.DESCRIPTOR,
    metrics.ExportMetricsServiceRequest.DESCRIPTOR,
    trace.ExportTraceServiceRequest.DESCRIPTOR,
]


def constant(message):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", message.name).upper()


def field(it):
    kind = KINDS.get(it.type, "")
    if it.message_type:
        kind = f"Message({constant(it.message_type)})"
    elif it.name in IDS:
        kind = "Hex"
    text = f'{it.number} "{it.json_name}" {kind}'
    repeated = it.is_repeated if hasattr(it, "is_repeated") else it.label == it.LABEL_REPEATED
    if repeated:
        text += " => repeated"
    elif it.containing_oneof and not it.containing_oneof.name.startswith("_"):
        text += " => one_of"
    elif it.has_presence and not it.message_type:
        text += " => optional"
    return text


def walk(message, seen):
    if message.full_name in seen:
        return
    seen[message.full_name] = message
    for it in sorted(message.fields, key=lambda it: it.number):
        if it.message_type:
            walk(it.message_type, seen)


seen = {}
for root in ROOTS:
    walk(root, seen)
print(f"//! The messages of OTLP, made by `scripts/schema.py` of the package opentelemetry-proto {version('opentelemetry-proto')}.")
print("\nuse crate::message::{Field, Kind, Message, messages};\n\nmessages! {")
for place, message in enumerate(seen.values()):
    shown = "pub(crate) " if message in ROOTS else ""
    print(f"{chr(10) if place else ''}    {shown}{constant(message)} \"{message.name}\" {{")
    for it in sorted(message.fields, key=lambda it: it.number):
        print(f"        {field(it)};")
    print("    }")
print("}")
