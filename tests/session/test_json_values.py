"""A program's own data is read back as it was returned, or refused with the place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from loopwright.errors import Misuse
from loopwright.session import MemoryStore, Session
from loopwright.session.entries import CustomEntry
from loopwright.session.rows import SessionInfo


@dataclass
class Point:
    x: int
    y: tuple[int, ...]


cycle: list[Any] = []
cycle.append({"in": [cycle]})
BAD = [
    float("nan"), float("inf"), -float("inf"), {1}, frozenset({1}), b"x", bytearray(b"x"), object(),
    Point, {1: 2}, {None: 1}, "\ud800", {"\udfff": 1}, cycle, Point(1, (float("nan"),)),  # pyright: ignore[reportArgumentType]
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=[str(n) for n in range(len(BAD))])
async def test_case_136_what_json_cannot_say_is_refused_with_its_place(bad: Any) -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        with pytest.raises(Misuse, match=r"data\['deep'\]\[1\]"):
            await session.append_custom("x", {"deep": [0, bad]})
        with pytest.raises(Misuse, match=r"the fact 'f'\['deep'\]\[1\]"):
            await session.set_fact("f", {"deep": [0, bad]})
        assert (session.head, session.entries(), session.facts) == (0, [], [])
    with pytest.raises(Misuse, match=r"metadata\['deep'\]\[1\]"):
        await store.create(SessionInfo(id="m", metadata={"deep": [0, bad]}))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None), (True, True), (1.5, 1.5), ("é\0😀", "é\0😀"), ((1, (2,)), [1, [2]]),
        (Point(1, (2, 3)), {"x": 1, "y": [2, 3]}), ({"a": {"": [None]}}, {"a": {"": [None]}}),
        (2**63, 2**63),
    ],
)  # fmt: skip
async def test_case_136_what_is_returned_is_read_back(given: Any, kept: Any) -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        entry = await session.append_custom("x", given)
        await session.set_fact("f", given)
    reader = await Session.read(store, "s")
    (read,) = [e for e in reader.entries() if isinstance(e, CustomEntry)]

    assert entry.data == read.data == kept
    assert [fact.value for fact in reader.facts] == [fact.value for fact in session.facts] == [kept]
