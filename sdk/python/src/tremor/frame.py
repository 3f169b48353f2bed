"""Reading and writing frames, the form of a batch between processes (`docs/frame.md`)."""

from __future__ import annotations

import decimal
import marshal
import re
import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

__all__ = [
    "ABORT",
    "DOCUMENT",
    "END",
    "FRAGMENT",
    "Frame",
    "FrameError",
    "FrameWriter",
    "MAX_EVENTS",
    "MAX_LEN",
    "RAW",
    "RawEvent",
]

#: Maximum length of a frame, in bytes.
MAX_LEN = 64 << 20
#: Maximum number of events of a frame.
MAX_EVENTS = 65_535

#: Kinds of payloads.
NONE, RAW, DOCUMENT = 0, 1, 2
#: Flags of events: a part of a byte stream, the end of a stream, and an end that came too early.
FRAGMENT, END, ABORT = 1, 2, 4
#: Flag of events whose original bytes must not be read.
FORGOTTEN = 32
_KNOWN_FLAGS = 63
#: Position of a new event.
UNKNOWN = 65_535

_HEADER = struct.Struct("<4sBBHQIHHIIIIQQQ")
_EVENT = struct.Struct("<BBHIIIIIIIQQQ")
_NODE = struct.Struct("<IIQ")
_I64 = struct.Struct("<q")
_U64 = struct.Struct("<Q")
_F64 = struct.Struct("<d")
_IN_NODES = 1 << 31
_DELTA, _CHECKSUM = 1, 2
_MINOR = 1
_MAX_DEPTH = 512
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)

(_NULL, _BOOL, _INT, _UINT, _FLOAT, _STRING, _BYTES, _ARRAY, _OBJECT, _NUMBER) = range(10)


class FrameError(ValueError):
    """A frame, or a value for a frame, that is invalid."""


class RawEvent(NamedTuple):
    """The fields of an event, as `docs/abi.md` describes them."""

    kind: int
    flags: int
    position: int
    source: int
    payload: int
    payload_len: int
    original: int
    original_len: int
    metadata: int
    origin: int
    stream: int
    pull: int
    ingest_ns: int


