"""Which images and documents each wire can send, and the words that replace the others.      (pure)

Vendors refuse the whole request for one image that is too large, of another type, or no base64.
Such an image is replaced in the request only; the stored message keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ..messages import ImageContent, TextContent

__all__ = ["MEDIA", "PDF", "Media", "sendable_image"]

PDF = "application/pdf"
_COMMON = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class Media(Struct, frozen=True):
    """What one wire sends."""

    types: frozenset[str] = _COMMON
    characters: int = 20_000_000
    """The most that one image may have, as base64."""


MEDIA: Mapping[str, Media] = {
    "anthropic-messages": Media(_COMMON | {PDF}, 5 * 1024 * 1024),
    "google-gemini": Media((_COMMON - {"image/gif"}) | {"image/heic", "image/heif", PDF}),
    "mistral": Media(),
    "openai-chat": Media(),
    "openai-responses": Media(_COMMON | {PDF}),
}
"""By the wire's id. Bedrock has a table of its own, since it names formats in its own words. A wire
that is not here is handed everything."""

_DATA_HEAD = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}", re.ASCII)


def sendable_image(image: ImageContent, api: str) -> ImageContent | TextContent:
    """*image* as the wire *api* can send it, or the words that stand in its place."""
    head = _DATA_HEAD.match(image.data)
    if head:
        image = msgspec.structs.replace(image, data=image.data[head.end() :])
    if not _BASE64.fullmatch(image.data) or len(image.data) % 4:
        return TextContent("(an image was left out: its data is not valid base64)")
    media = MEDIA.get(api)
    if media is None:
        return image
    kind = "image/jpeg" if image.mime_type == "image/jpg" else image.mime_type
    if kind not in media.types:
        shown = kind if re.fullmatch(r"[\w.+/-]{1,80}", kind) else "an unknown type"
        what = "an image" if kind.startswith("image/") else "a file"
        return TextContent(f"({what} was left out: {shown} cannot be sent in this request)")
    if len(image.data) > media.characters:
        return TextContent(
            f"(an image was left out: it has {len(image.data):,} bytes as base64, and at most "
            f"{media.characters:,} can be sent)"
        )
    return image
