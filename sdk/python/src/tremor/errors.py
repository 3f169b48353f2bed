"""Errors of plugins: a kind for what happened, and a policy for how the runtime reacts."""

from __future__ import annotations

import enum
import errno
import os
import traceback
from types import TracebackType
from typing import Any, Dict, List, Optional, Union

__all__ = ["Error", "ErrorKind", "ErrorPolicy"]

_MAX_TEXT = 64 << 10
_MAX_CAUSES = 16
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class ErrorPolicy(enum.IntEnum):
    """The reaction of the runtime to an error."""

    #: The call is repeated after a growing pause.
    RETRY = 0
    #: The connector connects again, and undelivered events are delivered afterwards.
    RECONNECT = 1
    #: The events leave by the port `err`, and the connector continues.
    DEAD_LETTER = 2
    #: The connector restarts, as often as the flow allows.
    RESTART = 3
    #: The flow fails, because only a person can remove the cause.
    GIVE_UP = 4


class ErrorKind(enum.IntEnum):
    """What happened. Each kind has a default policy."""

    #: A bug in the plugin or its environment.
    INTERNAL = 0
    #: The configuration is invalid, or names a file that does not exist.
    CONFIGURATION = 1
    #: A connection to the peer cannot be established.
    CONNECTION_REFUSED = 2
    #: An established connection broke.
    CONNECTION_LOST = 3
    #: The peer rejected the credentials, or denied access.
    AUTHENTICATION = 4
    #: The data is invalid.
    BAD_DATA = 5
    #: An operation exceeded its time limit.
    TIMEOUT = 6
    #: A disk, a quota or a buffer of the peer is full.
    FULL = 7
    #: The plugin does not support the operation.
    UNSUPPORTED = 8
    #: The code of the plugin crashed. The runtime replaces the instance.
    PANICKED = 9
    #: The system has no descriptors, memory or threads available at the moment.
    SHORTAGE = 10
    #: The operation was not attempted, because the peer asked for a delay that is not over.
    DEFERRED = 11

    @property
    def policy(self) -> ErrorPolicy:
        """The default policy of errors of this kind."""
        return _POLICIES[self]


_POLICIES = {
    ErrorKind.INTERNAL: ErrorPolicy.RESTART,
    ErrorKind.CONFIGURATION: ErrorPolicy.GIVE_UP,
    ErrorKind.CONNECTION_REFUSED: ErrorPolicy.RECONNECT,
    ErrorKind.CONNECTION_LOST: ErrorPolicy.RECONNECT,
    ErrorKind.AUTHENTICATION: ErrorPolicy.GIVE_UP,
    ErrorKind.BAD_DATA: ErrorPolicy.DEAD_LETTER,
    ErrorKind.TIMEOUT: ErrorPolicy.RETRY,
    ErrorKind.FULL: ErrorPolicy.RETRY,
    ErrorKind.UNSUPPORTED: ErrorPolicy.GIVE_UP,
    ErrorKind.PANICKED: ErrorPolicy.RESTART,
    ErrorKind.SHORTAGE: ErrorPolicy.RETRY,
    ErrorKind.DEFERRED: ErrorPolicy.RETRY,
}


class Error(Exception):
    """An error with a kind and a policy. Raise it in any method of a connector.

    `delay` is the minimum pause in seconds before the next attempt. With a delay, the default policy is retry, or
    reconnect if that is the default policy of the kind. The causes of the error are those of `raise ... from cause`.
    """

    def __init__(
        self,
        message: object,
        *,
        kind: ErrorKind = ErrorKind.INTERNAL,
        policy: Optional[ErrorPolicy] = None,
        delay: float = 0.0,
    ) -> None:
        super().__init__(str(message))
        self.message = str(message)
        self.kind = ErrorKind(kind)
        if policy is None:
            policy = self.kind.policy
            if delay > 0 and policy is not ErrorPolicy.RECONNECT:
                policy = ErrorPolicy.RETRY
        self.policy = ErrorPolicy(policy)
        self.delay = max(0.0, delay)

    @classmethod
    def internal(cls, message: object, **options: Any) -> Error:
        """A bug. The connector restarts."""
        return cls(message, kind=ErrorKind.INTERNAL, **options)

    @classmethod
    def configuration(cls, message: object, **options: Any) -> Error:
        """An invalid configuration. The flow fails."""
        return cls(message, kind=ErrorKind.CONFIGURATION, **options)

    @classmethod
    def connection_refused(cls, message: object, **options: Any) -> Error:
        """A connection that cannot be established. The connector tries again."""
        return cls(message, kind=ErrorKind.CONNECTION_REFUSED, **options)

    @classmethod
    def connection_lost(cls, message: object, **options: Any) -> Error:
        """A connection that broke. The connector connects again."""
        return cls(message, kind=ErrorKind.CONNECTION_LOST, **options)

    @classmethod
    def authentication(cls, message: object, **options: Any) -> Error:
        """Credentials that the peer rejected. The flow fails."""
        return cls(message, kind=ErrorKind.AUTHENTICATION, **options)

    @classmethod
    def bad_data(cls, message: object, **options: Any) -> Error:
        """Invalid data. The events leave by the port `err`."""
        return cls(message, kind=ErrorKind.BAD_DATA, **options)

    @classmethod
    def timeout(cls, message: object, **options: Any) -> Error:
        """An operation that took too long. The call is repeated."""
        return cls(message, kind=ErrorKind.TIMEOUT, **options)

    @classmethod
    def full(cls, message: object, **options: Any) -> Error:
        """A disk, a quota or a buffer of the peer that is full. The call is repeated."""
        return cls(message, kind=ErrorKind.FULL, **options)

    @classmethod
    def unsupported(cls, message: object, **options: Any) -> Error:
        """An operation that the plugin does not support. The flow fails."""
        return cls(message, kind=ErrorKind.UNSUPPORTED, **options)

    @classmethod
    def shortage(cls, message: object, **options: Any) -> Error:
        """A lack of descriptors, memory or threads. The call is repeated."""
        return cls(message, kind=ErrorKind.SHORTAGE, **options)

    @classmethod
    def deferred(cls, message: object, **options: Any) -> Error:
        """A delivery that was not attempted. Does not count against the key `retry` of the flow."""
        return cls(message, kind=ErrorKind.DEFERRED, **options)

    def to_body(self) -> Dict[str, Any]:
        """Returns the form of the error in messages to the runtime."""
        return {
            "kind": int(self.kind),
            "policy": int(self.policy),
            "delay_ms": min(round(self.delay * 1000), (1 << 32) - 1),
            "message": shortened(self.message),
            "causes": _causes(self),
        }

    @classmethod
    def from_body(cls, body: Dict[str, Any]) -> Error:
        """Reads an error from a message of the runtime. Unknown kinds and policies are internal errors."""
        try:
            kind = ErrorKind(body.get("kind", 0))
        except ValueError:
            kind = ErrorKind.INTERNAL
        try:
            policy = ErrorPolicy(body.get("policy", kind.policy))
        except ValueError:
            policy = ErrorPolicy.RESTART
        error = cls(
            body.get("message", ""), kind=kind, policy=policy, delay=body.get("delay_ms", 0) / 1000
        )
        cause: BaseException = error
        for text in body.get("causes", []):
            cause.__cause__ = Exception(text)
            cause = cause.__cause__
        return error


