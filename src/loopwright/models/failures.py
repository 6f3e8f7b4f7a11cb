"""What went wrong with a request, sorted once for all wires.

A vendor's failure comes as an HTTP status with a body, as an error event in the middle of a
stream, or as an exception of a client library. All become one `ModelError` that says whose move it
is, whether the same request may succeed later, and how long the vendor wants us to wait. The
rules are drawn from vendors' texts as seen in the wild; libraries are known by their exceptions'
attributes only, so that none is imported here. Keys are cut out of every text.

Not here: deciding to try again (retry.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ..errors import (
    AuthenticationFailed,
    ConnectionLost,
    ContextOverflow,
    InvalidRequest,
    LoopwrightError,
    ModelError,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    RequestRefused,
    StreamIncomplete,
    WireError,
)
from .overflow_words import says_overflow
from .stated_waits import retry_after_seconds, wait_in_words

__all__ = [
    "HINTS",
    "classify",
    "failure_from_response",
    "failure_from_text",
    "redact",
    "retry_after_seconds",
]

EXAMINED_BYTES = 65_536
"""How much of an error's body is looked at."""

EXAMINED_CHARACTERS = 8_192
"""How much of its text is searched for what it means."""

SHOWN_CHARACTERS = 600
"""How much of a vendor's own text an error shows."""

# Texts that look like an overflow but ask for patience: Bedrock throttles with "Too many tokens".
_THROTTLING = re.compile(
    r"rate limit|too many requests|^throttling error:|^service unavailable:", re.I
)

_OVERFLOW = re.compile(
    r"prompt is too long|request_too_large|context[_ ]length[_ ]exceeded|exceeds the context window"
    r"|maximum context length|input token count .{0,200}exceeds the maximum|input is too long for requested"
    r"|model_context_window_exceeded|maximum prompt length is|reduce the length of the messages"
    r"|too large for model with|longer than the model'?s context length"
    r"|exceeds the maximum allowed input length|context window exceeded|exceed_context_size_error"
    r"|exceeds the available context size|greater than the context length|exceeded max context length"
    r"|exceeds the limit of \d+|context window exceeds limit|exceeded model token limit"
    r"|prompt exceeds max length|range of input length should be|too many tokens|token limit exceeded",
    re.I | re.S,
)
_QUOTA = re.compile(
    r"insufficient_quota|insufficient (?:balance|credit)|\bbilling(?![-_\w])|available balance"
    r"|monthly usage limit reached|gousagelimiterror|freeusagelimiterror|quota exceeded"
    r"|exceeded your current quota|credit balance is too low"
    r"|subscription_sharing_usage_limit_exceeded|enforced_spend_limit_reached",
    re.I,
)
_FOR_A_WHILE = re.compile(r"per[ _-]?(?:second|minute|hour|day)", re.I)
"""A quota of this kind comes back by itself."""

_NAMES = re.compile(
    r"`[^`]{0,200}`|\"[^\"]{0,200}\"|'[\w.:\[\]/-]{1,200}'|\b[\w-]+(?:[./][\w-]+)+|\b\w+\[\d+\]"
)
"""Quoted names, paths and ids: words in them say nothing about the account."""

_PATIENCE = re.compile(
    r"overloaded|server_busy|server busy|high demand|at capacity|upstream connect"
    r"|provider returned error|resource ?exhausted|temporarily unavailable|service unavailable"
    r"|internal server error|loading model",
    re.I,
)

_BY_NAME: tuple[tuple[type[ModelError], frozenset[str]], ...] = (
    (QuotaExceeded, frozenset({"insufficient_quota", "billing_error", "billing_not_active", "1308"})),
    (RateLimited, frozenset({
        "rate_limit_error", "rate_limit_exceeded", "throttlingexception", "too_many_requests",
        "tokens", "requests", "resource_exhausted",
    })),
    (Overloaded, frozenset({
        "overloaded_error", "api_error", "server_error", "internal_server_error", "timeout_error",
        "internalserverexception", "modelstreamerrorexception", "serviceunavailableexception",
        "modelnotreadyexception", "modeltimeoutexception", "service_unavailable", "unavailable",
        "internal", "engine_overloaded",
    })),
    (ContextOverflow, frozenset({
        "context_length_exceeded", "request_too_large", "exceed_context_size_error",
        "model_context_window_exceeded",
    })),
    (RequestRefused, frozenset({"content_filter", "content_policy_violation", "refusal"})),
    (AuthenticationFailed, frozenset({
        "authentication_error", "permission_error", "invalid_api_key", "unauthenticated",
        "permission_denied", "accessdeniedexception", "unrecognizedclientexception",
    })),
    (InvalidRequest, frozenset({
        "invalid_request_error", "not_found_error", "validationexception", "invalid_argument",
        "model_not_found", "invalid_request", "failed_precondition",
    })),
)  # fmt: skip

_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|nvapi|csk|key|fw|r8|hf|pplx|tgp)[-_][A-Za-z0-9_\-]{12,}"
    r"|\bAIza[A-Za-z0-9_\-]{20,}|(?<=Bearer )[^\s\"',]{8,}|(?<=Basic )[^\s\"',]{8,}"
)
_SECRET_HEADERS = re.compile(r"auth|key|token|secret|cookie|credential", re.I)


