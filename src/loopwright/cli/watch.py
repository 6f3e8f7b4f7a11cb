"""One prompt through an agent while a person or a program watches: signals, output, the ending."""

from __future__ import annotations

import signal
from collections.abc import Callable

from .. import AbortSignal, Agent, RunResult
from ..events import AgentEvent
from .exit_codes import ExitCode
from .interrupts import Interrupts

__all__ = ["watched_prompt"]


async def watched_prompt(
    agent: Agent, prompt: str, show: Callable[[AgentEvent], None]
) -> tuple[RunResult, ExitCode]:
    """Say *prompt*, giving every event to *show*; the first Ctrl-C aborts the run.

    Raises the OSError of a *show* that could not write, after the run was aborted and has ended.
    """
    failures: list[OSError] = []

    def listen(event: AgentEvent, _signal: AbortSignal) -> None:
        if failures:
            return
        try:
            show(event)
        except OSError as error:  # nobody sees the rest: the model need not say it
            failures.append(error)
            agent.abort("the output cannot be written")

    unsubscribe = agent.subscribe(listen)
    try:
        with Interrupts(lambda: agent.abort("stopped by the user")) as interrupts:
            result = await agent.prompt(prompt)
    finally:
        unsubscribe()
    if failures:
        raise failures[0]
    return result, _exit_code(result, interrupts.received)


def _exit_code(result: RunResult, received: signal.Signals | None) -> ExitCode:
    if received is not None:
        return ExitCode.ABORTED if received == signal.SIGINT else ExitCode.TERMINATED
    if result.stop_reason in ("error", "aborted"):
        return ExitCode.FAILED
    return ExitCode.DONE
