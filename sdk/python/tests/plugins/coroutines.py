"""Connectors with coroutines."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import List, Tuple

import tremor


class Slow(tremor.Source):
    """Pushes an event, waits, and acknowledges in a coroutine."""

    acks = tremor.Acks()

    def connect(self) -> None:
        self.number = 0
        self.acked: List[int] = []
        self.closing = asyncio.Event()

    async def pull(self, pull: tremor.Pull) -> None:
        self.number += 1
        pull.push(self.number, metadata={"acked": list(self.acked)})
        self.host.log.info("waits")
        await asyncio.Event().wait()

    async def ack(self, pull: int) -> None:
        # The first acknowledgement takes longer, and the second one waits for it.
        for _ in range(10 if pull == 1 else 1):
            await asyncio.sleep(0)
        self.acked.append(pull)
        self.host.log.info("acked %s", pull)

    async def on_circuit_breaker(self, is_open: bool) -> None:
        raise tremor.Error.unsupported("no breaker")

    async def close(self) -> None:
        self.host.log.info("closing")
        await self.closing.wait()

    async def disconnect(self) -> None:
        self.host.log.info("disconnected")


class Gather(tremor.Sink):
    """Answers deliveries together."""

    demand = tremor.Demand(in_flight=8, at_most=8, gathers=True, ordered=False, max_events=5, linger=0.5)

    def connect(self) -> None:
        self.open: List[Tuple[tremor.Batch, "asyncio.Future[None]"]] = []

    def on_grant(self, grant: tremor.Grant) -> None:
        self.host.log.info("%s", grant)

    async def deliver(self, batch: tremor.Batch) -> None:
        answer: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self.open.append((batch, answer))
        await answer

    async def flush(self) -> None:
        size = sum(len(batch) for batch, _ in self.open)
        self.host.log.info("stored %s events of %s deliveries", size, len(self.open))
        for batch, answer in self.open:
            if batch[0].value == "bad":
                answer.set_exception(ValueError("bad object"))
            elif not answer.done():
                answer.set_result(None)
        self.open.clear()

    async def tick(self) -> None:
        self.host.log.info("tick")


class Blocking(tremor.Sink):
    """Blocks the thread in a coroutine until another thread has seen the number of the call."""

    async def deliver(self, batch: tremor.Batch) -> None:
        if batch[0].value == "block":
            self.host.log.info("blocks")
            assert batch.wait(60), "the runtime cancels the delivery"
            self.host.log.info("given up: %s", batch.is_given_up)
        elif batch[0].value == "thread":
            found = await asyncio.get_running_loop().run_in_executor(None, threading.current_thread)
            assert found is not threading.current_thread()
        elif batch[0].value == "cancelled":
            task = asyncio.ensure_future(asyncio.sleep(30))
            task.cancel()
            await task


@dataclass
class SidesConfig:
    mode: str

    def __post_init__(self) -> None:
        if self.mode not in ("read", "write", "both"):
            raise ValueError("`mode`: expected `read`, `write` or `both`")


class Shared(tremor.Connector):
    """Its halves are coroutines, so they share the event loop of the connector."""

    Config = SidesConfig

    @classmethod
    def sides(cls, config: SidesConfig) -> tremor.Sides:
        return tremor.Sides(source=config.mode != "write", sink=config.mode != "read")

    async def connect(self, wanted: tremor.Sides) -> tremor.Halves:
        queue: "asyncio.Queue[object]" = asyncio.Queue()
        thread = threading.get_ident()

        class From(tremor.SourceHalf):
            async def pull(self, pull: tremor.Pull) -> None:
                value = await queue.get()
                assert threading.get_ident() == thread
                pull.push(value)

        class To(tremor.SinkHalf):
            async def deliver(self, batch: tremor.Batch) -> None:
                assert threading.get_ident() == thread
                for value in batch.values():
                    queue.put_nowait(value)

        source = From() if self.config.mode != "write" else None
        return tremor.Halves(source, To() if self.config.mode != "read" else None)

    async def on_start(self) -> None:
        started = time.monotonic()
        await asyncio.sleep(0)
        assert time.monotonic() >= started


tremor.run(Slow, Gather, Blocking, Shared)
