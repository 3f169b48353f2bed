"""Connectors for tremor in Python.

A connector is a class with a name, a configuration, and methods that the runtime calls:

    from dataclasses import dataclass
    import tremor

    @dataclass
    class Config:
        path: str

    class Lines(tremor.Sink):
        '''Appends each event to a file.'''
        Config = Config

        def connect(self):
            self.file = open(self.host.resolve(self.config.path), "ab")

        def deliver(self, batch):
            for data in batch.data():
                self.file.write(data + b"\\n")
            self.file.flush()

    tremor.run(Lines)
"""

from .batch import FINISHED, Batch, Event, Idle, Pull
from .checkpoint import Checkpoint
from .config import ByteSize, Duration, Secret, option
from .connector import (
    Acks,
    Component,
    Connector,
    Demand,
    Grant,
    Halves,
    Sides,
    Sink,
    SinkHalf,
    Source,
    SourceHalf,
)
from .errors import Error, ErrorKind, ErrorPolicy
from .host import TRACE, Counter, Gauge, Histogram, Host
from .manifest import manifest, run
from .watermark import Watermark

__version__ = "0.1.0"

__all__ = [
    "Acks",
    "Batch",
    "ByteSize",
    "Checkpoint",
    "Component",
    "Connector",
    "Counter",
    "Demand",
    "Duration",
    "Error",
    "ErrorKind",
    "ErrorPolicy",
    "Event",
    "FINISHED",
    "Gauge",
    "Grant",
    "Halves",
    "Histogram",
    "Host",
    "Idle",
    "Pull",
    "Secret",
    "Sides",
    "Sink",
    "SinkHalf",
    "Source",
    "SourceHalf",
    "TRACE",
    "Watermark",
    "manifest",
    "option",
    "run",
]
