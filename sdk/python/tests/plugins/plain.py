"""Connectors with plain methods, and with faults."""

from __future__ import annotations

import logging
import os
import queue
import resource
import sqlite3
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import List, Optional

import tremor

print("printed while the module was imported")


@dataclass
class PathConfig:
    path: str


def wait_for(path: str) -> None:
    """Blocks the thread until a file exists."""
    while not os.path.exists(path):
        time.sleep(0.001)


class Blocking(tremor.Source):
    """Blocks its thread in `pull` until a file exists."""

    Config = PathConfig

    def pull(self, pull: tremor.Pull) -> None:
        self.host.log.info("blocks")
        wait_for(self.config.path)
        pull.push("late")


class Waiting(tremor.Source):
    """Waits in `pull` until the runtime cancels the pull, or an acknowledgement arrives."""

    acks = tremor.Acks()

    def connect(self) -> None:
        self.acked: List[int] = []
        self.is_first = True

    def pull(self, pull: tremor.Pull) -> Optional[tremor.Idle]:
        if self.is_first:
            self.is_first = False
            pull.push("first")
            return tremor.Idle(1.5)
        self.host.log.info("waits")
        assert pull.wait()
        pull.push({"acked": self.acked, "given_up": pull.is_given_up})
        return None

    def ack(self, pull: int) -> None:
        self.acked.append(pull)


class BadAck(tremor.Source):
    """Fails in `ack`."""

    acks = tremor.Acks(max_events=7, max_bytes=8, key="most", replays_failed=False)

    def pull(self, pull: tremor.Pull) -> None:
        pull.push(1)

    def ack(self, pull: int) -> None:
        raise tremor.Error.full("no capacity", delay=1.5)


class Raw(tremor.Source):
    """Emits fragments of byte streams."""

    codec = "string"

    def pull(self, pull: tremor.Pull) -> object:
        pull.push_fragment(b"one\ntw", stream=1, origin="a")
        pull.push(b"whole", stream=2, metadata={"n": 1}, ingest_ns=5)
        pull.push("text", stream=2)
        pull.push_fragment(b"o", stream=1, origin="a")
        pull.end_stream(1)
        pull.end_stream(2, aborted=True)
        return tremor.FINISHED


class Wrong(tremor.Source):
    """Returns a wrong value, or too many events."""

    Config = PathConfig

    def pull(self, pull: tremor.Pull) -> object:
        if self.config.path == "list":
            return [1, 2]  # type: ignore[return-value]
        pull.push("kept")
        if self.config.path == "value":
            pull.push(object())
        while True:
            pull.push_bytes(bytes(1 << 20))


class Faulty(tremor.Sink):
    """Fails as the event says."""

    def deliver(self, batch: tremor.Batch) -> None:
        for event in batch:
            self.handle(event)

    def handle(self, event: tremor.Event) -> None:
        name = event.value
        if name == "exception":
            {}["missing"]
        elif name == "refused":
            raise ConnectionRefusedError(111, "refused")
        elif name == "cause":
            try:
                int("x")
            except ValueError as error:
                raise tremor.Error("no number", kind=tremor.ErrorKind.BAD_DATA) from error
        elif name == "print":
            print("to standard output")
            os.write(1, b"to descriptor 1\n")
            sys.stderr.write("to standard error\n")
        elif name == "exit":
            sys.exit("the plugin has had enough")
        elif name == "log":
            for level in (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, tremor.TRACE):
                logging.getLogger("library").log(level, "level %s", level)
        elif name == "limits":
            data = resource.getrlimit(resource.RLIMIT_DATA)[0]
            score = open("/proc/self/oom_score_adj").read().strip()
            core = resource.getrlimit(resource.RLIMIT_CORE)[0]
            self.host.log.info("%s %s %s %s", data, core, score, sys.stdin.read())
        elif name == "memory":
            bytes(1 << 30)
        elif name == "thread":
            self.host.log.info("%s", threading.current_thread() is threading.main_thread())


@dataclass
class Table:
    name: str = "events"


@dataclass
class DatabaseConfig:
    path: str
    table: Table = field(default_factory=Table)


class Database(tremor.Sink):
    """Writes to a database, whose connection only one thread may use."""

    Config = DatabaseConfig

    def connect(self) -> None:
        self.database = sqlite3.connect(self.host.resolve(self.config.path))
        self.database.execute(f"create table if not exists {self.config.table.name} (value)")

    def deliver(self, batch: tremor.Batch) -> None:
        rows = [(data,) for data in batch.data()]
        self.database.executemany(f"insert into {self.config.table.name} values (?)", rows)
        self.database.commit()

    def on_pause(self) -> None:
        self.database.commit()

    def disconnect(self) -> None:
        self.database.close()


class Echo(tremor.Connector):
    """Emits what it receives. Its plain methods block each other only if they share a thread."""

    class From(tremor.SourceHalf):
        def __init__(self, events: "queue.SimpleQueue[object]") -> None:
            self.events = events

        def pull(self, pull: tremor.Pull) -> None:
            pull.push(self.events.get(timeout=60))

    class To(tremor.SinkHalf):
        def __init__(self, events: "queue.SimpleQueue[object]") -> None:
            self.events = events

        def deliver(self, batch: tremor.Batch) -> None:
            for value in batch.values():
                self.events.put(value)

        def disconnect(self) -> None:
            logging.info("sink disconnected")

    def connect(self, wanted: tremor.Sides) -> tremor.Halves:
        events: "queue.SimpleQueue[object]" = queue.SimpleQueue()
        return tremor.Halves(self.From(events), self.To(events))

    def close(self) -> None:
        logging.info("closed")


class Metrics(tremor.Sink):
    """Records metrics."""

    def __init__(self, config: None, host: tremor.Host) -> None:
        super().__init__(config, host)
        self.seen = host.histogram("seen", "Seen values")
        self.last = host.gauge("last", "Last value")

    def deliver(self, batch: tremor.Batch) -> None:
        for value in batch.values():
            self.seen.record(value)
            self.last.set(value)

    def tick(self) -> None:
        raise tremor.Error.unsupported("no ticks", policy=tremor.ErrorPolicy.RETRY)


tremor.run(Blocking, Waiting, BadAck, Raw, Wrong, Faulty, Database, Echo, Metrics)
