"""One turn in a session while somebody watches: what was left unfinished first, then the prompt.

Not here: reading what the user says, or how the answer is shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .. import RunResult
from ..errors import LoopwrightError, OperationOpen
from ..events import AgentEvent
from ..messages import ImageContent
from .exit_codes import ExitCode
from .live.session import LiveSession
from .streams import print_note
from .watch import Watched, watched_run

__all__ = ["View", "one_turn"]

View = Callable[[AgentEvent], None]


async def one_turn(
    live: LiveSession,
    prompt: str | None,
    show: View,
    *,
    images: tuple[ImageContent, ...] = (),
    opened: Callable[[], object] = lambda: None,
) -> Watched | None:
    """Say *prompt*, which is expanded already; None only brings to its end what is unfinished, and
    gives None if that is nothing.

    *opened* is called before anything is run. Raises `LoopwrightError` if it is refused, and the
    OSError of a *show*.
    """
    done = None
    if live.unfinished is not None:
        opened()
        done = await _settle(live, show)
        if prompt is None or _is_the_end(done):
            return done
    if prompt is None:
        return done
    said = prompt

    async def ask() -> RunResult[str]:
        accepted = opened if done is None else None
        return await live.prompt(said, images, expand=False, accepted=accepted)

    return await _watched(live, ask, show)


async def _settle(live: LiveSession, show: View) -> Watched:
    """Drive what an earlier process left open."""
    operation, info = live.unfinished, live.info
    assert operation is not None
    assert info is not None
    waiting = live.pending_approvals()
    if not waiting:
        print_note(f"an earlier process left a {operation.kind} unfinished; taking it up")

    async def resume() -> RunResult[str]:
        result = await live.resume()
        assert result is not None  # something was open
        return result

    done = await _watched(live, resume, show)
    if live.unfinished is not None:
        names = ", ".join(approval.tool_name for approval in live.pending_approvals())
        raise OperationOpen(
            f"session {info.id} waits for approval of {names or 'a call'}",
            hint="decide on it: `loopwright sessions approve` or `deny`, or on a terminal with "
            f"`loopwright --session {info.id}`\nor go on in a copy: `loopwright --fork {info.id}`",
        )
    return done


def _is_the_end(done: Watched) -> bool:
    """The user stopped it, or the model fails: nothing more is asked now."""
    result, code = done
    if code in (ExitCode.ABORTED, ExitCode.TERMINATED):
        print_note("the prompt was not sent, since what came before it was stopped; say it again")
        return True
    if result.stop_reason == "error":
        print_note("the prompt was not sent, since what came before it failed")
        return True
    return False


async def _watched(
    live: LiveSession, run: Callable[[], Awaitable[RunResult[str]]], show: View
) -> Watched:
    async def stop(reason: str) -> None:
        try:
            await live.abort(reason)
        except LoopwrightError:
            live.agent.abort(reason)  # the session cannot be told; the run is stopped anyhow

    return await watched_run(live.subscribe, run, stop, show)
