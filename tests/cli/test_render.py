"""The pure part: events to text, control characters to symbols, pieces of a prompt to one."""

from __future__ import annotations

import pytest

from loopwright import AgentToolResult, RunResult
from loopwright.cli.render import Answer, Shown, call_text, ending_note, first_line, usage_text
from loopwright.cli.standard_input import with_piped_input
from loopwright.cli.streams import visible
from loopwright.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from loopwright.messages import (
    AssistantMessage,
    Cost,
    ImageContent,
    TextContent,
    ToolCall,
    Usage,
    UserMessage,
)
from loopwright.stream import TextDelta, ThinkingDelta


def shown(*events: AgentEvent) -> Shown:
    answer = Answer()
    every = [answer.of(event) for event in events]
    return Shown("".join(s.answer for s in every), "|".join(s.note for s in every if s.note))


def streamed(*deltas: str) -> list[AgentEvent]:
    message = AssistantMessage([TextContent("".join(deltas))])
    return [
        MessageStart(AssistantMessage([])),
        *[MessageUpdate(TextDelta(0, delta)) for delta in deltas],
        MessageEnd(message),
    ]


def test_each_reply_ends_its_line_and_a_blank_line_stands_between_two() -> None:
    assert shown(*streamed("a", "b"), *streamed("c\n"), *streamed("d")).answer == "ab\n\nc\n\nd\n"


def test_a_reply_without_text_leaves_no_blank_line() -> None:
    silent = AssistantMessage([ToolCall("1", "look", {})])

    told = shown(MessageStart(silent), MessageEnd(silent), *streamed("a"))

    assert told.answer == "a\n"


def test_a_reply_that_came_in_one_piece_is_printed_once() -> None:
    message = AssistantMessage([TextContent("whole")])

    assert shown(MessageStart(message), MessageEnd(message)).answer == "whole\n"


def test_users_words_and_thinking_are_not_part_of_the_answer() -> None:
    user = UserMessage("hi")

    told = shown(MessageStart(user), MessageEnd(user), MessageUpdate(ThinkingDelta(0, "hm")))

    assert told == Shown()


def test_tools_are_told_beside_the_answer() -> None:
    result = AgentToolResult([TextContent("one\ntwo\n")])

    told = shown(
        ToolExecutionStart("1", "read", {"path": "a.txt"}),
        ToolExecutionEnd("1", "read", result, is_error=False),
        ToolExecutionEnd("1", "read", AgentToolResult([]), is_error=True),
    )

    assert told.note == (
        "calls read(path='a.txt')|read answers: 2 lines, one|read failed: (nothing)"
    )


def test_a_long_argument_is_cut() -> None:
    assert len(call_text("write", {"text": "x" * 10_000})) < 150


def test_images_are_counted() -> None:
    assert first_line(AgentToolResult([ImageContent("", "image/png")] * 2)) == "2 images"


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (Usage(known=False), "token counts unknown"),
        (Usage(input=1200, output=5), "1,200 tokens in, 5 out"),
        (Usage(input=1, cache_read=9), "10 tokens in, 9 of them from the cache, 0 out"),
        (Usage(input=1, output=1, cost=Cost(total=0.5)), "1 tokens in, 1 out, $0.5000"),
    ],
)
def test_usage_says_what_is_known_and_no_more(usage: Usage, told: str) -> None:
    assert usage_text(usage) == told


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (RunResult(streamed("x")[-1:], "length"), "output limit"),  # pyright: ignore[reportArgumentType]
        (RunResult([], "toolUse", "max_turns"), "limit of turns"),
        (RunResult([], "aborted", "timeout"), "time was up"),
        (RunResult([AssistantMessage([])], "stop"), "without text"),
    ],
)
def test_an_ending_that_the_answer_does_not_show_is_told(result: RunResult, told: str) -> None:
    assert told in ending_note(result)


def test_an_ordinary_ending_needs_no_words() -> None:
    assert ending_note(RunResult([AssistantMessage([TextContent("x")])], "stop")) == ""


def test_every_control_character_but_tab_and_newline_becomes_visible() -> None:
    controls = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))

    made = visible(controls)

    assert [c for c in made if not c.isprintable()] == ["\t", "\n"]


def test_what_nobody_can_see_becomes_visible() -> None:
    assert visible("rm\u200b \u202ex\ufeff a\u00adb \u3164 \U000e0041") == (
        "rm\\u200b \\u202ex\\ufeff a\\u00adb \\u3164 \\U000e0041"
    )
    assert visible("\u2066\u2069\u2060\uffa0\U000e0100").isascii()


def test_marks_that_people_write_with_stay() -> None:
    for text in (
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\U0001f4bb",
        "\u2764\ufe0f",
        "\u200fx",
    ):
        assert visible(text) == text


def test_lines_of_another_system_stay_lines() -> None:
    assert visible("a\r\nb\tc\n") == "a\nb\tc\n"


@pytest.mark.parametrize(
    ("piped", "prompt", "whole"),
    [
        ("", "hi", "hi"),
        ("data\n", "hi", "data\n\nhi"),
        ("  indented\n\n", "", "  indented"),
        (" \n", "hi", "hi"),
        ("", " ", ""),
    ],
)
def test_what_was_piped_in_and_the_prompt_make_one_text(
    piped: str, prompt: str, whole: str
) -> None:
    assert with_piped_input(prompt, piped) == whole
