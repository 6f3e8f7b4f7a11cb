"""Every error a user may catch, sorted by whose move it is.

    LoopwrightError
      ConfigurationError   the user's move, before anything ran
        ModelNotFound        no such provider or model; the hint has near names
        MissingKey           no API key where one is needed
        MissingExtra         an optional dependency is not installed
        NoStreamFunction     nothing was given that could ask a model
      Misuse               the programmer's move
        AgentBusy            a run is going on
        NothingToResume      the transcript asks for nothing
        SessionClosed        the session is not open any more, or was opened for reading
        OperationOpen        the lane has an unfinished operation: resume it first
      DecodeError          data that is not what it claims to be: an unknown role, a missing field
      ModelError           the vendor's side; says provider, model, status and request id
        AuthenticationFailed, RateLimited, Overloaded, ConnectionLost, StreamIncomplete,
        ContextOverflow, RequestRefused, InvalidRequest, QuotaExceeded, WireError
      ToolError            raised by a tool; its text is meant for the model
        ArgumentsRejected    the arguments of a call are wrong (defined beside the check)
      SessionError         a session or its store
        SessionNotFound, SessionExists
        SessionLocked        another process has it open
        LeaseLost            another process took the session over; nothing of ours was written
        SessionDamaged       what is stored contradicts itself; says where, and was left untouched
        SessionTooNew        written by a newer version of this package
        StoreUnavailable     disk full, read-only, no connection: nothing was written
        InboxNotEmpty        a message arrived just as a run was to end
        ApprovalRefused      no approval of that call stands, or it was used already
        OperationParked      it ended its process again and again, and waits to be asked for
      RunFailed            a run failed or was aborted; raised by `RunResult.raise_on_error` alone
      Aborted              raised by `AbortSignal.throw_if_aborted`

`AgentBusy` and `NoStreamFunction` are also a `RuntimeError`; `NothingToResume` is also a `ValueError`
and a `RuntimeError`. Programs that come from a port of pi catch them by these names.

Inside a run a failing model or tool is news, not an exception: it becomes an event and a stop
reason. What is raised out of a run is misuse, or the caller's own cancellation.
"""

from __future__ import annotations

from typing import ClassVar


class LoopwrightError(Exception):
    """The root of the family. `hint` says what to do next and is shown on a line of its own."""

    hint: str | None

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\nhint: {self.hint}" if self.hint else message

    @property
    def message(self) -> str:
        """What happened, without the hint."""
        return super().__str__()


class ConfigurationError(LoopwrightError):
    """Something must be set or installed before anything can run."""


class ModelNotFound(ConfigurationError):
    """No provider or model has that name."""


class MissingKey(ConfigurationError):
    """The provider demands a key and none was found."""


class MissingExtra(ConfigurationError):
    """An optional dependency is not installed; the hint has the command that installs it."""


class NoStreamFunction(ConfigurationError, RuntimeError):
    """An agent was built without anything that could ask a model."""


class Misuse(LoopwrightError):
    """The program called something at the wrong time or with the wrong thing."""


class AgentBusy(Misuse, RuntimeError):
    """The agent is in the middle of a run, which is not affected by this call."""


class NothingToResume(Misuse, ValueError, RuntimeError):
    """The transcript ends where nothing is owed, and no message waits."""


class SessionClosed(Misuse):
    """The session was closed, or was opened for reading only."""


class OperationOpen(Misuse):
    """The lane has an operation that an earlier process left unfinished."""


class DecodeError(LoopwrightError):
    """Data that claims to be one of our messages or events and is not."""


class RunFailed(LoopwrightError):
    """A run ended with `stop_reason` `error` or `aborted`; the text is its `error_message`."""

    def __init__(
        self, message: str, *, stop_reason: str = "error", stopped_by: str | None = None
    ) -> None:
        super().__init__(message)
        self.stop_reason = stop_reason
        self.stopped_by = stopped_by


class Aborted(LoopwrightError):
    """The run was aborted; raised only by `AbortSignal.throw_if_aborted`."""

    def __init__(self, reason: object = None) -> None:
        super().__init__("Operation aborted" if reason is None else f"Operation aborted: {reason}")
        self.reason = reason


class ToolError(LoopwrightError):
    """Raised by a tool to report failure. Its text goes to the model as the result."""


class ModelError(LoopwrightError):
    """A request to a model failed.

    `kind` is a short name for programs, `retryable` says whether the same request may succeed
    later, `retry_after_seconds` what the vendor asked for. Keys never appear in the text.
    """

    kind: ClassVar[str] = "model_error"
    retryable: bool = False

    def __init__(
        self,
        message: str = "",
        *,
        hint: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.provider = provider
        self.model = model
        self.status = status
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        if retryable is not None:
            self.retryable = retryable


class AuthenticationFailed(ModelError):
    """The key was refused, or may not use this model."""

    kind = "auth"


class RateLimited(ModelError):
    """Too many requests; `retry_after_seconds` where the vendor said how long to wait."""

    kind = "rate_limit"
    retryable = True


class QuotaExceeded(ModelError):
    """The account has no money or allowance left; waiting a moment does not help."""

    kind = "quota"


class Overloaded(ModelError):
    """The vendor cannot serve right now."""

    kind = "overloaded"
    retryable = True


class ConnectionLost(ModelError):
    """The connection could not be made, or broke."""

    kind = "connection"
    retryable = True


class StreamIncomplete(ConnectionLost):
    """The body ended in an orderly way before the reply was complete."""

    kind = "incomplete_stream"


class ContextOverflow(ModelError):
    """The request is larger than the model's context window."""

    kind = "overflow"


class RequestRefused(ModelError):
    """The vendor declined to answer: a content filter or a refusal."""

    kind = "refused"


class InvalidRequest(ModelError):
    """The vendor calls the request wrong; sending it again changes nothing."""

    kind = "invalid_request"


class WireError(ModelError):
    """The vendor sent something its dialect does not allow; `raw` has the event."""

    kind = "wire"

    def __init__(self, message: str = "", *, raw: str | None = None, **details: object) -> None:
        super().__init__(message, **details)  # pyright: ignore[reportArgumentType]
        self.raw = raw


class SessionError(LoopwrightError):
    """Something about a stored session, or about the store."""


class SessionNotFound(SessionError):
    """The store has no session with that id."""


class SessionExists(SessionError):
    """A session with that id is there already."""


class SessionLocked(SessionError):
    """Another process has the session open for writing; reading it is possible all the same."""


class LeaseLost(SessionError):
    """Another process took the session over. What was to be committed was not written."""


class SessionDamaged(SessionError):
    """What is stored contradicts itself. `where` names the file, table, line or entry."""

    def __init__(self, message: str = "", *, where: str = "", hint: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class SessionTooNew(SessionError):
    """The file or database was written by a newer version of this package."""


class StoreUnavailable(SessionError):
    """The store cannot be read or written now: a full disk, missing rights, a lost connection.

    Nothing was written; only after a connection was lost in the middle of a commit that is not
    known, and the text says so. Ids are given once, so reading the session again tells.
    """


class InboxNotEmpty(SessionError):
    """A message arrived before the run could end; the end was not written."""


class ApprovalRefused(SessionError):
    """A decision on a call cannot be made, or does not stand: none was asked for, it was decided
    already, or it was for other arguments."""


class OperationParked(SessionError):
    """An operation ended its process again and again without any progress. It is left alone until
    somebody asks for it."""
