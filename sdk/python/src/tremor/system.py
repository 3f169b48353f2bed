"""Limits of the process, and calls of the operating system that Python does not have."""

from __future__ import annotations

import os
import signal
import stat
import sys
from typing import Any, Optional, Tuple

try:
    import resource
except ImportError:  # Not on Windows, where this package can still describe plugins.
    resource = None  # type: ignore[assignment]

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_PUNCH_HOLE_KEEP_SIZE = 3

_libc_cache: Any = None


def _libc() -> Any:
    """Returns the library of C, or `None` if it cannot be called."""
    global _libc_cache
    if _libc_cache is None:
        try:
            import ctypes

            _libc_cache = ctypes.CDLL(None, use_errno=True)
        except (ImportError, OSError, TypeError):
            _libc_cache = False
    return _libc_cache or None


def is_started_by_runtime() -> bool:
    """Returns whether standard input is a socket, as in a process that tremor starts."""
    try:
        return stat.S_ISSOCK(os.fstat(0).st_mode)
    except OSError:
        return False


def take_descriptors() -> Tuple[int, int]:
    """Returns the socket and the file of frames. Standard input becomes empty, standard output is standard error."""
    # The streams were opened for the former descriptors. What was printed before went to the file.
    _flush()
    printed = os.lseek(1, 0, os.SEEK_CUR)
    if printed:
        os.write(2, os.pread(1, min(printed, 1 << 16), 0))
    socket, memory = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    return socket, memory


def end_with_parent() -> None:
    """Asks the system to end this process when the runtime ends. Without that, the end of the socket ends it."""
    libc = _libc()
    if libc is not None and sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def confine(memory: Optional[int]) -> None:
    """Limits the data of this process to `memory` bytes.

    The process writes no core file, gains no privileges, and is the first one that the system ends if it runs out of
    memory. Raises `OSError` if the memory cannot be limited.
    """
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory is not None:
            try:
                resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
            except ValueError as error:
                # The process inherited a lower limit, which it cannot raise.
                raise OSError(str(error)) from error
    libc = _libc()
    if libc is not None and sys.platform == "linux":
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        # Without `/proc`, the system chooses by the use of memory.
        pass


def punch_hole(descriptor: int, offset: int, length: int) -> None:
    """Frees the memory of a part of a file. The memory stays in use if the system cannot do that."""
    libc = _libc()
    if libc is not None and sys.platform == "linux" and hasattr(libc, "fallocate64"):
        import ctypes

        size = ctypes.c_int64
        libc.fallocate64(descriptor, _PUNCH_HOLE_KEEP_SIZE, size(offset), size(length))


def leave(status: int) -> None:
    """Ends the process at once. Other threads may be blocked, so that a regular end could wait for ever."""
    _flush()
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
