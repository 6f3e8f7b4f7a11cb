"""What a tool returned, as content a model can read: rendered, cleaned, bounded.

Not here: errors of tools, which the dispatcher words.
"""

from __future__ import annotations

import base64
import enum
import json
import operator
from typing import Any, cast

import msgspec

from ..messages import AgentToolResult, ImageContent, TextContent
from ..records import clean_text

__all__ = ["DEFAULT_LIMIT_BYTES", "cap_result", "render"]

DEFAULT_LIMIT_BYTES = 50 * 1024
"""How much text one result may bring into the transcript, in bytes of UTF-8."""

NO_OUTPUT = "(no output)"

_Block = TextContent | ImageContent


def render(value: Any) -> AgentToolResult:
    """*value*, whatever a tool returned or reported, as a result.

    Text stays as it is; None says that there was no output; images and content blocks are
    content; numbers, lists, dicts, dataclasses, Structs and pydantic models become compact JSON;
    anything else its string form. Lone surrogates become U+FFFD.
    """
    kind = value.__class__
    if kind is str or kind is int:
        text: str = value if kind is str else str(value)
        return AgentToolResult([TextContent(text if text.isascii() else clean_text(text))])
    if isinstance(value, AgentToolResult):
        return _tidy(value)
    return AgentToolResult(_as_blocks(value) or [TextContent(_as_text(value))])


def _tidy(result: AgentToolResult) -> AgentToolResult:
    """The same result with content that is a list of clean blocks, whatever the tool put there."""
    content = cast("Any", result.content)
    if content is None or content == []:
        tidy: list[_Block] = []
    else:
        tidy = _as_blocks(content) or [TextContent(_as_text(content))]
    if type(content) is list and all(map(operator.is_, cast("list[Any]", content), tidy)):
        return result
    return msgspec.structs.replace(result, content=tidy)


def _as_blocks(value: Any) -> list[_Block] | None:
    """*value* as content blocks if it is an image, a block, or a list of such; else None.

    Text among blocks is a block. A list of nothing but text is data.
    """
    if isinstance(value, TextContent | ImageContent):
        return [_clean_block(value)]
    if isinstance(value, bytes | bytearray | memoryview):
        return [_from_bytes(bytes(cast("bytes", value)))]
    if isinstance(value, list | tuple) and value:
        items = cast("list[Any] | tuple[Any, ...]", value)
        if any(isinstance(item, TextContent | ImageContent) for item in items) and all(
            isinstance(item, TextContent | ImageContent | str) for item in items
        ):
            return [
                _clean_block(TextContent(item) if isinstance(item, str) else item) for item in items
            ]
    return None


def _clean_block(block: _Block) -> _Block:
    if isinstance(block, ImageContent):
        return block
    text = clean_text(block.text)
    return block if text is block.text else msgspec.structs.replace(block, text=text)


_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def _from_bytes(data: bytes) -> _Block:
    """An image if the first bytes say so, text if it is UTF-8, else a word on what it was."""
    for magic, mime_type in _MAGIC:
        if data.startswith(magic):
            return ImageContent(base64.b64encode(data).decode(), mime_type)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ImageContent(base64.b64encode(data).decode(), "image/webp")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return TextContent(
            f"({len(data)} bytes of binary data, neither text nor a PNG, JPEG, GIF or WebP image)"
        )
    return TextContent(text)


# -- text of values --------------------------------------------------------------------------


def _as_text(value: Any) -> str:
    if value is None:
        return NO_OUTPUT
    if isinstance(value, enum.Enum):
        return _as_text(value.value)
    if isinstance(value, str):
        return clean_text(value)
    if _is_data(value):
        text = _as_json(value)
        if text is not None:
            return text
    return clean_text(str(value))


def _is_data(value: Any) -> bool:
    kind = value.__class__
    return (
        isinstance(value, dict | list | tuple | set | frozenset | int | float | msgspec.Struct)
        or hasattr(kind, "__dataclass_fields__")
        or hasattr(kind, "model_dump")
        or hasattr(kind, "__attrs_attrs__")
    )


def _as_json(value: Any) -> str | None:
    """Compact JSON, or None if *value* holds something JSON has no form for."""
    try:
        return _encoder.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass
    # A lone surrogate, or an integer beyond 64 bits: the slow road knows both.
    try:
        plain = _cleaned(msgspec.to_builtins(value, str_keys=True, enc_hook=_foreign))
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


def _foreign(value: Any) -> Any:
    """What msgspec does not know inside data: pydantic models and paths."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    from pathlib import PurePath  # here, since nearly no tool returns one and importing is slow

    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_foreign)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {_cleaned(key): _cleaned(item) for key, item in members.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in cast("list[Any]", value)]
    return value


# -- the cap ---------------------------------------------------------------------------------


def cap_result(result: AgentToolResult, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> AgentToolResult:
    """*result* with at most *limit_bytes* of text (UTF-8), the note on the cut included.

    The beginning is kept, never half a character; images do not count and stay.
    """
    content = result.content
    if len(content) == 1 and type(block := content[0]) is TextContent:
        length = len(block.text)
        if length <= limit_bytes and (block.text.isascii() or length * 4 <= limit_bytes):
            return result
    sizes = [_size(block.text) if isinstance(block, TextContent) else 0 for block in content]
    total = sum(sizes)
    if total <= limit_bytes:
        return result
    # Whoever joins the blocks may put a line break between them.
    room = max(limit_bytes - len(_note(total, total)) - len(f"{total:,}") - len(content), 0)
    kept: list[_Block] = []
    shown = 0
    for block, size in zip(content, sizes, strict=True):
        if isinstance(block, ImageContent) or shown + size <= room:
            kept.append(block)
            shown += size
        elif shown < room:
            text = _head(block.text, room - shown)
            if text:
                kept.append(msgspec.structs.replace(block, text=text))
            shown += _size(text)
            room = shown  # what comes after the cut would read as if it followed it
    return msgspec.structs.replace(result, content=[*kept, TextContent(_note(shown, total))])


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _head(text: str, limit_bytes: int) -> str:
    return text[:limit_bytes].encode(errors="surrogatepass")[:limit_bytes].decode(errors="ignore")


def _note(shown: int, total: int) -> str:
    return (
        f"[Output cut: the first {shown:,} of {total:,} bytes are shown, {total - shown:,} were "
        "left out. To get the rest, call the tool again for a smaller part: with an offset or "
        "limit if it has one, or with a narrower question.]"
    )
