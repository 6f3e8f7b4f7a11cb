"""Calls in documents for people: an edit is a diff, a command has its output, and size costs little."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import Agent
from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.session.entries import Entry, MessageEntry
from loopwright.session.export.calls import ShownCall, shown_call
from loopwright.session.export.edits import Replacement, diff_of_texts
from loopwright.session.export.harmless import harmless
from loopwright.session.export.html import to_html
from loopwright.session.export.markdown import to_markdown
from loopwright.session.rows import SessionInfo
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, coding_tools
from loopwright.tools.task import AgentSpec, task_tool

from .test_export_html import PIXEL, Page

TIME = 1_762_075_800_000
INFO = SessionInfo(id="s-1", created_at=TIME, name="Work")


def entry(id: str, parent: str | None, message: Any, timestamp: int = TIME) -> MessageEntry:
    return MessageEntry(id=id, parent_id=parent, message=message, timestamp=timestamp)


def chain(*messages: Any) -> list[Entry]:
    return [entry(f"e{n}", f"e{n - 1}" if n else None, m) for n, m in enumerate(messages)]


def asked(*calls: ToolCall) -> AssistantMessage:
    return AssistantMessage(list(calls), provider="p", model="m", timestamp=TIME)


def answer(id: str, name: str, text: str, details: Any = None, **more: Any) -> ToolResultMessage:
    return ToolResultMessage(id, name, [TextContent(text)], details, timestamp=TIME, **more)


def shown(
    name: str, arguments: dict[str, Any], text: str, details: Any = None, **more: Any
) -> ShownCall:
    return shown_call(ToolCall("c", name, arguments), answer("c", name, text, details, **more))


def parts_of(call: ShownCall) -> list[tuple[str, str]]:
    return [(part.kind, part.text) for part in call.parts]


# -- what real tools do ----------------------------------------------------------------------


async def test_the_work_of_real_tools_is_shown_as_what_it_was(tmp_path: Path) -> None:
    child = ScriptedModel([Reply("", calls=[Call("ls", {})]), Reply("There is **one** file.")])
    wrong = {"path": "a.py", "oldText": "nowhere", "newText": "x"}
    model = ScriptedModel(
        [
            Reply("", calls=[Call("write", {"path": "a.py", "content": "one\ntwo\nthree\n"})]),
            Reply("", calls=[Call("edit", {"path": "a.py", "oldText": "two", "newText": "2<b>"})]),
            Reply("", calls=[Call("edit", wrong), Call("read", {"path": "a.py", "offset": 2})]),
            Reply("", calls=[Call("bash", {"command": "echo said; exit 3", "timeout": 50})]),
            Reply("", calls=[Call("task", {"description": "Count", "prompt": "How many?"})]),
            Reply("Done."),
        ]
    )
    tools = coding_tools(LocalWorkspace(str(tmp_path)))
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=tools)
    spec = AgentSpec(model=child.model, stream_fn=child.stream_fn, tools=tools)
    agent.state.tools = [*tools, task_tool({"explore": spec}, parent=agent)]

    result = await agent.prompt("Work")
    entries = chain(*result.messages)
    page = to_html(INFO, entries)
    document = to_markdown(INFO, entries)

    read = Page(page)
    assert "write a.py 14 bytes 3 lines a new file" in read.text
    assert "edit a.py +1 -1" in read.text
    assert "<del>-2 two\n</del><ins>+2 2&lt;b&gt;\n</ins> 3 three\n" in page
    assert "edit a.py failed" in read.text
    assert "read a.py:2- 2 lines" in read.text
    assert "bash failed, exit code 3" in read.text
    assert "task explore: Count 2 turns" in read.text
    assert "There is <strong>one</strong> file." in page
    assert "6 turns, 6 tool calls, 2 of them failed" in read.text
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2<b>\n three\n"
    assert f"```diff\n{patch}```" in document, "as `patch` takes it"
    assert "```sh\necho said; exit 3\n```\n\n```\nsaid\n" in document
    assert "*What it answered:*\n\n> There is **one** file." in document
    assert '"oldText"' not in page + document


# -- one call --------------------------------------------------------------------------------


def test_the_diff_of_the_tool_comes_before_its_patch_and_before_the_arguments() -> None:
    arguments = {"path": "a", "edits": [{"oldText": "a\nb", "newText": "a\nc"}]}

    own = shown("edit", arguments, "Made.", {"diff": "-1 b\n+1 c", "patch": "--- a\n+++ b\n"})
    patch = shown(
        "edit", arguments, "Made.", {"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-b\n+c\n+d"}
    )
    neither = shown("edit", arguments, "Made.")

    assert parts_of(own) == [("diff", "-1 b\n+1 c")]
    assert parts_of(patch) == [("diff", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-b\n+c\n+d")]
    assert parts_of(neither) == [("diff", " a\n-b\n+c")]
    assert [call.notes for call in (own, patch, neither)] == [["+1 -1"], ["+2 -1"], ["+1 -1"]]


@pytest.mark.parametrize(
    "said",
    [
        "bash was not run: the user said no. Do not try to get round this.",
        "The call of 'bash' was not approved and not run.",
    ],
)
def test_a_call_that_was_refused_is_declined_and_has_not_failed(said: str) -> None:
    call = ToolCall("c", "bash", {"command": "make"})
    refused = answer("c", "bash", said, is_error=True)
    failed = answer("c", "bash", "No.", {"exitCode": 1}, is_error=True)

    notes = shown_call(call, refused).notes
    one = to_markdown(INFO, chain(asked(call), refused))
    both = to_markdown(INFO, chain(asked(call), refused, asked(call), failed))

    assert notes == ["declined"]
    assert "- Work: 1 turn, 1 tool call, 1 of them declined\n" in one
    assert "- Work: 2 turns, 2 tool calls, 1 of them failed, 1 declined\n" in both


def test_an_edit_that_failed_says_why_before_what_it_wanted() -> None:
    call = shown("edit", {"path": "a", "oldText": "x", "newText": "y"}, "Not found.", is_error=True)

    assert (call.what, call.notes, call.failed) == ("a", ["failed"], True)
    assert parts_of(call) == [("text", "Not found."), ("diff", "-x\n+y")]
    assert [part.open_lines > 0 for part in call.parts] == [True, False]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"path": 3, "edits": "x"},
        {"path": "a", "edits": [{"oldText": 1, "newText": "b"}]},
        {"path": "a", "edits": [None]},
        {"content": ["a"]},
        {"command": None},
        {"pattern": {}},
        {"prompt": 1, "agent": []},
        {"path": [1], "content": "x"},
        {"path": "a", "offset": "3"},
        {"path": 3, "pattern": "x"},
        {"prompt": "x", "agent": 1},
        {"command": "x", "timeout": "long"},
    ],
)
@pytest.mark.parametrize("name", ["edit", "write", "bash", "read", "grep", "find", "ls", "task"])
@pytest.mark.parametrize("details", [None, [], "x", {"subagent": 1, "diff": 1, "seconds": "x"}])
def test_arguments_of_another_shape_are_shown_as_they_are(
    name: str, arguments: dict[str, Any], details: Any
) -> None:
    call = shown(name, arguments, "said\nmore", details)

    said = "".join(part.text for part in call.parts)
    assert "said\nmore" in said
    for key, value in arguments.items():
        assert f'"{key}"' in said or (isinstance(value, str) and value in said + call.what)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(alphabet="ab\n-+`<>\u202e", max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "path",
        "content",
        "command",
        "edits",
        "oldText",
        "newText",
        "offset",
        "limit",
        "timeout",
        "pattern",
        "prompt",
        "agent",
        "diff",
        "patch",
        "seconds",
        "exitCode",
        "bytes",
        "created",
        "startLine",
        "endLine",
        "subagent",
        "turns",
        "model",
        "transcript",
        "inexact",
    ]
)


@given(
    st.sampled_from(["edit", "write", "bash", "read", "grep", "find", "ls", "task", "other"]),
    st.dictionaries(KEYS, JSON),
    st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON)),
    st.booleans(),
)
def test_no_arguments_and_no_details_are_too_odd_to_be_shown(
    name: str, arguments: dict[str, Any], details: dict[str, Any], failed: bool
) -> None:
    result = answer("c", name, "said\nmore", details, is_error=failed)
    entries = chain(asked(ToolCall("c", name, arguments)), result)

    page = Page(to_html(INFO, entries))

    assert page.open == []
    assert "said\nmore" in page.text
    assert "said\nmore" in to_markdown(INFO, entries)


def test_arguments_that_have_no_place_of_their_own_are_not_lost() -> None:
    read = shown("read", {"path": "a", "offset": 3, "limit": 2, "mode": "b"}, "x")
    bash = shown("bash", {"command": "ls", "timeout": 5, "cwd": "/srv"}, "x", {"seconds": 75.2})

    assert read.what == "a:3-4"
    assert parts_of(read)[0] == ("json", '{\n  "mode": "b"\n}')
    assert bash.notes == ["timeout 5 s", "1 min 15 s"]
    assert [part.kind for part in bash.parts] == ["command", "json", "text"]


def test_a_call_in_the_words_of_another_tool_is_shown_like_one_in_ours() -> None:
    edits = [{"old_string": "x", "new_string": "y"}]

    ours = shown("edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}, "done")
    edit = shown("edit", {"file_path": "a", "edits": edits}, "done")
    read = shown("read", {"filename": "a", "start_line": 3, "max_lines": 2}, "x")

    assert (edit.what, parts_of(edit)) == (ours.what, parts_of(ours))
    assert parts_of(edit)[0] == ("diff", "-x\n+y")
    assert read.what == "a:3-4"
    assert edits == [{"old_string": "x", "new_string": "y"}]


def test_what_a_changing_tool_says_in_more_than_one_line_is_shown() -> None:
    arguments = {"path": "a", "content": "x"}

    plain = shown("write", arguments, "Wrote 1 byte.", {"bytes": 1, "created": False})
    more = shown("write", arguments, "Wrote 1 byte.\nA hook says: reformatted.", {"bytes": 1})

    assert (plain.notes, len(plain.parts)) == (["1 byte", "1 line", "overwritten"], 1)
    assert parts_of(more)[1] == ("text", "Wrote 1 byte.\nA hook says: reformatted.")


def test_the_diff_that_an_unknown_tool_reports_is_shown_beside_its_arguments() -> None:
    call = shown("patch_file", {"file": "a"}, "ok", {"diff": "-a\n+b"})

    assert [part.kind for part in call.parts] == ["diff", "json", "text"]


def test_a_diff_of_texts_shows_what_stayed_and_gives_up_comparing_what_is_long() -> None:
    both = [Replacement("a\nb\nc\n", "a\nB\nc\n"), Replacement("", "new")]
    long = Replacement("\n".join("ab" * 400), "\n".join("ba" * 400))

    assert diff_of_texts(both) == " a\n-b\n+B\n c\n ...\n+new"
    assert "".join(line[0] for line in diff_of_texts([long]).split("\n")) == "-" * 800 + "+" * 800


# -- which call a result belongs to ----------------------------------------------------------


def test_a_call_whose_result_stands_on_another_branch_is_found_and_shown_on_both() -> None:
    first, second = (
        ToolCall("c", "bash", {"command": "one"}),
        ToolCall("c", "bash", {"command": "two"}),
    )
    entries: list[Entry] = [
        entry("u", None, UserMessage("go", timestamp=TIME)),
        entry("a", "u", asked(first)),
        entry("r", "a", answer("c", "bash", "first answer")),
        entry("b", "r", asked(second)),
        entry("x", "a", answer("c", "bash", "other answer")),
        entry("s", "b", answer("c", "bash", "second answer")),
    ]

    text = Page(to_html(INFO, entries, leaf_id="s")).text

    order = ["one", "first answer", "two", "second answer", "Another branch", "one", "other answer"]
    at = 0
    for words in order:
        at = text.index(words, at) + 1
    assert text.count("no result") == 0


def test_a_call_without_a_result_and_a_result_without_a_call_are_shown() -> None:
    entries = chain(
        asked(ToolCall("c", "bash", {"command": "sleep 9"})), answer("other", "mystery", "42")
    )

    page, document = Page(to_html(INFO, entries)), to_markdown(INFO, entries)

    for text in (page.text, document):
        assert "sleep 9" in text
        assert "no result" in text
        assert "mystery" in text
        assert "42" in text


# -- how it looks ----------------------------------------------------------------------------


def folded(page: str) -> list[str]:
    """What the summaries say."""
    return [piece.split("</summary>")[0] for piece in page.split("<summary>")[1:]]


def test_what_is_long_is_folded_and_its_size_told() -> None:
    lines = "".join(f"line {n}\n" for n in range(300))
    long_line = "x" * 10_000
    entries = chain(
        asked(
            ToolCall("a", "bash", {"command": "short"}),
            ToolCall("b", "bash", {"command": "long"}),
            ToolCall("d", "bash", {"command": "one long line"}),
            ToolCall("e", "write", {"path": "f", "content": lines}),
            ToolCall("f", "read", {"path": "f"}),
        ),
        answer("a", "bash", "fine\n"),
        answer("b", "bash", lines),
        answer("d", "bash", long_line),
        answer("e", "write", "Wrote it.", {"bytes": len(lines), "created": True}),
        answer("f", "read", "two\nlines"),
    )

    assert folded(to_html(INFO, entries)) == [
        "Output, 300 lines",
        "Output, 1 line",
        "Content, 300 lines",
        "Content, 2 lines",
    ]


def test_images_stand_open_in_the_page_with_what_is_said_of_them() -> None:
    result = ToolResultMessage(
        "c",
        "read",
        [TextContent("[Image, 1x1]"), ImageContent(PIXEL, "image/png")],
        timestamp=TIME,
    )

    page = to_html(INFO, chain(asked(ToolCall("c", "read", {"path": "a.png"})), result))

    assert folded(page) == []
    assert page.count("<img ") == 1
    assert "[Image, 1x1]" in page


def test_a_turn_tells_its_model_its_tokens_its_cost_and_its_time() -> None:
    usage = Usage.from_dict({"input": 1200, "output": 34, "cost": {"total": 0.5}})
    reply = AssistantMessage(
        [TextContent("Yes.")], provider="p", model="m", usage=usage, timestamp=TIME
    )
    entries: list[Entry] = [entry("a", None, reply, timestamp=TIME + 65_000)]

    page, document = Page(to_html(INFO, entries)), to_markdown(INFO, entries)

    assert "Assistant p/m 1,200 in, 34 out; $0.5000 1 min 5 s" in page.text
    assert "*p/m · 1,200 in, 34 out; \\$0.5000 · 1 min 5 s*" in document


# -- size ------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [to_html, to_markdown])
def test_five_megabytes_of_hostile_output_take_a_moment(write: Any) -> None:
    piece = "</pre><script>\x1b[31m`````\u202e&amp;\r\n"
    output = piece * (5_000_000 // len(piece))
    entries = chain(
        asked(ToolCall("c", "bash", {"command": "cat"}), ToolCall("e", "edit", {"path": "a"})),
        answer("c", "bash", output),
        answer("e", "edit", "Made.", {"diff": output}),
    )

    start = time.perf_counter()
    text = write(INFO, entries)

    assert time.perf_counter() - start < 30
    assert len(text) < 12 * len(output)


@pytest.mark.parametrize("write", [to_html, to_markdown])
def test_the_time_grows_with_the_entries_and_not_faster(write: Any) -> None:
    def seconds(turns: int) -> float:
        messages: list[Any] = []
        for n in range(turns):
            calls = [ToolCall(f"{n}-{k}", "edit", EDIT) for k in range(4)]
            messages += [asked(*calls), *(answer(call.id, "edit", "Made.") for call in calls)]
        entries = chain(*messages)
        start = time.process_time()
        assert len(write(INFO, entries)) > turns * 200
        return time.process_time() - start

    few = min(seconds(200) for _ in range(3))
    many = seconds(2_000)

    assert many < 10 * few * 3 + 0.5


EDIT = {"path": "a.py", "oldText": "\n".join("abcdef"), "newText": "\n".join("abXdef")}


def test_ten_thousand_calls_in_one_reply_find_their_results() -> None:
    calls = [ToolCall(f"c{n}", "bash", {"command": f"run {n}"}) for n in range(10_000)]
    entries = chain(asked(*calls), *(answer(call.id, "bash", "ok") for call in calls))

    start = time.perf_counter()
    page = to_html(INFO, entries)

    assert page.count("run ") == 10_000
    assert "no result" not in page
    assert time.perf_counter() - start < 30


def test_text_is_harmless_and_still_text() -> None:
    assert harmless("a\r\nb\rc\td\ne") == "a\nb\nc\td\ne"
    assert harmless("\x1b[2J\x7f\x9b\x85") == "␛[2J␡\\x9b\\x85"
    assert harmless("x\u202ey\u2066\u2028") == "x\\u202ey\\u2066\\u2028"
    assert harmless("\ud83d\ude00 \ud83d שלום \u200f!") == "😀 � שלום \u200f!"