def shortened(text: str, most: int = _MAX_TEXT) -> str:
    """Returns the beginning of `text` that has at most `most` bytes in UTF-8."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode("utf-8")
    return data[:most].decode("utf-8", "ignore")


def _causes(error: BaseException) -> List[str]:
    causes: List[str] = []
    cause = error.__cause__
    while cause is not None and len(causes) < _MAX_CAUSES:
        causes.append(shortened(describe(cause)))
        cause = cause.__cause__
    return causes


def describe(error: BaseException) -> str:
    """Returns the type and the text of an exception, as the last line of a traceback has them."""
    if isinstance(error, Error):
        return error.message
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def of_author(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    """Returns the traceback without its first frames, which are of this package, or all of it if no other follows."""
    found = trace
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    return found or trace


def location(trace: Optional[TracebackType]) -> str:
    """Returns the file, line and function of the innermost frame outside of this package, or an empty text."""
    frames = [f for f in traceback.extract_tb(trace) if not f.filename.startswith(_PACKAGE)]
    own = [f for f in frames if "site-packages" not in f.filename and "/lib/python" not in f.filename]
    for frame in reversed(own or frames):
        return f"{os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}"
    return ""


_REFUSED = {
    errno.ECONNREFUSED,
    errno.EADDRNOTAVAIL,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENETDOWN,
}
_LOST = {errno.ECONNRESET, errno.ECONNABORTED, errno.ENOTCONN, errno.EPIPE, errno.ESTALE}
_CONFIGURATION = {
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EROFS,
}
_SHORTAGE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN}


def _kind_of(error: BaseException) -> ErrorKind:
    if isinstance(error, MemoryError):
        return ErrorKind.SHORTAGE
    if isinstance(error, EOFError):
        return ErrorKind.CONNECTION_LOST
    if not isinstance(error, (OSError, TimeoutError)):
        return ErrorKind.INTERNAL
    code = error.errno
    if isinstance(error, (ConnectionRefusedError,)) or code in _REFUSED:
        return ErrorKind.CONNECTION_REFUSED
    if isinstance(error, (ConnectionError,)) or code in _LOST:
        return ErrorKind.CONNECTION_LOST
    if isinstance(error, TimeoutError) or code == errno.ETIMEDOUT:
        return ErrorKind.TIMEOUT
    if code in _CONFIGURATION:
        return ErrorKind.CONFIGURATION
    if isinstance(error, PermissionError):
        return ErrorKind.AUTHENTICATION
    if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ErrorKind.FULL
    if code in _SHORTAGE:
        return ErrorKind.SHORTAGE
    return ErrorKind.INTERNAL


def from_exception(error: BaseException) -> Error:
    """Converts any exception to an error.

    Errors of the operating system get the kind of their number. Other exceptions are internal errors, whose message has
    the file and the line.
    """
    if isinstance(error, Error):
        return error
    where = location(error.__traceback__)
    text = describe(error) + (f" ({where})" if where else "")
    made = Error(text, kind=_kind_of(error))
    made.__cause__ = error.__cause__
    return made


def as_error(error: Union[Error, BaseException, str]) -> Error:
    """Converts the error of a rejected event. A text is an error of the kind bad data."""
    if isinstance(error, str):
        return Error.bad_data(error)
    return from_exception(error)
