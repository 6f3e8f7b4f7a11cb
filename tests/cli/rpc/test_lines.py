"""Lines in and out, without a process."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading

import pytest

from loopwright.cli.rpc.line_reader import LineReader, LongLine
from loopwright.cli.rpc.line_writer import LineWriter


async def all_lines(data: bytes, *, limit: int = 10, piece: int = 1) -> list[bytes]:
    """What a reader makes of *data* that comes in pieces."""
    reading, writing = os.pipe()

    def write() -> None:
        for start in range(0, len(data), piece):
            os.write(writing, data[start : start + piece])
        os.close(writing)

    thread = threading.Thread(target=write)
    reader = LineReader(reading, limit)
    thread.start()
    lines: list[bytes] = []
    while (line := await reader.next()) is not None:
        lines.append(line)
    thread.join()
    os.close(reading)
    return lines


@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
async def test_lines_are_the_same_however_they_come(piece: int) -> None:
    data = b"one\n\n two \r\n" + b"x" * 10 + b"\n" + b"y" * 11 + b"\n" + b"z" * 99 + b"\nend"

    lines = await all_lines(data, piece=piece)

    assert lines == [b"one", b"", b" two \r", b"x" * 10, lines[4], lines[5], b"end"]
    assert [type(line) is LongLine for line in lines].count(True) == 2
    assert (lines[4][:1], lines[5][:1]) == (b"y", b"z")


async def test_a_long_line_without_an_end_is_one() -> None:
    assert [type(line) for line in await all_lines(b"x" * 5000, piece=100)] == [LongLine]


async def test_nothing_is_no_line() -> None:
    assert await all_lines(b"") == []


async def test_a_file_can_be_read_too() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"one\ntwo\n")
        file.seek(0)
        reader = LineReader(file.fileno(), 10)

        assert [await reader.next() for _ in range(3)] == [b"one", b"two", None]


async def test_a_reading_that_was_cancelled_loses_nothing() -> None:
    reading, writing = os.pipe()
    reader = LineReader(reading, 10)
    task = asyncio.create_task(reader.next())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    os.write(writing, b"one\n")

    assert await reader.next() == b"one"
    os.close(writing)
    assert await reader.next() is None
    os.close(reading)


@pytest.mark.parametrize("blocking", [True, False])
async def test_who_writes_more_than_is_read_waits(blocking: bool) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    writer = LineWriter(writing)
    line = b"x" * 100_000

    count = 0  # of the lines that found room
    while (waiting := writer.put(line)) is None:
        count += 1
    held = asyncio.ensure_future(waiting)
    await asyncio.sleep(0.05)
    was_held = not held.done()
    received = asyncio.create_task(asyncio.to_thread(read_all, reading))
    await held
    await writer.close(5)
    os.close(writing)

    assert was_held
    assert await received == (line + b"\n") * (count + 1)
    os.close(reading)


def read_all(fd: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(fd, 1_000_000):
        pieces.append(piece)
    return b"".join(pieces)


async def test_a_reader_that_is_gone_frees_who_waits_and_is_told_of_once() -> None:
    reading, writing = os.pipe()
    told: list[None] = []
    writer = LineWriter(writing, lambda: told.append(None))
    while (waiting := writer.put(b"x" * 100_000)) is None:
        pass

    os.close(reading)
    await waiting
    await writer.close(5)

    assert told == [None]
    assert writer.put(b"more") is None
    os.close(writing)


async def test_a_reader_that_takes_nothing_is_given_up_at_the_end() -> None:
    reading, writing = os.pipe()
    writer = LineWriter(writing)
    waiting = writer.put(b"x" * 2_000_000)
    writer.put(b"nobody waits for this one")

    await writer.close(0.05)
    assert waiting is not None
    await waiting

    assert writer.broken
    os.close(reading)
    os.close(writing)
