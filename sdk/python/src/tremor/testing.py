"""Tests of plugins: a runtime that starts the program of a plugin, and calls it as tremor does.

    with tremor.testing.Runtime(["python3", "plugin.py"], "numbers") as runtime:
        runtime.new({"to": 3})
        runtime.connect()
        assert runtime.pull().values == [1, 2, 3]

It follows the protocol of isolated plugins strictly, but is simpler than tremor: it makes one call after the other.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import threading
import time
from types import TracebackType
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import values
from .errors import Error
from .frame import MAX_LEN, RAW, Frame, FrameWriter
from .memory import SLOTS, Memory
from .message import VERSION, Flags, Kind, Message, Parser, body

__all__ = ["PullAnswer", "Runtime"]

_PAUSE, _RESUME, _CLOSE = 1, 2, 3


class PullAnswer:
    """The answer to a pull."""

    def __init__(self, message: Message, frame: Optional[Frame]) -> None:
        self.frame = frame
        #: Payloads of the events, without ends of streams.
        self.data: List[bytes] = []
        if frame is not None:
            self.data = [frame.raw(i) for i, it in enumerate(frame.events) if it[0] == RAW]
        #: Metadata of all events, and their origins and streams.
        self.metadata = [frame.at(it[8]) for it in frame.events] if frame else []
        self.origins = [frame.at(it[9]) for it in frame.events] if frame else []
        self.streams = [it[10] for it in frame.events] if frame else []
        #: Whether the source has ended.
        self.is_finished = bool(message.flags & Flags.FINISHED)
        #: Time in seconds after which to pull again, or `None`.
        self.idle = message.b / 1e9 if message.flags & Flags.IDLE else None
        #: The error of the pull, or `None`.
        self.error = Error.from_body(message.json()) if message.flags & Flags.ERROR else None

    @property
    def values(self) -> List[Any]:
        """The events, decoded from JSON."""
        return [values.decode(data) for data in self.data]


class Runtime:
    """A process of a plugin, and the runtime's end of its connection."""

    def __init__(
        self,
        command: Sequence[str],
        connector: str,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        component: str = "test",
        folder: str = ".",
        memory: int = 256 << 20,
        level: int = 4,
        timeout: float = 60.0,
        hello: bool = True,
    ) -> None:
        """Starts a process and, with `hello`, names its connector.

        `timeout` is the time in seconds after which a missing answer is an error.
        """
        self.timeout = timeout
        self._socket, theirs = socket.socketpair()
        descriptor = os.memfd_create("tremor-frames", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, SLOTS * MAX_LEN)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        self._descriptor = descriptor
        self.memory = Memory(descriptor)
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=descriptor,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(os.environ if env is None else env),
                start_new_session=True,
            )
        self._parser = Parser()
        self._arrived: List[Message] = []
        self._answers: Dict[int, Message] = {}
        self._last_call = 0
        self._last_pull = 0
        self._stderr: List[bytes] = []
        self._reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._reader.start()
        #: Log lines, as level and text.
        self.logs: List[Tuple[int, str]] = []
        #: The last states of metrics, by name.
        self.metrics: Dict[str, Dict[str, Any]] = {}
        #: Problems that are not over, by name.
        self.problems: Dict[str, Error] = {}
        #: Reasons of requests to stop, and number of reports of a lost connection.
        self.stop_requests: List[str] = []
        self.connections_lost = 0
        if hello:
            self.hello(connector, component=component, folder=folder, memory=memory, level=level)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self.process.poll() is None and kind is not None:
            self.process.kill()
        self.end()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as pipe:
            for line in pipe:
                self._stderr.append(line)

    def end(self) -> int:
        """Closes the connection, waits for the end of the process, and returns its exit status."""
        self._socket.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        try:
            status = self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise TimeoutError("the process did not end with its connection") from None
        self._reader.join(self.timeout)
        return status

    @property
    def stderr(self) -> str:
        """What the process has written to standard error and standard output. Complete after `end`."""
        return b"".join(self._stderr).decode("utf-8", "replace")

    # Messages.

    def send(self, kind: int, **fields: Any) -> None:
        """Sends a message. A `body` that is not bytes is sent as JSON."""
        if not isinstance(fields.get("body", b""), bytes):
            fields["body"] = body(fields["body"])
        self._socket.sendall(Message(kind, **fields).encode())

    def begin(self, kind: int, **fields: Any) -> int:
        """Sends a message that has an answer. Returns the number of the call."""
        self._last_call += 1
        self.send(kind, call=self._last_call, **fields)
        return self._last_call

    def wait(self, call: int) -> Message:
        """Returns the answer to a call. Raises the error that it contains, except of a pull."""
        deadline = time.monotonic() + self.timeout
        while call not in self._answers:
            message = self.receive(deadline)
            if message.flags & Flags.ANSWER:
                self._answers[message.call] = message
            else:
                self.keep(message)
        answer = self._answers.pop(call)
        if answer.flags & Flags.ERROR and answer.kind != Kind.PULL:
            raise Error.from_body(answer.json())
        return answer

    def call(self, kind: int, **fields: Any) -> Message:
        """Makes a call, and returns its answer."""
        return self.wait(self.begin(kind, **fields))

    def receive(self, deadline: Optional[float] = None) -> Message:
        """Returns the next message of the process."""
        limit = time.monotonic() + self.timeout if deadline is None else deadline
        while not self._arrived:
            self._socket.settimeout(max(0.001, limit - time.monotonic()))
            try:
                data = self._socket.recv(64 << 10)
            except socket.timeout:
                raise TimeoutError("the process did not answer in time") from None
            except ConnectionError:
                data = b""
            if not data:
                raise EOFError(f"the process has closed the connection: {self.stderr}")
            self._arrived = list(self._parser.push(data))
        return self._arrived.pop(0)

    def keep(self, message: Message) -> None:
        """Records a message that is not an answer."""
        if message.kind == Kind.LOG:
            self.logs.append((message.a, message.text()))
        elif message.kind == Kind.METRICS:
            self.metrics.update((it["name"], it) for it in message.json())
        elif message.kind == Kind.PROBLEM:
            problem = message.json()
            self.problems.pop(problem["name"], None)
            if problem["error"] is not None:
                self.problems[problem["name"]] = Error.from_body(problem["error"])
        elif message.kind == Kind.CONNECTION_LOST:
            self.connections_lost += 1
        elif message.kind == Kind.REQUEST_STOP:
            self.stop_requests.append(message.text())

    # Calls.

    def hello(
        self,
        connector: str,
        *,
        component: str = "test",
        folder: str = ".",
        memory: int = 256 << 20,
        level: int = 4,
        version: int = VERSION,
    ) -> int:
        """Sends the first message. Returns the version of the process."""
        settings = {
            "component": component,
            "folder": folder,
            "memory": memory,
            "library": "plugin.plugin.json",
            "hash": None,
            "connector": connector,
            "policy": {},
        }
        return self.call(Kind.HELLO, a=version, b=level, body=settings).a

    def check(self, config: Any) -> Dict[str, bool]:
        """Checks a configuration. Returns the halves that a connector has with it."""
        answer: Dict[str, bool] = self.call(Kind.CHECK, body=config).json()
        return answer

    def new(self, config: Any) -> Dict[str, bool]:
        """Creates the instance. Returns its halves."""
        answer: Dict[str, bool] = self.call(Kind.NEW, body=config).json()
        return answer

    def connect(self, source: bool = True, sink: bool = True) -> Dict[str, Any]:
        """Connects, and starts the instance the first time. Returns the properties of its halves."""
        answer: Dict[str, Any] = self.call(Kind.CONNECT, a=source | sink << 1).json()
        return answer

    def start(self) -> None:
        """Calls `on_start`."""
        self.call(Kind.HOOK, a=0)

    def pause(self) -> None:
        """Calls `on_pause`."""
        self.call(Kind.HOOK, a=_PAUSE)

    def resume(self) -> None:
        """Calls `on_resume`."""
        self.call(Kind.HOOK, a=_RESUME)

    def close(self) -> None:
        """Ends the instance."""
        self.call(Kind.HOOK, a=_CLOSE)

    def ping(self, level: int = 4, is_draining: bool = False) -> int:
        """Returns the number that identifies what blocks a thread, or 0."""
        return self.call(Kind.PING, a=level, b=int(is_draining)).a

    def begin_pull(self, events: int = 1_000, size: int = 1 << 20) -> int:
        """Begins a pull. Returns its call. `last_pull` is its number."""
        self._last_pull += 1
        return self.begin(Kind.PULL, a=self._last_pull, b=events << 32 | size)

    @property
    def last_pull(self) -> int:
        """Number of the last pull."""
        return self._last_pull

    def end_pull(self, call: int) -> PullAnswer:
        """Waits for the answer to a pull."""
        answer = self.wait(call)
        frame = self.memory.read(0, answer.a) if answer.a else None
        if frame is None:
            self._last_pull -= 1
        return PullAnswer(answer, frame)

    def pull(self, events: int = 1_000, size: int = 1 << 20) -> PullAnswer:
        """Pulls up to a number of events or bytes."""
        return self.end_pull(self.begin_pull(events, size))

    def give_up(self, slot: int = 0) -> None:
        """Cancels the pull, or the delivery in a slot."""
        self.send(Kind.GIVE_UP, slot=slot)

    def ack(self, pull: Optional[int] = None) -> None:
        """Acknowledges a pull, by default the last one."""
        self.send(Kind.ACK, a=self._last_pull if pull is None else pull)

    def fail(self, ranges: Iterable[Tuple[int, int]], pull: Optional[int] = None) -> None:
        """Fails events of a pull, by default the last one. A range is a position and a number."""
        pairs = [list(it) for it in ranges]
        self.send(Kind.FAIL, a=self._last_pull if pull is None else pull, body=pairs)

    def begin_delivery(
        self,
        events: Iterable[Any],
        *,
        slot: int = 1,
        metadata: Any = None,
        origin: Optional[str] = None,
        stream: int = 0,
    ) -> int:
        """Begins a delivery of values, or of bytes. Returns its call."""
        writer = FrameWriter()
        found = writer.locate(metadata) if metadata is not None else 0
        by = writer.locate(origin) if origin is not None else 0
        for event in events:
            data = event if isinstance(event, bytes) else values.encode(event)
            writer.add(data, 0, stream, found, by, time.time_ns())
        frame = writer.finish()
        self.memory.write(slot, frame)
        return self.begin(Kind.DELIVER, slot=slot, a=len(frame))

    def end_delivery(self, call: int) -> Dict[int, Error]:
        """Waits for the answer to a delivery. Returns the errors of rejected events, by position."""
        answer = self.wait(call)
        rejected: Dict[int, Error] = {}
        for it in answer.json() if answer.body else []:
            for position in range(it["start"], it["start"] + it["len"]):
                rejected[position] = Error.from_body(it["error"])
        return rejected

    def deliver(self, events: Iterable[Any], **options: Any) -> Dict[int, Error]:
        """Delivers values, or bytes. Returns the errors of rejected events, by position."""
        return self.end_delivery(self.begin_delivery(events, **options))

    def grant(self, **limits: Any) -> None:
        """Grants limits of deliveries."""
        defaults: Dict[str, Union[int, float]] = {
            "in_flight": 1,
            "most_in_flight": 1,
            "max_events": 0,
            "max_bytes": 0,
            "linger_ns": (1 << 64) - 1,
            "flags": 1,
        }
        self.send(Kind.GRANT, body={**defaults, **limits})
