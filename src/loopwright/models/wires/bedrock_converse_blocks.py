"""Bedrock Converse, requests: the pieces of a turn, each encoded once.                     (pure)

What turns are made of them stands in `bedrock_converse_turns`.
"""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

from ...messages import ImageContent, TextContent
from .anthropic_messages_blocks import hashed, raw

__all__ = [
    "Block",
    "content_parts",
    "hashed",
    "kept_block",
    "raw",
    "sendable_arguments",
    "sendable_name",
    "without_final_space",
]

Block = msgspec.Raw
Part = dict[str, Any]

IMAGE_LEFT_OUT = "(an image was left out: this model reads text only)"
FILE_LEFT_OUT = "(a file was left out: this model takes no {})"

IMAGE_FORMATS = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
DOCUMENT_FORMATS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
"""https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html"""

NAME_LENGTH = 64


def content_parts(
    content: list[TextContent | ImageContent],
    *,
    images: bool,
    documents: bool,
    documents_before: int,
) -> list[Part]:
    """What a user or a tool said; one line stands for a run of what cannot be sent. A file that
    is no image but has a type the vendor knows as a document is sent as one; *documents_before*
    are those of the request so far, since each needs a name of its own."""
    parts: list[Part] = []
    said: str | None = None  # what stands for the files just before
    for block in content:
        if type(block) is TextContent:
            said = None
            parts.append({"text": block.text})
            continue
        image = cast("ImageContent", block)
        source = {"bytes": image.data}
        kind = image.mime_type
        if kind in IMAGE_FORMATS and images and image.data:
            said = None
            parts.append({"image": {"format": IMAGE_FORMATS[kind], "source": source}})
            continue
        if kind in DOCUMENT_FORMATS and documents and image.data:
            said = None
            documents_before += 1
            name = f"document-{documents_before}"
            fields = {"format": DOCUMENT_FORMATS[kind], "name": name, "source": source}
            parts.append({"document": fields})
            continue
        shown = kind if re.fullmatch(r"[\w.+/-]{1,80}", kind) else "such type"
        line = IMAGE_LEFT_OUT if kind in IMAGE_FORMATS else FILE_LEFT_OUT.format(shown)
        if line != said:
            parts.append({"text": line})
        said = line
    return parts


def kept_block(signature: str | None) -> dict[str, Any] | None:
    """The block that the decoder kept in a signature; None for anything else."""
    if not signature or not signature.startswith(('{"toolUse":', '{"toolResult":')):
        return None
    try:
        fields: Any = msgspec.json.decode(signature)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    (inner,) = cast("dict[str, Any]", fields).values() if len(fields) == 1 else (None,)
    return cast("dict[str, Any]", fields) if isinstance(inner, dict) else None


def sendable_name(name: str) -> str:
    """A name some model made up must not make every later request invalid."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:NAME_LENGTH] or "unnamed"


def sendable_arguments(value: Any) -> Any:
    """*value* without empty names, which the vendor refuses; the same object if there are none."""
    if type(value) is dict:
        members = cast("dict[str, Any]", value)
        made = {key or "_": sendable_arguments(item) for key, item in members.items()}
        changed = "" in members or any(made[key] is not item for key, item in members.items())
        return made if changed else members
    if type(value) is list:
        items = cast("list[Any]", value)
        made_items = [sendable_arguments(item) for item in items]
        changed = any(new is not old for new, old in zip(made_items, items, strict=True))
        return made_items if changed else items
    return value


def without_final_space(block: Block) -> Block:
    """The last text of a request that ends with the model's own words may not end in a space."""
    fields: dict[str, Any] = msgspec.json.decode(block)
    text = fields.get("text")
    if not isinstance(text, str) or text == text.rstrip():
        return block
    return raw({"text": text.rstrip()})
