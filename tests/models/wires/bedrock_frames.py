"""Frames of an AWS event stream, made by hand, and the events of Bedrock Converse in them."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any


def header(name: str, value: str) -> bytes:
    """A header whose value is text."""
    raw = value.encode()
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack("!H", len(raw)) + raw


def framed(headers: bytes, payload: bytes) -> bytes:
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    prelude += struct.pack("!I", zlib.crc32(prelude))
    body = prelude + headers + payload
    return body + struct.pack("!I", zlib.crc32(body))


def event(type: str, _payload: bytes | None = None, **fields: Any) -> bytes:
    payload = json.dumps(fields, ensure_ascii=False).encode() if _payload is None else _payload
    headers = header(":event-type", type) + header(":content-type", "application/json")
    return framed(headers + header(":message-type", "event"), payload)


def exception(type: str, message: str, **fields: Any) -> bytes:
    headers = header(":exception-type", type) + header(":message-type", "exception")
    return framed(headers, json.dumps({"message": message, **fields}).encode())


def error(code: str, message: str) -> bytes:
    """A fault that no model of the API describes: all of it is in the headers."""
    headers = header(":error-code", code) + header(":error-message", message)
    return framed(headers + header(":message-type", "error"), b"")


START = event("messageStart", role="assistant", p="abc")


def delta(index: int, **content: Any) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=content, p="abcd")


def closed(index: int) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def text(index: int, *pieces: str) -> list[bytes]:
    return [*(delta(index, text=piece) for piece in pieces), closed(index)]


def thinking(index: int, *pieces: str, signature: str | None = None) -> list[bytes]:
    deltas = [delta(index, reasoningContent={"text": piece}) for piece in pieces]
    if signature is not None:
        deltas.append(delta(index, reasoningContent={"signature": signature}))
    return [*deltas, closed(index)]


def call_start(index: int, id: str, name: str, **more: Any) -> bytes:
    use = {"toolUseId": id, "name": name, **more}
    return event("contentBlockStart", contentBlockIndex=index, start={"toolUse": use})


def call(index: int, id: str, name: str, *pieces: str, **more: Any) -> list[bytes]:
    deltas = [delta(index, toolUse={"input": piece}) for piece in pieces]
    return [call_start(index, id, name, **more), *deltas, closed(index)]


def stopped(reason: str | None = "end_turn", **usage: int) -> list[bytes]:
    usage = usage or {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    why: dict[str, Any] = {} if reason is None else {"stopReason": reason}
    return [
        event("messageStop", **why),
        event("metadata", usage=usage, metrics={"latencyMs": 1}),
    ]


def said(*pieces: str) -> list[bytes]:
    """A whole reply."""
    return [START, *text(0, *pieces), *stopped()]


def frame_ends(body: bytes) -> list[int]:
    """Where the frames of *body* end."""
    ends = [0]
    while ends[-1] < len(body):
        ends.append(ends[-1] + struct.unpack_from("!I", body, ends[-1])[0])
    return ends[1:]
