"""The connectors of the golden sessions, which `docs/isolation.md` describes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import List, Literal

import tremor


@dataclass
class SourceConfig:
    to: int = tremor.option(about="Last number that the source emits", minimum=0)
    then: Literal["finish", "idle", "wait"] = "finish"


class SessionSource(tremor.Source):
    """Counts from one."""

    Config = SourceConfig
    acks = tremor.Acks(max_events=1_000, key="max")

    async def connect(self) -> None:
        self.marks: tremor.Watermark[int] = tremor.Watermark(0)
        self.last = 0

    async def pull(self, pull: tremor.Pull) -> object:
        position = self.marks.rewind()
        if position is not None:
            self.last = position
        while self.last < self.config.to and not pull.is_full:
            self.last += 1
            pull.push(self.last, metadata={"number": self.last}, origin="session", stream=7)
            self.marks.add(pull, self.last)
        if self.last < self.config.to:
            return None
        if self.config.then == "finish":
            return tremor.FINISHED
        if self.config.then == "idle":
            return tremor.Idle(0.25)
        if not len(pull):
            await asyncio.Event().wait()
        return None

    def ack(self, pull: int) -> None:
        self.marks.ack(pull)
        self.host.log.info("committed %s", self.marks.committed)

    def fail(self, pull: int, ranges: List[range]) -> None:
        self.marks.fail(pull, ranges)

    def on_circuit_breaker(self, is_open: bool) -> None:
        self.host.log.info("breaker %s", "open" if is_open else "closed")

    def close(self) -> None:
        self.host.log.info("closed at %s", self.marks.committed)


class SessionSink(tremor.Sink):
    """Delivers numbers, and does what texts say."""

    demand = tremor.Demand(in_flight=1, at_most=4)

    def __init__(self, config: None, host: tremor.Host) -> None:
        super().__init__(config, host)
        self.delivered = host.counter("delivered", "Delivered events")

    async def deliver(self, batch: tremor.Batch) -> None:
        for event in batch:
            await self.handle(event)
        self.delivered.add(len(batch) - len(batch.rejected))

    async def handle(self, event: tremor.Event) -> None:
        value, host = event.value, self.host
        if value == "reject":
            event.reject("rejected")
        elif value == "retry":
            event.reject(tremor.Error.timeout("retry", delay=2))
        elif value == "fail":
            raise tremor.Error.connection_lost("failed") from ValueError("cause")
        elif value == "wait":
            await asyncio.Event().wait()
        elif value == "metadata":
            text = json.dumps(event.metadata, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
            host.log.info("%s %s %s %s", text, event.origin, event.stream, event.ingest_ns)
        elif value == "problem":
            host.problem("session", tremor.Error.full("full"))
        elif value == "solved":
            host.problem("session", None)
        elif value == "lost":
            host.connection_lost()
        elif value == "stop":
            host.request_stop("asked")

    async def on_start(self) -> None:
        self.host.log.info("started")

    async def on_pause(self) -> None:
        self.host.log.info("paused")

    async def on_resume(self) -> None:
        self.host.log.info("resumed")

    async def flush(self) -> None:
        self.host.log.debug("flushed")

    async def close(self) -> None:
        self.host.log.info("closed")


tremor.run(SessionSource, SessionSink, version="1.0.0")
