"""Processes of plugins are driven through the protocol."""

from __future__ import annotations

import os
import pathlib
import signal
import sqlite3
import tempfile
import unittest
from typing import Any

from support import start
from tremor.errors import Error, ErrorKind, ErrorPolicy
from tremor.message import Kind
from tremor.testing import Runtime


def source(name: str, config: Any = None) -> Runtime:
    runtime = start("plain.py", name)
    runtime.new(config or {})
    runtime.connect(sink=False)
    runtime.start()
    return runtime


def sink(name: str, config: Any = None, **options: Any) -> Runtime:
    runtime = start("plain.py", name, **options)
    runtime.new(config or {})
    runtime.connect(source=False)
    runtime.grant()
    runtime.start()
    return runtime


def wait_for(runtime: Runtime, text: str, number: int) -> None:
    """Waits until a line was logged `number` times."""
    while runtime.logs.count((3, text)) < number:
        runtime.keep(runtime.receive())


class Pulls(unittest.TestCase):
    def test_ping_names_a_blocked_pull_and_the_pull_is_answered_later(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "go")
            with source("blocking", {"path": path}) as runtime:
                call = runtime.begin_pull()
                wait_for(runtime, "blocks", 1)
                runtime.ping()
                blocking = [runtime.ping() for _ in range(5)]
                self.assertEqual(blocking, [blocking[0]] * 5)
                self.assertNotEqual(blocking[0], 0)
                runtime.give_up()
                pathlib.Path(path).touch()
                self.assertEqual(runtime.end_pull(call).values, ["late"])
                runtime.close()
                self.assertEqual(runtime.end(), 0)

    def test_waiting_pull_is_not_blocked_and_can_be_cancelled(self) -> None:
        with source("waiting") as runtime:
            first = runtime.pull()
            self.assertEqual((first.values, first.idle), (["first"], 1.5))
            call = runtime.begin_pull()
            wait_for(runtime, "waits", 1)
            # The thread may be between its log line and the wait for a moment.
            while runtime.ping() or runtime.ping():
                pass
            self.assertEqual([runtime.ping() for _ in range(5)], [0] * 5)
            runtime.give_up()
            self.assertEqual(runtime.end_pull(call).values, [{"acked": [], "given_up": True}])

    def test_acknowledgement_ends_waiting_in_a_pull(self) -> None:
        with source("waiting") as runtime:
            runtime.pull()
            call = runtime.begin_pull()
            wait_for(runtime, "waits", 1)
            runtime.ack(1)
            # The pull returns so that its thread can handle the acknowledgement.
            self.assertEqual(runtime.end_pull(call).values, [{"acked": [], "given_up": False}])
            call = runtime.begin_pull()
            wait_for(runtime, "waits", 2)
            runtime.give_up()
            self.assertEqual(runtime.end_pull(call).values, [{"acked": [1], "given_up": True}])

    def test_error_of_an_acknowledgement_is_the_outcome_of_the_next_pull(self) -> None:
        runtime = start("plain.py", "bad_ack")
        with runtime:
            runtime.new({})
            acks = runtime.connect(sink=False)["source"]["acks"]
            self.assertEqual(acks, {"events": 7, "bytes": 8, "key": "most", "replays_failed": False})
            runtime.pull()
            runtime.ack()
            answer = runtime.pull()
            assert answer.error is not None
            self.assertEqual((answer.values, answer.error.message), ([], "no capacity"))
            self.assertEqual((answer.error.policy, answer.error.delay), (ErrorPolicy.RETRY, 1.5))
            self.assertEqual(runtime.pull().values, [1])

    def test_fragments_and_ends_of_streams_are_emitted(self) -> None:
        with source("raw") as runtime:
            answer = runtime.pull()
            self.assertEqual(answer.data, [b"one\ntw", b"whole", b"text", b"o"])
            self.assertEqual(answer.streams, [1, 2, 2, 1, 1, 2])
            assert answer.frame is not None
            self.assertEqual([it[1] for it in answer.frame.events], [1, 0, 0, 1, 2, 6])
            self.assertEqual([it[12] for it in answer.frame.events], [0, 5, 0, 0, 0, 0])
            self.assertEqual(answer.origins[0], "a")
            self.assertTrue(answer.is_finished)

    def test_faults_of_pulls_are_errors_and_keep_events(self) -> None:
        with source("wrong", {"path": "list"}) as runtime:
            error = runtime.pull().error
            assert error is not None
            self.assertIn("`pull` of Wrong returned a value of type list", error.message)
        with source("wrong", {"path": "value"}) as runtime:
            answer = runtime.pull()
            assert answer.error is not None
            self.assertEqual(answer.values, ["kept"])
            expected = r"a value of type object has no form in JSON \(plain.py:\d+, in pull\)"
            self.assertRegex(answer.error.message, expected)
        with source("wrong", {"path": "large"}) as runtime:
            answer = runtime.pull()
            assert answer.error is not None and answer.frame is not None
            self.assertIn("exceeds the 67108864 bytes of a pull", answer.error.message)
            self.assertEqual(answer.frame.raw(0), b'"kept"')
            self.assertGreater(len(answer.frame), 60)


