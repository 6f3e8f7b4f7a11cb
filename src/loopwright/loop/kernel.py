"""The loop: ask what the transcript wants, do it, ask again. The ten-minute read.

`next_step` (transcript.py) decides and awaits nothing; the loop below carries its decisions out
and reports every one through `emit`, awaited, so that whoever listens is a barrier. Failures at
run time never raise out of here: they become messages, events and a stop reason. What raises is a
wrong call, an `emit` that raises, and the caller's own cancellation.

The lists in `Progress` are shared on purpose: a step hands out the list that waits there, and saying
a message takes it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from ..events import AgentEnd, AgentStart, TurnEnd, TurnStart
from ..messages import AgentMessage, TextContent, UserMessage
from ..signals import AbortController, AbortSignal
from .config import AgentLoopConfig
from .context import AgentContext
from .dispatch import abandon_tools, run_tools
from .faults import in_words
from .hooks import FinishTurn, TurnContext, TurnUpdate
from .interrupt import Interrupted
from .model_choice import choose_model
from .prompts import check_prompts, check_resumable
from .queues import CallbackInbox, QueueName
from .reply import stream_reply
from .run import Emit, Run, RunOutcome, StreamFn
from .stream_function import stream_function
from .transcript import (
    AskModel,
    BeginTurn,
    Deliver,
    EndTurn,
    Finish,
    Poll,
    RunTools,
    next_step,
)

if TYPE_CHECKING:
    from .output import Answer

__all__ = ["drive", "run_agent_loop", "run_agent_loop_continue"]

_CLOSING_SECONDS = 2.0


async def run_agent_loop(
    prompts: Sequence[AgentMessage],
    context: AgentContext,
    config: AgentLoopConfig,
    emit: Emit,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
) -> list[AgentMessage]:
    """Say *prompts* and loop until nothing is left to do. Returns the messages this run added.

    `emit` is called with each event and awaited; if it raises, the run ends at once and the
    exception comes out. *context* is not changed. Raises `Misuse` for an empty prompt list.
    """
    check_prompts(prompts)
    run = _low_level_run(context, config, emit, stream_fn, prompts)
    return (await drive(run, signal)).messages


async def run_agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    emit: Emit,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
) -> list[AgentMessage]:
    """Like `run_agent_loop`, without a new message: the model is asked to go on.

    Raises `NothingToResume` if the transcript is empty or ends with a finished reply; one that
    failed or was aborted is not sent again.
    """
    check_resumable(context.messages)
    run = _low_level_run(context, config, emit, stream_fn)
    run.progress.extra_turn = True
    return (await drive(run, signal)).messages


def _low_level_run(
    context: AgentContext,
    config: AgentLoopConfig,
    emit: Emit,
    stream_fn: StreamFn | None,
    prompts: Sequence[AgentMessage] = (),
) -> Run:
    stream_fn = stream_function(stream_fn, config.model)
    return Run(
        context=context,
        config=config,
        emit=emit,
        stream_fn=stream_fn,
        controller=AbortController(),
        inbox=CallbackInbox(config),
        prompts=prompts,
        answer=config.begin_answer(stream_fn),
    )


# -- driving ---------------------------------------------------------------------------------


async def drive(run: Run, signal: AbortSignal | None = None) -> RunOutcome:
    """Drive *run* to its end, whatever happens, and leave nothing of it running."""
    unregister = (
        signal.on_abort(lambda: run.controller.abort(signal.reason)) if signal else lambda: None
    )
    run.begin()
    try:
        await run.emit(AgentStart())
        if run.progress.turn == "answered":  # taken up again in the middle of a turn
            await run.emit(TurnStart())
        await _advance(run)
    except GeneratorExit:  # the event loop is gone; nothing can be awaited any more
        run.batch = None
        raise
    except Exception:  # emit raised, and is not called again
        run.finished = True
        raise
    except BaseException:  # most likely the caller's cancellation
        if not run.emit_raised:
            await _close(run)
        raise
    finally:
        try:
            if run.batch is not None:
                await abandon_tools(run.batch)
        finally:
            run.end()
            unregister()
    return run.outcome()


async def _advance(run: Run) -> None:
    """The loop."""
    while not run.finished:
        if run.interrupt.from_outside:  # and a hook or listener swallowed it
            raise asyncio.CancelledError
        run.notice_stop()
        step = next_step(run.context.messages, run.progress)
        try:
            match step:
                case AskModel():
                    await stream_reply(run)
                case RunTools(reply, calls):
                    await run_tools(run, reply, calls)
                case EndTurn():
                    await _end_turn(run)
                case Poll(queue):
                    await _poll(run, queue)
                case BeginTurn():
                    await _begin_turn(run)
                case Deliver(messages):
                    await _deliver(run, messages)
                case Finish():
                    if await _may_finish(run):
                        await _finish(run)
                case _:
                    assert_never(step)
        except Interrupted:
            continue  # a hook was cut off by a stop; the next step takes note of it
        except _HookFailed as failure:
            await _fail(run, failure.error)
        except Exception as error:
            if run.emit_raised or run.hook_failed:
                raise
            await _fail(run, error)  # a source or a hook gave something nobody thought of


async def _poll(run: Run, queue: QueueName) -> None:
    messages = await _ask(run, run.inbox.poll, queue)
    try:
        waiting: list[AgentMessage] = list(messages or ())
        if not all(hasattr(message, "role") for message in waiting):
            raise TypeError("a function for queued messages returns a list of messages")
    except TypeError as error:
        raise _HookFailed(error) from error
    if queue == "steering":
        run.progress.steering = waiting
    else:
        run.progress.follow_up = waiting


async def _begin_turn(run: Run) -> None:
    progress = run.progress
    prepare = run.config.hook("prepare_next_turn")
    if prepare is not None and run.reply is not None and not run.signal.aborted:
        turn = TurnContext(run.reply, run.results, run.context, run.new_messages)
        update: TurnUpdate | None = await _ask(run, prepare, turn, run.signal)
        if update is not None:
            try:
                _adopt(run, update)
            except Exception as error:  # it is none, or has tools that are none
                raise _HookFailed(error) from error
        if not progress.steering and not progress.follow_up:
            progress.steering = None  # preparing may have taken long; ask once more
    progress.turn = "open"
    progress.terminated = progress.parked = False
    run.earlier_results_end = True
    run.reply = None
    run.results = []
    await run.emit(TurnStart())


def _adopt(run: Run, update: TurnUpdate) -> None:
    if update.context is not None and update.context is not run.context:
        run.use(update.context)
    if update.model is not None:
        run.model, level = choose_model(update.model, run.stream_fn)
        run.thinking_level = level or run.thinking_level
    if update.thinking_level is not None:
        run.thinking_level = update.thinking_level


async def _deliver(run: Run, messages: list[AgentMessage]) -> None:
    """Say *messages*, taking each out of the list in `Progress` that it waits in: what is left
    there when the run is stopped has not been said."""
    while messages:
        journal = run.journal
        if journal is not None and await run.record(journal.admits(messages[0])) is False:
            messages.pop(0)
        else:
            await run.announce(messages.pop(0))


async def _end_turn(run: Run) -> None:
    progress = run.progress
    reply = run.reply
    assert reply is not None
    turn = TurnContext(reply, run.results, run.context, run.new_messages)
    finish = run.config.hook("finish_turn")
    verdict: Any = None
    if finish is not None and not run.hook_failed:
        grace = run.grace_seconds if run.signal.aborted else 0.0
        try:
            verdict = await _ask(run, finish, turn, run.signal, grace=grace)
        except Interrupted:
            verdict = None
        if not isinstance(verdict, FinishTurn | None):
            said = type(verdict).__name__
            raise _HookFailed(TypeError(f"finish_turn returns a FinishTurn or None, not {said}"))
    run.notice_stop()
    normal = progress.stopped_by is None
    if normal:
        _heed(run, verdict)
    progress.turn = "closed"
    await run.emit(TurnEnd(reply, run.results))
    should_stop = run.config.hook("should_stop_after_turn")
    if normal and should_stop is not None and await _ask(run, should_stop, turn, run.signal):
        progress.stopped_by = progress.stopped_by or "hook"


def _heed(run: Run, verdict: FinishTurn | None) -> None:
    """Apply the hook's verdict and the limit of turns, and open the queues for the next poll."""
    progress = run.progress
    progress.steering = progress.follow_up = None
    if verdict is FinishTurn.END:
        progress.stopped_by = "hook"
        return
    progress.extra_turn = verdict is FinishTurn.CONTINUE
    if run.answer is not None:
        _demand_answer(run, run.answer)
    limit = run.config.max_turns
    if limit is not None and run.turns >= limit:
        owes_answer = bool(run.results) and not progress.terminated
        wants_more = progress.extra_turn or progress.retry or progress.steering
        if owes_answer or wants_more or run.inbox.waits:
            progress.stopped_by = progress.stopped_by or "max_turns"
        progress.extra_turn = progress.retry = False
        progress.steering, progress.follow_up = [], []


