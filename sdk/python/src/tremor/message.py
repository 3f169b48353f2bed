"""Messages between the runtime and the process of a plugin (`docs/isolation.md`)."""

from __future__ import annotations

import enum
import json
import struct
from typing import Any, Iterator, NamedTuple

__all__ = ["Flags", "Kind", "Message", "Parser", "VERSION"]

#: Version of the protocol.
VERSION = 1

#: Maximum length of a body, in bytes.
MAX_BODY = 64 << 20

_HEADER = struct.Struct("<IHHIIQQ")


class Kind(enum.IntEnum):
    """The kinds of messages."""

    HELLO = 1
    NEW = 2
    CONNECT = 3
    HOOK = 4
    PING = 5
    CHECK = 6
    PULL = 16
    ACK = 17
    FAIL = 18
    UNDECODABLE = 19
    BREAKER = 20
    CLOSE_SOURCE = 21
    DROP_SOURCE = 22
    GRANT = 32
    DELIVER = 33
    TICK = 34
    FLUSH = 35
    CLOSE_SINK = 36
    DROP_SINK = 37
    GIVE_UP = 48
    LOG = 64
    METRICS = 65
    PROBLEM = 66
    CONNECTION_LOST = 67
    REQUEST_STOP = 68


class Flags(enum.IntFlag):
    """The flags of messages."""

    ANSWER = 1
    ERROR = 2
    IDLE = 4
    FINISHED = 8


class Message(NamedTuple):
    """A message. Kinds and flags are numbers, because later versions may add some."""

    kind: int
    flags: int = 0
    call: int = 0
    slot: int = 0
    a: int = 0
    b: int = 0
    body: bytes = b""

    def json(self) -> Any:
        """Returns the body, which is JSON."""
        return json.loads(self.body)

    def text(self) -> str:
        """Returns the body, which is text."""
        return self.body.decode("utf-8", "replace")

    def encode(self) -> bytes:
        """Returns the bytes of the message."""
        kind, flags, call, slot, a, b, body = self
        if len(body) > MAX_BODY:
            raise ValueError(f"a body has at most {MAX_BODY} bytes, got {len(body)}")
        return _HEADER.pack(len(body), kind, flags, call, slot, a, b) + body


def body(value: Any) -> bytes:
    """Returns the body with a value as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class Parser:
    """Finds messages in a stream of bytes."""

    def __init__(self) -> None:
        self._data = bytearray()

    def push(self, data: bytes) -> Iterator[Message]:
        """Appends bytes of the stream, and returns the messages that are complete.

        Raises `ValueError` if a body is too long. Nothing that follows can be read then.
        """
        buffer = self._data
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= _HEADER.size:
                length, *fields = _HEADER.unpack_from(buffer, at)
                if length > MAX_BODY:
                    raise ValueError(f"a message has a body of {length} bytes: the limit is {MAX_BODY}")
                end = at + _HEADER.size + length
                if end > len(buffer):
                    break
                body = bytes(buffer[at + _HEADER.size : end]) if length else b""
                at = end
                yield Message(*fields, body)
        finally:
            del buffer[:at]