def redact(
    text: str, *, api_key: str | None = None, headers: Mapping[str, str] | None = None
) -> str:
    """*text* without the key, the values of secret headers, or anything that looks like a key."""
    secrets = [api_key] if api_key else []
    for name, value in (headers or {}).items():
        if _SECRET_HEADERS.search(name):
            secrets += [value, value.removeprefix("Bearer ")]
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[key]")
    return _KEY_LIKE.sub("[key]", text)


def failure_from_text(
    text: str,
    *,
    name: str | None = None,
    status: int | None = None,
    provider: str | None = None,
    model: str | None = None,
    request_id: str | None = None,
    retry_after: float | None = None,
    for_a_while: bool = False,
) -> ModelError:
    """What a vendor's *text* means, with the *name* (type or code) and *status* it came with.

    *for_a_while*: more was said that makes a used-up quota a matter of time.
    """
    text = text[:EXAMINED_CHARACTERS]
    waits = [wait for wait in (retry_after, wait_in_words(text)) if wait is not None]
    retry_after = max(waits, default=None) or None  # no wait at all says nothing
    lowered = (name or "").lower()[:SHOWN_CHARACTERS]
    comes_back = bool(retry_after) or for_a_while or _FOR_A_WHILE.search(text) is not None
    kind, retryable = _sort(text, lowered, status, provider, comes_back)
    shown = text.strip() or name or "the vendor gave no reason"
    if len(shown) > SHOWN_CHARACTERS:
        shown = f"{shown[:SHOWN_CHARACTERS]}…"
    return kind(
        f"HTTP {status}: {shown}" if status else shown,
        hint=HINTS.get(kind),
        provider=provider,
        model=model,
        status=status,
        request_id=request_id,
        retry_after_seconds=retry_after,
        retryable=kind.retryable if retryable is None else retryable,
    )


HINTS: dict[type[ModelError], str] = {
    AuthenticationFailed: "check the key, and that it may use this model",
    QuotaExceeded: "the account's credit or allowance is used up; waiting will not help",
    ContextOverflow: "the request is larger than the model's context window; shorten it",
}
"""What to do about a failure, where its kind alone tells."""


def _sort(
    text: str, name: str, status: int | None, provider: str | None, comes_back: bool
) -> tuple[type[ModelError], bool | None]:
    """The kind of failure, and whether to try again where that differs from the kind's own rule."""
    both = f"{name} {text}"
    if status == 402 or name in _BY_NAME[0][1]:
        return QuotaExceeded, False
    if _QUOTA.search(f"{name} {_NAMES.sub(' ', text)}"):
        return (RateLimited, None) if comes_back else (QuotaExceeded, False)
    overflow = _OVERFLOW.search(both) and not _THROTTLING.search(text)
    if status == 413 or (overflow and (status is None or status < 500)):
        return ContextOverflow, False
    if (status is None or status in (400, 422, 500)) and says_overflow(text):
        return ContextOverflow, False
    if status == 400 and not text.strip() and provider == "cerebras":
        return ContextOverflow, False  # that is all it says
    for kind, names in _BY_NAME:
        if name in names and (status is None or status >= 400):
            if kind is InvalidRequest and status is not None and status not in (400, 404, 422):
                break  # the status says more than a catch-all name
            return kind, None
    if status is not None and status >= 400:
        return _by_status(status, text)
    if _THROTTLING.search(text):
        return RateLimited, None
    if _PATIENCE.search(both):
        return Overloaded, None
    return ModelError, False


def _by_status(status: int, text: str) -> tuple[type[ModelError], bool | None]:
    if status == 429:
        return RateLimited, None
    if status >= 500 or status in (408, 409):
        return Overloaded, None
    if status in (401, 403):
        return AuthenticationFailed, None
    return (Overloaded, None) if _PATIENCE.search(text) else (InvalidRequest, None)


def failure_from_response(
    status: int,
    headers: Mapping[str, str],
    body: Any,
    *,
    now: float,
    provider: str | None = None,
    model: str | None = None,
) -> ModelError:
    """What an HTTP answer that is no success means. *body* is its text, or the parsed JSON."""
    if isinstance(body, str | bytes) and len(body) > EXAMINED_BYTES:
        body = body[:EXAMINED_BYTES]  # what is longer was not written to be read
    name, text = _name_and_text(body)
    raw = (body if isinstance(body, str) else _as_text(body))[:EXAMINED_BYTES]
    after = retry_after_seconds(headers, now, raw)
    failure = failure_from_text(
        text,
        name=name,
        status=status,
        provider=provider,
        model=model,
        request_id=headers.get("x-request-id") or headers.get("request-id"),
        retry_after=after,
        for_a_while=_FOR_A_WHILE.search(raw) is not None,
    )
    told = headers.get("x-should-retry", "").lower()
    if told in ("true", "false"):
        failure.retryable = told == "true"
    elif status == 429 and after is None and "enforced_spend_limit" in raw:
        failure.retryable = False
    return failure


