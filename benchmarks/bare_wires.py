"""The references: read a body with the HTTP client, split it, decode each event, look at its text.

They know only what our server sends: no other line ends, no blocks, no errors, no end that is
missing. Each event is decoded into the smallest typed struct that any reader needs: the text, why the
reply ended, and its usage, which stays raw. Frames have their checksum looked at, as the format asks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from .subject import Work

__all__ = ["read_reply"]

_BODY = b'{"messages":[]}'
_NOTHING = msgspec.Raw()


class _ChatDelta(msgspec.Struct, gc=False):
    content: str | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _ChatDelta
    finish_reason: str | None = None


class _Chat(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: msgspec.Raw = _NOTHING


class _TextDelta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    stop_reason: str | None = None


class _Anthropic(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _TextDelta | None = None
    usage: msgspec.Raw = _NOTHING


class _Responses(msgspec.Struct, gc=False):
    type: str
    delta: str | None = None
    response: msgspec.Raw = _NOTHING


class _Part(msgspec.Struct, gc=False):
    text: str | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part]


class _Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: _Content
    finish_reason: str | None = None


class _Gemini(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[_Candidate]
    usage_metadata: msgspec.Raw = _NOTHING


class _ConverseDelta(msgspec.Struct, gc=False):
    text: str | None = None


class _Converse(msgspec.Struct, gc=False, rename="camel"):
    delta: _ConverseDelta | None = None
    stop_reason: str | None = None
    usage: msgspec.Raw = _NOTHING


def _chat_text(event: _Chat) -> str | None:
    return event.choices[0].delta.content if event.choices else None


def _anthropic_text(event: _Anthropic) -> str | None:
    return event.delta.text if event.delta is not None else None


def _responses_text(event: _Responses) -> str | None:
    return event.delta


def _gemini_text(event: _Gemini) -> str | None:
    return event.candidates[0].content.parts[0].text


def _converse_text(event: _Converse) -> str | None:
    return event.delta.text if event.delta is not None else None


class _Sse:
    """Events of one line `data: ...`, or of two if *named*."""

    def __init__(self, blank: bytes, named: bool) -> None:
        self._blank = blank
        self._named = named
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        blocks = (self._rest + chunk).split(self._blank)
        self._rest = blocks.pop()
        if self._named:
            return [block[block.index(b"\n") + 7 :] for block in blocks]
        return [block[6:] for block in blocks]


class _Frames:
    """Payloads of an AWS event stream."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        data = self._rest + chunk
        payloads: list[bytes] = []
        at, end = 0, len(data)
        while end - at >= 12:
            after = at + int.from_bytes(data[at : at + 4])
            if after > end:
                break
            if zlib.crc32(data[at : after - 4]) != int.from_bytes(data[after - 4 : after]):
                raise ValueError("a frame is damaged")
            headers = int.from_bytes(data[at + 4 : at + 8])
            payloads.append(data[at + 12 + headers : after - 4])
            at = after
        self._rest = data[at:]
        return payloads


_READERS: dict[str, tuple[Callable[[], _Sse | _Frames], Any, Callable[[Any], str | None]]] = {
    "openai-chat": (lambda: _Sse(b"\n\n", False), _Chat, _chat_text),
    "anthropic-messages": (lambda: _Sse(b"\n\n", True), _Anthropic, _anthropic_text),
    "openai-responses": (lambda: _Sse(b"\n\n", True), _Responses, _responses_text),
    "google-gemini": (lambda: _Sse(b"\r\n\r\n", False), _Gemini, _gemini_text),
    "bedrock-converse": (_Frames, _Converse, _converse_text),
}


def read_reply(http: Any, url: str, wire: str) -> Work:
    """Ask for the reply at *url* with the client *http*; reports the pieces of text in it."""
    make, kind, text_of = _READERS[wire]
    decode = msgspec.json.Decoder(kind).decode

    async def work() -> int:
        count = characters = 0
        splitter = make()
        async with http.stream("POST", url, content=_BODY) as response:
            async for chunk in response.aiter_bytes():
                for data in splitter.feed(chunk):
                    if data == b"[DONE]":
                        continue
                    text = text_of(decode(data))
                    if text:
                        count += 1
                        characters += len(text)
        assert characters
        return count

    return work
