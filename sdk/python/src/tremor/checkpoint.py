"""Positions that survive the process."""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any, Optional

from .errors import Error

__all__ = ["Checkpoint"]


class Checkpoint:
    """A file with a value, such as a position. Only one connector can use it at a time.

    The file is complete at any time, and a new value is durable when `store` returns.
    """

    def __init__(self, path: str, default: Any = None) -> None:
        """Opens the file, or creates it with the next `store`.

        Raises an error of the kind configuration if another process uses the file, or if its contents are not JSON.
        """
        self._path = os.path.abspath(path)
        self._stored: Optional[float] = None
        self._lock: Optional[int] = os.open(self._path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Error.configuration(f"another connector uses the checkpoint {path}") from error
            self._value = self._load(default)
        except BaseException:
            self.close()
            raise

    def _load(self, default: Any) -> Any:
        try:
            with open(self._path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            return default
        try:
            return json.loads(text)
        except ValueError as error:
            raise Error.configuration(f"the checkpoint {self._path} is not JSON: remove or repair it") from error

    @property
    def value(self) -> Any:
        """The value that was stored last, or the default."""
        return self._value

    def store(self, value: Any, *, interval: float = 0.0) -> None:
        """Replaces the value, which JSON must be able to represent.

        Does nothing if the value is equal, or if the last value was stored less than `interval` seconds ago, because
        a write takes milliseconds on many disks. Store the last value without an interval.
        """
        if self._lock is None:
            raise ValueError("the checkpoint is closed")
        now = time.monotonic()
        if value == self._value or (self._stored is not None and now - self._stored < interval):
            return
        temporary = self._path + ".new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._path)
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._value, self._stored = value, now

    def close(self) -> None:
        """Lets others use the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
