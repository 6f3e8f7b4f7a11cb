"""The lines around the input, at every width."""

from __future__ import annotations

import pytest
from prompt_toolkit.utils import get_cwidth

from loopwright.cli.interactive.activity import Activity
from loopwright.cli.interactive.footer import (
    IDLE_KEYS,
    MOST_QUEUE_LINES,
    WORKING_KEYS,
    Footer,
    Fragments,
    cut,
    footer_line,
    hint_line,
    meter_text,
    queue_lines,
    short_number,
    status_line,
)
from loopwright.events import (
    AgentEnd,
    AgentStart,
    MessageUpdate,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from loopwright.messages import AgentToolResult
from loopwright.stream import TextDelta, ThinkingDelta

FULL = Footer(
    folder="~/src/a/rather/deep/folder/project",
    model="some-vendor/some-model-with-a-long-name-2",
    thinking="high",
    mode="auto-edit",
    context_tokens=12_345,
    context_window=200_000,
    taken=1_234_567,
    written=45_678,
    cost=1.23456,
)


def text(line: Fragments) -> str:
    return "".join(piece[1] for piece in line)


@pytest.mark.parametrize("columns", [20, 30, 40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(columns: int) -> None:
    lines = [
        footer_line(FULL, columns),
        status_line("running a_tool_with_a_very_long_name and 12 more", 3_725.0, columns),
        hint_line(IDLE_KEYS, columns),
        hint_line(WORKING_KEYS, columns),
        *[queue_lines([(False, "漢字 and more " * 40)], columns)[:2]],
    ]

    assert all(get_cwidth(text(line)) < columns for line in lines)


def test_a_wide_screen_shows_everything() -> None:
    assert text(footer_line(FULL, 200)) == (
        "~/src/a/rather/deep/folder/project  some-vendor/some-model-with-a-long-name-2:high  "
        "auto-edit  12.3k/200k 6 %  ↑1.23M ↓45.7k  $1.2346"
    )


def test_what_matters_most_stays_on_a_small_one() -> None:
    assert text(footer_line(FULL, 80)) == (
        "project  some-model-with-a-long-name-2:high  auto-edit  12.3k/200k 6 %  $1.2346"
    )
    assert text(footer_line(FULL, 40)) == "some-model-with…  auto-edit  6 %"
    assert text(footer_line(FULL, 46)) == "some-model-with…  auto-edit  12.3k/200k 6 %"


def test_nothing_is_claimed_that_is_not_known() -> None:
    assert text(footer_line(Footer(folder="~", model="toy/one", mode="ask"), 80)) == (
        "~  toy/one  ask  ?"
    )
    assert meter_text(None, 200_000) == "0/200k 0 %"
    assert meter_text(500, None) == "500/?"


def test_a_nearly_full_context_is_marked() -> None:
    calm = footer_line(Footer(context_tokens=100, context_window=1_000), 80)
    full = footer_line(Footer(context_tokens=801, context_window=1_000), 80)

    assert "class:meter.high" not in {piece[0] for piece in calm}
    assert "class:meter.high" in {piece[0] for piece in full}


def test_what_a_terminal_would_obey_is_made_visible() -> None:
    line = text(footer_line(Footer(folder="\x1b[2J/\nx", model="a\x07/b"), 80))

    assert "\x1b" not in line
    assert "\x07" not in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (12_345, "12.3k"),
        (200_000, "200k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_250_000, "1.25M"),
        (3_000_000_000, "3G"),
    ],
)
def test_numbers_take_little_room(number: int, shown: str) -> None:
    assert short_number(number) == shown


def test_of_many_queued_messages_the_rest_is_counted() -> None:
    lines = text(queue_lines([(n % 2 == 1, f"message {n}") for n in range(10)], 80)).splitlines()

    assert len(lines) == MOST_QUEUE_LINES
    assert lines[:2] == ["queued: message 0", "after: message 1"]
    assert lines[-1] == "and 7 more"


def test_wide_characters_are_never_cut_in_half() -> None:
    assert cut("漢字漢字", 5) == "漢字…"
    assert cut("漢字", 4) == "漢字"
    assert cut("abc", 0) == ""


def test_the_activity_follows_the_events() -> None:
    activity = Activity()
    seen = [activity.text(0)]

    def after(event: object, now: float) -> None:
        activity.feed(event, now)  # type: ignore[arg-type]
        seen.append(activity.text(now))

    activity.begin(0.0)
    seen.append(activity.text(0.5))
    after(AgentStart(), 1.0)
    after(MessageUpdate(ThinkingDelta(0, "hm")), 2.0)
    after(Retry(2, 3, 4.0, "busy"), 3.0)
    after(MessageUpdate(TextDelta(0, "so")), 4.0)
    after(ToolExecutionStart("1", "bash", {}), 5.0)
    after(ToolExecutionStart("2", "read", {}), 5.0)
    after(ToolExecutionEnd("1", "bash", AgentToolResult([]), False), 6.0)
    after(ToolExecutionEnd("2", "read", AgentToolResult([]), False), 6.0)
    seconds = activity.seconds(6.5)
    after(AgentEnd([]), 7.0)
    activity.end()

    assert seen == [
        "",
        "starting",
        "waiting for the model",
        "thinking",
        "attempt 2 of 3 in 4 s",
        "writing",
        "running bash",
        "running bash and 1 more",
        "running read",
        "waiting for the model",
        "finishing",
    ]
    assert seconds == 0.5
    assert activity.text(8.0) == ""


def test_the_clock_is_that_of_what_is_done_now_without_what_the_user_thought_about() -> None:
    activity = Activity()
    activity.begin(0.0)
    activity.feed(AgentStart(), 1.0)
    activity.feed(MessageUpdate(TextDelta(0, "so")), 3.0)
    activity.feed(MessageUpdate(TextDelta(0, " it is")), 9.0)

    assert activity.seconds(10.0) == 7.0
    activity.feed(ToolExecutionStart("1", "bash", {}), 10.0)
    activity.feed(ToolExecutionStart("2", "read", {}), 10.0)
    activity.waits_for_word("1", 11.0)
    activity.waits_for_word("2", 20.0)
    assert (activity.text(25.0), activity.seconds(25.0)) == ("waiting for your word", 14.0)
    activity.has_word("1", 30.0)
    activity.has_word("2", 117.0)
    assert (activity.text(119.0), activity.seconds(119.0)) == ("running bash and 1 more", 3.0)
    activity.feed(ToolExecutionEnd("1", "bash", AgentToolResult([]), False), 120.0)
    activity.feed(ToolExecutionEnd("2", "read", AgentToolResult([]), False), 120.0)
    assert activity.seconds(122.0) == 2.0


def test_a_question_of_a_child_holds_up_no_call() -> None:
    activity = Activity()
    activity.begin(0.0)
    activity.feed(ToolExecutionStart("1", "task", {}), 1.0)

    activity.waits_for_word("of a child", 2.0)
    activity.has_word("of a child", 5.0)

    assert activity.seconds(6.0) == 5.0
