"""Errors, batches, positions, metrics and manifests work without a process."""

from __future__ import annotations

import errno
import json
import math
import subprocess
import sys
import unittest
from typing import Any, List, Optional

from support import TESTS, environment
import tremor
from tremor import values
from tremor.batch import Batch, Pull
from tremor.errors import Error, ErrorKind, ErrorPolicy, from_exception, shortened
from tremor.frame import Frame, FrameWriter
from tremor.message import Message, Parser


def batch(*events: bytes, is_json: bool = True) -> Batch:
    writer = FrameWriter()
    for event in events:
        writer.add(event)
    return Batch(Frame(writer.finish()), is_json)


class Errors(unittest.TestCase):
    def test_kinds_have_default_policies(self) -> None:
        self.assertEqual(Error("x").policy, ErrorPolicy.RESTART)
        self.assertEqual(Error.bad_data("x").policy, ErrorPolicy.DEAD_LETTER)
        self.assertEqual(Error.internal("x", delay=1).policy, ErrorPolicy.RETRY)
        self.assertEqual(Error.connection_lost("x", delay=1).policy, ErrorPolicy.RECONNECT)
        self.assertEqual(Error.timeout("x", policy=ErrorPolicy.GIVE_UP, delay=1).policy, ErrorPolicy.GIVE_UP)
        for kind in ErrorKind:
            self.assertIsInstance(kind.policy, ErrorPolicy)

    def test_errors_of_the_system_have_kinds(self) -> None:
        for error, kind in (
            (ConnectionResetError(errno.ECONNRESET, ""), ErrorKind.CONNECTION_LOST),
            (BrokenPipeError(errno.EPIPE, ""), ErrorKind.CONNECTION_LOST),
            (OSError(errno.EHOSTUNREACH, ""), ErrorKind.CONNECTION_REFUSED),
            (FileNotFoundError(errno.ENOENT, ""), ErrorKind.CONFIGURATION),
            (PermissionError(errno.EACCES, ""), ErrorKind.AUTHENTICATION),
            (TimeoutError(), ErrorKind.TIMEOUT),
            (OSError(errno.ENOSPC, ""), ErrorKind.FULL),
            (OSError(errno.EMFILE, ""), ErrorKind.SHORTAGE),
            (MemoryError(), ErrorKind.SHORTAGE),
            (EOFError(), ErrorKind.CONNECTION_LOST),
            (ZeroDivisionError(), ErrorKind.INTERNAL),
        ):
            self.assertEqual(from_exception(error).kind, kind, error)

    def test_body_keeps_everything(self) -> None:
        error = Error("m", kind=ErrorKind.FULL, policy=ErrorPolicy.GIVE_UP, delay=1.25)
        error.__cause__ = ValueError("cause")
        body = error.to_body()
        self.assertEqual(
            body, {"kind": 7, "policy": 4, "delay_ms": 1250, "message": "m", "causes": ["ValueError: cause"]}
        )
        again = Error.from_body(body)
        self.assertEqual((again.kind, again.policy, again.delay, again.message), (7, 4, 1.25, "m"))
        self.assertEqual(Error.from_body({"kind": 999, "policy": 99, "message": "m"}).policy, ErrorPolicy.RESTART)

    def test_long_messages_are_cut_between_characters(self) -> None:
        self.assertEqual(len(Error("\u00e4" * 100_000).to_body()["message"]), 32_768)
        self.assertEqual(shortened("a\ud800b"), "a?b")


class Batches(unittest.TestCase):
    def test_values_are_those_of_each_event(self) -> None:
        messages = [b'{"a": 1}', b"[1, 2]", b'"\xc3\xa4"', b" 3 ", b"null"]
        found = batch(*messages)
        self.assertEqual(found.values(), [{"a": 1}, [1, 2], "\u00e4", 3, None])
        self.assertEqual([it.value for it in found], found.values())
        self.assertEqual(found.data(), messages)
        self.assertEqual([it.index for it in found[1:3]], [1, 2])
        self.assertEqual((found[-1].value, len(found)), (None, 5))

    def test_invalid_event_is_an_error_of_the_kind_bad_data(self) -> None:
        for messages in ([b"1,2", b"3"], [b"{"], [b"\xff"], [b""], [b"1 2"]):
            with self.assertRaises(Error) as caught:
                batch(*messages).values()
            self.assertEqual(caught.exception.kind, ErrorKind.BAD_DATA)
        with self.assertRaises(Error):
            batch(b"\xff", is_json=False)[0].text

    def test_values_need_the_codec_json(self) -> None:
        with self.assertRaisesRegex(TypeError, "use `data` or `text`"):
            batch(b"1", is_json=False).values()
        self.assertEqual(batch(b"1", is_json=False)[0].text, "1")

    def test_rejected_events_become_ranges(self) -> None:
        found = batch(*[b"1"] * 6)
        found.reject(4, "late")
        for event in list(found)[:3]:
            event.reject("bad")
        found.reject(0, "again")
        ranges = [(it["start"], it["len"], it["error"]["message"]) for it in found._ranges()]
        self.assertEqual(ranges, [(0, 3, "bad"), (4, 1, "late")])
        with self.assertRaises(IndexError):
            found.reject(6, "x")
        with self.assertRaises(ValueError):
            found.reject(batch(b"1")[0], "x")


