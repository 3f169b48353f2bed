"""Configurations are described by schemas, and checked."""

from __future__ import annotations

import enum
import pathlib
import unittest
from dataclasses import dataclass, field
from typing import Annotated, Any, Dict, List, Literal, Optional, Union


from tremor import ByteSize, Duration, Error, ErrorKind, Secret, option
from tremor.config import load, schema


class Mode(enum.Enum):
    FAST = "fast"
    SAFE = "safe"


@dataclass
class Tls:
    """Encryption."""

    ca: pathlib.Path
    verify: bool = True


@dataclass
class Config:
    url: Annotated[str, "URL of the server"]
    password: Secret = Secret("")
    port: int = option(80, about="Port", minimum=1, maximum=65_535)
    ratio: float = 0.5
    mode: Mode = Mode.SAFE
    level: Literal["low", "high", 3] = "low"
    timeout: Duration = Duration(10)
    buffer: ByteSize = ByteSize(1 << 20)
    tls: Optional[Tls] = None
    keys: List[str] = field(default_factory=list)
    headers: Dict[str, Union[str, int]] = field(default_factory=dict)
    extra: Any = None
    hidden: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if self.url == "bad":
            raise ValueError("the URL is bad")
        if self.url == "worse":
            raise Error.configuration("the URL is worse")


def faults(value: Any) -> str:
    try:
        load(Config, value)
    except Error as error:
        assert error.kind is ErrorKind.CONFIGURATION
        return error.message
    raise AssertionError("the configuration is valid")


class Schemas(unittest.TestCase):
    def test_schema_describes_all_types(self) -> None:
        made = schema(Config)
        self.assertEqual(made["required"], ["url"])
        self.assertIs(made["additionalProperties"], False)
        properties = made["properties"]
        self.assertNotIn("hidden", properties)
        self.assertEqual(properties["url"], {"description": "URL of the server", "type": "string"})
        self.assertEqual(properties["password"]["writeOnly"], True)
        self.assertEqual(
            properties["port"],
            {"description": "Port", "type": "integer", "minimum": 1, "maximum": 65_535, "default": 80},
        )
        self.assertEqual(properties["mode"], {"enum": ["fast", "safe"], "default": "safe"})
        self.assertEqual(properties["level"]["enum"], ["low", "high", 3])
        self.assertEqual(properties["timeout"]["default"], "10s")
        self.assertEqual(properties["buffer"]["default"], "1048576B")
        tls = properties["tls"]["anyOf"]
        self.assertEqual((tls[0]["required"], tls[1]), (["ca"], {"type": "null"}))
        self.assertEqual(tls[0]["description"], "Encryption.")
        self.assertEqual(properties["keys"], {"type": "array", "items": {"type": "string"}, "default": []})
        self.assertEqual(
            properties["headers"]["additionalProperties"], {"type": ["string", "integer"]}
        )
        self.assertEqual(properties["extra"], {})

    def test_no_configuration_has_no_keys(self) -> None:
        self.assertEqual(schema(None)["properties"], {})
        self.assertIsNone(load(None, {}))
        with self.assertRaisesRegex(Error, "unknown key `x`"):
            load(None, {"x": 1})

    def test_reserved_words_can_be_keys(self) -> None:
        @dataclass
        class Range:
            from_: int
            to: int = 3

        self.assertEqual(schema(Range)["required"], ["from"])
        self.assertEqual(load(Range, {"from": 1}), Range(1))
        with self.assertRaisesRegex(Error, "missing key `from`"):
            load(Range, {})

    def test_unsupported_type_names_the_key(self) -> None:
        @dataclass
        class Odd:
            key: complex

        Odd.__annotations__["key"] = complex
        with self.assertRaisesRegex(TypeError, "Odd.key"):
            schema(Odd)


class Values(unittest.TestCase):
    def test_values_have_the_types_of_the_class(self) -> None:
        config = load(
            Config,
            {
                "url": "u",
                "password": "p",
                "port": 8080.0,
                "ratio": 1,
                "mode": "fast",
                "level": 3,
                "timeout": "250ms",
                "buffer": "2 KiB",
                "tls": {"ca": "/ca.pem"},
                "keys": ["a"],
                "headers": {"x": 1, "y": "2"},
                "extra": [{}],
            },
        )
        assert config is not None
        self.assertEqual((config.port, type(config.port)), (8080, int))
        self.assertEqual((config.ratio, type(config.ratio)), (1.0, float))
        self.assertIs(config.mode, Mode.FAST)
        self.assertEqual((config.timeout, config.buffer), (0.25, 2048))
        self.assertEqual(config.tls, Tls(pathlib.Path("/ca.pem"), True))
        self.assertEqual((config.keys, config.headers, config.extra), (["a"], {"x": 1, "y": "2"}, [{}]))
        self.assertNotIn("p", repr(config.password))

    def test_defaults_are_used(self) -> None:
        config = load(Config, {"url": "u"})
        self.assertEqual(config, Config("u"))

    def test_each_fault_is_named(self) -> None:
        for value, expected in (
            ([], "`config`: expected an object, got a list"),
            ({}, "missing key `url`"),
            ({"url": 1}, "`url`: expected a text, got an integer"),
            ({"url": "u", "prot": 1}, "unknown key `prot`; did you mean `port`?"),
            ({"url": "u", "port": "1"}, "`port`: expected an integer, got a text"),
            ({"url": "u", "port": True}, "`port`: expected an integer, got a boolean"),
            ({"url": "u", "port": 1.5}, "`port`: expected an integer, got a number"),
            ({"url": "u", "port": 0}, "`port`: expected at least 1"),
            ({"url": "u", "port": 70_000}, "`port`: expected at most 65535"),
            ({"url": "u", "mode": "fsat"}, "`mode`: expected one of `fast`, `safe`; did you mean `fast`?"),
            ({"url": "u", "level": True}, "`level`: expected one of `low`, `high`, 3"),
            ({"url": "u", "timeout": "10"}, "`timeout`: expected a time, such as"),
            ({"url": "u", "timeout": 10}, "`timeout`: expected a text with a unit"),
            ({"url": "u", "buffer": "1 XiB"}, "`buffer`: expected a size, such as"),
            ({"url": "u", "tls": {"ca": "x", "verfy": True}}, "unknown key `tls.verfy`; did you mean `verify`?"),
            ({"url": "u", "tls": {}}, "missing key `tls.ca`"),
            ({"url": "u", "keys": ["a", None]}, "`keys[1]`: expected a text, got null"),
            ({"url": "u", "headers": {"x": []}}, "`headers.x`: expected a text, got a list or expected an integer"),
            ({"url": "u", "keys": None}, "`keys`: expected a list, got null"),
            ({"url": "bad"}, "`config`: the URL is bad"),
            ({"url": "worse"}, "the URL is worse"),
        ):
            with self.subTest(value=value):
                self.assertIn(expected, faults(value))

    def test_all_faults_are_named_together(self) -> None:
        self.assertEqual(
            faults({"port": 0, "x": 1}), "unknown key `x`; missing key `url`; `port`: expected at least 1"
        )

    def test_faults_do_not_show_values(self) -> None:
        self.assertNotIn("hunter2", faults({"url": "u", "password": ["hunter2"], "port": "hunter2"}))


if __name__ == "__main__":
    unittest.main()
