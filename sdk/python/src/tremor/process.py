"""The process of a plugin: calls one connector on request of the runtime.

The main thread reads messages. It runs no code of the author, so it also answers while this code blocks threads.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
import threading
import traceback
from typing import Any, Dict, List, Optional, Sequence, Type

from .config import load
from .connector import Component, Connector, Halves, Sides, SinkHalf, SourceHalf
from .errors import Error
from .halves import SinkTask, SourceTask, caught
from .host import Handler, Host, level_of
from .memory import PULLS, Memory
from .message import VERSION, Flags, Kind, Message, Parser, body
from .system import confine, end_with_parent, leave, take_descriptors
from .worker import Serial, Worker, finish

__all__ = ["Process", "serve"]

#: Bytes that are read from the socket at once.
_READ = 64 << 10

_TO_CONNECTOR = {Kind.CHECK, Kind.NEW, Kind.CONNECT, Kind.HOOK}
_NOTIFICATIONS = {Kind.ACK, Kind.FAIL, Kind.UNDECODABLE, Kind.BREAKER, Kind.CLOSE_SOURCE}
_TO_SINK = {Kind.GRANT, Kind.TICK, Kind.FLUSH, Kind.CLOSE_SINK}


class _Ended(Exception):
    """The runtime has closed the connection."""


class Process:
    """State that the main thread and the workers share."""

    def __init__(self, connection: socket.socket, memory: Memory) -> None:
        self.memory = memory
        self.log_level = 0
        self.host: Optional[Host] = None
        self._connection = connection
        self._parser = Parser()
        self._arrived: List[Message] = []
        self._lock = threading.Lock()
        #: The halves of the current connection.
        self.source: Optional[SourceTask] = None
        self.sink: Optional[SinkTask] = None
        self._workers: Dict[str, Worker] = {}

    def worker(self, name: str) -> Worker:
        """Returns the worker with a name, which starts at the first call."""
        with self._lock:
            known = self._workers.get(name)
        if known is None:
            known = Worker(name)
            with self._lock:
                self._workers[name] = known
        return known

    def send(self, message: Message) -> None:
        """Sends a message. If the runtime has ended, this process ends."""
        data = message.encode()
        try:
            with self._lock:
                self._connection.sendall(data)
        except OSError:
            leave(0)

    def answer(self, kind: int, call: int, error: Optional[Error], value: Any = None) -> None:
        """Answers a call with an error, with a value, or without a body."""
        flags, text = Flags.ANSWER, b"" if value is None else body(value)
        if error is not None:
            flags, text = Flags.ANSWER | Flags.ERROR, body(error.to_body())
        self.send(Message(kind, flags, call, body=text))

    def log(self, level: int, text: str) -> None:
        """Sends a log line, if the runtime writes lines of that level."""
        if level <= self.log_level:
            self.send(Message(Kind.LOG, a=level, body=text.encode("utf-8", "replace")))

    def set_level(self, level: int) -> None:
        """Sets the highest level of log lines that the runtime writes."""
        if level != self.log_level:
            self.log_level = level
            logging.getLogger().setLevel(level_of(level))

    def send_metrics(self) -> None:
        """Sends the states of all metrics."""
        metrics = self.host.metrics() if self.host else []
        if metrics:
            self.send(Message(Kind.METRICS, body=body(metrics)))

    def send_request(self, name: str, arguments: Dict[str, Any]) -> None:
        """Sends a request of the host."""
        if name == "problem":
            self.send(Message(Kind.PROBLEM, body=body(arguments)))
        elif name == "connection_lost":
            self.send(Message(Kind.CONNECTION_LOST))
        elif name == "request_stop":
            reason = arguments["reason"].encode("utf-8", "replace")
            self.send(Message(Kind.REQUEST_STOP, a=int(arguments["drain"]), body=reason))

    def receive(self) -> Message:
        """Waits for the next message. Raises `_Ended` once the runtime has closed the connection."""
        while not self._arrived:
            try:
                data = self._connection.recv(_READ)
            except InterruptedError:
                continue
            except OSError:
                raise _Ended from None
            if not data:
                raise _Ended
            self._arrived = list(self._parser.push(data))
            self._arrived.reverse()
        return self._arrived.pop()

    def answer_ping(self, ping: Message) -> None:
        """Answers PING with the number of the call that has blocked a thread longest, or 0. Sends the metrics first."""
        self.set_level(ping.a)
        if self.host:
            self.host._is_draining = ping.b != 0
        self.send_metrics()
        with self._lock:
            workers = list(self._workers.values())
        blocked = [number for number in (it.blocked() for it in workers) if number]
        self.send(Message(Kind.PING, Flags.ANSWER, ping.call, a=min(blocked, default=0)))

    def dispatch(self, message: Message, connector: ConnectorTask) -> None:
        """Passes a message on. Messages for a half that has ended are ignored, because the runtime may not know yet."""
        kind, source, sink = message.kind, self.source, self.sink
        if kind == Kind.PING:
            self.answer_ping(message)
        elif kind == Kind.PULL:
            if source:
                source.post_pull(message)
        elif kind in _NOTIFICATIONS:
            if source:
                source.post_notification(message)
        elif kind == Kind.DELIVER:
            if sink:
                sink.post_delivery(message)
        elif kind in _TO_SINK:
            if sink:
                sink.post_call(message)
        elif kind == Kind.GIVE_UP:
            if message.slot == PULLS:
                if source:
                    source.post_give_up()
            elif sink:
                sink.post_give_up(message.slot)
        elif kind == Kind.DROP_SOURCE:
            self.source = None
            if source:
                source.post_drop()
        elif kind == Kind.DROP_SINK:
            self.sink = None
            if sink:
                sink.post_drop()
        elif kind in _TO_CONNECTOR:
            connector.post(message)


class ConnectorTask:
    """Calls the connector: handles CHECK, NEW, CONNECT and HOOK, one after the other."""

    def __init__(self, process: Process, connector: Type[Component], host: Host) -> None:
        self._process = process
        self._class = connector
        self._host = host
        self._worker = process.worker("connector")
        self._serial = Serial(self._worker)
        self._instance: Optional[Component] = None
        self._sides = Sides(False, False)
        #: Halves that may not have ended yet.
        self._source: Optional[SourceTask] = None
        self._sink: Optional[SinkTask] = None

    def post(self, message: Message) -> None:
        """Handles a message. Is called by the main thread."""
        self._worker.post(self._add, message)

    def _add(self, message: Message) -> None:
        def done(value: Any, error: Optional[BaseException]) -> None:
            fault = None if error is None else caught(error)
            self._process.answer(message.kind, message.call, fault, value)

        self._serial.add(lambda: self._handle(message), done)

    async def _handle(self, message: Message) -> Any:
        kind, instance = message.kind, self._instance
        if kind == Kind.CHECK:
            return _created(self._check(message)[1])
        if kind == Kind.NEW and instance is None:
            config, self._sides = self._check(message)
            self._instance = self._class(config, self._host)
            return _created(self._sides)
        if kind == Kind.CONNECT and instance is not None:
            return await self._connect(instance, Sides(bool(message.a & 1), bool(message.a & 2)))
        if kind == Kind.HOOK and instance is not None:
            return await self._hook(instance, message.a)
        raise Error.internal(f"unexpected message of kind {kind} for a connector")

    def _check(self, message: Message) -> Any:
        """Returns the configuration, and the halves that a connector has with it."""
        config = load(self._class.Config, message.json())
        self._class.check(config)
        return config, self._class.sides(config)

    async def _connect(self, instance: Component, wanted: Sides) -> Any:
        # A source that has ended and waits for acknowledgements remains, because they may come from the sink that
        # connects.
        await self._end(wanted)
        if isinstance(instance, Connector):
            halves = await finish(instance.connect(wanted))
            if not isinstance(halves, Halves):
                raise Error.internal(f"`connect` of {type(instance).__name__} returned {halves!r}: expected `Halves`")
        elif isinstance(instance, SourceHalf):
            await finish(instance.connect())  # type: ignore[attr-defined]
            halves = Halves(source=instance)
        elif isinstance(instance, SinkHalf):
            await finish(instance.connect())  # type: ignore[attr-defined]
            halves = Halves(sink=instance)
        else:
            raise Error.internal(f"{type(instance).__name__} is neither a Source, nor a Sink or a Connector")
        process, is_json = self._process, self._class.codec == "json"
        answer: Dict[str, Any] = {"source": None, "sink": None}
        for half, is_wanted in ((halves.source, wanted.source), (halves.sink, wanted.sink)):
            if half is not None and not is_wanted:
                await finish(half.disconnect())
        source, sink = halves.source, halves.sink
        if source is not None and wanted.source:
            acks = source.acks
            answer["source"] = {"acks": acks._body() if acks is not None else None}
            worker = self._worker_for(source.pull, "source")
            self._source = process.source = SourceTask(process, source, worker, is_json)
        if sink is not None and wanted.sink:
            answer["sink"] = sink.demand._body()
            worker = self._worker_for(sink.deliver, "sink")
            self._sink = process.sink = SinkTask(process, sink, worker, is_json)
        return answer

    def _worker_for(self, method: Any, name: str) -> Worker:
        """Returns the thread of a half: one of its own, if a plain method could block the other half."""
        shares = inspect.iscoroutinefunction(method) or not (self._sides.source and self._sides.sink)
        return self._worker if shares else self._process.worker(name)

    async def _end(self, sides: Sides) -> None:
        """Waits until these halves have ended, which the runtime has dropped."""
        process = self._process
        if sides.source and self._source is not None:
            half, self._source = self._source, None
            if process.source is half:
                process.source = None
            half.post_drop()
            await asyncio.wrap_future(half.ended)
        if sides.sink and self._sink is not None:
            other, self._sink = self._sink, None
            if process.sink is other:
                process.sink = None
            other.post_drop()
            await asyncio.wrap_future(other.ended)

    async def _hook(self, instance: Component, hook: int) -> None:
        if hook == 0:
            await finish(instance.on_start())
        elif hook == 1:
            await finish(instance.on_pause())
        elif hook == 2:
            await finish(instance.on_resume())
        elif hook == 3:
            await self._end(Sides(True, True))
            try:
                if isinstance(instance, Connector):
                    await finish(instance.close())
            finally:
                # The process may be killed as soon as the call is answered.
                self._instance = None
                self._process.send_metrics()


def _created(sides: Sides) -> Dict[str, bool]:
    return {"has_source": sides.source, "has_sink": sides.sink}


def serve(connectors: Sequence[Type[Component]]) -> None:
    """Serves the runtime until it closes the connection, and then ends the process."""
    descriptor, memory = take_descriptors()
    end_with_parent()
    connection = socket.socket(fileno=descriptor)
    process = Process(connection, Memory(memory))
    try:
        _serve(process, connectors)
    except _Ended:
        leave(0)
    except BaseException:
        # The interpreter would wait for threads of the author.
        traceback.print_exc()
        leave(1)


def _serve(process: Process, connectors: Sequence[Type[Component]]) -> None:
    hello = process.receive()
    if hello.kind != Kind.HELLO or hello.a != VERSION:
        # The runtime compares the versions and reports the difference.
        process.send(Message(Kind.HELLO, Flags.ANSWER, hello.call, a=VERSION))
        return leave(0)
    settings = hello.json()
    logging.getLogger().addHandler(Handler(process.log))
    process.set_level(hello.b)
    # Its lines of the level debug describe the event loops of this package.
    logging.getLogger("asyncio").setLevel(logging.INFO)
    try:
        confine(settings.get("memory"))
        name = settings["connector"]
        found = next((it for it in connectors if it._name() == name), None)
        if found is None:
            names = ", ".join(f"`{it._name()}`" for it in connectors)
            raise Error.configuration(f"the plugin has no connector `{name}`, but {names}")
    except Exception as error:
        text = body(caught(error).to_body())
        process.send(Message(Kind.HELLO, Flags.ANSWER | Flags.ERROR, hello.call, a=VERSION, body=text))
        # The runtime ends the process when it has read the error.
        while True:
            process.receive()
    host = Host(settings.get("component", name), settings.get("folder", "."), process.send_request)
    process.host = host
    connector = ConnectorTask(process, found, host)
    process.send(Message(Kind.HELLO, Flags.ANSWER, hello.call, a=VERSION))
    while True:
        process.dispatch(process.receive(), connector)