class Pulls(unittest.TestCase):
    def test_pull_is_full_at_its_limits(self) -> None:
        pull = Pull(1, 2, 100)
        pull.push(1)
        self.assertFalse(pull.is_full)
        pull.push(2)
        self.assertTrue(pull.is_full)
        pull = Pull(1, 100, 4)
        pull.push("four")
        self.assertTrue(pull.is_full)

    def test_values_are_encoded_as_json(self) -> None:
        pull = Pull()
        pull.extend([{"a": [1.5, None, True, "\u00e4\n"]}, 1 << 70])
        frame = Frame(pull._frame())
        self.assertEqual(frame.raw(0), '{"a":[1.5,null,true,"\u00e4\\n"]}'.encode())
        self.assertEqual(frame.raw(1), str(1 << 70).encode())
        for value in (math.nan, b"x", {1, 2}, "\ud800"):
            with self.assertRaises((ValueError, TypeError)):
                pull.push(value)

    def test_wrong_types_of_bytes_are_errors(self) -> None:
        with self.assertRaises(TypeError):
            Pull().push_bytes("text")  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            Pull(is_json=False).push({"a": 1})

    def test_many_values_are_decoded_as_encoded(self) -> None:
        for value in ({}, [], "", 0, -1, 1e300, {"": {"x": [None]}}, "\u2028\0\x7f\U0001f600", True):
            self.assertEqual(values.decode(values.encode(value)), value)


class Watermarks(unittest.TestCase):
    def setUp(self) -> None:
        self.marks: tremor.Watermark[int] = tremor.Watermark(0)
        self.read = 0

    def pull(self, number: int, events: int) -> None:
        """Reads events, each of which takes up 10 bytes."""
        pull = Pull(number)
        position = self.marks.rewind()
        self.read = self.read if position is None else position
        for _ in range(events):
            self.read += 10
            pull.push(self.read)
            self.marks.add(pull, self.read)

    def test_only_positions_without_earlier_events_in_flight_are_committed(self) -> None:
        for number in (1, 2, 3):
            self.pull(number, 2)
        self.assertEqual(self.marks.in_flight, 6)
        committed: List[int] = []
        for number in (3, 1, 2):
            self.marks.ack(number)
            committed.append(self.marks.committed)
        self.assertEqual((committed, self.marks.in_flight), ([0, 20, 60], 0))

    def test_failed_event_and_all_later_ones_are_read_again(self) -> None:
        for number in (1, 2, 3):
            self.pull(number, 3)
        self.marks.fail(2, [range(2, 3), range(1, 2)])
        self.marks.ack(3)
        self.marks.ack(1)
        self.assertEqual(self.marks.committed, 40)
        self.pull(4, 1)
        self.assertEqual(self.read, 50)
        self.marks.ack(2)
        self.marks.ack(4)
        self.assertEqual(self.marks.committed, 50)

    def test_first_of_several_failures_decides(self) -> None:
        for number in (1, 2, 3):
            self.pull(number, 1)
        for number in (3, 1, 2):
            self.marks.fail(number, [range(0, 1)])
        self.assertEqual((self.marks.rewind(), self.marks.rewind(), self.marks.committed), (0, None, 0))

    def test_events_that_were_pushed_together_are_read_again_together(self) -> None:
        pull = Pull(1)
        pull.push(1)
        self.marks.add(pull, 10)
        pull.extend([2, 3, 4])
        self.marks.add(pull, 40)
        self.marks.fail(1, [range(3, 4)])
        self.assertEqual((self.marks.rewind(), self.marks.committed), (10, 10))

    def test_misuse_is_an_error(self) -> None:
        pull = Pull(1)
        with self.assertRaisesRegex(RuntimeError, "after each event"):
            self.marks.add(pull, 1)
        pull.push(1)
        self.marks.add(pull, 1)
        self.marks.fail(1, [range(0, 1)])
        with self.assertRaisesRegex(RuntimeError, "call `rewind`"):
            self.marks.add(pull, 1)


