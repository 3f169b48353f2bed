"""Configurations: JSON Schemas of dataclasses, and the validation of values."""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import enum
import inspect
import keyword
import pathlib
import re
import sys
import typing
from typing import Any, Dict, List, Optional, Tuple, Type, TypeVar, Union

from .errors import Error

__all__ = ["ByteSize", "Duration", "Secret", "load", "option", "schema"]

_T = TypeVar("_T")

if sys.version_info >= (3, 10):
    from types import UnionType

    _UNIONS: Tuple[Any, ...] = (Union, UnionType)
else:
    _UNIONS = (Union,)


class Duration(float):
    """A time in seconds. In flow files, a text with a unit: `500ms`, `10s`, `5m` or `1h`."""

    _UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    _PATTERN = "^[0-9]+ *(ms|s|m|h)$"

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Reads a duration. Raises `ValueError` if the text is not one."""
        found = re.fullmatch(r"([0-9]+) *(ms|s|m|h)", text)
        if not found:
            raise ValueError("expected a time, such as `500ms`, `10s`, `5m` or `1h`")
        return cls(int(found[1]) * cls._UNITS[found[2]])


class ByteSize(int):
    """A number of bytes. In flow files, a text with a unit: `100B`, `64KiB`, `1MiB`, `1kB`, `1MB`, ..."""

    _UNITS = {
        "B": 1,
        "KiB": 1 << 10,
        "MiB": 1 << 20,
        "GiB": 1 << 30,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
    }
    _PATTERN = "^[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB)$"

    @classmethod
    def parse(cls, text: str) -> ByteSize:
        """Reads a size. Raises `ValueError` if the text is not one."""
        found = re.fullmatch(r"([0-9]+) *(B|KiB|MiB|GiB|kB|MB|GB)", text)
        if not found:
            raise ValueError("expected a size, such as `64KiB` or `1MiB`")
        return cls(int(found[1]) * cls._UNITS[found[2]])


class Secret(str):
    """A text that must not be shown, such as a password. Its `repr` does not contain the text."""

    def __repr__(self) -> str:
        return "Secret(...)"


def option(
    default: Any = dataclasses.MISSING,
    *,
    default_factory: Any = dataclasses.MISSING,
    about: str = "",
    minimum: Optional[float] = None,
    maximum: Optional[float] = None,
) -> Any:
    """Describes a key of a configuration. Without a default, the key is required.

    `about` becomes the description in the JSON Schema. `minimum` and `maximum` limit numbers, both inclusively.
    """
    metadata = {"about": about, "minimum": minimum, "maximum": maximum}
    given: Dict[str, Any] = {"metadata": {"tremor": metadata}}
    if default is not dataclasses.MISSING:
        given["default"] = default
    if default_factory is not dataclasses.MISSING:
        given["default_factory"] = default_factory
    return dataclasses.field(**given)


class _Key(typing.NamedTuple):
    """A key of a dataclass."""

    #: Name in flow files, and that of the field. The field `from_` stands for the key `from`, which Python reserves.
    name: str
    field: str
    type: Any
    about: str
    minimum: Optional[float]
    maximum: Optional[float]
    is_required: bool
    default: Any


def _keys(config: Type[Any]) -> List[_Key]:
    hints = typing.get_type_hints(config, include_extras=True)
    keys = []
    for field in dataclasses.fields(config):
        if not field.init:
            continue
        known = field.metadata.get("tremor", {})
        hint, about = hints[field.name], known.get("about", "")
        if typing.get_origin(hint) is typing.Annotated:
            texts = [it for it in typing.get_args(hint)[1:] if isinstance(it, str)]
            about = about or (texts[0] if texts else "")
            hint = typing.get_args(hint)[0]
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        is_required = default is dataclasses.MISSING
        limits = (known.get("minimum"), known.get("maximum"))
        keys.append(_Key(_key_of(field.name), field.name, hint, about, *limits, is_required, default))
    return keys


def _key_of(field: str) -> str:
    return field[:-1] if field.endswith("_") and keyword.iskeyword(field[:-1]) else field


def _is_config(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) and isinstance(hint, type)


def _plain(value: Any) -> Any:
    """Returns the form that a default has in a flow file."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [it.name for it in dataclasses.fields(value) if it.init]
        return {_key_of(it): _plain(getattr(value, it)) for it in fields}
    if isinstance(value, Duration):
        millis = round(value * 1000)
        return f"{millis // 1000}s" if millis % 1000 == 0 else f"{millis}ms"
    if isinstance(value, ByteSize):
        return f"{int(value)}B"
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, (list, tuple)):
        return [_plain(it) for it in value]
    if isinstance(value, dict):
        return {str(key): _plain(it) for key, it in value.items()}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def schema(config: Optional[Type[Any]]) -> Dict[str, Any]:
    """Returns the JSON Schema of a dataclass. `None` stands for a configuration without keys."""
    if config is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    properties: Dict[str, Any] = {}
    keys = _keys(config)
    for key in keys:
        made = _schema_of(key.type, f"{config.__name__}.{key.name}")
        if key.about:
            made = {"description": key.about, **made}
        for name, limit in (("minimum", key.minimum), ("maximum", key.maximum)):
            if limit is not None:
                made[name] = limit
        if not key.is_required and key.default is not None:
            default = key.default
            if key.type in (Duration, ByteSize) and not isinstance(default, key.type):
                default = key.type(default)
            made["default"] = _plain(default)
        properties[key.name] = made
    made = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [key.name for key in keys if key.is_required]
    if required:
        made["required"] = required
    doc = inspect.getdoc(config)
    if doc and not doc.startswith(f"{config.__name__}("):
        made = {"description": doc, **made}
    return made


