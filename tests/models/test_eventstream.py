"""Bytes in any chunks become the frames of an AWS event stream, and damage is seen."""

from __future__ import annotations

import struct
import zlib

import pytest

from loopwright.models.eventstream import LARGEST_FRAME_BYTES, EventStreamSplitter, Frame

from .recordings import bodies, one_by_one
from .wires.bedrock_frames import error, event, exception, framed, header

BODY = event("messageStart", role="assistant") + exception("throttlingException", "Slow down")


def split(*chunks: bytes) -> tuple[list[Frame], str | None]:
    splitter = EventStreamSplitter()
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    return frames, splitter.fault


def test_headers_say_what_a_frame_is() -> None:
    (first, second), fault = split(BODY)

    assert fault is None
    assert (first[0].message_type, first[0].name) == ("event", "messageStart")
    assert first[1] == b'{"role": "assistant"}'
    assert (second[0].message_type, second[0].name) == ("exception", "throttlingException")
    ((third, _),), _ = split(error("Boom", "It broke"))
    assert third == ("error", "Boom", "It broke")


def test_headers_of_every_kind_are_passed_over() -> None:
    kinds = {0: b"", 1: b"", 2: b"1", 3: b"12", 4: b"1234", 5: b"12345678", 8: b"12345678",
             9: b"1" * 16, 6: b"\x00\x03abc"}  # fmt: skip
    others = b"".join(b"\x01x" + bytes([kind]) + value for kind, value in kinds.items())

    ((head, payload),), fault = split(framed(others + header(":event-type", "ping"), b"x"))

    assert (head.message_type, head.name, payload, fault) == ("event", "ping", b"x", None)


@pytest.mark.parametrize("cut", range(1, len(BODY)))
def test_case_014_a_cut_anywhere_makes_no_difference(cut: int) -> None:
    assert split(BODY[:cut], BODY[cut:]) == split(BODY)


def test_byte_by_byte_is_the_same() -> None:
    assert split(*one_by_one(BODY * 3)) == split(BODY * 3)


def test_a_body_that_broke_off_is_known() -> None:
    for end in range(len(BODY) + 1):
        splitter = EventStreamSplitter()
        splitter.feed(BODY[:end])
        whole = end in (0, len(event("messageStart", role="assistant")), len(BODY))
        assert splitter.unfinished is not whole


@pytest.mark.parametrize("place", range(len(BODY)))
def test_a_damaged_byte_is_seen_and_what_came_before_is_kept(place: int) -> None:
    damaged = bytearray(BODY)
    damaged[place] ^= 0x55

    at_once = split(bytes(damaged))

    assert at_once[1] is not None
    assert at_once == split(*one_by_one(bytes(damaged)))
    assert len(at_once[0]) == (place >= len(event("messageStart", role="assistant")))


def test_nothing_is_read_behind_damage() -> None:
    splitter = EventStreamSplitter()
    splitter.feed(b"\x00" * 16)

    assert splitter.fault is not None
    assert splitter.feed(BODY) == []


@pytest.mark.parametrize(
    "total", [0, 15, LARGEST_FRAME_BYTES + 1], ids=["none", "too small", "too large"]
)
def test_a_length_that_cannot_be_is_a_fault_and_nothing_is_waited_for(total: int) -> None:
    prelude = struct.pack("!II", total, 0)

    _, fault = split(prelude + struct.pack("!I", zlib.crc32(prelude)))

    assert fault == f"a frame says that it has {total} bytes"


@pytest.mark.parametrize("headers", [b"\x09x", b"\x01x\x0a\x00\x00", b"\x01x\x07\x00\x09a"])
def test_headers_that_cannot_be_read_are_a_fault(headers: bytes) -> None:
    _, fault = split(framed(headers, b""))

    assert fault is not None
    assert "headers" in fault


@pytest.mark.parametrize("file", bodies("bedrock-converse", ".bin"), ids=lambda file: file.stem)
def test_recordings_are_sound(file: object) -> None:
    splitter = EventStreamSplitter()

    assert len(splitter.feed(file.read_bytes())) > 4  # type: ignore[attr-defined]
    assert (splitter.fault, splitter.unfinished) == (None, False)
