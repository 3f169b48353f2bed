"""Frames are read as their descriptions say, and written as `docs/frame.md` says."""

from __future__ import annotations

import base64
import decimal
import json
import re
import struct
import unittest
from typing import Any, Dict, List

from support import REPOSITORY
from tremor.frame import ABORT, DOCUMENT, END, FRAGMENT, RAW, Frame, FrameError, FrameWriter

GOLDEN = REPOSITORY / "tremor-pdk" / "abi" / "tests" / "golden"
EVENT = re.compile(r"event: flags (\d+), source (\d+), stream (\d+), pull (\d+), position (\w+), time (\d+)")


def parse(text: str) -> Any:
    return json.loads(text, parse_float=decimal.Decimal)


def comparable(value: Any) -> Any:
    """Returns the value with the form that `parse` gives to it."""
    if isinstance(value, dict):
        return {key: comparable(it) for key, it in value.items()}
    if isinstance(value, list):
        return [comparable(it) for it in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return decimal.Decimal(repr(value)) if isinstance(value, float) else value


def escaped(data: bytes) -> str:
    """Returns printable ASCII, as `escape_ascii` of Rust."""
    known = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(known.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in data)


def described(text: str) -> List[Dict[str, Any]]:
    """Returns the events of a description."""
    events: List[Dict[str, Any]] = []
    for line in text.splitlines()[1:]:
        found = EVENT.fullmatch(line)
        if found:
            numbers = [0xFFFF if it == "unknown" else int(it) for it in found.groups()]
            events.append({"fields": numbers})
        else:
            key, _, rest = line.strip().partition(":")
            events[-1][key] = rest[1:]
    return events


class GoldenFrames(unittest.TestCase):
    def read(self, name: str) -> Frame:
        base = self.read("documents") if name == "delta" else None
        return Frame((GOLDEN / f"{name}.frame").read_bytes(), base)

    def test_all_golden_frames_are_read(self) -> None:
        names = sorted(it.stem for it in GOLDEN.glob("*.frame"))
        self.assertGreaterEqual(len(names), 10)
        for name in names:
            with self.subTest(name):
                self.check(name)

    def check(self, name: str) -> None:
        frame, text = self.read(name), (GOLDEN / f"{name}.txt").read_text()
        header = (
            f"minor {frame.minor}, flags {frame.flags}, number {frame.number}, epoch {frame.epoch}, "
            f"bases {frame.base_nodes} and {frame.base_bytes}"
        )
        self.assertEqual(header, (text.splitlines() or [""])[0])
        events = described(text)
        self.assertEqual(len(frame), len(events))
        for index, expected in enumerate(events):
            event = frame.event(index)
            fields = [event.flags, event.source, event.stream, event.pull, event.position, event.ingest_ns]
            self.assertEqual(fields, expected["fields"])
            original = frame.bytes[event.original : event.original + event.original_len]
            if event.kind == RAW and event.flags & (8 | 16):
                # A record of an unedited event has only the message, which the description shows decoded.
                self.assertEqual(escaped(frame.raw(index)), expected["original"])
            elif event.kind == RAW:
                self.assertEqual(escaped(frame.raw(index)), expected["raw"])
            elif event.kind == DOCUMENT:
                self.assertEqual(comparable(frame.payload(index)), parse(expected["value"]))
                self.assertEqual(escaped(original), expected["original"])
            else:
                self.assertIsNone(frame.payload(index))
            metadata = expected.get("metadata")
            self.assertEqual(comparable(frame.at(event.metadata)), parse(metadata) if metadata else None)
            self.assertEqual(frame.at(event.origin), expected.get("origin"))

    def test_golden_values_are_written_equal(self) -> None:
        for name in ("documents", "edited", "dead_letter"):
            frame, writer = self.read(name), FrameWriter()
            values = [frame.at(it[8]) for it in frame.events]
            values += [frame.payload(i) for i in range(len(frame))]
            for value in values:
                writer.add(b"", metadata=writer.locate(value))
            read = Frame(writer.finish())
            self.assertEqual([read.at(it[8]) for it in read.events], values)


class WrittenFrames(unittest.TestCase):
    def test_example_of_the_page_is_written_byte_for_byte(self) -> None:
        writer = FrameWriter()
        writer._locations.clear()
        # The payload precedes the origin in the example.
        writer.add(b"hi", stream=5, origin=1 << 31 | 1, ingest_ns=1_700_000_000_000_000_000)
        self.assertEqual(writer.locate("peer"), 1 << 31 | 1)
        written = writer.finish(1)
        example = bytearray((GOLDEN / "example.frame").read_bytes())
        struct.pack_into("<H", example, 22, 0)  # no checksum
        struct.pack_into("<QQ", example, 48, 0, 0)
        struct.pack_into("<HI", example, 64 + 2, 0xFFFF, 0)  # position and source
        struct.pack_into("<Q", example, 64 + 40, 0)  # pull
        self.assertEqual(written, bytes(example))

    def test_events_are_read_as_written(self) -> None:
        writer = FrameWriter()
        metadata = {"file": {"path": "/var/log/\u00e4", "line": 7}, "": [1.5, -1, None, True, b"\0\xff"]}
        at, by = writer.locate(metadata), writer.locate("peer")
        writer.add(b"one", FRAGMENT, 1, at, by, 5)
        writer.add(b"", 0, 2, writer.locate(dict(metadata)), 0, 6)
        writer.add_end(1, aborted=True)
        data = writer.finish(9)
        frame = Frame(data)
        self.assertEqual(len(data) % 8, 0)
        self.assertEqual((frame.minor, frame.flags, frame.number, frame.epoch), (0, 0, 9, 0))
        first, second, end = frame.event(0), frame.event(1), frame.event(2)
        self.assertEqual((first.kind, first.flags, first.stream, first.ingest_ns), (RAW, FRAGMENT, 1, 5))
        self.assertEqual((end.kind, end.flags, end.stream), (0, END | ABORT, 1))
        self.assertEqual((frame.raw(0), frame.raw(1)), (b"one", b""))
        self.assertEqual((frame.at(first.metadata), frame.at(first.origin)), (metadata, "peer"))
        self.assertEqual(second.metadata, first.metadata)
        self.assertEqual((first.position, first.pull, first.source), (65_535, 0, 0))

    def test_metadata_of_another_type_is_another_value(self) -> None:
        writer = FrameWriter()
        values = [1, True, 1.0, "1", b"1", [1], (1 << 64) - 1, -(1 << 63), 1 << 64, -(1 << 63) - 1]
        values.append(decimal.Decimal("1E+400"))
        locations = [writer.locate(value) for value in values]
        self.assertEqual(len(set(locations)), len(values))
        writer.add(b"")
        frame = Frame(writer.finish())
        read = [frame.at(location) for location in locations]
        self.assertEqual([(type(it), it) for it in read], [(type(it), it) for it in values])

    def test_values_without_a_form_are_errors(self) -> None:
        deep: Any = None
        for _ in range(600):
            deep = [deep]
        for value in (float("nan"), float("inf"), {1: 2}, object(), {"a": {1, 2}}, deep):
            with self.assertRaises(FrameError):
                FrameWriter().locate(value)

    def test_too_many_events_are_an_error(self) -> None:
        writer = FrameWriter()
        for _ in range(65_535):
            writer.add(b"")
        with self.assertRaisesRegex(FrameError, "at most 65535 events"):
            writer.add(b"")
        self.assertEqual(len(Frame(writer.finish())), 65_535)

    def test_frame_is_at_most_64_mib(self) -> None:
        writer, large = FrameWriter(), bytes(20 << 20)
        for _ in range(3):
            writer.add(large)
        with self.assertRaisesRegex(FrameError, "exceeds the 67108864 bytes"):
            writer.add(large)
        self.assertLessEqual(len(writer.finish()), 64 << 20)


class InvalidFrames(unittest.TestCase):
    def test_cut_off_frame_is_an_error(self) -> None:
        data = (GOLDEN / "documents.frame").read_bytes()
        for length in range(len(data)):
            with self.assertRaises(FrameError):
                Frame(data[:length])

    def test_changed_bytes_never_raise_another_error(self) -> None:
        data = (GOLDEN / "documents.frame").read_bytes()
        for at in range(len(data)):
            for change in (0xFF, 0x01, 0x80):
                changed = bytearray(data)
                changed[at] ^= change
                try:
                    frame = Frame(bytes(changed))
                    for index in range(len(frame)):
                        frame.payload(index)
                        frame.at(frame.event(index).metadata)
                        frame.at(frame.event(index).origin)
                except FrameError:
                    pass

    def test_later_layouts_and_flags_are_refused(self) -> None:
        data = (GOLDEN / "raw.frame").read_bytes()
        for at, value in ((0, 0), (4, 2), (5, 2), (22, 4), (64, 3), (65, 64)):
            changed = bytearray(data)
            changed[at] = value
            with self.assertRaises(FrameError):
                Frame(bytes(changed))


if __name__ == "__main__":
    unittest.main()