def _schema_of(hint: Any, where: str) -> Dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _schema_of(arguments[0], where)
    if hint is Any or hint is object:
        return {}
    if _is_config(hint):
        return schema(hint)
    if origin in _UNIONS:
        options = [_schema_of(it, where) for it in arguments if it is not type(None)]
        if type(None) in arguments:
            options.append({"type": "null"})
        simple = all(set(it) == {"type"} for it in options)
        return {"type": [it["type"] for it in options]} if simple else {"anyOf": options}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [_plain(it) for it in hint]}
    if hint is Duration:
        return {"type": "string", "pattern": Duration._PATTERN, "examples": ["10s"]}
    if hint is ByteSize:
        return {"type": "string", "pattern": ByteSize._PATTERN, "examples": ["1MiB"]}
    if hint is Secret:
        return {"type": "string", "writeOnly": True}
    if hint in (str, pathlib.Path):
        return {"type": "string"}
    if hint is bool:
        return {"type": "boolean"}
    if hint is int:
        return {"type": "integer"}
    if hint is float:
        return {"type": "number"}
    if hint is list or origin in (list, collections.abc.Sequence):
        return {"type": "array", "items": _schema_of(arguments[0], where) if arguments else {}}
    if hint is dict or origin in (dict, collections.abc.Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], where) if arguments else True}
    raise TypeError(f"{where}: a configuration cannot have the type {hint!r}")


def load(config: Optional[Type[_T]], value: Any) -> Optional[_T]:
    """Creates a dataclass from a value of a flow file.

    Raises an error of the kind configuration that names every invalid key. Errors contain no values, because these may
    be secrets.
    """
    if config is None:
        config = typing.cast(Any, _Empty)
    faults: List[str] = []
    loaded = _load(config, {} if value is None else value, "", faults)
    if faults:
        raise Error.configuration("; ".join(faults[:10]))
    return None if config is _Empty else loaded


@dataclasses.dataclass
class _Empty:
    """A configuration without keys."""


class _Mismatch(ValueError):
    """A value of another type."""


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _load(hint: Any, value: Any, where: str, faults: List[str]) -> Any:
    """Returns the value as `hint`. Appends a description of each fault."""
    try:
        return _load_one(hint, value, where, faults)
    except _Mismatch as fault:
        faults.append(f"`{where or 'config'}`: {fault}")
    return None


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def _expect(types: Any, name: str, value: Any) -> Any:
    is_bool = isinstance(value, bool) and types is not bool
    if is_bool or not isinstance(value, types):
        raise _Mismatch(f"expected {name}, got {_type_name(value)}")
    return value


