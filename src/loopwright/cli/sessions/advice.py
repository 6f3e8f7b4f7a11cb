"""What can be done about a session that cannot be used, in words of the command line."""

from __future__ import annotations

from ...errors import (
    OperationParked,
    SessionDamaged,
    SessionError,
    SessionLocked,
    SessionTooNew,
    StoreUnavailable,
)

__all__ = ["advised"]


def advised(error: SessionError, session_id: str) -> SessionError:
    """*error* with a hint that names options and commands."""
    match error:
        case SessionLocked():
            error.hint = (
                "wait until the other is done, or go on in a copy with "
                f"`loopwright --fork {session_id}`"
            )
        case OperationParked():
            error.hint = (
                "whatever it does there ends its process; go on in a copy without it: "
                f"`loopwright --fork {session_id}`"
            )
        case StoreUnavailable() | SessionDamaged() | SessionTooNew():
            hint = "`--no-session` answers without keeping anything"
            error.hint = f"{error.hint}\n{hint}" if error.hint else hint
        case _:
            pass
    return error
