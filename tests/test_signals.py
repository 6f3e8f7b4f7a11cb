"""Abort signals: fired once, from anywhere, seen by everybody."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from loopwright.errors import Aborted
from loopwright.signals import AbortController


def test_behaviour_099_a_signal_can_be_looked_at() -> None:
    controller = AbortController()
    signal = controller.signal
    assert (signal.aborted, signal.reason) == (False, None)
    signal.throw_if_aborted()

    controller.abort("enough")

    assert (signal.aborted, signal.reason) == (True, "enough")
    with pytest.raises(Aborted, match="enough"):
        signal.throw_if_aborted()


def test_the_first_reason_stays() -> None:
    controller = AbortController()

    controller.abort("first")
    controller.abort("second")

    assert controller.signal.reason == "first"


async def test_behaviour_099_a_signal_can_be_waited_for() -> None:
    controller = AbortController()
    waiting = asyncio.create_task(controller.signal.wait())
    await asyncio.sleep(0)

    controller.abort("enough")

    assert await asyncio.wait_for(waiting, 5) == "enough"
    assert await controller.signal.wait() == "enough"


async def test_a_waiter_that_is_cancelled_leaves_nothing_behind() -> None:
    controller = AbortController()
    waiting = asyncio.create_task(controller.signal.wait())
    await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    controller.abort()

    assert controller.signal.aborted


def test_behaviour_099_callbacks_are_called_once_and_can_be_taken_back() -> None:
    controller = AbortController()
    called: list[str] = []
    controller.signal.on_abort(lambda: called.append("stays"))
    forget = controller.signal.on_abort(lambda: called.append("forgotten"))

    forget()
    forget()
    controller.abort()
    controller.abort()

    assert called == ["stays"]


def test_behaviour_099_a_callback_on_a_fired_signal_is_called_at_once() -> None:
    controller = AbortController()
    controller.abort()
    called: list[bool] = []

    controller.signal.on_abort(lambda: called.append(True))()

    assert called == [True]


def test_a_callback_that_raises_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    controller = AbortController()
    called: list[bool] = []

    def wrong() -> None:
        raise ValueError("callback")

    controller.signal.on_abort(wrong)
    controller.signal.on_abort(lambda: called.append(True))
    with caplog.at_level(logging.ERROR, logger="loopwright"):
        controller.abort()

    assert called == [True]
    assert "callback" in caplog.text


async def test_aborting_from_another_thread_calls_back_in_the_loops_own() -> None:
    controller = AbortController()
    called = asyncio.get_running_loop().create_future()
    controller.signal.on_abort(lambda: called.set_result(threading.get_ident()))

    await asyncio.to_thread(controller.abort)

    assert await asyncio.wait_for(called, 5) == threading.get_ident()


def test_a_callback_of_a_loop_that_has_ended_is_passed_over() -> None:
    controller = AbortController()

    async def register() -> None:
        controller.signal.on_abort(lambda: None)

    asyncio.run(register())
    controller.abort()

    assert controller.signal.aborted


def test_a_signal_says_how_it_stands() -> None:
    controller = AbortController()
    assert repr(controller.signal) == "<AbortSignal open>"
    controller.abort()
    assert repr(controller.signal) == "<AbortSignal aborted>"
