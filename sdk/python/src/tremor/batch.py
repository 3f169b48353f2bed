"""The batch of a delivery, and the pull that a source fills."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Union

from . import values
from .errors import Error, as_error
from .frame import ABORT, END, FRAGMENT, Frame, FrameError, FrameWriter, RAW

__all__ = ["Batch", "Event", "FINISHED", "Idle", "Pull"]


class _Cancellable:
    """A call that the runtime may cancel."""

    __slots__ = ("_is_given_up", "_is_interrupted", "_wait", "_wake")

    def __init__(self, wait: Optional[Callable[[threading.Event, Optional[float]], bool]] = None):
        self._is_given_up = False
        self._is_interrupted = False
        self._wake: Optional[threading.Event] = None
        self._wait = wait

    @property
    def is_given_up(self) -> bool:
        """`True` once the runtime has cancelled the call. Return soon then."""
        return self._is_given_up

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Waits in a plain method. Returns `True` as soon as the call should return.

        A source should also return if acknowledgements wait for its thread. Coroutines do not need this method, because
        they are cancelled.
        """
        wake = self._wake
        if wake is None:
            wake = self._wake = threading.Event()
        # The other thread sets the flag before it looks for the event.
        if self._is_interrupted:
            return True
        return self._wait(wake, seconds) if self._wait else wake.wait(seconds)

    def _interrupt(self, give_up: bool) -> None:
        """Ends waiting. Is called by another thread."""
        if give_up:
            self._is_given_up = True
        self._is_interrupted = True
        wake = self._wake
        if wake is not None:
            wake.set()