class Deliveries(unittest.TestCase):
    def fails(self, runtime: Runtime, event: object) -> Error:
        with self.assertRaises(Error) as caught:
            runtime.deliver([event])
        return caught.exception

    def test_exception_becomes_an_error_with_file_and_line(self) -> None:
        with sink("faulty") as runtime:
            error = self.fails(runtime, "exception")
            self.assertEqual((error.kind, error.policy), (ErrorKind.INTERNAL, ErrorPolicy.RESTART))
            self.assertRegex(error.message, r"^KeyError: 'missing' \(plain\.py:\d+, in handle\)$")
            level, text = runtime.logs[-1]
            self.assertEqual(level, 1)
            self.assertRegex(text, r'Traceback \(most recent call last\):\n  File ".*plain\.py"')
            self.assertEqual(runtime.deliver(["fine"]), {})

    def test_kinds_of_exceptions_and_causes_are_kept(self) -> None:
        with sink("faulty") as runtime:
            self.assertEqual(self.fails(runtime, "refused").kind, ErrorKind.CONNECTION_REFUSED)
            error = self.fails(runtime, "cause")
            self.assertEqual((error.kind, error.message), (ErrorKind.BAD_DATA, "no number"))
            self.assertEqual(
                str(error.__cause__), "ValueError: invalid literal for int() with base 10: 'x'"
            )
            bad = self.fails(runtime, b"{")
            self.assertEqual(bad.kind, ErrorKind.BAD_DATA)
            self.assertIn("the event is not JSON", bad.message)

    def test_prints_go_to_standard_error_and_not_to_frames(self) -> None:
        with sink("faulty") as runtime:
            self.assertEqual(runtime.deliver(["print"]), {})
            self.assertEqual(runtime.end(), 0)
        lines = runtime.stderr.splitlines()
        self.assertEqual(
            sorted(lines),
            [
                "printed while the module was imported",
                "to descriptor 1",
                "to standard error",
                "to standard output",
            ],
        )

    def test_exit_of_the_plugin_ends_the_process(self) -> None:
        with sink("faulty") as runtime:
            with self.assertRaises(EOFError):
                runtime.deliver(["exit"])
            self.assertEqual(runtime.end(), 1)
            self.assertIn("the plugin has had enough", runtime.stderr)

    def test_log_lines_have_the_level_of_the_runtime(self) -> None:
        with sink("faulty", level=2) as runtime:
            runtime.deliver(["log"])
            self.assertEqual(runtime.logs, [(1, "level 40"), (2, "level 30")])
            runtime.logs.clear()
            runtime.ping(level=5)
            runtime.deliver(["log"])
            levels = [level for level, text in runtime.logs if text.startswith("level")]
            self.assertEqual(levels, [1, 2, 3, 4, 5])

    def test_process_is_confined(self) -> None:
        with sink("faulty", memory=200 << 20) as runtime:
            runtime.deliver(["limits", "thread"])
            self.assertIn((3, f"{200 << 20} 0 1000 "), runtime.logs)
            self.assertIn((3, "False"), runtime.logs)
            self.assertEqual(self.fails(runtime, "memory").kind, ErrorKind.SHORTAGE)

    def test_invalid_frame_fails_the_delivery(self) -> None:
        with sink("faulty") as runtime:
            for slot, length in ((1, 0), (1, 64), (1, 1 << 40), (5_000, 64)):
                with self.assertRaises(Error) as caught:
                    runtime.call(Kind.DELIVER, slot=slot, a=length)
                self.assertIn("cannot read the events of the runtime", caught.exception.message)
            self.assertEqual(runtime.deliver(["fine"]), {})

    def test_large_batches_are_delivered(self) -> None:
        with sink("faulty", memory=1 << 30) as runtime:
            self.assertEqual(runtime.deliver(["x" * (30 << 20)]), {})
            self.assertEqual(runtime.deliver(["x"] * 65_535), {})

    def test_batch_beyond_the_memory_is_an_error(self) -> None:
        with sink("faulty", memory=64 << 20) as runtime:
            error = self.fails(runtime, "x" * (50 << 20))
            self.assertEqual((error.kind, error.policy), (ErrorKind.SHORTAGE, ErrorPolicy.RETRY))
            self.assertEqual(runtime.deliver(["fine"]), {})

    def test_error_of_a_tick_keeps_its_policy(self) -> None:
        with sink("metrics") as runtime, self.assertRaises(Error) as caught:
            runtime.call(Kind.TICK)
        self.assertEqual(
            (caught.exception.kind, caught.exception.policy), (ErrorKind.UNSUPPORTED, ErrorPolicy.RETRY)
        )

    def test_metrics_are_sent_before_the_answer_to_ping(self) -> None:
        with sink("metrics") as runtime:
            runtime.deliver([3, 1.5])
            runtime.ping()
            seen, last = runtime.metrics["seen"], runtime.metrics["last"]
            self.assertEqual([seen[it] for it in ("kind", "value", "count", "min", "max")], [2, 4.5, 2, 1.5, 3.0])
            self.assertEqual((last["kind"], last["value"]), (1, 1.5))


