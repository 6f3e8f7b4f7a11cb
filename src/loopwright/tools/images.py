"""Images for a model: recognized by what is in them, and made to fit what vendors take.

An image inside the limits goes as it is. A larger one, one that is turned (EXIF) and a BMP are made
anew with Pillow (extra `images`), which is imported when it is needed. Without it, and for anything
no vendor takes (lossless JPEG, animated PNG, broken files), words go in place of the image; a block
that is too large would fail this request and every one after it.

Not here: reading headers (image_headers.py), files (read.py). Everything here blocks.
"""

from __future__ import annotations

import base64
import io
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from ..messages import AgentToolResult, ImageContent, TextContent
from .image_headers import ImageHeader, is_complete, is_image, read_header
from .text_limits import show_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image

__all__ = [
    "MOST_BASE64_BYTES",
    "MOST_BYTES_READ",
    "MOST_SIDE",
    "Unshown",
    "fit",
    "is_image",
    "show",
]

MOST_SIDE = 2000
"""Pixels. Vendors scale down, or refuse, what is larger."""

MOST_BASE64_BYTES = 4_500_000
"""Of the encoded text, which is what travels; vendors refuse more than 5 MB."""

MOST_BYTES_READ = 64 * 1024 * 1024
"""Larger files are not even looked into."""

MOST_PIXELS = 89_478_485
"""Pillow's own bound, above which it suspects an attack on memory."""

_QUALITIES = (80, 70, 55, 40)
_SCALES = (1.0, 0.75, 0.5, 0.35, 0.25, 0.1)


class Unshown(Exception):
    """Why an image cannot be sent, in words for the model."""


class Fitted(NamedTuple):
    """An image that every vendor takes."""

    data: bytes
    mime_type: str
    width: int
    height: int
    """In pixels, as sent."""
    original_width: int
    original_height: int
    """As the file has it, turned as it is meant to be seen."""


def show(data: bytes) -> AgentToolResult:
    """The image in *data* as a result: the image with a note on it, or words on why not."""
    try:
        if len(data) > MOST_BYTES_READ:
            raise Unshown(f"it has more than {show_size(MOST_BYTES_READ)}")
        fitted = fit(data)
    except Unshown as reason:
        return AgentToolResult([TextContent(f"[The image is not shown: {reason}.]")])
    note = f"[Image, {fitted.mime_type}, {fitted.width}x{fitted.height}"
    if (fitted.width, fitted.height) != (fitted.original_width, fitted.original_height):
        factor = fitted.original_width / fitted.width
        note += (
            f", scaled down from {fitted.original_width}x{fitted.original_height}: multiply "
            f"coordinates by {factor:.2f} to get those of the file"
        )
    image = ImageContent(base64.b64encode(fitted.data).decode("ascii"), fitted.mime_type)
    details: dict[str, Any] = {
        "mimeType": fitted.mime_type,
        "width": fitted.width,
        "height": fitted.height,
        "originalWidth": fitted.original_width,
        "originalHeight": fitted.original_height,
    }
    return AgentToolResult([TextContent(note + "]"), image], details=details)


def fit(data: bytes) -> Fitted:
    """*data*, a recognized image, within the limits. Raises `Unshown`."""
    header = read_header(data)
    if header is None:
        raise Unshown("the file is damaged, or of a kind no model takes")
    if header.unsendable is not None:
        raise Unshown(header.unsendable)
    as_it_is = (
        header.mime_type != "image/bmp"
        and max(header.width, header.height) <= MOST_SIDE
        and _base64_size(len(data)) <= MOST_BASE64_BYTES
    )
    unchanged = Fitted(data, header.mime_type, *(header.width, header.height) * 2)
    if header.width * header.height > MOST_PIXELS:
        raise Unshown(f"{header.width}x{header.height} are too many pixels")
    if find_spec("PIL") is None:
        if as_it_is and is_complete(data):  # turned or not, which a model may cope with
            return unchanged
        raise Unshown(_needs_pillow(header, len(data)) if not as_it_is else "the file is cut off")
    if as_it_is and not header.turned and is_complete(data):
        _check(data)
        return unchanged
    return _remade(data)


