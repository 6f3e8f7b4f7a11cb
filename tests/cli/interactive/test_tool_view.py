"""One call of a tool: its words, what is seen while it runs, and what is left of its result."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from loopwright.cli.interactive.paint import Painter, cells
from loopwright.cli.interactive.theme import theme_named
from loopwright.cli.interactive.tool_view import ToolView
from loopwright.cli.interactive.tool_words import call_words
from loopwright.events import ToolExecutionUpdate
from loopwright.messages import AgentToolResult, ImageContent, TextContent, ToolCall

PAINTER = Painter(theme_named("dark", {"NO_COLOR": "1"}))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def result(text: str, details: Any = None) -> AgentToolResult:
    return AgentToolResult([TextContent(text)], details)


def running(name: str, arguments: Any, clock: Clock | None = None) -> ToolView:
    view = ToolView(name, PAINTER, clock or Clock())
    view.begins(name, arguments)
    return view


def update(text: str = "", details: Any = None) -> ToolExecutionUpdate:
    return ToolExecutionUpdate("1", "t", {}, result(text, details))


def ended(
    name: str, arguments: Any, text: str, details: Any = None, *, failed: bool = False
) -> list[str]:
    view = running(name, arguments)
    view.ends(result(text, details), failed=failed)
    return view.take(60)


# -- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read", {"path": "src/app.py", "offset": 10, "limit": 31}, "read src/app.py:10-40"),
        ("read", {"path": "src/app.py", "offset": 10}, "read src/app.py:10-"),
        ("read", {"path": "src/app.py"}, "read src/app.py"),
        ("bash", {"command": "npm test"}, "bash npm test"),
        ("bash", {"command": "cd x\nmake\nmake install"}, "bash cd x … 2 more lines"),
        ("edit", {"path": "src/app.py", "edits": []}, "edit src/app.py"),
        ("grep", {"pattern": "TODO", "path": "src"}, 'grep "TODO" in src'),
        ("grep", {"pattern": "TODO", "glob": "*.py"}, 'grep "TODO" (*.py)'),
        ("find", {"pattern": "*.py", "path": "src"}, "find *.py in src"),
        ("ls", {}, "ls ."),
        ("read", {"file_path": "src/app.py", "start_line": 10}, "read src/app.py:10-"),
        ("task", {"agent": "explore", "description": "find it", "prompt": "..."}, "task explore: find it"),
        ("own", {"key": "value", "n": 1}, "own(key='value', n=1)"),
        ("own", {}, "own"),
        ("read", {"path": 3}, "read(path=3)"),
        ("read", "not JSON", "read(not JSON)"),
        ("bash", {"command": "a\x1b[2J\tb\u202ec"}, "bash a␛[2J b\\u202ec"),
        ("x\x1b]0;y\x07", None, "x␛]0;y␇(None)"),
    ],
)  # fmt: skip
def test_a_call_is_said_in_words(name: str, arguments: Any, words: str) -> None:
    assert "".join(call_words(name, arguments)) == words


# -- while it runs -----------------------------------------------------------------------------


def test_a_running_tool_shows_its_time_and_the_last_lines_of_its_progress() -> None:
    clock = Clock()
    view = running("bash", {"command": "make"}, clock)

    view.progresses(update("".join([f"line {n}\n" for n in range(100)])))
    clock.now = 12.4

    rows = view.live(60, 20)
    assert rows[0].endswith(" bash make · 12 s")
    assert rows[1:] == [f"  line {n}" for n in range(95, 100)]


def test_a_later_report_takes_the_place_of_the_one_before() -> None:
    view = running("own", {})

    view.progresses(update("10 %"))
    view.progresses(update("20 %"))

    assert view.live(60, 20)[1:] == ["  20 %"]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_it_takes_no_more_rows_than_there_are(most: int) -> None:
    view = running("bash", {"command": "make"})
    view.progresses(update("a\nb\nc\nd"))

    assert len(view.live(60, most)) == most


def test_while_the_call_is_written_its_length_is_seen() -> None:
    view = ToolView("write", PAINTER, Clock())

    view.arrives(1_000)
    view.arrives(234)

    assert view.live(60, 5)[0].endswith("write · 1,234 characters")
    view.called(ToolCall("1", "write", {"path": "a.py", "content": "x"}))
    assert view.live(60, 5) == ["· write a.py"]


def test_children_are_shown_with_what_they_do_and_in_the_end_with_what_they_took() -> None:
    view = running("task", {"agent": "explore", "description": "look", "prompt": "x"})

    for event in (
        {"type": "agent_start"},
        {"type": "tool_execution_start", "toolName": "read", "args": {"path": "a.py"}},
    ):
        view.progresses(update(details={"subagent": _envelope("a", 1, None, event)}))
    said = {"type": "text_delta", "delta": "I\x1b[2J see"}
    view.progresses(
        update(
            details={
                "subagent": _envelope(
                    "b", 2, "a", {"type": "message_update", "assistantMessageEvent": said}
                )
            }
        )
    )

    assert view.live(60, 20)[1:] == ["  explore: read a.py", "    explore: says: I␛[2J see"]
    turn = {"type": "turn_end", "message": {"usage": {"input": 1_000, "output": 200}}}
    for event in (turn, turn, {"type": "agent_end", "messages": []}):
        view.progresses(update(details={"subagent": _envelope("a", 1, None, event)}))
    view.ends(result("Found it."), failed=False)
    assert view.take(60) == [
        "✓ task explore: look",
        "  explore: 2 turns, 2,400 tokens",
        "    explore: stopped after 0 turns",
        "  Found it.",
    ]


def _envelope(id: str, depth: int, parent: str | None, event: Any) -> dict[str, Any]:
    return {
        "id": id,
        "agent": "explore",
        "depth": depth,
        "parentId": parent,
        "seq": 0,
        "event": event,
    }


@pytest.mark.parametrize(
    "envelope",
    [
        {"event": 1},
        {"event": {}, "id": 3},
        {"event": {"type": "message_update"}, "id": "x", "depth": "deep", "agent": ["a"]},
        {"event": {"type": "turn_end", "message": {"usage": []}}, "id": "x", "depth": -1},
        {"event": {"type": "message_update", "assistantMessageEvent": {"delta": 1}}, "id": "x"},
        {"event": {}, "id": "x", "parentId": "x", "depth": 10**9, "agent": "\x1b[31m" * 100},
        {"event": {"type": "tool_execution_start", "toolName": None, "args": [1]}, "id": "x"},
    ],
)
def test_an_envelope_of_another_shape_does_no_harm(envelope: Any) -> None:
    view = running("own", {})

    view.progresses(update(details={"subagent": envelope}))

    rows = view.live(40, 10)
    assert all(cells(row) <= 40 and "\x1b" not in row for row in rows)


# -- what came of it ---------------------------------------------------------------------------


def test_a_result_is_folded_to_its_first_lines() -> None:
    rows = ended("grep", {"pattern": "x"}, "\n".join([f"hit {n}" for n in range(125)]))

    assert rows == ['✓ grep "x"', *[f"  hit {n}" for n in range(5)], "  … 120 more lines"]


def test_of_a_command_the_last_lines_are_shown() -> None:
    rows = ended("bash", {"command": "make"}, "\n".join([f"out {n}" for n in range(10)]) + "\n")

    assert rows == ["✓ bash make", "  … 5 earlier lines", *[f"  out {n}" for n in range(5, 10)]]


def test_one_line_is_not_left_out_for_a_line_that_says_so() -> None:
    assert len(ended("own", {}, "\n".join("abcdef"))) == 7


def test_a_failed_command_says_how() -> None:
    rows = ended(
        "bash", {"command": "make"}, "no rule", {"exitCode": 2, "seconds": 3.21}, failed=True
    )

    assert rows == ["✗ bash make · failed, exit code 2 · 3.2 s", "  no rule"]


def test_an_error_is_shown_with_all_of_its_lines() -> None:
    rows = ended("own", {}, "word " * 20, failed=True)

    assert rows[0] == "✗ own · failed"
    assert " ".join([row.strip() for row in rows[1:]]) == ("word " * 20).strip()


def test_a_file_that_was_read_is_counted_and_a_written_one_shown() -> None:
    read = ended("read", {"path": "a"}, "x\ny", {"startLine": 3, "endLine": 40})
    written = ended(
        "write", {"path": "a", "content": "x\n"}, "Wrote.", {"created": True, "bytes": 2}
    )

    assert read == ["✓ read a · 38 lines"]
    assert written == ["✓ write a · new file", "  1 + x"]


def test_an_edit_is_shown_as_its_diff() -> None:
    rows = ended("edit", {"path": "a"}, "Made 1 edit.", {"diff": "-1 a\n+1 b"})

    assert rows == ["✓ edit a · +1 -1", "  1 - a", "  1 + b"]


def test_an_image_is_said_in_words() -> None:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x02\0\0\0"
    view = running("read", {"path": "a.png"})
    images = [
        ImageContent(base64.b64encode(png).decode(), "image/png"),
        ImageContent("!not base64!", "image/\x1b[2Jx"),
    ]

    view.ends(AgentToolResult([*images]), failed=False)

    assert view.take(60)[1:] == ["  [image 640x480 png]", "  [image ␛[2Jx]"]


def test_what_was_running_when_all_ended_was_interrupted() -> None:
    view = running("bash", {"command": "make"})
    never = ToolView("ls", PAINTER, None)

    view.close()
    never.close()

    assert view.take(60) == ["· bash make · interrupted"]
    assert never.take(60) == ["· ls . · no result"]


def test_it_is_given_out_once() -> None:
    view = running("own", {})
    view.ends(result("x"), failed=False)

    assert view.take(60) == ["✓ own", "  x"]
    assert view.take(60) == []
    assert view.done


def test_of_a_very_long_result_the_middle_is_left_out_since_its_end_says_where_there_is_more() -> (
    None
):
    view = running("bash", {"command": "x"})
    view.ends(result("\n".join([f"{n}" for n in range(5_000)]) + "\n[Cut.]"), failed=False)

    rows = view.whole(60)

    assert rows[1] == "  0"
    assert rows[1_000:1_003] == ["  999", "  … 3,001 more lines", "  4001"]
    assert rows[-1] == "  [Cut.]"


def test_of_a_stopped_command_stays_what_it_had_shown() -> None:
    view = running("bash", {"command": "make"})
    view.progresses(update("".join([f"line {n}\n" for n in range(100)])))

    view.ends(result("Operation aborted"), failed=True)

    rows = view.take(60)
    assert rows[:2] == ["✗ bash make · stopped", "  … 89 earlier lines"]
    assert rows[-2:] == ["  line 99", "  Operation aborted"]
    assert len(view.whole(60)) == 102


def test_what_a_command_says_of_its_own_stop_is_said_once() -> None:
    view = running("bash", {"command": "make"})
    view.progresses(update("line\n"))

    view.ends(result("line\n\n[Operation aborted: …]", {"aborted": True}), failed=True)

    assert view.take(60) == ["✗ bash make · stopped", "  line", "", "  [Operation aborted: …]"]


@pytest.mark.parametrize(
    "text",
    [
        "bash was not run: the user said no. Do not try to get round this.",
        "The call of 'bash' was not approved and not run.",
    ],
)
def test_a_call_that_was_refused_has_not_failed(text: str) -> None:
    rows = ended("bash", {"command": "make"}, text, failed=True)

    assert rows[0] == "✗ bash make · not allowed"


def test_the_time_of_a_question_is_not_the_tools() -> None:
    clock = Clock()
    view = running("own", {}, clock)

    clock.now = 2.0
    view.waits("waiting for your word")
    clock.now = 100.0
    waiting = view.live(60, 5)
    view.waits("waiting")
    clock.now = 200.0
    view.goes_on()
    clock.now = 203.0
    view.ends(result("x"), failed=False)

    assert waiting == ["· own · waiting for your word"]
    assert view.take(60)[0] == "✓ own · 5.0 s"


def test_a_huge_result_is_not_taken_apart() -> None:
    """Fifty megabytes in one call: only the lines that are shown are copied."""
    import tracemalloc

    view = running("own", {})
    view.ends(result("x" * 99 + "\n" + ("y" * 99 + "\n") * 500_000), failed=False)

    tracemalloc.start()
    rows = view.take(60)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert rows[-1] == "  … 499,996 more lines"
    assert peak < 10_000_000
