"""Bedrock Converse: what a frame or an answer means that is no part of a reply.            (pure)

Faults are told in three shapes: an HTTP status with the name in a header, a frame that is an
exception, a frame that is an error nobody described. Text that no frame can be comes from hosts in
between. How faults are sorted is the business of `failures`.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ...errors import ModelError, WireError
from ..eventstream import FrameHead
from ..failures import failure_from_event, failure_from_text

__all__ = ["fault_of_frame", "named_body", "not_a_stream"]

SHOWN_CHARACTERS = 300

_NO_JSON = (msgspec.MsgspecError, UnicodeError)


def fault_of_frame(head: FrameHead, payload: bytes) -> ModelError:
    """What a frame means that is no event. An exception has its text in the payload, an error in
    the header."""
    text = head.text
    if not text.strip():
        text = _message(_fields(payload)) or ""
    return failure_from_text(_fault_text(head.name, text), name=head.name)


def not_a_stream(body: bytes) -> ModelError:
    """A JSON document with an error, or a page from some host in between."""
    fields = _fields(body)
    if fields:
        return failure_from_event(fields)
    shown = body[:SHOWN_CHARACTERS].decode("utf-8", "replace")
    return WireError(f"the answer is no event stream: {shown}", raw=shown)


def named_body(error_type: str, text: str) -> Any:
    """The body of an answer that is no success, with the name of the fault: the vendor puts it into
    the header `x-amzn-errortype`, with an address behind it."""
    fields = _fields(text.encode())
    name = error_type.partition(":")[0] or str(fields.get("__type") or "").rpartition("#")[2]
    message = _message(fields) if fields else text
    if not name or message is None:
        return fields or text
    return {"__type": name, "message": _fault_text(name, message)}


def _fault_text(name: str, text: str) -> str:
    """*text* with the kind of fault in front where it alone would mislead: a throttled request is
    told of "too many tokens", as one that is too long elsewhere."""
    match name.lower():
        case "throttlingexception" | "toomanyrequestsexception":
            return f"Throttling error: {text}"
        case "serviceunavailableexception":
            return f"Service unavailable: {text}"
        case _:
            return text


def _fields(body: bytes) -> dict[str, Any]:
    try:
        document: Any = msgspec.json.decode(body)
    except _NO_JSON:
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _message(fields: dict[str, Any]) -> str | None:
    for key in ("message", "Message", "originalMessage"):
        said = fields.get(key)
        if isinstance(said, str) and said.strip():
            return said
    return None