class Frame:
    """A frame that was read. Values are decoded when they are asked for."""

    __slots__ = (
        "base_bytes",
        "base_nodes",
        "bytes",
        "epoch",
        "events",
        "flags",
        "minor",
        "nodes",
        "number",
    )

    def __init__(self, data: bytes, base: Optional[Frame] = None) -> None:
        """Reads a frame. `base` is the frame to which a delta refers.

        Raises `FrameError` if the frame is invalid. The checksum is not verified: frames between processes have none.
        """
        if len(data) < _HEADER.size:
            raise FrameError(f"a frame has at least 64 bytes, got {len(data)}")
        (
            magic,
            layout,
            self.minor,
            header_len,
            total_len,
            events,
            event_size,
            self.flags,
            nodes,
            self.base_nodes,
            bytes_,
            self.base_bytes,
            self.number,
            self.epoch,
            _,
        ) = _HEADER.unpack_from(data)
        if magic != b"TRB2" or layout != 1 or self.minor > _MINOR:
            raise FrameError(
                f"unknown frame: magic {magic!r}, layout {layout}, minor {self.minor}; "
                f"expected {b'TRB2'!r}, 1 and at most {_MINOR}"
            )
        if header_len < 64 or event_size < 56 or header_len % 8 or event_size % 8:
            raise FrameError(f"invalid sizes: header {header_len}, event {event_size}")
        if events > MAX_EVENTS or self.flags & ~(_DELTA | _CHECKSUM):
            raise FrameError(f"invalid header: {events} events, flags {self.flags}")
        is_delta = bool(self.flags & _DELTA)
        if not is_delta and (self.base_nodes or self.base_bytes):
            raise FrameError("a complete frame has no base")
        nodes_at = header_len + events * event_size
        bytes_at = nodes_at + nodes * _NODE.size
        end = bytes_at + bytes_
        if total_len != (end + 7) & ~7 or total_len > MAX_LEN or total_len > len(data):
            raise FrameError(f"invalid length: {total_len} of {len(data)} bytes, sections end at {end}")
        if data.count(0, end, total_len) != total_len - end:
            raise FrameError("the bytes after the last section are not 0")
        view = memoryview(data)
        if event_size == _EVENT.size:
            self.events = list(_EVENT.iter_unpack(view[header_len:nodes_at]))
        else:
            starts = range(header_len, nodes_at, event_size)
            self.events = [_EVENT.unpack_from(data, at) for at in starts]
        self.nodes: bytes = data[nodes_at:bytes_at]
        self.bytes: bytes = data[bytes_at:end]
        if is_delta:
            if base is None:
                raise FrameError("a delta needs the frame that it refers to")
            if (len(base.nodes) // _NODE.size, len(base.bytes)) != (self.base_nodes, self.base_bytes):
                raise FrameError("a delta refers to another frame")
            self.nodes = base.nodes + self.nodes
            self.bytes = base.bytes + self.bytes
        self._check()

    def _check(self) -> None:
        """Checks that all events refer to contents of the frame."""
        len_bytes, len_nodes = len(self.bytes), len(self.nodes) // _NODE.size
        for index, event in enumerate(self.events):
            kind, flags, _, _, at, length, original, original_len, metadata, origin, _, _, _ = event
            valid = flags & ~_KNOWN_FLAGS == 0
            if kind == RAW:
                valid = valid and at + length <= len_bytes
            elif kind == DOCUMENT:
                valid = valid and at < len_nodes
            else:
                valid = valid and kind == NONE
            if original_len and not flags & FORGOTTEN:
                valid = valid and original + original_len <= len_bytes
            for location in (metadata, origin):
                if location:
                    valid = valid and location & _IN_NODES != 0
                    valid = valid and 0 < location ^ _IN_NODES <= len_nodes
            if not valid:
                raise FrameError(f"event {index} is invalid: {RawEvent(*event)}")

    def __len__(self) -> int:
        return len(self.events)

    def event(self, index: int) -> RawEvent:
        """Returns the fields of an event."""
        return RawEvent(*self.events[index])

    def raw(self, index: int) -> bytes:
        """Returns the payload of a raw event."""
        event = self.events[index]
        if event[0] != RAW:
            raise FrameError(f"event {index} has no raw payload, but one of kind {event[0]}")
        return self.bytes[event[4] : event[4] + event[5]]

    def payload(self, index: int) -> Any:
        """Returns the bytes of a raw event, the value of a document, or `None` for the end of a stream."""
        event = self.events[index]
        if event[0] == RAW:
            return self.raw(index)
        return self.value(event[4]) if event[0] == DOCUMENT else None

    def at(self, location: int) -> Any:
        """Returns the value of the metadata or the origin at a location, or `None` for 0."""
        return self.value((location ^ _IN_NODES) - 1) if location else None

    def value(self, root: int) -> Any:
        """Decodes the value whose root is the node `root`."""
        return self._value(root, 0)[0]

    def _value(self, index: int, depth: int) -> Tuple[Any, int]:
        """Returns the value at a node, and the index of the node after it."""
        if depth > _MAX_DEPTH or (index + 1) * _NODE.size > len(self.nodes):
            raise FrameError(f"node {index} is nested too deeply, or does not exist")
        head, length, payload = _NODE.unpack_from(self.nodes, index * _NODE.size)
        kind = head & 0xFF
        if kind == _STRING:
            return self._text(payload, length), index + 1
        if kind == _OBJECT:
            pairs: Dict[str, Any] = {}
            at = index + 1
            for _ in range(length):
                key, at = self._key(at)
                pairs[key], at = self._value(at, depth + 1)
            self._check_end(index, payload, at)
            return pairs, at
        if kind == _ARRAY:
            items: List[Any] = []
            at = index + 1
            for _ in range(length):
                item, at = self._value(at, depth + 1)
                items.append(item)
            self._check_end(index, payload, at)
            return items, at
        if kind == _NULL:
            return None, index + 1
        if kind == _BOOL:
            return payload != 0, index + 1
        if kind == _INT:
            return _I64.unpack(_U64.pack(payload))[0], index + 1
        if kind == _UINT:
            return payload, index + 1
        if kind == _FLOAT:
            return _F64.unpack(_U64.pack(payload))[0], index + 1
        if kind == _BYTES:
            return self._data(payload, length), index + 1
        if kind == _NUMBER:
            return _number(self._text(payload, length)), index + 1
        raise FrameError(f"node {index} has the unknown kind {kind}")

    def _key(self, index: int) -> Tuple[str, int]:
        if (index + 1) * _NODE.size > len(self.nodes):
            raise FrameError(f"node {index} does not exist")
        head, length, payload = _NODE.unpack_from(self.nodes, index * _NODE.size)
        data = self._data(payload, length)
        if head & 0xFF != _STRING or head >> 8 != _fingerprint(data):
            raise FrameError(f"node {index} is not a key with its fingerprint")
        return self._text(payload, length), index + 1

    @staticmethod
    def _check_end(index: int, payload: int, at: int) -> None:
        if payload != at - index:
            raise FrameError(f"node {index} has {at - index} nodes, and not {payload}")

    def _data(self, at: int, length: int) -> bytes:
        if at + length > len(self.bytes):
            raise FrameError(f"the bytes {at} to {at + length} are outside of the frame")
        return self.bytes[at : at + length]

    def _text(self, at: int, length: int) -> str:
        try:
            return self._data(at, length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FrameError(f"the text at {at} is not UTF-8") from error


def _number(text: str) -> Any:
    """Returns the number with this text: an integer, or a float, or a decimal if it exceeds these."""
    if not _JSON_NUMBER.fullmatch(text):
        raise FrameError("the text of a number is not a JSON number")
    try:
        return int(text)
    except ValueError:
        # It has a fraction or an exponent, or more digits than Python converts.
        number = float(text)
        return number if abs(number) != float("inf") else decimal.Decimal(text)


def _fingerprint(key: bytes) -> int:
    if not key:
        return 0
    return key[0] | key[len(key) // 2] << 8 | key[-1] << 16


class FrameWriter:
    """Writes raw events, with metadata and origins, to a frame. Equal metadata and equal origins are stored once."""

    __slots__ = ("_chunks", "_events", "_locations", "_nodes", "_node_count", "payload_len", "bytes_len")

    def __init__(self) -> None:
        self._events: List[bytes] = []
        self._chunks: List[bytes] = []
        self._nodes: List[bytes] = []
        self._node_count = 0
        self._locations: Dict[object, int] = {}
        #: Number of bytes of the payloads.
        self.payload_len = 0
        #: Number of bytes of payloads, texts and data.
        self.bytes_len = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def total_len(self) -> int:
        """The length of the frame, without its padding."""
        return 64 + len(self._events) * 56 + self._node_count * 16 + self.bytes_len

    def check_capacity(self, length: int) -> None:
        """Raises `FrameError` if no event with `length` bytes can be added."""
        if len(self._events) >= MAX_EVENTS:
            raise FrameError(f"a pull has at most {MAX_EVENTS} events; return when it is full")
        if self.total_len + length + 128 > MAX_LEN:
            raise FrameError(
                f"an event of {length} bytes exceeds the {MAX_LEN} bytes of a pull, which has "
                f"{self.total_len} bytes already; return when it is full"
            )

    def add(
        self,
        data: bytes,
        flags: int = 0,
        stream: int = 0,
        metadata: int = 0,
        origin: int = 0,
        ingest_ns: int = 0,
    ) -> None:
        """Adds a raw event. `metadata` and `origin` are locations of `locate`."""
        length = len(data)
        # The events and the header of a frame take up less than 4 MiB.
        if (
            len(self._events) >= MAX_EVENTS
            or self.bytes_len + self._node_count * 16 + length > MAX_LEN - (4 << 20)
        ):
            self.check_capacity(length)
        self._events.append(
            _EVENT.pack(
                RAW, flags, UNKNOWN, 0, self.bytes_len, length, 0, 0, metadata, origin, stream, 0, ingest_ns
            )
        )
        self._chunks.append(data)
        self.bytes_len += length
        self.payload_len += length

    def add_end(self, stream: int, aborted: bool = False, ingest_ns: int = 0) -> None:
        """Adds the end of a stream."""
        self.check_capacity(0)
        flags = END | ABORT if aborted else END
        self._events.append(
            _EVENT.pack(NONE, flags, UNKNOWN, 0, 0, 0, 0, 0, 0, 0, stream, 0, ingest_ns)
        )

    def locate(self, value: Any) -> int:
        """Adds metadata or an origin, if the frame does not have it yet, and returns its location."""
        key: object
        try:
            # Distinguishes 1, 1.0 and True, and does not keep a value that the caller may change.
            key = marshal.dumps(value, 2)
        except ValueError:
            key = None
        location = self._locations.get(key) if key is not None else None
        if location is None:
            nodes: List[Tuple[int, int, int]] = []
            chunks: List[bytes] = []
            self._node(value, nodes, chunks, self.bytes_len, 0)
            added = sum(map(len, chunks))
            self.check_capacity(added + 16 * len(nodes))
            location = self._node_count + 1 | _IN_NODES
            self._nodes.extend(_NODE.pack(*node) for node in nodes)
            self._node_count += len(nodes)
            self._chunks.extend(chunks)
            self.bytes_len += added
            if key is not None:
                self._locations[key] = location
        return location

    def _node(
        self, value: Any, nodes: List[Tuple[int, int, int]], chunks: List[bytes], at: int, depth: int
    ) -> int:
        """Appends the nodes of a value. Returns the offset after its bytes, which begin at `at`."""
        if depth > _MAX_DEPTH:
            raise FrameError(f"metadata is nested deeper than {_MAX_DEPTH} levels")
        if isinstance(value, str):
            return self._bytes(_STRING, value.encode("utf-8"), nodes, chunks, at)
        if value is None:
            nodes.append((_NULL, 0, 0))
        elif value is True or value is False:
            nodes.append((_BOOL, 0, int(value)))
        elif isinstance(value, int):
            if -(1 << 63) <= value < 1 << 63:
                nodes.append((_INT, 0, value & (1 << 64) - 1))
            elif 0 <= value < 1 << 64:
                nodes.append((_UINT, 0, value))
            else:
                return self._bytes(_NUMBER, str(value).encode(), nodes, chunks, at)
        elif isinstance(value, float):
            if value != value or value in (float("inf"), float("-inf")):
                raise FrameError(f"{value} is not a number that events can have")
            nodes.append((_FLOAT, 0, _U64.unpack(_F64.pack(value))[0]))
        elif isinstance(value, decimal.Decimal):
            if not value.is_finite():
                raise FrameError(f"{value} is not a number that events can have")
            text = format(value, "E" if abs(value.adjusted()) > 40 else "f")
            return self._bytes(_NUMBER, text.encode(), nodes, chunks, at)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(_BYTES, bytes(value), nodes, chunks, at)
        elif isinstance(value, dict):
            first = len(nodes)
            nodes.append((_OBJECT, len(value), 0))
            for key, item in value.items():
                if not isinstance(key, str):
                    raise FrameError(f"keys of metadata are texts, got {type(key).__name__}")
                data = key.encode("utf-8")
                at = self._bytes(_STRING | _fingerprint(data) << 8, data, nodes, chunks, at)
                at = self._node(item, nodes, chunks, at, depth + 1)
            nodes[first] = (_OBJECT, len(value), len(nodes) - first)
        elif isinstance(value, (list, tuple)):
            first = len(nodes)
            nodes.append((_ARRAY, len(value), 0))
            for item in value:
                at = self._node(item, nodes, chunks, at, depth + 1)
            nodes[first] = (_ARRAY, len(value), len(nodes) - first)
        else:
            raise FrameError(f"metadata cannot contain a value of type {type(value).__name__}")
        return at

    @staticmethod
    def _bytes(
        head: int, data: bytes, nodes: List[Tuple[int, int, int]], chunks: List[bytes], at: int
    ) -> int:
        nodes.append((head, len(data), at))
        chunks.append(data)
        return at + len(data)

    def finish(self, number: int = 0) -> bytes:
        """Returns the frame."""
        end = self.total_len
        total = (end + 7) & ~7
        header = _HEADER.pack(
            b"TRB2", 1, 0, 64, total, len(self._events), 56, 0, self._node_count, 0, self.bytes_len, 0, number, 0, 0
        )
        return b"".join(
            (header, *self._events, *self._nodes, *self._chunks, bytes(total - end))
        )