class Hosts(unittest.TestCase):
    def test_metrics_have_one_kind_and_finite_values(self) -> None:
        host = tremor.Host()
        counter = host.counter("a", "A")
        self.assertIs(host.counter("a", "A"), counter)
        counter.add(2)
        counter.add()
        self.assertEqual(counter.value, 3)
        with self.assertRaisesRegex(ValueError, "is a counter already"):
            host.gauge("a", "A")
        with self.assertRaises(ValueError):
            counter.add(-1)
        with self.assertRaises(ValueError):
            host.gauge("b", "B").set(math.inf)
        self.assertEqual([it["name"] for it in host.metrics()], ["a", "b"])

    def test_host_of_a_test_keeps_requests(self) -> None:
        host = tremor.Host("c", "/flows")
        host.problem("p", "x")
        host.request_stop("done", drain=False)
        self.assertEqual([name for name, _ in host.sent], ["problem", "request_stop"])
        self.assertEqual((host.resolve("a/b"), host.resolve("/a")), ("/flows/a/b", "/a"))

    def test_connector_is_tested_without_a_process(self) -> None:
        class Doubled(tremor.Source):
            def pull(self, pull: tremor.Pull) -> Any:
                pull.push(2)
                return tremor.FINISHED

        pull = Pull()
        self.assertIs(Doubled(None, tremor.Host()).pull(pull), tremor.FINISHED)
        self.assertEqual(len(pull), 1)


class Messages(unittest.TestCase):
    def test_messages_are_read_in_pieces_of_any_size(self) -> None:
        sent = [Message(1, 2, 3, 4, 5, 6, b"body"), Message(9), Message(64, body=bytes(1000))]
        stream = b"".join(it.encode() for it in sent)
        for size in (1, 7, 33, 5_000):
            parser, read = Parser(), []
            for at in range(0, len(stream), size):
                read += list(parser.push(stream[at : at + size]))
            self.assertEqual(read, sent)

    def test_body_above_the_limit_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            list(Parser().push(b"\xff" * 32))


class Manifests(unittest.TestCase):
    def run_plugin(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(TESTS / "plugins" / "session.py"), *arguments]
        return subprocess.run(
            command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )

    def test_describe_prints_the_manifest(self) -> None:
        made = json.loads(self.run_plugin("--describe").stdout)
        self.assertEqual(
            {key: made[key] for key in ("protocol", "name", "version", "command")},
            {"protocol": 1, "name": "session", "version": "1.0.0", "command": ["python3", "session.py"]},
        )
        source, sink = made["connectors"]
        self.assertEqual(source["name"], "session_source")
        self.assertEqual((source["about"], source["codec"]), ("Counts from one.", "json"))
        self.assertEqual((source["source"], source["sink"]), (True, False))
        self.assertEqual(source["config"]["required"], ["to"])
        self.assertEqual((sink["source"], sink["sink"]), (False, True))

    def test_module_is_started_by_its_name(self) -> None:
        command = [sys.executable, "-m", "plugins.session", "--describe"]
        output = subprocess.run(command, env=environment(), cwd=TESTS, capture_output=True, timeout=60).stdout
        self.assertEqual(json.loads(output)["command"], ["python3", "-m", "plugins.session"])

    def test_program_that_a_person_starts_explains_itself(self) -> None:
        done = self.run_plugin()
        self.assertEqual(done.returncode, 2)
        self.assertIn("python3 session.py --describe > session.plugin.json", done.stderr)

    def test_names_are_checked(self) -> None:
        class Bad(tremor.Sink):
            name = "no good"

        class HTTPOfManyWords(tremor.Sink):
            """About."""

            Config: Optional[Any] = None

        with self.assertRaisesRegex(ValueError, "invalid name `no good`"):
            tremor.manifest([Bad])
        with self.assertRaisesRegex(ValueError, "two connectors have the name"):
            tremor.manifest([HTTPOfManyWords, HTTPOfManyWords])
        self.assertEqual(tremor.manifest([HTTPOfManyWords])["connectors"][0]["name"], "http_of_many_words")
        Bad.name = "x"
        self.assertNotIn("about", tremor.manifest([Bad])["connectors"][0])


if __name__ == "__main__":
    unittest.main()
