"""Methods that are coroutines run side by side, and are cancelled."""

from __future__ import annotations

import unittest
from typing import Any

from support import start
from tremor.errors import Error, ErrorKind
from tremor.message import Kind
from tremor.testing import Runtime


def connected(name: str, config: Any = None, **sides: bool) -> Runtime:
    runtime = start("coroutines.py", name)
    runtime.new(config or {})
    runtime.connect(**sides)
    runtime.start()
    return runtime


def wait_for(runtime: Runtime, text: str, number: int = 1) -> None:
    """Waits until a line was logged `number` times."""
    while [it for _, it in runtime.logs].count(text) < number:
        runtime.keep(runtime.receive())


class Sources(unittest.TestCase):
    def test_cancelled_pull_keeps_its_events(self) -> None:
        with connected("slow", sink=False) as runtime:
            for number in (1, 2):
                call = runtime.begin_pull()
                wait_for(runtime, "waits", number)
                runtime.give_up()
                answer = runtime.end_pull(call)
                self.assertEqual((answer.values, answer.error), ([number], None))

    def test_acknowledgements_are_handled_in_order_while_a_pull_waits(self) -> None:
        with connected("slow", sink=False) as runtime:
            call = runtime.begin_pull()
            wait_for(runtime, "waits")
            runtime.ack(1)
            runtime.ack(2)
            wait_for(runtime, "acked 2")
            texts = [text for _, text in runtime.logs]
            self.assertEqual(texts, ["waits", "acked 1", "acked 2"])
            runtime.give_up()
            self.assertEqual(runtime.end_pull(call).metadata, [{"acked": []}])
            call = runtime.begin_pull()
            wait_for(runtime, "waits", 2)
            runtime.give_up()
            self.assertEqual(runtime.end_pull(call).metadata, [{"acked": [1, 2]}])

    def test_error_of_a_notification_ends_the_pull(self) -> None:
        with connected("slow", sink=False) as runtime:
            call = runtime.begin_pull()
            wait_for(runtime, "waits")
            runtime.send(Kind.BREAKER, a=1)
            answer = runtime.end_pull(call)
            # The pull is cancelled before the call, so the error is the outcome of the next pull.
            self.assertEqual((answer.values, answer.error), ([1], None))
            error = runtime.pull().error
            assert error is not None
            self.assertEqual((error.kind, error.message), (ErrorKind.UNSUPPORTED, "no breaker"))

    def test_dropped_source_ends_while_it_closes(self) -> None:
        with connected("slow", sink=False) as runtime:
            runtime.begin(Kind.CLOSE_SOURCE)
            wait_for(runtime, "closing")
            runtime.send(Kind.DROP_SOURCE)
            wait_for(runtime, "disconnected")
            runtime.connect(sink=False)
            runtime.close()
            self.assertEqual([it for _, it in runtime.logs].count("disconnected"), 2)
            self.assertEqual(runtime.end(), 0)


class Sinks(unittest.TestCase):
    def test_gathered_deliveries_are_answered_by_a_flush(self) -> None:
        with start("coroutines.py", "gather") as runtime:
            runtime.new({})
            demand = runtime.connect(source=False)["sink"]
            self.assertEqual(
                demand,
                {
                    "in_flight": 8,
                    "most_in_flight": 8,
                    "max_events": 5,
                    "max_bytes": 0,
                    "linger_ns": 500_000_000,
                    "flags": 2,
                },
            )
            runtime.grant(in_flight=4, linger_ns=1_000_000_000)
            calls = [runtime.begin_delivery([it] * 3, slot=slot) for slot, it in ((1, 1), (2, "bad"), (3, 2))]
            runtime.call(Kind.TICK)
            runtime.call(Kind.FLUSH)
            self.assertEqual(runtime.end_delivery(calls[2]), {})
            self.assertEqual(runtime.end_delivery(calls[0]), {})
            with self.assertRaisesRegex(Error, "ValueError: bad object"):
                runtime.end_delivery(calls[1])
            grant = "Grant(in_flight=4, ordered=True, max_events=0, max_bytes=0, linger=1.0)"
            texts = [text for level, text in runtime.logs if level == 3]
            self.assertEqual(texts, [grant, "tick", "stored 9 events of 3 deliveries"])

    def test_waiting_delivery_can_be_cancelled(self) -> None:
        with connected("blocking", source=False) as runtime:
            call = runtime.begin_delivery(["block"])
            wait_for(runtime, "blocks")
            runtime.give_up(slot=1)
            self.assertEqual(runtime.end_delivery(call), {})
            self.assertEqual(runtime.logs[-1], (3, "given up: True"))
            self.assertEqual(runtime.deliver(["thread"]), {})

    def test_end_of_the_connection_cancels_deliveries(self) -> None:
        with connected("blocking", source=False) as runtime:
            runtime.begin_delivery(["block"])
            wait_for(runtime, "blocks")
            runtime.send(Kind.DROP_SINK)
            runtime.connect(source=False)
            self.assertEqual(runtime.logs[-1], (3, "given up: True"))
            self.assertEqual(runtime.deliver(["thread"]), {})

    def test_cancelled_task_of_the_author_fails_the_delivery(self) -> None:
        with connected("blocking", source=False) as runtime, self.assertRaises(Error) as caught:
            runtime.deliver(["cancelled"])
        self.assertEqual(caught.exception.kind, ErrorKind.INTERNAL)
        self.assertIn("CancelledError", caught.exception.message)


class Connectors(unittest.TestCase):
    def test_halves_share_the_event_loop(self) -> None:
        with connected("shared", {"mode": "both"}) as runtime:
            call = runtime.begin_pull()
            runtime.deliver(["x"])
            self.assertEqual(runtime.end_pull(call).values, ["x"])
            runtime.close()

    def test_halves_depend_on_the_configuration(self) -> None:
        with start("coroutines.py", "shared") as runtime:
            for mode, source, sink in (("both", True, True), ("read", True, False), ("write", False, True)):
                self.assertEqual(runtime.check({"mode": mode}), {"has_source": source, "has_sink": sink})
            with self.assertRaisesRegex(Error, "`mode`: expected `read`"):
                runtime.check({"mode": "x"})
            runtime.new({"mode": "write"})
            answer = runtime.connect(source=False)
            self.assertIsNone(answer["source"])


if __name__ == "__main__":
    unittest.main()