class Event:
    """An event of a delivery."""

    __slots__ = ("_batch", "index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        #: Position in the batch.
        self.index = index

    @property
    def data(self) -> bytes:
        """The bytes of the event, which a codec of the runtime has encoded."""
        return self._batch._frame.raw(self.index)

    @property
    def text(self) -> str:
        """The bytes of the event as UTF-8. Raises an error of the kind bad data if they are not."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Error.bad_data(f"the event is not text in UTF-8: {error}") from error

    @property
    def value(self) -> Any:
        """The value of the event, decoded from JSON at each access.

        Raises an error of the kind bad data if the event is not JSON, for example because the flow sets another codec.
        """
        self._batch._need_json()
        try:
            return values.decode(self.data)
        except ValueError as error:
            raise Error.bad_data(f"the event is not JSON: {error}") from error

    @property
    def metadata(self) -> Any:
        """The metadata, usually a dict, or `None`. Do not change it: other events may share it."""
        return self._batch._at(self._batch._frame.events[self.index][8])

    @property
    def origin(self) -> Optional[str]:
        """The origin, such as a path or the address of a peer."""
        origin: Optional[str] = self._batch._at(self._batch._frame.events[self.index][9])
        return origin

    @property
    def stream(self) -> int:
        """The number of the stream within the source."""
        return int(self._batch._frame.events[self.index][10])

    @property
    def ingest_ns(self) -> int:
        """The time of arrival, in nanoseconds since the Unix epoch."""
        return int(self._batch._frame.events[self.index][12])

    def reject(self, error: Union[Error, BaseException, str]) -> None:
        """Reports that the event was not delivered; see `Batch.reject`."""
        self._batch.reject(self.index, error)

    def __repr__(self) -> str:
        return f"Event({self.index}, {self.data[:80]!r})"


class Batch(_Cancellable, Sequence[Event]):
    """The events of a delivery. If `deliver` returns, all events were delivered that were not rejected."""

    __slots__ = ("_cache", "_frame", "_is_json", "_rejected")

    def __init__(self, frame: Frame, is_json: bool = True, wait: Any = None) -> None:
        super().__init__(wait)
        for index, event in enumerate(frame.events):
            if event[0] != RAW:
                raise FrameError(f"event {index} has no bytes: a connector in Python receives encoded events")
        self._frame = frame
        self._is_json = is_json
        self._cache: Dict[int, Any] = {}
        self._rejected: Dict[int, Error] = {}

    @classmethod
    def of(cls, events: Iterable[Any], *, metadata: Any = None, origin: Optional[str] = None) -> Batch:
        """Creates a batch of values, or of bytes, for a test."""
        pull = Pull()
        for event in events:
            push = pull.push_bytes if isinstance(event, bytes) else pull.push
            push(event, metadata=metadata, origin=origin)
        return cls(Frame(pull._frame()))

    @property
    def rejected(self) -> Dict[int, Error]:
        """The errors of the rejected events, by position."""
        return dict(self._rejected)

    def _need_json(self) -> None:
        if not self._is_json:
            raise TypeError('the connector has another codec than "json": use `data` or `text`')

    def _at(self, location: int) -> Any:
        if location not in self._cache:
            self._cache[location] = self._frame.at(location)
        return self._cache[location]

    def __len__(self) -> int:
        return len(self._frame.events)

    def __iter__(self) -> Iterator[Event]:
        return (Event(self, index) for index in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [Event(self, it) for it in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"the batch has {len(self)} events")
        return Event(self, index)

    def data(self) -> List[bytes]:
        """Returns the bytes of all events. Faster than `Event.data` of each event."""
        contents = self._frame.bytes
        return [contents[it[4] : it[4] + it[5]] for it in self._frame.events]

    def values(self) -> List[Any]:
        """Returns the values of all events. Faster than `Event.value` of each event.

        Raises an error of the kind bad data if an event is not JSON.
        """
        self._need_json()
        decoded = values.decode_all(self.data())
        return [event.value for event in self] if decoded is None else decoded

    def reject(self, event: Union[int, Event], error: Union[Error, BaseException, str]) -> None:
        """Reports that an event was not delivered.

        With a policy of retry or reconnect, the event is delivered again, and otherwise it leaves by the port `err`. A
        text is an error of the kind bad data. If an event is rejected twice, the first error is used.
        """
        index = event.index if isinstance(event, Event) else event
        if isinstance(event, Event) and event._batch is not self:
            raise ValueError("the event belongs to another batch")
        if not 0 <= index < len(self):
            raise IndexError(f"cannot reject event {index}: the batch has {len(self)} events")
        self._rejected.setdefault(index, as_error(error))

    def _ranges(self) -> List[Dict[str, Any]]:
        """Returns the rejected events as ranges, each with its error."""
        ranges: List[Dict[str, Any]] = []
        for index in sorted(self._rejected):
            error = self._rejected[index].to_body()
            last = ranges[-1] if ranges else None
            if last and last["start"] + last["len"] == index and last["error"] == error:
                last["len"] += 1
            else:
                ranges.append({"start": index, "len": 1, "error": error})
        return ranges


class Idle:
    """Result of a pull that has read everything that is available: the runtime pulls again after `seconds`."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = max(0.0, seconds)

    def __repr__(self) -> str:
        return f"Idle({self.seconds})"


class _Finished:
    """Type of `FINISHED`."""

    def __repr__(self) -> str:
        return "FINISHED"


#: Result of a pull after which no event will follow.
FINISHED = _Finished()


class Pull(_Cancellable):
    """A pull, to which a source adds events."""

    __slots__ = ("_is_json", "_limit_bytes", "_limit_events", "_writer", "number")

    def __init__(
        self,
        number: int = 0,
        events: int = 1_000,
        size: int = 1 << 20,
        is_json: bool = True,
        wait: Any = None,
    ) -> None:
        super().__init__(wait)
        #: The number with which `ack` or `fail` will report the end of the pull.
        self.number = number
        self._limit_events = max(1, events)
        self._limit_bytes = max(1, size)
        self._is_json = is_json
        self._writer = FrameWriter()

    def __len__(self) -> int:
        return len(self._writer)

    @property
    def is_full(self) -> bool:
        """`True` if the pull has to return. Keep events that you have read beyond that for the next pull."""
        writer = self._writer
        return len(writer) >= self._limit_events or writer.payload_len >= self._limit_bytes

    @property
    def max_events(self) -> int:
        """The number of events with which the pull is full. It changes from pull to pull."""
        return self._limit_events

    def push(
        self,
        value: Any,
        *,
        metadata: Any = None,
        origin: Optional[str] = None,
        stream: int = 0,
        ingest_ns: int = 0,
    ) -> None:
        """Adds an event: any value that JSON can represent, or, with another codec than `json`, bytes or a text.

        `metadata` is a dict that later operators and sinks can read. `origin` is a text, such as a path. Events of one
        `stream` keep their order. `ingest_ns` is the time of the event; by default, the runtime sets the current time.
        """
        if self._is_json:
            data = values.encode(value)
        elif isinstance(value, str):
            data = value.encode("utf-8")
        else:
            data = _as_bytes(value)
        self._push(data, 0, metadata, origin, stream, ingest_ns)

    def push_bytes(
        self,
        data: bytes,
        *,
        metadata: Any = None,
        origin: Optional[str] = None,
        stream: int = 0,
        ingest_ns: int = 0,
    ) -> None:
        """Adds a message that is encoded already. The codec of the flow decodes it."""
        self._push(_as_bytes(data), 0, metadata, origin, stream, ingest_ns)

    def push_fragment(
        self,
        data: bytes,
        *,
        metadata: Any = None,
        origin: Optional[str] = None,
        stream: int = 0,
        ingest_ns: int = 0,
    ) -> None:
        """Adds a part of a byte stream, cut anywhere. The preprocessors of the flow assemble messages."""
        self._push(_as_bytes(data), FRAGMENT, metadata, origin, stream, ingest_ns)

    def end_stream(self, stream: int = 0, *, aborted: bool = False) -> None:
        """Ends a byte stream. With `aborted`, the beginning of a message at its end is discarded."""
        self._writer.add_end(stream, aborted)

    def extend(
        self, items: Iterable[Any], *, metadata: Any = None, origin: Optional[str] = None, stream: int = 0
    ) -> None:
        """Adds several values, as `push` does."""
        if not self._is_json:
            for item in items:
                self.push(item, metadata=metadata, origin=origin, stream=stream)
            return
        writer = self._writer
        at = writer.locate(metadata) if metadata is not None else 0
        by = writer.locate(origin) if origin is not None else 0
        add, encode = writer.add, values.encode
        for item in items:
            add(encode(item), 0, stream, at, by)

    def _push(
        self, data: bytes, flags: int, metadata: Any, origin: Optional[str], stream: int, ingest_ns: int
    ) -> None:
        writer = self._writer
        if len(data) > _LARGE:
            writer.check_capacity(len(data))
        at = writer.locate(metadata) if metadata is not None else 0
        by = writer.locate(origin) if origin is not None else 0
        writer.add(data, flags, stream, at, by, ingest_ns)

    def data(self) -> List[bytes]:
        """Returns the messages and fragments that were added, for a test."""
        frame = Frame(self._frame())
        return [frame.raw(index) for index, event in enumerate(frame.events) if event[0] == RAW]

    def values(self) -> List[Any]:
        """Returns the values that were added, decoded from JSON, for a test."""
        return [values.decode(data) for data in self.data()]

    def _frame(self) -> bytes:
        return self._writer.finish()


_LARGE = 1 << 20


def _as_bytes(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"expected bytes, got {type(data).__name__}")
