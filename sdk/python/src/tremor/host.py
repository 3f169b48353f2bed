"""The services of the runtime: paths, log lines, metrics, problems, and requests."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Union

from .errors import Error, as_error, shortened

__all__ = ["Counter", "Gauge", "Histogram", "Host", "TRACE"]

#: Level of `logging` for lines that the runtime shows with the level trace.
TRACE = 5

_MAX_METRICS = 1_024


class _Metric:
    """The state of a metric. All methods may be called by any thread."""

    kind = 0

    def __init__(self, name: str, help: str) -> None:
        self.name = name
        self.help = help
        self._lock = threading.Lock()
        self._value = 0.0
        self._count = 0
        self._min: Optional[float] = None
        self._max: Optional[float] = None

    @property
    def value(self) -> float:
        """The sum of a counter or a histogram, or the last value of a gauge."""
        return self._value

    def _record(self, value: float, is_sum: bool) -> None:
        with self._lock:
            self._value = self._value + value if is_sum else value
            self._count += 1
            self._min = value if self._min is None else min(self._min, value)
            self._max = value if self._max is None else max(self._max, value)

    def _body(self) -> Dict[str, Any]:
        with self._lock:
            return {
                "kind": self.kind,
                "name": self.name,
                "help": self.help,
                "value": self._value,
                "count": self._count,
                "min": self._min,
                "max": self._max,
            }


def _finite(value: float) -> float:
    value = float(value)
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"a metric cannot have the value {value}")
    return value


class Counter(_Metric):
    """A sum that only grows."""

    kind = 0

    def add(self, value: float = 1) -> None:
        """Adds a value, which must not be negative."""
        if value < 0:
            raise ValueError("a counter only grows")
        self._record(_finite(value), True)


class Gauge(_Metric):
    """A value that grows and shrinks."""

    kind = 1

    def set(self, value: float) -> None:
        """Sets the value."""
        self._record(_finite(value), False)


class Histogram(_Metric):
    """The number, sum, minimum and maximum of values."""

    kind = 2

    def record(self, value: float) -> None:
        """Adds a value."""
        self._record(_finite(value), True)


class Host:
    """The services of the runtime. All methods may be called by any thread.

    Tests create a host themselves: its messages are then kept in `sent`.
    """

    def __init__(
        self,
        component: str = "test",
        folder: str = ".",
        send: Optional[Callable[[str, Dict[str, Any]], None]] = None,
    ) -> None:
        #: Name of the component in the flow.
        self.component = component
        #: Folder of the flow file.
        self.folder = folder
        #: Logger of the component. Every other logger works as well.
        self.log = logging.getLogger(f"tremor.{component}")
        #: Without a runtime, the names and arguments of calls, such as `("problem", {...})`.
        self.sent: List[Any] = []
        self._send = send or (lambda name, arguments: self.sent.append((name, arguments)))
        self._is_draining = False
        self._metrics: Dict[str, _Metric] = {}
        self._lock = threading.Lock()

    @property
    def is_draining(self) -> bool:
        """`True` if the flow drains: sources are not pulled any more. Up to a second late."""
        return self._is_draining

    def resolve(self, path: Union[str, os.PathLike[str]]) -> str:
        """Returns the path of a file that a configuration names. Relative paths start from the folder of the flow."""
        return os.path.join(self.folder, os.path.expanduser(path))

    def now_ns(self) -> int:
        """Returns the current time in nanoseconds since the Unix epoch."""
        return time.time_ns()

    def counter(self, name: str, help: str) -> Counter:
        """Returns the counter of that name, which is created at the first call."""
        return self._metric(Counter, name, help)

    def gauge(self, name: str, help: str) -> Gauge:
        """Returns the gauge of that name, which is created at the first call."""
        return self._metric(Gauge, name, help)

    def histogram(self, name: str, help: str) -> Histogram:
        """Returns the histogram of that name, which is created at the first call."""
        return self._metric(Histogram, name, help)

    def _metric(self, kind: Any, name: str, help: str) -> Any:
        with self._lock:
            known = self._metrics.get(name)
            if known is None:
                if len(self._metrics) >= _MAX_METRICS:
                    raise ValueError(f"a component has at most {_MAX_METRICS} metrics")
                known = self._metrics[name] = kind(name, help)
        if type(known) is not kind:
            raise ValueError(f"the metric `{name}` is a {type(known).__name__.lower()} already")
        return known

    def metrics(self) -> List[Dict[str, Any]]:
        """Returns the states of all metrics."""
        with self._lock:
            known = list(self._metrics.values())
        return [it._body() for it in known]

    def problem(self, name: str, error: Union[Error, BaseException, str, None]) -> None:
        """Reports a problem that does not end the connector, or, with `None`, that it is over."""
        body = None if error is None else as_error(error).to_body()
        self._send("problem", {"name": shortened(name, 1 << 10), "error": body})

    def connection_lost(self) -> None:
        """Reports that the connection is lost. The runtime connects again."""
        self._send("connection_lost", {})

    def request_stop(self, reason: str, *, drain: bool = True) -> None:
        """Ends the run. With `drain`, all events in flight are delivered first."""
        self._send("request_stop", {"reason": shortened(reason), "drain": drain})


#: Levels of `logging` for the levels of the runtime, from 0 (off) to 5 (trace).
_LEVELS = (logging.CRITICAL + 1, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, 1)


def level_of(runtime_level: int) -> int:
    """Returns the level of `logging` for a level of the runtime."""
    return _LEVELS[min(max(runtime_level, 0), 5)]


class Handler(logging.Handler):
    """Sends log lines to the runtime."""

    def __init__(self, send: Callable[[int, str], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        levels = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
        level = next((n for n, it in enumerate(levels, 1) if record.levelno >= it), 5)
        self._send(level, shortened(text))
