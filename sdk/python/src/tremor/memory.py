"""The file in memory through which frames are exchanged. Both sides copy frames, and map nothing."""

from __future__ import annotations

import os

from .frame import MAX_LEN, Frame, FrameError
from .system import punch_hole

__all__ = ["Memory", "PULLS", "SLOTS"]

#: Number of slots: one for pulls, and one for each delivery in flight.
SLOTS = 1_025
#: Slot of the events of pulls.
PULLS = 0
#: Length of a frame above which the memory of its slot is freed after it was read.
_KEPT = 1 << 20


class Memory:
    """The file in memory, which is divided into slots of 64 MiB."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, slot: int, frame: bytes) -> None:
        """Writes a frame to a slot."""
        if len(frame) > MAX_LEN or not 0 <= slot < SLOTS:
            raise FrameError(f"no frame of {len(frame)} bytes fits in slot {slot}")
        view, at = memoryview(frame), slot * MAX_LEN
        while view:
            written = os.pwrite(self._descriptor, view, at)
            view, at = view[written:], at + written

    def read_bytes(self, slot: int, length: int) -> bytes:
        """Returns the first `length` bytes of a slot."""
        if not 0 <= length <= MAX_LEN or not 0 <= slot < SLOTS:
            raise FrameError(f"there is no frame of {length} bytes in slot {slot}")
        data = os.pread(self._descriptor, length, slot * MAX_LEN)
        if len(data) != length:
            raise FrameError(f"slot {slot} has {len(data)} of {length} bytes")
        if length > _KEPT:
            punch_hole(self._descriptor, slot * MAX_LEN, MAX_LEN)
        return data

    def read(self, slot: int, length: int) -> Frame:
        """Reads the frame in a slot, which the other side has written."""
        return Frame(self.read_bytes(slot, length))