def _needs_pillow(header: ImageHeader, size: int) -> str:
    what = f"{header.mime_type}, {header.width}x{header.height}, {show_size(size)}"
    return (
        f"{what} must be converted first, and Pillow is not installed (pip install "
        "'loopwright[images]'). Models take JPEG, PNG, GIF and WebP up to "
        f"{MOST_SIDE}x{MOST_SIDE} pixels and {show_size(MOST_BASE64_BYTES * 3 // 4)}"
    )


def _base64_size(size: int) -> int:
    return (size + 2) // 3 * 4


# -- with Pillow -------------------------------------------------------------------------------


def _check(data: bytes) -> None:
    """Raise `Unshown` for pixels that cannot be decoded: a vendor would refuse the request, and
    every later one with this image in its history."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as opened:
            opened.load()
    except Exception as error:  # noqa: BLE001 - its decoders raise what they like
        raise Unshown(f"the file is damaged ({type(error).__name__})") from None


def _remade(data: bytes) -> Fitted:
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data)) as opened:
            opened.draft("RGB", (MOST_SIDE, MOST_SIDE))  # JPEG: decodes fewer pixels
            upright = ImageOps.exif_transpose(opened)
            width, height = _upright_size(data)
            upright = _plain(upright)
    except Exception as error:  # noqa: BLE001 - its decoders raise what they like
        raise Unshown(f"the file is damaged ({type(error).__name__})") from None
    scale = min(1.0, MOST_SIDE / max(width, height))
    for shrink in _SCALES:
        size = max(round(width * scale * shrink), 1), max(round(height * scale * shrink), 1)
        resized = upright
        if upright.size != size:
            # Its type names numpy, which need not be there.
            resized = upright.resize(size, Image.Resampling.LANCZOS)  # pyright: ignore[reportUnknownMemberType]
        for encoded, mime_type in _encodings(resized):
            if _base64_size(len(encoded)) <= MOST_BASE64_BYTES:
                return Fitted(encoded, mime_type, *size, width, height)
    raise Unshown("it does not get small enough")


def _upright_size(data: bytes) -> tuple[int, int]:
    header = read_header(data)
    assert header is not None
    swapped = header.orientation >= 5
    return (header.height, header.width) if swapped else (header.width, header.height)


def _plain(image: Image) -> Image:
    """The first picture of *image* in colours that PNG and JPEG know."""
    image.load()
    if image.mode in ("RGB", "RGBA", "L"):
        return image.copy()
    if image.mode.startswith("I"):  # 16 bits a pixel, which a conversion would cut off, not scale
        wide = image.convert("I")
        return wide.point(lambda value: value * (1 / 256)).convert("L")  # pyright: ignore[reportUnknownMemberType]
    has_alpha = image.mode in ("LA", "PA") or "transparency" in image.info
    return image.convert("RGBA" if has_alpha else "RGB")


def _encodings(image: Image) -> Iterator[tuple[bytes, str]]:
    """*image* as PNG or JPEG, the smaller one first; then as JPEG of less and less quality."""
    png, jpeg = _saved(image, "PNG"), _saved(_without_alpha(image), "JPEG", _QUALITIES[0])
    yield from sorted(
        [(png, "image/png"), (jpeg, "image/jpeg")], key=lambda encoding: len(encoding[0])
    )
    for quality in _QUALITIES[1:]:
        yield _saved(_without_alpha(image), "JPEG", quality), "image/jpeg"


def _saved(image: Image, kind: str, quality: int = 0) -> bytes:
    buffer = io.BytesIO()
    if kind == "PNG":
        image.save(buffer, kind)
    else:
        image.save(buffer, kind, quality=quality)
    return buffer.getvalue()


def _without_alpha(image: Image) -> Image:
    if image.mode != "RGBA":
        return image
    from PIL import Image

    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white
