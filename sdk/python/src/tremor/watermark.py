"""Positions of sources that read again what was not delivered."""

from __future__ import annotations

import collections
from typing import Deque, Dict, Generic, List, Optional, TypeVar

from .batch import Pull

__all__ = ["Watermark"]

_P = TypeVar("_P")


class _Open(Generic[_P]):
    """A pull that has not ended."""

    __slots__ = ("is_done", "positions")

    def __init__(self) -> None:
        self.positions: List[_P] = []
        self.is_done = False


class Watermark(Generic[_P]):
    """Finds the position before which all events have ended, for a source with one stream.

    Pulls end in any order, but a source may commit only a position before which no event is in flight. Call `add` after
    each event that you push, and `ack` and `fail` in the methods of the same names.
    """

    def __init__(self, start: _P) -> None:
        """`start` is the position from which the source reads first."""
        #: Position up to which all events have ended. Commit it.
        self.committed: _P = start
        self._open: Dict[int, _Open[_P]] = {}
        self._order: Deque[int] = collections.deque()
        self._rewind: Optional[List[_P]] = None

    def add(self, pull: Pull, position: _P) -> None:
        """Records the position after the event that was pushed last."""
        if self._rewind is not None:
            raise RuntimeError("a pull has failed: call `rewind` before you push events")
        entry = self._open.get(pull.number)
        if entry is None:
            entry = self._open[pull.number] = _Open()
            self._order.append(pull.number)
        missing = len(pull) - len(entry.positions)
        if missing < 1:
            raise RuntimeError("call `add` once after each event that you push")
        # Events that were pushed together share the position after the last of them.
        entry.positions.extend([position] * missing)

    def ack(self, pull: int) -> None:
        """Records that all events of a pull have ended."""
        entry = self._open.get(pull)
        if entry is not None:
            entry.is_done = True
            self._advance()

    def fail(self, pull: int, ranges: List[range]) -> None:
        """Records that events of a pull have failed: they and all later events are read again."""
        entry = self._open.get(pull)
        if entry is None:
            # It began after an earlier failure, or was read before one.
            return
        first = min((it.start for it in ranges), default=0)
        while self._order and self._order[-1] != pull:
            del self._open[self._order.pop()]
        # Events that were pushed together are read again together.
        while 0 < first < len(entry.positions) and entry.positions[first - 1] == entry.positions[first]:
            first -= 1
        del entry.positions[first:]
        if entry.positions:
            entry.is_done = True
        else:
            self._order.pop()
            del self._open[pull]
        self._rewind = [self._last()]
        self._advance()

    def rewind(self) -> Optional[_P]:
        """Returns the position from which to read again, once after a failure, and otherwise `None`.

        Call it at the begin of each pull; in a coroutine, after the last `await`.
        """
        found, self._rewind = self._rewind, None
        return None if found is None else found[0]

    @property
    def in_flight(self) -> int:
        """Number of events that have not ended."""
        return sum(len(it.positions) for it in self._open.values() if not it.is_done)

    def _last(self) -> _P:
        """Returns the position after the last event that needs not be read again."""
        return self._open[self._order[-1]].positions[-1] if self._order else self.committed

    def _advance(self) -> None:
        while self._order and self._open[self._order[0]].is_done:
            entry = self._open.pop(self._order.popleft())
            self.committed = entry.positions[-1]
