"""Threads that call the code of an author."""

from __future__ import annotations

import asyncio
import collections
import inspect
import itertools
import sys
import threading
import traceback
from typing import Any, Awaitable, Callable, Deque, List, Optional

from .system import leave

__all__ = ["Serial", "Worker", "finish", "spawn"]

#: Maximum number of messages that wait for a thread. If it is blocked for so long, the runtime ends the process.
_WAITING = 65_536
#: Bytes of memory for the stack of a thread. They count against the limit of the process.
_STACK = 4 << 20

_numbers = itertools.count(1)


class Worker:
    """A thread with an event loop, which calls plain functions directly, and runs coroutines as tasks."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._waiting = threading.BoundedSemaphore(_WAITING)
        self._is_in_wait = False
        self._probe = 0
        size = threading.stack_size(_STACK)
        try:
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        finally:
            threading.stack_size(size)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        except SystemExit as error:
            code = error.code
            if code is not None and not isinstance(code, int):
                print(code, file=sys.stderr)
                code = 1
            leave(code or 0)
        except BaseException:
            traceback.print_exc()
            leave(1)

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function on the thread. Blocks while too many calls wait."""
        self._waiting.acquire()
        self.loop.call_soon_threadsafe(self._call, function, arguments)

    def _call(self, function: Callable[..., None], arguments: Any) -> None:
        self._waiting.release()
        try:
            function(*arguments)
        except SystemExit:
            raise
        except BaseException as error:
            _fail(error)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def wait(self, event: threading.Event, seconds: Optional[float]) -> bool:
        """Waits on the thread. Does not count as a call that blocks it."""
        self._is_in_wait = True
        try:
            return event.wait(seconds)
        finally:
            self._is_in_wait = False

    def blocked(self) -> int:
        """Returns a number that identifies what blocks the thread, or 0. Is called by the main thread.

        Each call asks the thread for a sign of life. If the thread has not answered before the next call, it is
        blocked, and the number stays the same until it answers.
        """
        if self._is_in_wait:
            self._probe = 0
        elif self._probe:
            return self._probe
        else:
            number = self._probe = next(_numbers)
            self.loop.call_soon_threadsafe(self._answer, number)
        return 0

    def _answer(self, number: int) -> None:
        if self._probe == number:
            self._probe = 0


async def finish(result: Any) -> Any:
    """Returns the result of a method, which may be a coroutine."""
    return await result if inspect.isawaitable(result) else result


def spawn(worker: Worker, work: Awaitable[Any]) -> asyncio.Future[Any]:
    """Runs a coroutine as a task of the current thread, which is that of `worker`."""
    task = asyncio.ensure_future(work, loop=worker.loop)
    task.add_done_callback(_check)
    return task


def _check(task: asyncio.Future[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _fail(error)


def _fail(error: BaseException) -> None:
    """Ends the process after a fault of this package, because a call without an answer would block its flow."""
    traceback.print_exception(type(error), error, error.__traceback__)
    leave(1)


class Serial:
    """Calls functions of one thread one after the other. A coroutine ends before the next function is called."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._queue: Deque[Any] = collections.deque()
        self._task: Optional[asyncio.Future[Any]] = None

    def add(self, function: Callable[[], Any], done: Callable[[Any, Optional[BaseException]], None]) -> None:
        """Calls `function`, and then `done` with its result or its exception. Call this on the thread of the worker."""
        self._queue.append((function, done))
        if self._task is None:
            self._drain()

    def _drain(self) -> None:
        while self._queue and self._task is None:
            function, done = self._queue.popleft()
            try:
                result = function()
            except SystemExit:
                raise
            except BaseException as error:
                done(None, error)
                continue
            if inspect.isawaitable(result):
                self._task = spawn(self._worker, self._finish(result, done))
            else:
                done(result, None)

    async def _finish(self, result: Awaitable[Any], done: Callable[[Any, Optional[BaseException]], None]) -> None:
        try:
            done(await result, None)
        except SystemExit:
            raise
        except BaseException as error:
            done(None, error)
        finally:
            self._task = None
            self._drain()

    def cancel(self) -> List[asyncio.Future[Any]]:
        """Forgets functions that were not called, and cancels a coroutine, which is returned."""
        self._queue.clear()
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]