def _demand_answer(run: Run, answer: Answer) -> None:
    """The run does not end without the typed answer, unless it was tried often enough."""
    assert run.reply is not None
    goes_on, fault = answer.judge(run.reply, run.results)
    if answer.given:
        run.progress.terminated = True
    elif not goes_on:
        run.progress.stopped_by = "error"
        said = run.reply.text or "no text"
        wrong = fault if run.reply.tool_calls else f"it never did, and said last: {said[:200]}"
        run.failure = f"The model gave no answer that fits the output type: {wrong}"
    elif fault is not None:
        run.correction = UserMessage([TextContent(fault)])
        run.progress.steering = [run.correction]


async def _finish(run: Run) -> None:
    progress = run.progress
    limit = run.config.max_turns
    if progress.stopped_by is None and limit is not None and run.turns >= limit and run.inbox.waits:
        progress.stopped_by = "max_turns"  # the message came while the last turn was told of
    if progress.steering:
        messages, progress.steering = progress.steering, []
        theirs = [message for message in messages if message is not run.correction]
        await _give_back(run, "steering", theirs)
    if progress.follow_up:
        messages, progress.follow_up = progress.follow_up, []
        await _give_back(run, "follow_up", messages)
    run.finished = True  # not before: an interruption while giving back comes here again
    await run.emit(AgentEnd(run.new_messages))


