"""An image in words, since a terminal shows none: `[image 640x480 png]`."""

from __future__ import annotations

import base64
import binascii

from ...messages import ImageContent
from .one_line import one_line

__all__ = ["image_words"]

_BEGINNING = 64 * 1024
"""Characters of base64 that are looked at; a multiple of 4. The size stands in front of them."""


def image_words(image: ImageContent) -> str:
    """What is known of *image* from its first bytes, else from what it is said to be."""
    from ...tools.image_headers import read_header

    try:
        header = read_header(base64.b64decode(image.data[:_BEGINNING], validate=False))
    except (binascii.Error, ValueError):
        header = None
    if header is None:
        return f"[image {one_line(image.mime_type.removeprefix('image/'), 40)}]"
    kind = header.mime_type.removeprefix("image/")
    return f"[image {header.width}x{header.height} {kind}]"