def _as_text(body: Any) -> str:
    try:
        return msgspec.json.encode(body).decode()
    except (TypeError, UnicodeEncodeError, RecursionError):
        return str(body) if not isinstance(body, dict | list) else "an answer nested too deeply"


def _name_and_text(body: Any) -> tuple[str | None, str]:
    """The error's own name and text, wherever in *body* a vendor puts them."""
    if body is None:
        return None, ""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str):
        try:
            parsed = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None, _without_markup(body)
        return _name_and_text(parsed) if isinstance(parsed, dict | list) else (None, body)
    if isinstance(body, list):
        items = cast("list[Any]", body)
        return _name_and_text(items[0]) if items else (None, "")
    if not isinstance(body, dict):
        return None, str(body)
    fields = cast("dict[str, Any]", body)
    inner = fields.get("error")
    if isinstance(inner, dict | str) and inner:
        outer_name, _ = _name_and_text({k: v for k, v in fields.items() if k != "error"})
        name, text = (None, inner) if isinstance(inner, str) else _name_and_text(inner)
        return name or outer_name, text
    name = None
    for key in ("code", "type", "status", "__type"):
        value = fields.get(key)
        if isinstance(value, str) and value and (name is None or _known(value)):
            name = value
            if _known(value):
                break
    text = ""
    for key in ("message", "Message", "detail", "msg", "error_message", "title"):
        value = fields.get(key)
        if value:
            text = value if isinstance(value, str) else _as_text(value)
            break
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):  # OpenRouter puts the upstream's own words here
        upstream = cast("dict[str, Any]", metadata).get("raw")
        if isinstance(upstream, str) and upstream:
            text = f"{text}: {upstream}" if text else upstream
    return name, text or (_as_text(fields) if fields and name is None else "")


def _known(name: str) -> bool:
    lowered = name.lower()
    return any(lowered in names for _, names in _BY_NAME)


def _without_markup(text: str) -> str:
    """Gateways answer with HTML pages; their title says what there is to say."""
    if "<html" not in text[:500].lower():
        return text
    title = re.search(r"<title[^<>]{0,200}>([^<]{0,500})</title>", text[:EXAMINED_CHARACTERS], re.I)
    return title.group(1).strip() if title else "an HTML page came instead of an answer"


def failure_from_event(
    error: Any, *, provider: str | None = None, model: str | None = None
) -> ModelError:
    """What an error object in the middle of a stream means, after HTTP had said that all is well."""
    name, text = _name_and_text(error)
    status: int | None = None
    if isinstance(error, dict):
        code = cast("dict[str, Any]", error).get("code")
        if isinstance(code, str) and code.isdigit():
            code = int(code)
        if isinstance(code, int) and 400 <= code < 600:
            status = code
    failure = failure_from_text(text, name=name, status=status, provider=provider, model=model)
    return failure


def classify(
    error: BaseException,
    *,
    now: float,
    provider: str | None = None,
    model: str | None = None,
) -> LoopwrightError:
    """What an exception raised while asking means. Our own errors come back as they are."""
    if isinstance(error, LoopwrightError):
        return error
    status: Any = getattr(error, "status_code", None)
    response: Any = getattr(error, "response", None)
    if isinstance(status, int) and response is not None:
        body: Any = getattr(error, "body", None)
        if body is None:
            body = getattr(response, "text", "") if _is_read(response) else ""
        headers = {str(k).lower(): str(v) for k, v in dict(response.headers).items()}
        return failure_from_response(status, headers, body, now=now, provider=provider, model=model)
    if _is_connection_fault(error):
        return ConnectionLost(_connection_text(error), provider=provider, model=model)
    if isinstance(error, msgspec.MsgspecError | UnicodeError | RecursionError):
        return WireError(
            f"what the vendor sent cannot be read: {error}", provider=provider, model=model
        )
    return ModelError(
        f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        provider=provider,
        model=model,
    )


def _is_read(response: Any) -> bool:
    return bool(getattr(response, "is_stream_consumed", True)) or not hasattr(response, "aread")


def _is_connection_fault(error: BaseException) -> bool:
    if isinstance(error, OSError | TimeoutError | EOFError):
        return True
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"TransportError", "StreamError", "APIConnectionError", "HTTPClientError"})


def _connection_text(error: BaseException) -> str:
    """The first cause that says something: client libraries wrap it in "Connection error."."""
    cause: BaseException | None = error
    texts: list[str] = []
    while cause is not None and len(texts) < 4:
        said = str(cause).strip()
        named = f"{type(cause).__name__}: {said}" if said else type(cause).__name__
        if named not in texts:
            texts.append(named)
        cause = cause.__cause__
    return f"the connection failed ({'; from '.join(texts)})"


def incomplete(provider: str | None = None, model: str | None = None) -> StreamIncomplete:
    """The body ended without the wire's terminal marker."""
    return StreamIncomplete(
        "The stream ended before the reply was complete.", provider=provider, model=model
    )
