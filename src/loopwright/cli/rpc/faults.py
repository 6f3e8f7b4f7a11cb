"""What went wrong with a command, as the client is told.                                  (pure)"""

from __future__ import annotations

from ...errors import (
    AgentBusy,
    ConfigurationError,
    LoopwrightError,
    ModelError,
    OperationOpen,
    OperationParked,
    SessionError,
    SessionLocked,
    SessionNotFound,
)
from .output import ErrorKind, Fault
from .requests import LineRefused

__all__ = ["fault_of"]

_KINDS: tuple[tuple[type[LoopwrightError], ErrorKind], ...] = (
    (AgentBusy, "busy"),
    (OperationOpen, "unfinished"),
    (OperationParked, "unfinished"),
    (SessionNotFound, "not_found"),
    (SessionLocked, "locked"),
    (SessionError, "session"),
    (ConfigurationError, "configuration"),
    (ModelError, "model"),
)
"""The first that fits counts, so the special ones come first."""


def fault_of(error: Exception) -> Fault:
    """*error* in the client's words."""
    match error:
        case LineRefused():
            return Fault(error.message, error.hint, error.kind)
        case LoopwrightError():
            return Fault(error.message, error.hint, _kind_of(error))
        case FileExistsError():
            return Fault(
                f"{error.filename} is there already", 'send "force": true to replace it', "io"
            )
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            return Fault(f"{place}{error.strerror or error}", None, "io")
        case _:
            return Fault(
                f"{type(error).__name__}: {error}",
                "this is a fault of loopwright; standard error has the traceback",
                "internal",
            )


def _kind_of(error: LoopwrightError) -> ErrorKind:
    for family, kind in _KINDS:
        if isinstance(error, family):
            return kind
    return "refused"