async def _may_finish(run: Run) -> bool:
    """False if the journal knows of a message that came just now: the queues are asked again."""
    if run.journal is None or await run.record(run.journal.finish(run)) is not False:
        return True
    run.progress.steering = run.progress.follow_up = None
    return False


async def _give_back(run: Run, queue: QueueName, messages: list[AgentMessage]) -> None:
    try:
        await run.call(run.inbox.give_back, queue, messages, grace=run.grace_seconds)
    except Interrupted:
        return
    except Exception as error:  # noqa: BLE001 - on_undelivered is foreign code
        run.report_fault(error, "on_undelivered")


# -- when something goes wrong ---------------------------------------------------------------


class _HookFailed(Exception):
    """A hook of the program raised; the run ends with its words."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


async def _ask(run: Run, hook: Any, *arguments: Any, grace: float = 0.0) -> Any:
    try:
        return await run.call(hook, *arguments, grace=grace)
    except Interrupted:
        raise
    except Exception as error:
        raise _HookFailed(error) from error


async def _fail(run: Run, error: Exception) -> None:
    """A turn hook raised: a message in the model's place says so, in a turn of its own."""
    progress = run.progress
    run.hook_failed = True
    run.notice_stop()
    if progress.stopped_by is not None and progress.turn != "open":
        run.report_fault(error, "a hook of an ending run")
        return
    run.report_fault(error, "a hook that ended the run")
    progress.stopped_by = progress.stopped_by or "error"
    if progress.turn == "answered" and run.reply is not None:
        progress.turn = "closed"
        await run.emit(TurnEnd(run.reply, run.results))
    if progress.turn == "closed":
        progress.turn = "open"
        run.results = []
        await run.emit(TurnStart())
    reason = "aborted" if run.signal.aborted else "error"
    run.reply = run.made_up_reply(in_words(error), reason)
    progress.turn = "answered"
    await run.announce(run.reply)


async def _close(run: Run) -> None:
    """The outside cancelled the run: bring it to its proper end, shielded, but not for long."""
    run.stop("cancelled")
    run.grace_seconds = _CLOSING_SECONDS / 2
    closing = asyncio.get_running_loop().create_task(_close_in_this_task(run))
    deadline = asyncio.get_running_loop().time() + _CLOSING_SECONDS
    while not closing.done():
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            closing.cancel()
            left = 0.1
        try:
            await asyncio.wait({closing}, timeout=left)
        except asyncio.CancelledError:
            continue  # cancelled once more; the deadline stands
        if closing.cancelling():
            break
    if closing.done() and not closing.cancelled() and (error := closing.exception()):
        run.report_fault(error, "closing a cancelled run")


async def _close_in_this_task(run: Run) -> None:
    run.move_to_this_task()
    message = run.open_message
    if message is not None:
        await run.end_message(message)
    await _advance(run)
