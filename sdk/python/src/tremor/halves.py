"""The source and the sink of a connection, in the process of a plugin."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set

from .batch import FINISHED, Batch, Idle, Pull
from .connector import Grant, SinkHalf, SourceHalf
from .errors import Error, describe, from_exception, of_author
from .frame import FrameError
from .memory import PULLS
from .message import MAX_BODY, Flags, Kind, Message, body
from .worker import Serial, Worker, finish, spawn

if TYPE_CHECKING:
    from .process import Process

__all__ = ["SinkTask", "SourceTask"]

_log = logging.getLogger("tremor")

#: Time in seconds for cancelled coroutines to end.
_CANCEL = 5.0


def caught(error: BaseException) -> Error:
    """Converts an exception of the author. Logs where it was raised, unless the author has chosen its kind."""
    if not isinstance(error, (Error, OSError)):
        _log.error("exception in the plugin", exc_info=(type(error), error, of_author(error.__traceback__)))
    return from_exception(error)


def _while(action: str, error: BaseException) -> Error:
    """Returns an error whose message begins with what this package was doing."""
    kind = from_exception(error).kind
    return Error(f"{action}: {describe(error)}", kind=kind)


class _Half:
    """State that both halves have."""

    def __init__(self, process: Process, half: Any, worker: Worker, is_json: bool) -> None:
        self.process = process
        self.half = half
        self.worker = worker
        self.is_json = is_json
        #: Is set when nothing of the half runs any more.
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._serial = Serial(worker)
        #: `True` once the runtime has dropped the half: it ignores answers.
        self._is_silent = False
        self._is_dropped = False

    def call(self, kind: Kind, call: int, function: Callable[[], Any]) -> None:
        """Calls a method, and answers the call with its outcome."""

        def done(_: Any, error: Optional[BaseException]) -> None:
            if not self._is_silent:
                self.process.answer(kind, call, None if error is None else caught(error))

        self._serial.add(function, done)

    def post_drop(self) -> None:
        """Ends the half. Is called by the main thread, or by that of the connector."""
        self._is_silent = True
        self.worker.post(self.drop)

    def drop(self) -> None:
        """Ends the half."""
        if self._is_dropped:
            return
        self._is_dropped = True
        tasks = self._serial.cancel() + self._cancel_calls()
        spawn(self.worker, self._end(tasks))

    def _cancel_calls(self) -> List[asyncio.Future[Any]]:
        """Cancels pulls or deliveries, and returns their tasks."""
        raise NotImplementedError

    async def _end(self, tasks: List[asyncio.Future[Any]]) -> None:
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_CANCEL)
            if late:
                _log.warning("a cancelled coroutine did not end within %s s", _CANCEL)
        try:
            await finish(self.half.disconnect())
        except Exception as error:
            _log.warning("disconnect failed: %s", caught(error).message)
        finally:
            self.ended.set_result(None)


class SourceTask(_Half):
    """Calls the source of a connection."""

    half: SourceHalf

    def __init__(self, process: Process, half: SourceHalf, worker: Worker, is_json: bool) -> None:
        super().__init__(process, half, worker, is_json)
        #: The open pull. The main thread sets it when the pull begins.
        self._pull: Optional[Pull] = None
        self._task: Optional[asyncio.Future[Any]] = None
        #: Error of an acknowledgement, which is the outcome of the open or the next pull.
        self._fault: Optional[Error] = None

    # The main thread calls the following methods.

    def post_pull(self, message: Message) -> None:
        """Begins a pull."""
        events, size = message.b >> 32, message.b & 0xFFFF_FFFF
        pull = self._pull = Pull(message.a, events, size, self.is_json, self.worker.wait)
        self.worker.post(self._begin, pull, message.call)

    def post_give_up(self) -> None:
        """Cancels the open pull."""
        pull = self._pull
        if pull is not None:
            pull._interrupt(True)
            self.worker.post(self._give_up, pull)

    def post_drop(self) -> None:
        self._is_silent = True
        pull = self._pull
        if pull is not None:
            pull._interrupt(True)
        super().post_drop()

    def post_notification(self, message: Message) -> None:
        """Passes on an acknowledgement, the state of the circuit breaker, or the end."""
        pull = self._pull
        if pull is not None:
            pull._interrupt(message.kind in (Kind.BREAKER, Kind.CLOSE_SOURCE))
        self.worker.post(self._notify, message)

    # The thread of the worker calls the following ones.

    def _begin(self, pull: Pull, call: int) -> None:
        if self._is_silent:
            return
        if self._fault is not None:
            self._answer(pull, call, None)
            return
        if pull.is_given_up:
            self._answer(pull, call, None)
            return
        try:
            result = self.half.pull(pull)
        except SystemExit:
            raise
        except BaseException as error:
            self._answer(pull, call, error)
            return
        if inspect.isawaitable(result):
            self._task = spawn(self.worker, self._await(pull, call, result))
        else:
            self._answer(pull, call, result)

    async def _await(self, pull: Pull, call: int, result: Any) -> None:
        outcome: Any
        try:
            outcome = await result
        except asyncio.CancelledError as error:
            outcome = None if pull.is_given_up or self._fault else error
        except SystemExit:
            raise
        except BaseException as error:
            outcome = error
        self._task = None
        self._answer(pull, call, outcome)

    def _answer(self, pull: Pull, call: int, outcome: Any) -> None:
        """Answers a pull with its events, and with the result or the exception of the method."""
        if self._pull is pull:
            self._pull = None
        if self._is_silent:
            return
        flags, wait, length, fault = Flags.ANSWER, 0, 0, self._fault
        self._fault = None
        if fault is None and isinstance(outcome, BaseException):
            fault = caught(outcome)
        elif outcome is FINISHED:
            flags |= Flags.FINISHED
        elif isinstance(outcome, Idle):
            flags |= Flags.IDLE
            wait = min(round(outcome.seconds * 1e9), (1 << 64) - 1)
        elif outcome is not None and not isinstance(outcome, BaseException):
            fault = Error.internal(
                f"`pull` of {type(self.half).__name__} returned a value of type {type(outcome).__name__}: expected "
                "`None`, `Idle` or `FINISHED`; add events with `pull.push`"
            )
        elif not len(pull):
            flags |= Flags.IDLE
        if len(pull):
            try:
                frame = pull._frame()
                self.process.memory.write(PULLS, frame)
                length = len(frame)
            except (FrameError, OSError, MemoryError) as error:
                fault = _while("cannot send events to the runtime", error)
        text = b""
        if fault is not None:
            flags, wait, text = Flags.ANSWER | Flags.ERROR, 0, body(fault.to_body())
        self.process.send(Message(Kind.PULL, flags, call, PULLS, length, wait, text))

    def _give_up(self, pull: Pull) -> None:
        if self._pull is pull and self._task is not None:
            self._task.cancel()

    def _cancel_calls(self) -> List[asyncio.Future[Any]]:
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]

    def _notify(self, message: Message) -> None:
        # Acknowledgements that were sent before the end are handled.
        if self._is_dropped:
            return
        kind, half = message.kind, self.half
        if kind == Kind.ACK:
            self._serial.add(lambda: half.ack(message.a), self._notified)
        elif kind == Kind.FAIL:
            ranges = [range(start, start + length) for start, length in message.json()]
            self._serial.add(lambda: half.fail(message.a, ranges), self._notified)
        elif kind == Kind.UNDECODABLE:
            errors = [
                (range(it["start"], it["start"] + it["len"]), Error.from_body(it["error"]))
                for it in message.json()
            ]
            self._serial.add(lambda: half.undecodable(message.a, errors), self._notified)
        else:
            # A pull is cancelled before any other call of the source.
            pull, task = self._pull, self._task
            if pull is not None:
                self._give_up(pull)
            self._serial.add(lambda: _after(task), _ignore)
            if kind == Kind.BREAKER:
                self._serial.add(lambda: half.on_circuit_breaker(message.a != 0), self._notified)
            else:
                self.call(Kind.CLOSE_SOURCE, message.call, half.close)

    def _notified(self, _: Any, error: Optional[BaseException]) -> None:
        if error is None or self._is_dropped:
            return
        if self._fault is None:
            self._fault = caught(error)
        pull = self._pull
        if pull is not None:
            pull._interrupt(True)
            self._give_up(pull)


async def _wait(task: asyncio.Future[Any]) -> None:
    await asyncio.wait([task])


def _after(task: Optional[asyncio.Future[Any]]) -> Any:
    """Waits for the end of a task that may have ended already."""
    return None if task is None or task.done() else _wait(task)


def _ignore(_: Any, __: Optional[BaseException]) -> None:
    """Ignores an outcome."""


class _Delivery:
    """A delivery in flight."""

    __slots__ = ("batch", "is_given_up", "task")

    def __init__(self) -> None:
        self.batch: Optional[Batch] = None
        self.is_given_up = False
        self.task: Optional[asyncio.Future[Any]] = None

    def give_up(self) -> None:
        """Asks the delivery to return. Is called by the main thread."""
        self.is_given_up = True
        batch = self.batch
        if batch is not None:
            batch._interrupt(True)


class SinkTask(_Half):
    """Calls the sink of a connection."""

    half: SinkHalf

    def __init__(self, process: Process, half: SinkHalf, worker: Worker, is_json: bool) -> None:
        super().__init__(process, half, worker, is_json)
        #: Deliveries in flight, by slot. The main thread adds them when they begin.
        self._deliveries: Dict[int, _Delivery] = {}

    # The main thread calls the following methods.

    def post_delivery(self, message: Message) -> None:
        """Begins a delivery."""
        delivery = self._deliveries[message.slot] = _Delivery()
        self.worker.post(self._begin, delivery, message)

    def post_give_up(self, slot: int) -> None:
        """Cancels the delivery in a slot."""
        delivery = self._deliveries.get(slot)
        if delivery is not None:
            delivery.give_up()
            self.worker.post(self._give_up, delivery)

    def post_drop(self) -> None:
        self._is_silent = True
        for delivery in list(self._deliveries.values()):
            delivery.give_up()
        super().post_drop()

    def post_call(self, message: Message) -> None:
        """Passes on GRANT, TICK, FLUSH or CLOSE_SINK."""
        self.worker.post(self._call, message)

    # The thread of the worker calls the following ones.

    def _begin(self, delivery: _Delivery, message: Message) -> None:
        if self._is_silent:
            return
        if delivery.is_given_up:
            self._answer(delivery, message, _cancelled())
            return
        try:
            frame = self.process.memory.read(message.slot, message.a)
            batch = Batch(frame, self.is_json, self.worker.wait)
        except (FrameError, OSError, MemoryError) as error:
            self._answer(delivery, message, _while("cannot read the events of the runtime", error))
            return
        delivery.batch = batch
        if delivery.is_given_up:
            batch._interrupt(True)
        try:
            result = self.half.deliver(batch)
        except SystemExit:
            raise
        except BaseException as error:
            self._answer(delivery, message, error)
            return
        if inspect.isawaitable(result):
            delivery.task = spawn(self.worker, self._await(delivery, message, result))
        else:
            self._answer(delivery, message, None)

    async def _await(self, delivery: _Delivery, message: Message, result: Any) -> None:
        outcome: Optional[BaseException] = None
        try:
            await result
        except asyncio.CancelledError as error:
            outcome = _cancelled() if delivery.is_given_up else error
        except SystemExit:
            raise
        except BaseException as error:
            outcome = error
        delivery.task = None
        self._answer(delivery, message, outcome)

    def _answer(self, delivery: _Delivery, message: Message, error: Optional[BaseException]) -> None:
        """Answers a delivery: with an error, with the rejected events, or without a body."""
        if self._deliveries.get(message.slot) is delivery:
            del self._deliveries[message.slot]
        if self._is_silent:
            return
        flags, text = Flags.ANSWER, b""
        if error is None and delivery.batch is not None and delivery.batch._rejected:
            text = body(delivery.batch._ranges())
            if len(text) > MAX_BODY:
                error = Error.internal(f"the errors of rejected events exceed {MAX_BODY} bytes")
        if error is not None:
            flags, text = Flags.ANSWER | Flags.ERROR, body(caught(error).to_body())
        self.process.send(Message(Kind.DELIVER, flags, message.call, message.slot, 0, 0, text))

    @staticmethod
    def _give_up(delivery: _Delivery) -> None:
        if delivery.task is not None:
            delivery.task.cancel()

    def _cancel_calls(self) -> List[asyncio.Future[Any]]:
        tasks: Set[asyncio.Future[Any]] = set()
        for delivery in list(self._deliveries.values()):
            if delivery.task is not None:
                delivery.task.cancel()
                tasks.add(delivery.task)
        return list(tasks)

    def _call(self, message: Message) -> None:
        if self._is_silent:
            return
        half = self.half
        if message.kind == Kind.GRANT:
            grant = Grant._of(message.json())
            self._serial.add(lambda: half.on_grant(grant), _granted)
        elif message.kind == Kind.TICK:
            self.call(Kind.TICK, message.call, half.tick)
        elif message.kind == Kind.FLUSH:
            self.call(Kind.FLUSH, message.call, half.flush)
        else:
            self.call(Kind.CLOSE_SINK, message.call, half.close)


def _granted(_: Any, error: Optional[BaseException]) -> None:
    if error is not None:
        _log.warning("on_grant failed: %s", caught(error).message)


def _cancelled() -> Error:
    return Error.deferred("the delivery was cancelled")
