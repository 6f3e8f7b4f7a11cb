"""Images are known by their content, and are made to fit or explained, never sent oversize."""

from __future__ import annotations

import base64
import io
import random
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.calling import call

from loopwright.messages import AgentToolResult, ImageContent
from loopwright.tools import MemoryWorkspace, read_tool
from loopwright.tools.image_headers import is_image, read_header
from loopwright.tools.images import MOST_BASE64_BYTES, show

Image = pytest.importorskip("PIL.Image", reason="Pillow is the extra `images`")


def made(kind: str, size: tuple[int, int], mode: str = "RGB", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size, "red" if mode != "P" else 1).save(buffer, kind, **options)
    return buffer.getvalue()


def noise(size: tuple[int, int], kind: str = "PNG", mode: str = "RGB") -> bytes:
    channels = {"RGB": 3, "RGBA": 4}[mode]
    data = random.Random(1).randbytes(size[0] * size[1] * channels)
    buffer = io.BytesIO()
    Image.frombytes(mode, size, data).save(buffer, kind, compress_level=1)
    return buffer.getvalue()


def image_of(result: AgentToolResult) -> tuple[ImageContent, Any]:
    block = result.content[1]
    assert isinstance(block, ImageContent)
    assert len(block.data) <= MOST_BASE64_BYTES
    picture = Image.open(io.BytesIO(base64.b64decode(block.data)))
    assert Image.MIME[picture.format] == block.mime_type
    assert max(picture.size) <= 2000
    return block, picture


def png_with(chunk: bytes, body: bytes, data: bytes | None = None) -> bytes:
    data = data or made("PNG", (3, 2))
    extra = struct.pack(">I", len(body)) + chunk + body
    extra += struct.pack(">I", zlib.crc32(chunk + body))
    return data[:33] + extra + data[33:]


@pytest.fixture(params=[True, False], ids=["with Pillow", "without"])
def choose(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Called when the images of the test are made: from then on Pillow is there, or not."""

    def choose() -> None:
        if not request.param:
            monkeypatch.setitem(sys.modules, "PIL", None)

    return choose


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_an_image_inside_the_limits_goes_as_it_is(
    choose: Callable[[], None], kind: str
) -> None:
    data = made(kind, (30, 20))
    tool = read_tool(MemoryWorkspace({"photo.txt": data}))
    choose()

    result = await call(tool, path="photo.txt")

    block = result.content[1]
    assert isinstance(block, ImageContent)
    assert block.mime_type == f"image/{kind.lower()}"
    assert base64.b64decode(block.data) == data
    assert result.text.startswith(f"[Image, image/{kind.lower()}, 30x20]")
    assert result.details["width"] == result.details["originalWidth"] == 30


@pytest.mark.parametrize("options", [{"lossless": True}, {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}])
def test_every_form_of_webp_is_measured(options: dict[str, Any]) -> None:
    header = read_header(made("WEBP", (301, 202), **options))

    assert header is not None
    assert header[:3] == ("image/webp", 301, 202)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "I;16", "CMYK", "1"])
def test_a_large_image_is_scaled_down_with_a_note_on_it(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    buffer = io.BytesIO()
    Image.new(mode, (4000, 1000)).save(buffer, kind)

    result = show(buffer.getvalue())

    _, picture = image_of(result)
    assert picture.size == (2000, 500)
    assert "2000x500, scaled down from 4000x1000: multiply coordinates by 2.00" in result.text
    assert result.details["originalWidth"] == 4000


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_image_of_too_many_bytes_is_packed_tighter(mode: str) -> None:
    data = noise((1500, 1400), mode=mode)
    assert len(data) > MOST_BASE64_BYTES

    _, picture = image_of(show(data))

    assert picture.format == "JPEG"


def test_the_smaller_of_png_and_jpeg_is_taken() -> None:
    flat = show(made("BMP", (1000, 1000)))
    buffer = io.BytesIO()
    Image.open(io.BytesIO(noise((200, 200)))).resize((900, 900)).save(buffer, "BMP")

    assert image_of(flat)[1].format == "PNG"
    assert image_of(show(buffer.getvalue()))[1].format == "JPEG"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_turned_image_is_put_upright(kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = made(kind, (40, 20), exif=exif.tobytes())

    result = show(data)

    assert image_of(result)[1].size == (20, 40)
    assert (result.details["originalWidth"], result.details["originalHeight"]) == (20, 40)


def test_a_bmp_is_converted() -> None:
    assert image_of(show(made("BMP", (40, 20))))[1].size == (40, 20)


def test_sixteen_bits_a_pixel_keep_their_shades_when_scaled_down() -> None:
    wide = Image.new("I;16", (2560, 2))
    for column in range(2560):
        for row in range(2):
            wide.putpixel((column, row), column * 25)
    buffer = io.BytesIO()
    wide.save(buffer, "PNG")

    _, picture = image_of(show(buffer.getvalue()))

    shades = [picture.convert("L").getpixel((column, 0)) for column in range(0, 2000, 200)]
    assert shades == sorted(set(shades))
    assert shades[0] < 10
    assert 200 < shades[-1] < 240


@pytest.mark.parametrize("data", [made("BMP", (40, 20)), made("PNG", (2001, 1))])
def test_without_pillow_what_does_not_fit_is_explained(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)

    result = show(data)

    assert len(result.content) == 1
    assert "pip install 'loopwright[images]'" in result.text


def test_an_animated_png_is_explained_whatever_is_installed(choose: Callable[[], None]) -> None:
    data = png_with(b"acTL", struct.pack(">II", 2, 0))
    choose()

    result = show(data)

    assert len(result.content) == 1
    assert "animated PNG" in result.text


@pytest.mark.parametrize("marker", [0xC3, 0xF7])
def test_a_lossless_jpeg_is_explained_whatever_is_installed(
    choose: Callable[[], None], marker: int
) -> None:
    data = made("JPEG", (40, 20))
    place = data.index(b"\xff\xc0")
    choose()

    result = show(data[: place + 1] + bytes([marker]) + data[place + 2 :])

    assert len(result.content) == 1
    assert "lossless JPEG" in result.text


def test_a_bomb_is_not_unpacked() -> None:
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    chunk = (
        struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    )

    result = show(b"\x89PNG\r\n\x1a\n" + chunk)

    assert "too many pixels" in result.text


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_a_damaged_image_is_explained(choose: Callable[[], None], kind: str) -> None:
    data = noise((60, 50), kind) if kind != "GIF" else made("GIF", (60, 50))
    choose()

    for end in (12, 20, 30, len(data) // 2):
        result = show(data[:end])
        assert len(result.content) == 1
        assert "is not shown" in result.text


def test_an_image_that_lacks_only_its_end_is_made_whole() -> None:
    data = noise((60, 50))[:-12]

    block, picture = image_of(show(data))

    assert picture.size == (60, 50)
    assert base64.b64decode(block.data) != data


@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP"]), st.data())
def test_no_damage_makes_anything_but_an_image_or_words(kind: str, data: st.DataObject) -> None:
    image = bytearray(made(kind, (70, 50)))
    for _ in range(data.draw(st.integers(1, 4))):
        image[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))

    result = show(bytes(image))

    assert 1 <= len(result.content) <= 2


@pytest.mark.parametrize("text", [b"BM stands for bitmap, and this is text", b"RIFF raff", b"GIF"])
async def test_text_that_begins_like_an_image_is_text(text: bytes) -> None:
    assert not is_image(text)
    result = await call(read_tool(MemoryWorkspace({"f": text})), path="f")
    assert result.text == text.decode()
