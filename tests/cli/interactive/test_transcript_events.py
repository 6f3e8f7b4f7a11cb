"""The events of a run as a person sees them: finished rows once, unfinished ones below."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from loopwright import Agent, tool
from loopwright.cli.interactive.theme import theme_named
from loopwright.cli.interactive.transcript import Transcript
from loopwright.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from loopwright.loop.run_result import RunResult
from loopwright.messages import (
    AgentToolResult,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.stream import (
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from loopwright.testing import Call, Reply, ScriptedModel

PLAIN = theme_named("dark", {"NO_COLOR": "1"})
W = 60


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def transcript(clock: Clock) -> Transcript:
    return Transcript(PLAIN, clock=clock)


def feed(transcript: Transcript, *events: AgentEvent) -> None:
    for event in events:
        transcript.feed(event)


def text(delta: str, index: int = 0) -> AgentEvent:
    return MessageUpdate(TextDelta(index, delta))


def thinking(delta: str) -> AgentEvent:
    return MessageUpdate(ThinkingDelta(0, delta))


def reply(*content: Any, **more: Any) -> AgentEvent:
    return MessageEnd(AssistantMessage(list(content), **more))


def starts(id: str, name: str, args: Any = None) -> AgentEvent:
    return ToolExecutionStart(id, name, args or {})


def ends(id: str, name: str, said: str) -> AgentEvent:
    return ToolExecutionEnd(id, name, AgentToolResult([TextContent(said)]), False)


BEGIN = MessageStart(AssistantMessage([]))


# -- text --------------------------------------------------------------------------------------


def test_finished_paragraphs_go_up_and_the_open_one_stays_below(transcript: Transcript) -> None:
    feed(transcript, BEGIN, text("One.\n\nTw"), text("o is "))

    assert transcript.take(W) == "One.\n"
    assert transcript.live(W, 10) == "\nTwo is"
    feed(transcript, text("here."), reply(TextContent("One.\n\nTwo is here.")))
    assert transcript.take(W) == "\nTwo is here.\n"
    assert transcript.live(W, 10) == ""
    assert transcript.take(W) == ""


def test_the_live_part_is_the_end_of_what_is_open(transcript: Transcript) -> None:
    feed(transcript, BEGIN, text("\n".join([f"line {n}" for n in range(40)])))

    assert transcript.live(W, 3) == "line 37\nline 38\nline 39"
    assert transcript.live(W, 0) == ""


def test_a_reply_that_came_without_updates_is_shown_whole(transcript: Transcript) -> None:
    feed(transcript, BEGIN, reply(TextContent("All **at once**.")))

    assert transcript.take(W) == "All at once.\n"


def test_a_block_whose_deltas_are_missing_comes_with_its_end(transcript: Transcript) -> None:
    feed(
        transcript,
        BEGIN,
        MessageUpdate(TextStart(0)),
        MessageUpdate(TextEnd(0, "Said.")),
        MessageUpdate(ThinkingEnd(1, "Thought of it.")),
        reply(TextContent("Said."), ThinkingContent("Thought of it.")),
    )

    assert transcript.take(W) == "Said.\n\nthought for a moment\n"


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"stop_reason": "length"}, "the reply was cut: it reached the model's output limit"),
        ({"stop_reason": "aborted", "error_message": "Operation aborted"}, "interrupted"),
        ({"stop_reason": "aborted", "error_message": "Operation aborted: Esc"}, "interrupted: Esc"),
        ({"stop_reason": "error", "error_message": "no\nhint: do x"}, "error: no\nhint: do x"),
    ],
)
def test_a_reply_that_ends_half_way_shows_what_there_is_and_says_so(
    transcript: Transcript, more: dict[str, Any], note: str
) -> None:
    feed(transcript, BEGIN, text("```py\nhalf = "), reply(TextContent("```py\nhalf = "), **more))

    assert transcript.take(W) == f"  half =\n\n{note}\n"


def test_a_run_that_ends_without_its_reply_flushes_it(transcript: Transcript) -> None:
    feed(transcript, BEGIN, text("half a sen"), AgentEnd([]))

    assert transcript.take(W) == "half a sen\n"


def test_a_reply_that_is_begun_anew_does_not_go_on_in_the_old_one(transcript: Transcript) -> None:
    feed(transcript, BEGIN, text("first"), BEGIN, text("second"), reply(TextContent("second")))

    assert transcript.take(W) == "first\n\nsecond\n"


# -- thinking ----------------------------------------------------------------------------------


def test_thinking_is_one_line_that_counts(transcript: Transcript, clock: Clock) -> None:
    feed(transcript, BEGIN, thinking("Let me th"))
    clock.now = 12.2
    feed(transcript, thinking("ink.\nIt is so "))

    assert transcript.live(W, 5) == "thinking … 12 s, 6 words"
    assert transcript.take(W) == ""
    clock.now = 14.4
    feed(transcript, MessageUpdate(ThinkingEnd(0, "")))
    assert transcript.take(W) == "thought for 14 s\n"


def test_thinking_is_shown_in_full_when_asked_for(transcript: Transcript) -> None:
    transcript.show_thinking = True

    feed(transcript, BEGIN, thinking("First *this*.\n\nThen th"))

    assert transcript.take(W) == "First this.\n"
    assert transcript.live(W, 5) == "\nThen th"


def test_thinking_can_be_unfolded_while_it_comes(transcript: Transcript) -> None:
    feed(transcript, BEGIN, thinking("First.\n\nSecond."))
    transcript.take(W)

    transcript.show_thinking = True
    feed(transcript, MessageUpdate(ThinkingEnd(0, "")))

    assert transcript.take(W) == "First.\n\nSecond.\n"


def test_thinking_that_the_vendor_hides_is_a_line_too(transcript: Transcript) -> None:
    transcript.show_thinking = True

    feed(transcript, BEGIN, reply(ThinkingContent("", "sig", redacted=True), TextContent("Yes.")))

    assert transcript.take(W) == "thought for a moment\n\nYes.\n"


# -- tools -------------------------------------------------------------------------------------


def test_calls_that_run_side_by_side_come_out_in_the_order_of_the_reply(
    transcript: Transcript,
) -> None:
    calls = [ToolCall("1", "own", {"n": 1}), ToolCall("2", "own", {"n": 2})]
    feed(transcript, BEGIN, reply(*calls, stop_reason="toolUse"))
    feed(transcript, starts("1", "own", {"n": 1}), starts("2", "own", {"n": 2}))

    feed(transcript, ends("2", "own", "second"))

    assert transcript.take(W) == ""
    live = transcript.live(W, 20)
    assert [line[2:] for line in live.split("\n")] == ["own(n=1)", "own(n=2)", "second"]
    feed(transcript, ends("1", "own", "first"))
    assert transcript.take(W) == "✓ own(n=1)\n  first\n\n✓ own(n=2)\n  second\n"


def test_many_calls_share_the_live_part(transcript: Transcript) -> None:
    for n in range(50):
        feed(transcript, starts(str(n), "own", {"n": n}))
    feed(transcript, ends("3", "own", "x"))

    rows = transcript.live(W, 5).split("\n")

    assert [row[2:] for row in rows] == ["own(n=0)", "own(n=1)", "own(n=2)", "own(n=4)", "46 more"]


def test_a_call_grows_from_its_beginning_to_its_result(transcript: Transcript) -> None:
    feed(
        transcript,
        BEGIN,
        MessageUpdate(ToolCallStart(0, tool_call_id="1", tool_name="write")),
        MessageUpdate(ToolCallDelta(0, '{"path": "a"')),
    )

    assert transcript.live(W, 5).endswith("write · 12 characters")
    call = ToolCall("1", "write", {"path": "a"})
    feed(transcript, MessageUpdate(ToolCallEnd(0, call)), reply(call, stop_reason="toolUse"))
    assert transcript.live(W, 5) == "· write a"
    feed(transcript, starts("1", "write", {"path": "a"}), ends("1", "write", "Wrote."))
    feed(transcript, MessageEnd(ToolResultMessage("1", "write", [TextContent("Wrote.")])))
    assert transcript.take(W) == "✓ write a\n  Wrote.\n"


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_calls_of_a_reply_that_failed_are_not_run_and_hold_nothing_up(
    transcript: Transcript, stop_reason: Any
) -> None:
    call = ToolCall("1", "own", {})
    feed(
        transcript,
        BEGIN,
        MessageUpdate(ToolCallStart(0, tool_call_id="1", tool_name="own")),
        MessageUpdate(ToolCallEnd(0, call)),
        MessageUpdate(ToolCallStart(1, tool_call_id="2", tool_name="half")),
        reply(call, stop_reason=stop_reason, error_message="gone"),
    )

    taken = transcript.take(W)

    assert taken.startswith("· own · no result\n· half · no result\n")
    assert "gone" in taken


@pytest.mark.parametrize("place", [0, 1])
def test_a_call_that_was_cut_while_it_was_written_is_shown_once(
    transcript: Transcript, place: int
) -> None:
    feed(
        transcript,
        BEGIN,
        MessageUpdate(ToolCallStart(place, tool_call_id="1", tool_name="find")),
        MessageUpdate(ToolCallDelta(place, '{"pattern": "')),
        reply(ToolCall("1", "find", {"pattern": ""}), stop_reason="aborted"),
    )

    assert transcript.take(W) == "· find(pattern='') · no result\n\ninterrupted\n"


def test_of_two_calls_that_were_cut_each_is_shown_once(transcript: Transcript) -> None:
    first, second = ToolCall("1", "find", {"pattern": "a"}), ToolCall("2", "find", {})
    feed(
        transcript,
        BEGIN,
        MessageUpdate(ToolCallStart(0)),
        MessageUpdate(ToolCallEnd(0, first)),
        MessageUpdate(ToolCallStart(1, tool_name="find")),
        reply(first, second, stop_reason="aborted"),
    )

    assert transcript.take(W) == "· find a · no result\n· find · no result\n\ninterrupted\n"


async def test_a_real_run_that_is_stopped_while_a_call_streams_shows_it_once(
    transcript: Transcript,
) -> None:
    reply = Reply("Look.", calls=[Call("find", {"pattern": "a" * 40})], chunk_size=1, delay=0.001)
    model = ScriptedModel([reply])
    agent = Agent(model.model, stream_fn=model.stream_fn)

    def listen(event: AgentEvent) -> None:
        transcript.feed(event)
        if isinstance(event, MessageUpdate) and isinstance(
            event.assistant_message_event, ToolCallDelta
        ):
            agent.abort()

    agent.subscribe(listen)
    result = await agent.prompt("Go.")

    live = transcript.take(W)
    assert live.count("· find") == 1
    assert live == transcript.replay(result.messages, W)


def test_two_calls_with_the_same_id_hold_nothing_up(transcript: Transcript) -> None:
    first, second = ToolCall("1", "a", {}), ToolCall("1", "b", {})
    feed(
        transcript,
        BEGIN,
        MessageUpdate(ToolCallStart(0)),
        MessageUpdate(ToolCallEnd(0, first)),
        MessageUpdate(ToolCallStart(1)),
        MessageUpdate(ToolCallEnd(1, second)),
        reply(first, second, stop_reason="toolUse"),
        starts("1", "a"),
        ends("1", "a", "x"),
        text("after"),
        reply(TextContent("after")),
    )

    assert transcript.take(W) == "✓ a\n  x\n\n· b · no result\n\nafter\n"


def test_a_tool_that_ends_without_having_begun_is_shown(transcript: Transcript) -> None:
    feed(transcript, ends("9", "own", "x"))
    feed(transcript, MessageEnd(ToolResultMessage("8", "other", [TextContent("y")], is_error=True)))

    assert transcript.take(W) == "✓ own\n  x\n\n✗ other · failed\n  y\n"


def test_a_tool_that_runs_when_the_run_ends_was_interrupted(transcript: Transcript) -> None:
    feed(transcript, starts("1", "bash", {"command": "sleep 9"}), AgentEnd([]))

    assert transcript.take(W) == "· bash sleep 9 · interrupted\n"


def test_the_last_result_can_be_seen_whole(transcript: Transcript) -> None:
    assert transcript.expand_last(W) == ""

    feed(transcript, starts("1", "own"), ends("1", "own", "\n".join("abcdefghi")))

    assert transcript.take(W).endswith("  … 4 more lines\n")
    assert transcript.expand_last(W) == "✓ own\n" + "".join([f"  {c}\n" for c in "abcdefghi"])


# -- everything else ---------------------------------------------------------------------------


def test_what_the_user_says_is_marked(transcript: Transcript) -> None:
    image = ImageContent("AAAA", "image/png")

    feed(transcript, MessageEnd(UserMessage("Do\nthis.")))
    feed(transcript, MessageEnd(UserMessage([TextContent("And that."), image])))

    assert transcript.take(W) == "› Do\n  this.\n\n› And that.\n  [image png]\n"


def test_a_prompt_with_a_whole_file_in_it_is_folded(transcript: Transcript) -> None:
    feed(transcript, MessageEnd(UserMessage("x\n" * 1_000)))

    assert transcript.take(W).endswith("  … 970 more lines\n")


def test_another_attempt_is_said(transcript: Transcript) -> None:
    feed(transcript, Retry(2, 5, 1.5, "overloaded"))

    assert transcript.take(80) == (
        "attempt 2 of 5 in 1.5 s, since the last one failed: overloaded\n"
    )


def test_a_note_does_not_wait_for_a_running_tool(transcript: Transcript) -> None:
    feed(transcript, starts("1", "bash", {"command": "sleep 9"}))

    transcript.note("here is help")
    transcript.error("no such command", "try /help")

    assert transcript.take(W) == "here is help\n\nerror: no such command\nhint: try /help\n"
    assert "bash sleep 9" in transcript.live(W, 5)


def test_a_note_waits_until_a_paragraph_is_written(transcript: Transcript) -> None:
    feed(transcript, BEGIN, text("```\na\n"))
    transcript.take(W)

    transcript.note("noted")

    assert transcript.take(W) == ""
    feed(transcript, text("b\n```\n"), reply(TextContent("")))
    assert transcript.take(W) == "  a\n  b\n\nnoted\n"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (RunResult([], "toolUse", "max_turns"), "the run was stopped: it reached its limit of turns\n"),
        (RunResult([], "aborted", "abort"), "interrupted\n"),
        (RunResult([], "aborted", "timeout"), "the run was stopped: its time was up\n"),
        (RunResult([], "error", "error", "bad\nhint: mend it"), "error: bad\nhint: mend it\n"),
        (RunResult([], "stop"), "the model answered without text\n"),
        (RunResult([], "toolUse", "approval"), "the run waits for an approval\n"),
    ],
)  # fmt: skip
def test_how_a_run_ended_is_said_once(transcript: Transcript, result: Any, said: str) -> None:
    feed(transcript, AgentStart(), AgentEnd([]))

    transcript.ended(result)
    transcript.ended(result)

    assert transcript.take(W) == said


def test_an_end_that_the_reply_told_is_not_told_again(transcript: Transcript) -> None:
    feed(transcript, AgentStart(), BEGIN, reply(stop_reason="error", error_message="bad"))

    transcript.ended(RunResult([], "error", "error", "bad"))

    assert transcript.take(W) == "error: bad\n"


def test_the_theme_can_be_changed_in_between(transcript: Transcript) -> None:
    feed(transcript, BEGIN, text("# one\n# two\n"))
    assert transcript.take(W) == "one\n\ntwo\n"

    transcript.theme = theme_named("light", {"TERM": "linux"})

    feed(transcript, text("# three\n"))
    assert "\x1b[1mthree" in transcript.take(W)


async def test_a_real_run_looks_the_same_live_and_stored(transcript: Transcript) -> None:
    @tool
    async def shout(word: str) -> str:
        """Say it loudly."""
        await asyncio.sleep(0)
        return word.upper()

    model = ScriptedModel(
        [
            Reply("I **shout**.\n", thinking="Hm.", calls=[Call("shout", {"word": "a"}), Call("nope")], chunk_size=2),
            Reply("- done\n- and done", chunk_size=3),
        ]
    )  # fmt: skip
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[shout])
    taken: list[str] = []

    def listen(event: AgentEvent) -> None:
        transcript.feed(event)
        transcript.live(W, 10)
        taken.append(transcript.take(W))

    agent.subscribe(listen)
    result = await agent.prompt("Go.")

    live = "".join(taken)
    assert live.replace("thought for a moment", "thought, 1 word") == transcript.replay(
        result.messages, W
    )
    assert "✓ shout(word='a')\n  A\n" in live
    assert live.endswith("• done\n• and done\n")


def test_taking_at_any_time_gives_the_same_rows(clock: Clock) -> None:
    answer = "# T\n\npara " + "word " * 600 + "\n\n```py\n" + "x = 1\n" * 70 + "```\n- a\n- b\n"

    def rows(take_every: Callable[[int], bool]) -> str:
        transcript = Transcript(PLAIN, clock=clock)
        transcript.feed(BEGIN)
        taken = ""
        for at in range(0, len(answer), 7):
            transcript.feed(text(answer[at : at + 7]))
            if take_every(at):
                taken += transcript.take(W)
                transcript.live(W, 18)
        transcript.feed(reply(TextContent(answer)))
        return taken + transcript.take(W)

    assert rows(lambda _: True) == rows(lambda _: False) == rows(lambda at: at % 5 == 0)


def test_nothing_heavy_is_loaded_before_something_is_drawn() -> None:
    heavy = ("rich", "pygments", "markdown_it", "pydantic", "prompt_toolkit", "httpx2", "sqlite3")
    script = (
        "import sys, loopwright.cli.interactive.transcript as t\n"
        "from loopwright.cli.interactive.theme import theme_named\n"
        "t.Transcript(theme_named('dark', {})).take(80)\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
