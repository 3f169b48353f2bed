"""JSON, as fast as the standard library allows."""

from __future__ import annotations

import json
import json.encoder
from typing import Any, Callable, List, Optional

__all__ = ["decode", "decode_all", "encode"]

_decoder = json.JSONDecoder()
_scan: Callable[[str, int], Any] = _decoder.scan_once  # type: ignore[attr-defined]


def decode(data: bytes) -> Any:
    """Decodes JSON. Raises `ValueError` if the data is not JSON in UTF-8."""
    text = data.decode("utf-8")
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        return _decoder.decode(text)
    # Surrounding white space is rare.
    return value if end == len(text) else _decoder.decode(text)


def decode_all(messages: List[bytes]) -> Optional[List[Any]]:
    """Decodes messages with one call, which is faster. Returns `None` if one of them is not JSON."""
    try:
        values = _decoder.decode((b"[" + b",".join(messages) + b"]").decode("utf-8"))
    except ValueError:
        return None
    # `1,2` is not a message, but two.
    return values if len(values) == len(messages) else None


def _default(value: Any) -> Any:
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


def _make_encoder() -> Callable[[Any], bytes]:
    make = getattr(json.encoder, "c_make_encoder", None)
    escape = json.encoder.encode_basestring
    if make is None:
        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return lambda value: encoder.encode(value).encode("utf-8")
    # `JSONEncoder.encode` creates such an object for each value.
    chunks = make(None, _default, escape, None, ":", ",", False, False, False)
    join = "".join

    def encode(value: Any) -> bytes:
        return join(chunks(value, 0)).encode("utf-8")

    return encode


#: Encodes a value as JSON. Raises `ValueError` or `TypeError` if it has no form in JSON.
encode: Callable[[Any], bytes] = _make_encoder()
try:
    if encode({"a": [1.5, None, "\u00e4"]}) != '{"a":[1.5,null,"\u00e4"]}'.encode():
        raise TypeError("json.encoder.c_make_encoder has changed")
except TypeError:
    _fallback = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    encode = lambda value: _fallback.encode(value).encode("utf-8")  # noqa: E731
