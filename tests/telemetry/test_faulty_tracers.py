"""A tracer is foreign code: whatever it does, the run is as it would have been."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.loop.traces import scripted

from loopwright.telemetry import Attributes, RecordedSpan, RecordingTracer, trace
from loopwright.testing import Call, Reply


def add(a: int, b: int) -> int:
    return a + b


class Faulty(RecordingTracer):
    """Raises at one call, counted over all it is asked for."""

    def __init__(self, where: str, at: int, error: BaseException) -> None:
        super().__init__()
        self.where = where
        self.at = at
        self.error = error
        self.raised = 0

    def trip(self, where: str) -> None:
        if where == self.where:
            self.at -= 1
            if self.at < 0:
                self.raised += 1
                raise self.error

    def start(self, name: str, attributes: Attributes, parent: RecordedSpan | None) -> Any:
        self.trip("start")
        return _FaultySpan(self, name, attributes, parent)


class _FaultySpan(RecordedSpan):
    def __init__(self, tracer: Faulty, *rest: Any) -> None:
        super().__init__(tracer, *rest)
        self.faulty = tracer
        tracer.spans.append(self)

    def set(self, attributes: Attributes) -> None:
        self.faulty.trip("set")
        super().set(attributes)

    def end(self, error_type: str | None = None) -> None:
        super().end(error_type)
        self.faulty.trip("end")


@pytest.mark.parametrize("error", [RuntimeError("boom"), asyncio.CancelledError()], ids=type)
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("where", ["start", "set", "end"])
async def test_a_tracer_that_raises_changes_nothing_and_is_reported_once(
    where: str, at: int, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    script = (Reply("So", calls=[Call("add", {"a": 17, "b": 25}, id="c1")]), "42.")
    plain, _, expected = scripted(*script, tools=[add])
    agent, _, events = scripted(*script, tools=[add])
    tracer = Faulty(where, at, error)
    trace(agent, tracer)

    await plain.prompt("17 + 25?")
    with caplog.at_level(logging.ERROR, logger="loopwright"):
        result = await agent.prompt("17 + 25?")

    assert result.text == "42."
    assert [event.type for event in events] == [event.type for event in expected]
    assert tracer.raised >= 1
    assert [record.name for record in caplog.records] == ["loopwright"]
    assert tracer.open == []


async def test_a_tracer_that_has_failed_gets_no_new_spans(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, _, _ = scripted("One.", "Two.")
    tracer = Faulty("start", 2, RuntimeError("boom"))
    trace(agent, tracer)

    await agent.prompt("1")
    await agent.prompt("2")

    assert len(tracer.spans) == 2
    assert tracer.raised == 1
    assert tracer.open == []
    assert len(caplog.records) == 1


async def test_a_tracer_that_gives_no_span_is_a_faulty_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Empty:
        def start(self, name: str, attributes: Attributes, parent: Any) -> Any:
            return object()

    agent, _, _ = scripted("One.")
    trace(agent, Empty())

    result = await agent.prompt("1")

    assert result.text == "One."
    assert len(caplog.records) == 1
