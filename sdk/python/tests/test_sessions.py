"""The golden sessions are replayed with the connectors of `plugins/session.py`."""

from __future__ import annotations

import json
import time
import unittest
from typing import Any, Dict, List, Tuple

from support import REPOSITORY, start
from tremor.frame import RAW, Frame
from tremor.message import Message
from tremor.testing import Runtime

SESSIONS = REPOSITORY / "tests" / "fixtures" / "sessions"


def contents(frame: Frame) -> List[Tuple[Any, ...]]:
    """Returns the part of the events that a process chooses."""
    return [
        (it.kind, it.flags, it.stream, it.ingest_ns, frame.at(it.metadata), frame.at(it.origin))
        + (frame.raw(i) if it.kind == RAW else None,)
        for i, it in enumerate(map(frame.event, range(len(frame))))
    ]


def matches(expected: Any, found: Any) -> bool:
    """Returns whether `found` is `expected`, except for other keys of objects."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(key in found and matches(it, found[key]) for key, it in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(matches, expected, found))
    return bool(expected == found)


class Sessions(unittest.TestCase):
    def test_golden_sessions_are_replayed(self) -> None:
        paths = sorted(SESSIONS.glob("*.session"))
        self.assertGreaterEqual(len(paths), 10)
        for path in paths:
            with self.subTest(path.stem):
                self.replay([json.loads(line) for line in path.read_text().splitlines()])

    def replay(self, lines: List[Dict[str, Any]]) -> None:
        with start("session.py", "", hello=False) as runtime:
            kept: List[Message] = []
            for number, line in enumerate(lines, 1):
                with self.subTest(line=number):
                    if "send" in line:
                        self.send(runtime, line["send"])
                    elif "receive" in line:
                        self.receive(runtime, kept, line["receive"])
                    elif "end" in line:
                        self.assertEqual(runtime.end(), line["end"], runtime.stderr)
            # The sessions expect every message up to 63.
            self.assertEqual([it for it in kept if it.kind < 64], [])

    def send(self, runtime: Runtime, sent: Dict[str, Any]) -> None:
        fields = dict(sent)
        if "frame" in fields:
            runtime.memory.write(fields["slot"], bytes.fromhex(fields.pop("frame")))
        runtime.send(**fields)

    def receive(self, runtime: Runtime, kept: List[Message], expected: Dict[str, Any]) -> None:
        wanted = (expected["kind"], expected.get("call", 0))
        found = next((it for it in kept if (it.kind, it.call) == wanted), None)
        if found is not None:
            kept.remove(found)
        deadline = time.monotonic() + runtime.timeout
        while found is None:
            message = runtime.receive(deadline)
            if (message.kind, message.call) == wanted:
                found = message
            else:
                kept.append(message)
        for field in ("flags", "slot", "a", "b"):
            value = expected.get(field, 0)
            if value is not None and not (field == "a" and "frame" in expected):
                self.assertEqual(getattr(found, field), value, (field, found, expected))
        if "frame" in expected:
            frame = Frame(bytes.fromhex(expected["frame"]))
            self.assertEqual(contents(runtime.memory.read(0, found.a)), contents(frame))
        if "text" in expected:
            self.assertEqual(found.text(), expected["text"])
        elif "body" in expected:
            self.assertTrue(matches(expected["body"], found.json()), (found, expected))
        else:
            self.assertEqual(found.body, b"")


if __name__ == "__main__":
    unittest.main()
