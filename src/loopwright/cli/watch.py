"""One run while a person or a program watches: signals, output, the ending."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .. import AbortSignal, Agent, RunResult
from ..errors import LoopwrightError
from ..events import AgentEvent
from ..loop.listeners import Listener
from .exit_codes import ExitCode
from .interrupts import Interrupts

__all__ = ["Watched", "watched_prompt", "watched_run"]

Watched = tuple[RunResult, ExitCode]


async def watched_prompt(agent: Agent, prompt: str, show: Callable[[AgentEvent], None]) -> Watched:
    """`watched_run` of an agent without a session that is given *prompt*."""

    async def stop(reason: str) -> None:
        agent.abort(reason)

    return await watched_run(agent.subscribe, lambda: agent.prompt(prompt), stop, show)


async def watched_run(
    subscribe: Callable[[Listener], Callable[[], None]],
    run: Callable[[], Awaitable[RunResult]],
    stop: Callable[[str], Coroutine[Any, Any, None]],
    show: Callable[[AgentEvent], None],
) -> Watched:
    """Await *run*, giving every event to *show*; the first Ctrl-C awaits *stop* beside it.

    Raises what *run* raises, and the OSError of a *show* that could not write, after the run was
    stopped and has ended.
    """
    failures: list[OSError] = []
    refused: LoopwrightError | OSError | None = None
    ended: Watched | None = None
    async with asyncio.TaskGroup() as group:
        over = False

        def stop_once(reason: str) -> None:
            if not over:  # a signal may be told of just after the end
                group.create_task(stop(reason))

        def listen(event: AgentEvent, _signal: AbortSignal) -> None:
            if failures:
                return
            try:
                show(event)
            except OSError as error:  # nobody sees the rest: the model need not say it
                failures.append(error)
                stop_once("the output cannot be written")

        unsubscribe = subscribe(listen)
        try:
            with Interrupts(lambda: stop_once("stopped by the user")) as interrupts:
                result = await run()
            ended = result, _exit_code(result, interrupts.received)
        except (LoopwrightError, OSError) as error:
            refused = error  # out of the group, which would wrap it
        finally:
            over = True
            unsubscribe()
    if failures:
        raise failures[0]
    if refused is not None:
        raise refused
    assert ended is not None
    return ended


def _exit_code(result: RunResult, received: signal.Signals | None) -> ExitCode:
    if received is not None:
        return ExitCode.ABORTED if received == signal.SIGINT else ExitCode.TERMINATED
    if result.stop_reason in ("error", "aborted"):
        return ExitCode.FAILED
    return ExitCode.DONE
