"""Strikes at every step of a run, and faults at every call of foreign code; the run must stand.

The first family runs a scene again and again and strikes before the k-th step of its event loop,
for every k until the run is over: abort, cancel, both, twice, from another thread, an interrupting
message. The second makes the k-th call of any hook, listener, tool or stream misbehave. After each
the same invariants hold (invariants.py), and the next prompt works.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.loop.invariants import frozen_garbage
from tests.loop.scenes import SCENES, WAYS_IN, Boom, Crash, Scene, check
from tests.loop.virtual_time import VirtualTimeLoop

GRACE_SECONDS = 2.0
SMALL = 0.3


@pytest.fixture(autouse=True, scope="module")
def cheap_collections() -> Iterator[None]:
    with frozen_garbage():
        yield


# -- strikes ---------------------------------------------------------------------------------

Strike = Callable[[Scene, "asyncio.Task[None]", VirtualTimeLoop], object]


def abort(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    scene.abort()


def cancel(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    scene.cancelled |= caller.cancel()


def soon(loop: VirtualTimeLoop, act: Callable[[], object]) -> None:
    """Up to three rounds of the loop later, by turns, to fall into what the first strike began."""
    rounds = loop.steps % 4

    def wait() -> None:
        nonlocal rounds
        rounds -= 1
        if rounds < 0:
            act()
        else:
            loop.call_soon(wait)

    wait()


def cancel_twice(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    cancel(scene, caller, loop)
    soon(loop, caller.cancel)


def cancel_again_and_again(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    """At every step, as by somebody who has lost patience."""
    left = 60

    def again() -> None:
        nonlocal left
        left -= 1
        if caller.cancel() and left:
            scene.cancelled = True
            loop.call_soon(again)

    again()


def abort_then_cancel(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    scene.abort()
    soon(loop, lambda: cancel(scene, caller, loop))


def cancel_then_abort(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    cancel(scene, caller, loop)
    soon(loop, scene.abort)


def abort_from_a_thread(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    thread = threading.Thread(target=scene.abort)
    thread.start()
    thread.join()


def interrupting_message(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    scene.queue("urgent", "interrupt")


ABORTS: list[Strike] = [abort, abort_from_a_thread]
CANCELS: list[Strike] = [
    cancel,
    cancel_twice,
    cancel_again_and_again,
    abort_then_cancel,
    cancel_then_abort,
]
STRIKES: list[Strike] = [*ABORTS, *CANCELS, interrupting_message]


class Strikes:
    """Runs one scene once for every step of it, struck there."""

    def __init__(self, scene: str, way_in: str, strike: Strike, first: int, stride: int) -> None:
        """*first* step to strike at, and how many to go on by."""
        self.scene, self.way_in, self.strike = scene, way_in, strike
        self.first, self.stride = first, stride
        self.made = 0

    def make_all(self) -> int:
        """How many strikes were made."""
        at = self.first
        while self.make(at):
            self.made += 1
            at += self.stride
        gc.collect()
        return self.made

    def make(self, at: int) -> bool:
        """Strike before step *at*. False if the run was over by then."""
        loop = VirtualTimeLoop()
        try:
            return loop.live(self._run(loop, at))
        except BaseException as error:
            error.add_note(f"{self.scene} by {self.way_in}, {self.strike.__name__} at step {at}")
            raise

    @property
    def learns_late(self) -> bool:
        """The run hears of it one step later, from its reader or its caller's signal; a request
        may come between."""
        if self.way_in == "prompt":
            return False
        through_the_reader = self.way_in in ("stream", "agent_loop") and self.strike in CANCELS
        through_a_signal = self.way_in != "stream" and self.strike is abort_from_a_thread
        return through_the_reader or through_a_signal

    async def _run(self, loop: VirtualTimeLoop, at: int) -> bool:
        scene = Scene(SCENES[self.scene])
        way_in = WAYS_IN[self.way_in]

        async def call() -> None:
            task = asyncio.current_task()
            assert task is not None
            try:
                await way_in(scene)
            finally:
                scene.cancelling = task.cancelling()

        caller = loop.create_task(call())
        requests = -1
        struck = begun = False
        struck_at = 0.0

        def strike() -> None:
            nonlocal requests, struck, struck_at, begun
            if not caller.done():
                struck = True
                struck_at = loop.now
                begun = bool(scene.heard[0])
                requests = len(scene.requests)
                self.strike(scene, caller, loop)

        def tick() -> None:
            """Something else that the loop does: so there are steps in the middle of a wait."""
            if not caller.done():
                loop.call_later(0.007, tick)

        tick()
        loop.strikes[loop.steps + at] = strike
        await asyncio.wait({caller})
        loop.strikes.clear()
        if struck:
            took = loop.now - struck_at
            assert self.strike is interrupting_message or took <= GRACE_SECONDS + SMALL, took
            if scene.cancelled:
                assert caller.cancelled(), "the caller's cancellation got lost"
            else:
                assert caller.exception() is None, caller.exception()
                assert scene.cancelling == 0, "a cancellation of ours was left behind"
            if self.strike is not interrupting_message and begun and not self.learns_late:
                assert len(scene.requests) == requests, "the model was asked after the stop"
        else:
            caller.result()
        assert not scene.reported, scene.reported
        await check(scene, loop)
        return struck


STRIDES = {"prompt": 1, "stream": 4, "agent_loop": 2, "run_agent_loop": 2}
"""A prompt is struck at every step. The other ways in share the kernel; the strikes of each kind
begin at another step, so that together they leave out none."""


@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.__name__)
@pytest.mark.parametrize("way_in", WAYS_IN)
@pytest.mark.parametrize("scene", SCENES)
def test_a_strike_at_any_step_leaves_a_run_that_is_whole(
    scene: str, way_in: str, strike: Strike
) -> None:
    stride = STRIDES[way_in]
    first = 1 + STRIKES.index(strike) % stride

    made = Strikes(scene, way_in, strike, first, stride).make_all()

    assert made >= 15 // stride


# -- faults ----------------------------------------------------------------------------------

Act = Callable[[Scene, "asyncio.Task[None]", VirtualTimeLoop], object]


def raise_boom(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    raise Boom("on purpose")


def raise_cancelled(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    raise asyncio.CancelledError


def crash(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    raise Crash("on purpose")


def cancel_from_here(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    if threading.current_thread() is threading.main_thread():
        caller.cancel()
    else:
        loop.call_soon_threadsafe(caller.cancel)


RAISES: list[Act] = [raise_boom, raise_cancelled]
ACTS: list[Act] = [*RAISES, crash, cancel_from_here, abort, interrupting_message]


def contained(place: str) -> bool:
    """A gate that crashes is a no, and a listener stops nothing."""
    return "listener" in place or "before_tool_call" in place


class Injections:
    """Runs one scene once for every call of foreign code in it, and lets that one misbehave."""

    def __init__(self, scene: str, way_in: str, act: Act, first: int, stride: int) -> None:
        """*first* call to spoil, and how many to go on by."""
        self.scene, self.way_in, self.act = scene, way_in, act
        self.first, self.stride = first, stride
        self.made = 0

    def make_all(self) -> int:
        """How many faults were made."""
        at = self.first
        while self.make(at):
            self.made += 1
            at += self.stride
        gc.collect()
        return self.made

    def make(self, at: int) -> bool:
        loop = VirtualTimeLoop()
        scenes: list[Scene] = []
        try:
            return loop.live(self._run(loop, at, scenes))
        except BaseException as error:
            place = scenes[0].faults.place
            error.add_note(
                f"{self.scene} by {self.way_in}: {self.act.__name__} in call {at}, where {place}"
            )
            raise

    async def _run(self, loop: VirtualTimeLoop, at: int, scenes: list[Scene]) -> bool:
        scene = Scene(SCENES[self.scene])
        scenes.append(scene)
        way_in = WAYS_IN[self.way_in]

        async def call() -> None:
            task = asyncio.current_task()
            assert task is not None
            try:
                await way_in(scene)
            finally:
                scene.cancelling = task.cancelling()

        caller = loop.create_task(call())
        began = 0.0

        def act(place: str) -> None:
            nonlocal began
            began = loop.time()
            if self.act is crash and "listener" in place:
                raise Boom("a crash in a listener is a crash of the program")
            self.act(scene, caller, loop)

        scene.faults.at = at
        scene.faults.act = act
        await asyncio.wait({caller})
        scene.faults.at = 0
        place = scene.faults.place
        if self.act is cancel_from_here and place is not None:
            assert caller.cancelled(), "the caller's cancellation got lost"
            assert loop.time() - began <= GRACE_SECONDS + SMALL
        elif self.act is crash and place is not None and not contained(place):
            assert isinstance(caller.exception(), Crash), caller
        else:
            assert not caller.cancelled(), "a cancellation nobody asked for came out"
            assert caller.exception() is None, caller.exception()
            assert scene.cancelling == 0
        if place is not None and self.act in RAISES and "listener" in place:
            assert [where for _, where in scene.reported] == ["a listener"]
        await check(scene, loop)
        return place is not None


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("scene", ["scripted", "raising"])
def test_a_fault_in_any_call_of_foreign_code_leaves_a_run_that_is_whole(
    scene: str, act: Act
) -> None:
    """Hooks, listeners, tools and streams raise, are cancelled from within, crash, cancel their own
    caller, abort, interrupt."""
    stride = 1 if act in RAISES or scene == "raising" else 3

    made = Injections(scene, "prompt", act, 1 + ACTS.index(act) % stride, stride).make_all()

    assert made >= 100 // stride


@pytest.mark.parametrize("act", RAISES, ids=lambda act: act.__name__)
@pytest.mark.parametrize("way_in", ["stream", "agent_loop", "run_agent_loop"])
def test_a_fault_in_any_call_leaves_a_run_that_is_whole_whoever_watches_it(
    way_in: str, act: Act
) -> None:
    assert Injections("raising", way_in, act, 1, 1).make_all() >= 40
