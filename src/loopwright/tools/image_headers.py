"""What the first bytes of an image say: kind, size in pixels, and what stands in its way.

Names of files lie, so only content counts. Sources: PNG (W3C, chunks IHDR, acTL, eXIf), JPEG (ITU-T
T.81, markers), GIF89a, the WebP container, BITMAPINFOHEADER, and EXIF 2.3 for the orientation.

Not here: pixels (images.py). Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["ImageHeader", "is_complete", "is_image", "read_header"]


class ImageHeader(NamedTuple):
    """An image, seen from outside."""

    mime_type: str
    width: int
    height: int
    """In pixels, as stored."""
    orientation: int = 1
    """EXIF: 1 is upright, from 5 on width and height change places."""
    unsendable: str | None = None
    """Why no vendor takes it."""

    @property
    def turned(self) -> bool:
        """Whether it is stored otherwise than it is meant to be seen."""
        return self.orientation != 1


_PNG = b"\x89PNG\r\n\x1a\n"


def is_image(beginning: bytes) -> bool:
    """Whether a file that begins so is an image of one of the kinds known here."""
    return (
        beginning.startswith((_PNG, b"\xff\xd8\xff", b"GIF87a", b"GIF89a"))
        or (beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP")
        or (beginning[:2] == b"BM" and len(beginning) >= 26 and _u32(beginning, 14) in _BMP_HEADERS)
    )


def read_header(data: bytes) -> ImageHeader | None:
    """The header of *data*; None if it is no image, or a damaged one."""
    try:
        if data.startswith(_PNG):
            header = _png(data)
        elif data.startswith(b"\xff\xd8\xff"):
            header = _jpeg(data)
        elif data.startswith((b"GIF87a", b"GIF89a")):
            header = ImageHeader("image/gif", *struct.unpack_from("<HH", data, 6))
        elif data[:4] == b"RIFF":
            header = _webp(data)
        else:
            header = _bmp(data)
    except (struct.error, IndexError):
        return None
    return header if header and header.width > 0 and header.height > 0 else None


def is_complete(data: bytes) -> bool:
    """Whether *data*, an image whose header could be read, has its end, too."""
    if data.startswith(_PNG):
        return b"IEND" in data[-1024:]
    if data.startswith(b"GIF8"):
        return data.rstrip(b"\0").endswith(b";")
    if data[:4] == b"RIFF":
        return _u32(data, 4) + 8 <= len(data)
    return data[:2] != b"\xff\xd8" or b"\xff\xd9" in data


# -- PNG ---------------------------------------------------------------------------------------


def _png(data: bytes) -> ImageHeader | None:
    if data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    at = 8
    orientation = 1
    animated = False
    while at + 8 <= len(data):
        length = _u32_big(data, at)
        kind = data[at + 4 : at + 8]
        if kind == b"IDAT":
            break
        if kind == b"acTL":
            animated = True
        elif kind == b"eXIf":
            orientation = _orientation(data[at + 8 : at + 8 + length])
        at += 12 + length
    why = "it is an animated PNG, which models do not take" if animated else None
    return ImageHeader("image/png", width, height, orientation, why)


# -- JPEG --------------------------------------------------------------------------------------

_LOSSLESS = {0xC3, 0xC7, 0xCB, 0xCF, 0xF7}
_FRAMES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}
_ALONE = {0x01, *range(0xD0, 0xD9)}


def _jpeg(data: bytes) -> ImageHeader | None:
    orientation = 1
    for marker, at, length in _segments(data):
        if marker == 0xE1 and data[at : at + 6] == b"Exif\0\0":
            orientation = _orientation(data[at + 6 : at + length])
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 1)
            why = "it is a lossless JPEG, which models do not take" if marker in _LOSSLESS else None
            return ImageHeader("image/jpeg", width, height, orientation, why)
    return None


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, place and length of each segment, up to the first scan."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if marker in _ALONE:
            at += 2
            continue
        if marker in (0xD9, 0xDA):
            return
        length = struct.unpack_from(">H", data, at + 2)[0]
        yield marker, at + 4, length - 2
        at += 2 + max(length, 2)


def _orientation(exif: bytes) -> int:
    """Tag 0x0112 of the first directory; 1 if there is none or it makes no sense."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return 1
    try:
        start = struct.unpack_from(f"{order}I", exif, 4)[0]
        count = struct.unpack_from(f"{order}H", exif, start)[0]
        for entry in range(min(count, 500)):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, start + 2 + entry * 12)
            if tag == 0x0112:
                return value if 1 <= value <= 8 else 1
    except struct.error:
        pass
    return 1


# -- WebP and BMP ------------------------------------------------------------------------------


def _webp(data: bytes) -> ImageHeader | None:
    kind = data[12:16]
    if kind == b"VP8X":
        width = 1 + int.from_bytes(data[24:27], "little")
        height = 1 + int.from_bytes(data[27:30], "little")
        return ImageHeader("image/webp", width, height, _webp_orientation(data))
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageHeader("image/webp", width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = _u32(data, 21)
        return ImageHeader("image/webp", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    return None


def _webp_orientation(data: bytes) -> int:
    at = 12
    while at + 8 <= len(data):
        length = _u32(data, at + 4)
        if data[at : at + 4] == b"EXIF":
            return _orientation(data[at + 8 : at + 8 + length].removeprefix(b"Exif\0\0"))
        at += 8 + length + length % 2
    return 1


_BMP_HEADERS = {12, 40, 52, 56, 64, 108, 124}
"""Lengths of the header that follows the file's own: what tells a BMP from a text in `BM`."""


def _bmp(data: bytes) -> ImageHeader | None:
    if data[:2] != b"BM":
        return None
    if _u32(data, 14) == 12:
        return ImageHeader("image/bmp", *struct.unpack_from("<HH", data, 18))
    width, height = struct.unpack_from("<ii", data, 18)
    return ImageHeader("image/bmp", abs(width), abs(height))


def _u32(data: bytes, at: int) -> int:
    return struct.unpack_from("<I", data, at)[0]


def _u32_big(data: bytes, at: int) -> int:
    return struct.unpack_from(">I", data, at)[0]