def _load_one(hint: Any, value: Any, where: str, faults: List[str]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _load_one(arguments[0], value, where, faults)
    if hint is Any or hint is object:
        return value
    if _is_config(hint):
        return _load_keys(hint, _expect(dict, "an object", value), where, faults)
    if origin in _UNIONS:
        return _load_union(arguments, value, where, faults)
    if origin is typing.Literal:
        return _choose(value, {it: it for it in arguments})
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choose(value, {_plain(it): it for it in hint})
    if hint in (Duration, ByteSize):
        example = "10s" if hint is Duration else "1MiB"
        text = _expect(str, f"a text with a unit, such as `{example}`", value)
        try:
            return hint.parse(text)
        except ValueError as error:
            raise _Mismatch(error) from None
    if hint in (str, Secret, pathlib.Path):
        return hint(_expect(str, "a text", value))
    if hint is bool:
        return _expect(bool, "`true` or `false`", value)
    if hint is int:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return _expect(int, "an integer", value)
    if hint is float:
        return float(_expect((int, float), "a number", value))
    if hint is list or origin in (list, collections.abc.Sequence):
        items = _expect(list, "a list", value)
        item = arguments[0] if arguments else Any
        return [_load(item, it, f"{where}[{index}]", faults) for index, it in enumerate(items)]
    if hint is dict or origin in (dict, collections.abc.Mapping):
        pairs = _expect(dict, "an object", value)
        item = arguments[1] if arguments else Any
        return {key: _load(item, it, _path(where, key), faults) for key, it in pairs.items()}
    raise TypeError(f"{where}: a configuration cannot have the type {hint!r}")


def _load_union(arguments: Tuple[Any, ...], value: Any, where: str, faults: List[str]) -> Any:
    if value is None and type(None) in arguments:
        return None
    options = [it for it in arguments if it is not type(None)]
    found: List[List[str]] = []
    for option_ in options:
        own: List[str] = []
        loaded = _load(option_, value, where, own)
        if not own:
            return loaded
        found.append(own)
    if len(options) == 1:
        faults.extend(found[0])
        return None
    raise _Mismatch(" or ".join(it[0].partition(": ")[2] for it in found))


def _choose(value: Any, choices: Dict[Any, Any]) -> Any:
    for known, choice in choices.items():
        if type(known) is type(value) and known == value:
            return choice
    texts = [it for it in choices if isinstance(it, str)]
    near = difflib.get_close_matches(value, texts, 1) if isinstance(value, str) else []
    hint = f"; did you mean `{near[0]}`?" if near else ""
    expected = ", ".join(f"`{it}`" if isinstance(it, str) else repr(it) for it in choices)
    raise _Mismatch(f"expected one of {expected}{hint}")


def _load_keys(config: Type[Any], value: Dict[str, Any], where: str, faults: List[str]) -> Any:
    keys = {key.name: key for key in _keys(config)}
    before = len(faults)
    for name in value:
        if name not in keys:
            near = difflib.get_close_matches(str(name), keys, 1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            faults.append(f"unknown key `{_path(where, str(name))}`{hint}")
    given: Dict[str, Any] = {}
    for name, key in keys.items():
        path = _path(where, name)
        if name not in value:
            if key.is_required:
                faults.append(f"missing key `{path}`")
            elif key.type in (Duration, ByteSize) and key.default is not None:
                given[key.field] = key.type(key.default)
            continue
        number = given[key.field] = _load(key.type, value[name], path, faults)
        if isinstance(number, (int, float)):
            if key.minimum is not None and number < key.minimum:
                faults.append(f"`{path}`: expected at least {key.minimum}")
            if key.maximum is not None and number > key.maximum:
                faults.append(f"`{path}`: expected at most {key.maximum}")
    if len(faults) > before:
        return None
    try:
        return config(**given)
    except (ValueError, TypeError) as error:
        # Raised by `__post_init__`.
        raise _Mismatch(error) from error
