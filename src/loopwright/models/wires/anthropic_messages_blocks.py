"""Anthropic Messages, requests: the pieces of a turn, each encoded once.                    (pure)

What turns are made of them stands in `anthropic_messages_turns`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, cast

import msgspec

from ...messages import ImageContent, TextContent
from ..media import PDF

__all__ = [
    "Block",
    "content_blocks",
    "hashed",
    "kept_block",
    "marked",
    "raw",
    "sendable_name",
    "text_block",
    "type_of",
    "without_final_space",
]

Block = msgspec.Raw

IMAGE_LEFT_OUT = "(an image was left out: this model reads text only)"
IMAGE_TYPE_LEFT_OUT = "(an image was left out: the vendor takes no {})"

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""https://platform.claude.com/docs/en/build-with-claude/vision"""

NAME_LENGTH = 128

_encode = msgspec.json.encode


def raw(fields: dict[str, Any]) -> msgspec.Raw:
    """*fields*, encoded now and copied as they are later."""
    return msgspec.Raw(_encode(fields))


def text_block(text: str) -> Block:
    return raw({"type": "text", "text": text})


def content_blocks(content: list[TextContent | ImageContent], *, images: bool) -> list[Block]:
    """*content* as blocks; without *images*, one line stands for a run of them."""
    blocks: list[Block] = []
    said: str | None = None  # what stands for the images just before
    for block in content:
        if type(block) is TextContent:
            said = None
            blocks.append(text_block(block.text))
            continue
        image = cast("ImageContent", block)
        kind = "image/jpeg" if image.mime_type == "image/jpg" else image.mime_type
        if images and kind in (*IMAGE_TYPES, PDF):
            said = None
            source = {"type": "base64", "media_type": kind, "data": image.data}
            blocks.append(raw({"type": "document" if kind == PDF else "image", "source": source}))
            continue
        shown = kind if re.fullmatch(r"[\w.+/-]{1,80}", kind) else "such type"
        line = IMAGE_TYPE_LEFT_OUT.format(shown) if images else IMAGE_LEFT_OUT
        if line != said:
            blocks.append(text_block(line))
        said = line
    return blocks


def type_of(block: Block) -> str:
    return msgspec.json.decode(block, type=_Typed).type


class _Typed(msgspec.Struct):
    type: str = ""


def marked(block: Block, mark: bytes) -> Block:
    """*block* with a cache breakpoint; we wrote it, so it ends in the brace of its object."""
    return msgspec.Raw(bytes(block)[:-1] + b',"cache_control":' + mark + b"}")


def without_final_space(block: Block) -> Block:
    """The last text of a request that ends with the model's own words may not end in a space."""
    fields: dict[str, Any] = msgspec.json.decode(block)
    text = fields.get("text")
    if fields.get("type") != "text" or not isinstance(text, str) or text == text.rstrip():
        return block
    return raw({**fields, "text": text.rstrip()})


def kept_block(signature: str | None) -> dict[str, Any] | None:
    """What the decoder kept in a signature; None for anything else."""
    if not signature or signature[0] != "{":
        return None
    try:
        fields: Any = msgspec.json.decode(signature)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else None


def sendable_name(name: str) -> str:
    """A name some model made up must not make every later request invalid."""
    if len(name) <= NAME_LENGTH and name and name.isascii() and name.isalnum():
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:NAME_LENGTH] or "unnamed"


def hashed(text: str, length: int) -> str:
    """Letters and digits only, which every host takes."""
    return hashlib.blake2s(text.encode("utf-8", "replace")).hexdigest()[: min(length, 32)]
