"""Writes the golden sessions. Run it only to add a session: sessions that exist do not change."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Dict, List, Optional, Sequence

from tremor import values
from tremor.frame import FrameWriter

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "fixtures" / "sessions"
ANSWER, ERROR, IDLE, FINISHED = 1, 2, 4, 8
SETTINGS = {"folder": ".", "memory": 256 << 20, "library": "session.plugin.json", "hash": None, "policy": {}}
ANY = None


class Session:
    """Lines of a session."""

    def __init__(self, name: str, about: str) -> None:
        self.name = name
        self.lines: List[Dict[str, Any]] = [{"session": about}]
        self.calls = 0

    def send(self, kind: int, **fields: Any) -> "Session":
        self.lines.append({"send": {"kind": kind, **fields}})
        return self

    def receive(self, kind: int, **fields: Any) -> "Session":
        self.lines.append({"receive": {"kind": kind, **fields}})
        return self

    def begin(self, kind: int, **fields: Any) -> int:
        self.calls += 1
        self.send(kind, call=self.calls, **fields)
        return self.calls

    def answer(self, kind: int, call: int, flags: int = 0, **fields: Any) -> "Session":
        return self.receive(kind, call=call, flags=ANSWER | flags, **fields)

    def call(self, kind: int, sent: Dict[str, Any], flags: int = 0, **received: Any) -> "Session":
        return self.answer(kind, self.begin(kind, **sent), flags, **received)

    def hello(self, connector: str, version: int = 1, flags: int = 0, **received: Any) -> "Session":
        body = {"component": "test", "connector": connector, **SETTINGS}
        return self.call(1, {"a": version, "b": 3, "body": body}, flags, a=1, **received)

    def source(self, **config: Any) -> "Session":
        self.hello("session_source").call(2, {"body": config}, body={"has_source": True, "has_sink": False})
        acks = {"events": 1000, "bytes": (1 << 64) - 1, "key": "max", "replays_failed": True}
        self.call(3, {"a": 1}, body={"source": {"acks": acks}, "sink": None})
        return self.call(4, {"a": 0})

    def sink(self, start: bool = True) -> "Session":
        self.hello("session_sink").call(2, {"body": {}}, body={"has_source": False, "has_sink": True})
        self.connect_sink()
        if start:
            call = self.begin(4, a=0)
            self.log("started").answer(4, call)
        return self

    def connect_sink(self) -> "Session":
        sink = {"in_flight": 1, "most_in_flight": 4, "max_events": 0, "max_bytes": 0}
        sink.update(linger_ns=(1 << 64) - 1, flags=1)
        self.call(3, {"a": 2}, body={"source": None, "sink": sink})
        return self.send(32, body={**sink, "in_flight": 4})

    def log(self, text: str, level: int = 3) -> "Session":
        return self.receive(64, a=level, text=text)

    def pull(self, number: int, events: int, first: int, last: int, flags: int = 0, b: int = 0) -> "Session":
        call = self.begin(16, a=number, b=events << 32 | 65_536)
        frame = numbers(first, last)
        fields: Dict[str, Any] = {"frame": frame} if frame else {}
        return self.answer(16, call, flags, b=b, **fields)

    def begin_delivery(self, events: Sequence[Any], slot: int = 1, metadata: Any = None) -> int:
        frame = batch(events, metadata)
        return self.begin(33, slot=slot, a=len(frame) // 2, frame=frame)

    def deliver(self, events: Sequence[Any], flags: int = 0, slot: int = 1, **received: Any) -> "Session":
        return self.answer(33, self.begin_delivery(events, slot), flags, slot=slot, **received)

    def close(self) -> "Session":
        return self.call(4, {"a": 3})

    def write(self) -> None:
        self.lines.append({"end": 0})
        text = "".join(json.dumps(it, ensure_ascii=False) + "\n" for it in self.lines)
        path = FOLDER / f"{self.name}.session"
        if path.exists() and path.read_text() != text:
            print(f"{path} exists already, with other contents")
        elif not path.exists():
            path.write_text(text)


def numbers(first: int, last: int) -> Optional[str]:
    """Returns the frame with the events of the source, in hexadecimal digits."""
    writer = FrameWriter()
    for number in range(first, last + 1):
        writer.add(values.encode(number), 0, 7, writer.locate({"number": number}), writer.locate("session"))
    return writer.finish().hex() if len(writer) else None


def batch(events: Sequence[Any], metadata: Any = None) -> str:
    """Returns the frame of a delivery, in hexadecimal digits."""
    writer = FrameWriter()
    at = writer.locate(metadata) if metadata is not None else 0
    by = writer.locate("peer \u00e4") if metadata is not None else 0
    for event in events:
        writer.add(values.encode(event), 0, 3, at, by, 1_700_000_000_000_000_000)
    return writer.finish().hex()


def error(kind: int, policy: int, **keys: Any) -> Dict[str, Any]:
    return {"kind": kind, "policy": policy, **keys}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    Session("version", "A process that does not know the version answers with its own, and ends").hello(
        "session_sink", version=2
    ).write()
    Session("unknown_connector", "HELLO names a connector that the plugin does not have").hello(
        "other", flags=ERROR, body=error(1, 4)
    ).write()

    it = Session("check", "Configurations are checked before an instance is created")
    it.hello("session_source").call(6, {"body": {"to": 3}}, body={"has_source": True, "has_sink": False})
    for config in ({}, {"to": "3"}, {"to": -1}, {"to": 3, "too": 4}, {"to": 3, "then": "stop"}, [], {"to": None}):
        it.call(6, {"body": config}, ERROR, body=error(1, 4))
    it.call(2, {"body": {"top": 3}}, ERROR, body=error(1, 4))
    it.call(2, {"body": {"to": 3}}, body={"has_source": True, "has_sink": False})
    it.call(6, {"body": {"to": 4}}, body={"has_source": True, "has_sink": False})
    it.write()

    it = Session("acknowledged", "Pulls are acknowledged in another order, and the source finishes")
    it.source(to=5).pull(1, 2, 1, 2).pull(2, 2, 3, 4)
    it.send(17, a=2).log("committed 0").send(17, a=1).log("committed 4")
    it.pull(3, 2, 5, 5, FINISHED).pull(4, 2, 1, 0, FINISHED)
    it.send(17, a=3).log("committed 5")
    call = it.begin(21)
    it.log("closed at 5").answer(21, call).send(22).close().write()

    it = Session("failed", "Failed events and all later ones are read again")
    it.source(to=9, then="idle").pull(1, 3, 1, 3).pull(2, 3, 4, 6).pull(3, 10, 7, 9, IDLE, 250_000_000)
    it.send(19, a=2, body=[{"start": 1, "len": 1, "error": error(5, 2, delay_ms=0, message="no JSON", causes=[])}])
    it.send(18, a=2, body=[[1, 1]]).pull(4, 10, 5, 9, IDLE, 250_000_000)
    it.send(17, a=3).log("committed 0").send(17, a=1).log("committed 4").send(17, a=4).log("committed 9")
    it.pull(5, 10, 1, 0, IDLE, 250_000_000).close().write()

    it = Session("cancelled_pull", "A pull that waits is cancelled, also by a change of the circuit breaker")
    it.source(to=1, then="wait").pull(1, 10, 1, 1)
    call = it.begin(16, a=2, b=10 << 32 | 65_536)
    it.call(5, {"a": 3}, a=ANY).send(17, a=1).log("committed 1").call(5, {"a": 3}, a=ANY)
    it.send(48, slot=0).answer(16, call, IDLE, b=ANY)
    call = it.begin(16, a=2, b=10 << 32 | 65_536)
    it.send(20, a=1).answer(16, call, IDLE, b=ANY).log("breaker open")
    it.send(48, slot=0).send(20, a=0).log("breaker closed").close().write()

    it = Session("delivered", "Events are delivered, rejected, and failed together")
    it.sink().deliver([1, 2, 3]).deliver([])
    rejected = error(5, 2, delay_ms=0, message="rejected")
    later = error(6, 0, delay_ms=2000, message="retry")
    it.deliver(
        [1, "reject", "reject", 4, "reject", "retry"],
        body=[
            {"start": 1, "len": 2, "error": rejected},
            {"start": 4, "len": 1, "error": rejected},
            {"start": 5, "len": 1, "error": later},
        ],
    )
    it.deliver([1, "reject", "fail"], ERROR, body=error(3, 1, message="failed")).deliver([1], slot=1_024)
    call = it.begin_delivery(["metadata"], metadata={"file": {"path": "/\u00e4", "line": 7}, "list": [None, True, 1.5]})
    it.log('{"file":{"line":7,"path":"/\u00e4"},"list":[null,true,1.5]} peer \u00e4 3 1700000000000000000')
    it.answer(33, call, slot=1).call(34, {}).call(35, {})
    call = it.begin(36)
    it.log("closed").answer(36, call).send(37).close().write()

    it = Session("cancelled_delivery", "One of two deliveries in flight is cancelled")
    it.sink()
    first, second = it.begin_delivery(["wait"], 1), it.begin_delivery(["wait"], 2)
    it.deliver([1], slot=3).call(34, {}).call(5, {"a": 3}, a=ANY)
    it.send(48, slot=2).answer(33, second, ERROR, slot=2, body=error(11, 0))
    it.deliver([1], slot=2)
    it.send(48, slot=1).answer(33, first, ERROR, slot=1, body=error(11, 0)).send(48, slot=9)
    it.deliver([1]).close().write()

    it = Session("reconnected", "A connection ends, and another one begins. Messages for the ended half are ignored")
    it.sink().begin_delivery(["wait"], 1)
    it.send(37).send(33, call=99, slot=1, a=64).send(34, call=98).connect_sink().deliver([1])
    call = it.begin(4, a=1)
    it.log("paused").answer(4, call)
    call = it.begin(4, a=2)
    it.log("resumed").answer(4, call).close().write()

    it = Session("services", "Metrics, problems and requests reach the runtime")
    it.sink().deliver([1, 2, 3])
    call = it.begin(5, a=3)
    metric = {"kind": 0, "name": "delivered", "help": "Delivered events", "value": 3.0, "count": 1, "min": 3.0}
    it.receive(65, body=[metric]).answer(5, call, a=ANY)
    call = it.begin_delivery(["problem", "solved", "lost", "stop"])
    it.receive(66, body={"name": "session", "error": error(7, 0, message="full")})
    it.receive(66, body={"name": "session", "error": None}).receive(67).receive(68, a=1, text="asked")
    it.answer(33, call, slot=1)
    call = it.begin(5, a=2, b=1)
    it.receive(65, body=[{**metric, "value": 7.0, "count": 2}]).answer(5, call, a=ANY)
    # The level warn hides the line of `on_pause`.
    it.call(4, {"a": 1}).call(5, {"a": 4}, a=ANY)
    call = it.begin(35)
    it.log("flushed", 4).answer(35, call)
    call = it.begin(4, a=3)
    it.receive(65, body=[{**metric, "value": 7.0, "count": 2}]).answer(4, call).write()

    it = Session("unknown", "Unknown kinds, flags and keys are ignored")
    it.hello("session_sink").send(99, call=77, body={"x": 1}).send(7, a=1)
    it.call(2, {"flags": 1 << 15, "body": {}}, body={"has_source": False, "has_sink": True})
    it.connect_sink().deliver([1]).send(17, a=1).call(4, {"a": 3, "b": 9}).write()


if __name__ == "__main__":
    main()
