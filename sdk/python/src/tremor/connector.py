"""The classes from which authors derive connectors."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, Awaitable, Dict, List, Optional, Tuple, Type, Union

from .batch import Batch, Idle, Pull, _Finished
from .config import schema
from .errors import Error
from .host import Host

__all__ = [
    "Acks",
    "Component",
    "Connector",
    "Demand",
    "Grant",
    "Halves",
    "Sides",
    "Sink",
    "SinkHalf",
    "Source",
    "SourceHalf",
]

_UNLIMITED = (1 << 64) - 1

#: Result of methods that may be plain functions or coroutines.
Maybe = Union[None, Awaitable[None]]
PullResult = Union[None, Idle, _Finished]


@dataclasses.dataclass(frozen=True)
class Acks:
    """Declares that a source is notified of the ends of its pulls, by `ack` and `fail`."""

    #: Number of events in flight with which the source is not pulled.
    max_events: int = _UNLIMITED
    #: Number of bytes in flight with which the source is not pulled.
    max_bytes: int = _UNLIMITED
    #: Key of the configuration that sets these limits, for log lines.
    key: str = ""
    #: Whether the source reads failed events again. Otherwise, the flow continues without them.
    replays_failed: bool = True

    def _body(self) -> Dict[str, Any]:
        return {
            "events": min(self.max_events, _UNLIMITED),
            "bytes": min(self.max_bytes, _UNLIMITED),
            "key": self.key,
            "replays_failed": self.replays_failed,
        }


_ORDERED, _GATHERS, _BATCHED = 1, 2, 4


@dataclasses.dataclass(frozen=True)
class Demand:
    """The limits of deliveries that a sink asks for. Keys of the flow take precedence."""

    #: Number of deliveries in flight, unless the flow sets `in_flight`.
    in_flight: int = 1
    #: Maximum number of deliveries in flight. More than one are useful only if `deliver` is a coroutine.
    at_most: int = 1
    #: Whether the deliveries of one stream are made one after the other.
    ordered: bool = True
    #: Whether the sink answers several deliveries together, in `flush` at the latest.
    gathers: bool = False
    #: Maximum number of events and bytes of a delivery, and the time in seconds that events wait for others.
    max_events: int = 0
    max_bytes: int = 0
    linger: Optional[float] = None

    def _body(self) -> Dict[str, Any]:
        at_most = max(self.in_flight, self.at_most, 1)
        return {
            "in_flight": max(1, self.in_flight),
            "most_in_flight": at_most,
            "max_events": self.max_events,
            "max_bytes": self.max_bytes,
            "linger_ns": _UNLIMITED if self.linger is None else round(self.linger * 1e9),
            "flags": _ORDERED * self.ordered | _GATHERS * self.gathers,
        }


@dataclasses.dataclass(frozen=True)
class Grant:
    """The limits of deliveries that the runtime grants."""

    in_flight: int
    ordered: bool
    max_events: int
    max_bytes: int
    linger: Optional[float]

    @classmethod
    def _of(cls, body: Dict[str, Any]) -> Grant:
        linger = body.get("linger_ns", _UNLIMITED)
        return cls(
            in_flight=body.get("in_flight", 1),
            ordered=bool(body.get("flags", 0) & _ORDERED),
            max_events=body.get("max_events", 0),
            max_bytes=body.get("max_bytes", 0),
            linger=None if linger == _UNLIMITED else linger / 1e9,
        )


@dataclasses.dataclass(frozen=True)
class Sides:
    """The halves that a connector has, or that the runtime wants."""

    source: bool
    sink: bool


class SourceHalf:
    """The reading half of a connection. `Source` has it already; a `Connector` returns one from `connect`.

    All methods may be coroutines.
    """

    #: Set it to an `Acks` to be notified of the ends of pulls.
    acks: Optional[Acks] = None

    def pull(self, pull: Pull) -> Union[PullResult, Awaitable[PullResult]]:
        """Adds events to the pull, and returns soon after there are some.

        Return `None` if more events are available, `Idle(seconds)` if not, and `FINISHED` if none will follow. A plain
        method that waits must return within seconds, or wait with `pull.wait`. A coroutine may wait for ever. It is
        cancelled at any `await`: push everything that you have read before the next one.
        """
        raise NotImplementedError

    def ack(self, pull: int) -> Maybe:
        """All events of the pull with this number were delivered, dead-lettered or discarded."""
        return None

    def fail(self, pull: int, ranges: List[range]) -> Maybe:
        """Events of the pull with this number have failed, at these positions, and the others are delivered."""
        return None

    def undecodable(self, pull: int, errors: List[Tuple[range, Error]]) -> Maybe:
        """Messages of the pull could not be decoded. `fail` follows."""
        return None

    def on_circuit_breaker(self, is_open: bool) -> Maybe:
        """A sink that the source feeds is down, or works again."""
        return None

    def close(self) -> Maybe:
        """The source is not pulled any more, and was notified of the ends of all its pulls. Commit what is open."""
        return None

    def disconnect(self) -> Maybe:
        """The connection has ended. Release its resources. Is called after `close` too, and after a lost connection."""
        return None


class SinkHalf:
    """The writing half of a connection. `Sink` has it already; a `Connector` returns one from `connect`.

    All methods may be coroutines.
    """

    #: The limits of deliveries that the sink asks for.
    demand: Demand = Demand()

    def deliver(self, batch: Batch) -> Maybe:
        """Delivers all events of the batch, and returns when the peer has them.

        Report single events that were not delivered with `batch.reject`. Raise an error if none was.
        """
        raise NotImplementedError

    def on_grant(self, grant: Grant) -> Maybe:
        """The limits of deliveries were granted. Is called before the first delivery."""
        return None

    def tick(self) -> Maybe:
        """Is called about once a second."""
        return None

    def flush(self) -> Maybe:
        """No other delivery can begin before an open one is answered. Complete the open deliveries."""
        return None

    def close(self) -> Maybe:
        """No event follows, and all deliveries are answered. Send what is buffered."""
        return None

    def disconnect(self) -> Maybe:
        """The connection has ended. Release its resources. Is called after `close` too, and after a lost connection."""
        return None


class Component:
    """What all connectors have. Derive from `Source`, `Sink` or `Connector` instead."""

    #: The `type` in flow files. By default, the name of the class in snake case.
    name: str = ""
    #: A dataclass with the keys of the configuration, or `None`.
    Config: Optional[Type[Any]] = None
    #: The codec, unless the flow sets another one. With `json`, events are values, and otherwise bytes.
    codec: str = "json"

    def __init__(self, config: Any, host: Host) -> None:
        """Prepares the connector. Do not connect here, and start nothing."""
        self.config = config
        self.host = host

    @classmethod
    def check(cls, config: Any) -> None:
        """Checks what types cannot express. Raise an error of the kind configuration.

        Is also called by `tremor check`, so do not connect here, and change nothing.
        """

    def on_start(self) -> Maybe:
        """Is called once, after the first connection."""
        return None

    def on_pause(self) -> Maybe:
        """The connector is paused. No event flows until `on_resume`."""
        return None

    def on_resume(self) -> Maybe:
        """Events flow again."""
        return None

    @classmethod
    def sides(cls, config: Any) -> Sides:
        """Returns the halves that the connector has with this configuration."""
        raise NotImplementedError

    @classmethod
    def _sides(cls) -> Sides:
        """Returns the halves that the connector may have."""
        raise NotImplementedError

    @classmethod
    def _name(cls) -> str:
        return cls.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()

    @classmethod
    def _describe(cls) -> Dict[str, Any]:
        """Returns the entry of the manifest."""
        about = (inspect.getdoc(cls) or "").strip().partition("\n")[0] if cls.__doc__ else ""
        sides = cls._sides()
        described: Dict[str, Any] = {"name": cls._name()}
        if about:
            described["about"] = about
        described.update(source=sides.source, sink=sides.sink, codec=cls.codec, config=schema(cls.Config))
        return described


class Source(Component, SourceHalf):
    """A connector that only reads. Its methods are called by one thread."""

    def connect(self) -> Maybe:
        """Connects to the peer. Is called again after the connection was lost."""
        return None

    @classmethod
    def sides(cls, config: Any) -> Sides:
        return cls._sides()

    @classmethod
    def _sides(cls) -> Sides:
        return Sides(source=True, sink=False)


class Sink(Component, SinkHalf):
    """A connector that only writes. Its methods are called by one thread."""

    def connect(self) -> Maybe:
        """Connects to the peer. Is called again after the connection was lost."""
        return None

    @classmethod
    def sides(cls, config: Any) -> Sides:
        return cls._sides()

    @classmethod
    def _sides(cls) -> Sides:
        return Sides(source=False, sink=True)


@dataclasses.dataclass
class Halves:
    """The halves of one connection."""

    source: Optional[SourceHalf] = None
    sink: Optional[SinkHalf] = None


class Connector(Component):
    """A connector with two halves, or whose halves depend on its configuration.

    If it has both halves, and `pull` or `deliver` is a plain method, that half has a thread of its own.
    """

    #: The halves that the connector may have.
    has_source: bool = True
    has_sink: bool = True

    def connect(self, wanted: Sides) -> Union[Halves, Awaitable[Halves]]:
        """Connects to the peer, and returns at least the wanted halves. Is called again after a lost connection."""
        raise NotImplementedError

    def close(self) -> Maybe:
        """Is the last call."""
        return None

    @classmethod
    def sides(cls, config: Any) -> Sides:
        """Returns the halves that the connector has with this configuration: by default, all."""
        return cls._sides()

    @classmethod
    def _sides(cls) -> Sides:
        return Sides(cls.has_source, cls.has_sink)