class Connectors(unittest.TestCase):
    def test_simple_sink_has_one_thread(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            config = {"path": "out.db", "table": {"name": "numbers"}}
            with sink("database", config, folder=folder) as runtime:
                runtime.deliver([1, 2])
                runtime.pause()
                runtime.resume()
                # The connection is lost, and made again.
                runtime.send(Kind.DROP_SINK)
                runtime.connect(source=False)
                runtime.deliver([3])
                runtime.call(Kind.CLOSE_SINK)
                runtime.send(Kind.DROP_SINK)
                runtime.close()
            database = sqlite3.connect(os.path.join(folder, "out.db"))
            rows = database.execute("select cast(value as text) from numbers").fetchall()
            database.close()
            self.assertEqual(rows, [("1",), ("2",), ("3",)])

    def test_plain_halves_do_not_block_each_other(self) -> None:
        with start("plain.py", "echo") as runtime:
            self.assertEqual(runtime.new({}), {"has_source": True, "has_sink": True})
            self.assertEqual(set(runtime.connect()), {"source", "sink"})
            runtime.grant()
            call = runtime.begin_pull()
            runtime.deliver(["echo"])
            self.assertEqual(runtime.end_pull(call).values, ["echo"])
            runtime.close()
            self.assertEqual(runtime.end(), 0)
            self.assertEqual([text for _, text in runtime.logs], ["sink disconnected", "closed"])

    def test_unwanted_half_is_disconnected(self) -> None:
        with start("plain.py", "echo") as runtime:
            runtime.new({})
            answer = runtime.connect(sink=False)
            self.assertIsNone(answer["sink"])
            self.assertEqual(runtime.logs, [(3, "sink disconnected")])

    def test_unexpected_calls_are_errors(self) -> None:
        with start("plain.py", "echo") as runtime:
            with self.assertRaisesRegex(Error, "unexpected message of kind 3"):
                runtime.connect()
            runtime.new({})
            with self.assertRaisesRegex(Error, "unexpected message of kind 2"):
                runtime.new({})

    def test_process_ends_with_its_connection_while_a_call_blocks(self) -> None:
        with source("blocking", {"path": "/nonexistent/file"}) as runtime:
            runtime.begin_pull()
            self.assertEqual(runtime.end(), 0)

    def test_oversized_message_ends_the_process(self) -> None:
        with source("blocking", {"path": "/nonexistent/file"}) as runtime:
            runtime._socket.sendall(b"\xff" * 32)
            self.assertEqual(runtime.process.wait(60), 1)
            self.assertEqual(runtime.end(), 1)
            self.assertIn("a message has a body of 4294967295 bytes", runtime.stderr)

    def test_process_ends_with_its_runtime(self) -> None:
        with sink("faulty") as runtime:
            os.kill(runtime.process.pid, signal.SIGSTOP)
            runtime._socket.close()
            os.kill(runtime.process.pid, signal.SIGCONT)
            self.assertEqual(runtime.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
