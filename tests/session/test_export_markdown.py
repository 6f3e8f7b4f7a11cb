"""A session as Markdown: readable, and nothing that was said changes what follows it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from loopwright.messages import (
    AssistantMessage,
    Cost,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    MessageEntry,
)
from loopwright.session.export.harmless import harmless
from loopwright.session.export.markdown import to_markdown
from loopwright.session.formats.pi_messages import BashExecution, ExtensionMessage
from loopwright.session.rows import SessionInfo

TIME = 1_762_075_800_000  # 2025-11-02 09:30:00 UTC
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
INFO = SessionInfo(id="s-1", created_at=TIME, cwd="/srv/me/work", name="Mend the tests")


class Weather(CustomMessage, tag="weatherForExport"):
    degrees: int


def chain(*messages: Any) -> list[Entry]:
    return [
        MessageEntry(id=f"e{n}", parent_id=f"e{n - 1}" if n else None, message=m, timestamp=TIME)
        for n, m in enumerate(messages)
    ]


def reply(*content: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(
        list(content), provider="anthropic", model="claude", timestamp=TIME, **more
    )


def user(text: str) -> UserMessage:
    return UserMessage(text, timestamp=TIME)


def tokens(document: str) -> list[Any]:
    return MarkdownIt("commonmark").parse(document)


def headings(document: str) -> list[str]:
    """The headings that stand at the top of the document, as it reads."""
    found = tokens(document)
    return [
        found[i + 1].content
        for i, token in enumerate(found)
        if token.type == "heading_open" and token.level == 0
    ]


def fences(document: str) -> list[str]:
    return [token.content for token in tokens(document) if token.type == "fence"]


def test_a_document_reads_from_the_title_to_what_was_spent() -> None:
    spent = Usage(input=1200, output=34, total_tokens=1234, cost=Cost(total=0.5))
    entries = chain(
        user("Why do they fail?"),
        reply(
            ThinkingContent("Look first."),
            TextContent("I will *look*."),
            ToolCall("c", "read_file", {"path": "a.py"}),
            stop_reason="toolUse",
            usage=spent,
        ),
        ToolResultMessage("c", "read_file", [TextContent("import os\n")], timestamp=TIME),
        reply(TextContent("A missing import.")),
    )

    document = to_markdown(INFO, entries)

    assert headings(document) == [
        "Mend the tests",
        "User (2025\\-11\\-02 09:30:00 UTC)".replace("\\", ""),
        "Assistant (2025-11-02 09:30:00 UTC)",
        "`read_file`",
    ]
    assert "- Folder: `/srv/me/work`" in document
    assert "- Model: `anthropic/claude`" in document
    assert "> Why do they fail?" in document
    assert "> Look first." in document
    assert "\nI will *look*.\n" in document
    assert '```json\n{\n  "path": "a.py"\n}\n```' in document
    assert "```\nimport os\n```" in document
    assert "1,200 in, 34 out" in document
    assert "- Tokens: 1,200 in, 34 out; \\$0.5000\n" in document


def test_the_turns_of_one_answer_stand_below_one_heading() -> None:
    def turn(n: int) -> list[Any]:
        called = ToolCall(f"c{n}", "ls", {})
        return [
            reply(TextContent(f"Turn {n}."), called, stop_reason="toolUse"),
            ToolResultMessage(f"c{n}", "ls", [TextContent("x")], timestamp=TIME),
        ]

    entries = chain(user("a"), *turn(1), *turn(2), reply(TextContent("Done.")), user("b"), *turn(3))

    plain = to_markdown(INFO, entries)
    labelled = to_markdown(INFO, entries, labels={"e3": "here"})

    kinds = [heading.split(" ")[0] for heading in headings(plain)[1:]]
    assert kinds == ["User", "Assistant", "`ls`", "`ls`", "User", "Assistant", "`ls`"]
    assert plain.index("Turn 1.") < plain.index("Turn 2.") < plain.index("Done.")
    assert plain.count("*anthropic/claude*") == 4, "each turn tells its model"
    assert "## Assistant (2025-11-02 09:30:00 UTC) — here\n" in labelled


def test_what_cannot_be_markdown_is_not_escaped() -> None:
    stopped = reply(stop_reason="aborted", error_message="Operation aborted: Enough. It ends:")
    address = reply(stop_reason="error", error_message="see http://a.example: gone")

    document = to_markdown(INFO, chain(stopped, address))

    assert "**This reply was aborted: Enough. It ends:.**" in document
    assert r"http\://a\.example: gone" in document


def test_a_file_is_fenced_with_its_language() -> None:
    calls = [
        ToolCall("w", "write", {"path": "src/a.py", "content": "x = 1\n"}),
        ToolCall("r", "read", {"path": "b.TOML"}),
        ToolCall("n", "read", {"path": "Makefile"}),
        ToolCall("f", "read", {"path": "gone.py"}),
    ]
    results = [
        ToolResultMessage("w", "write", [TextContent("Written.")], timestamp=TIME),
        ToolResultMessage("r", "read", [TextContent("y = 2")], timestamp=TIME),
        ToolResultMessage("n", "read", [TextContent("all:")], timestamp=TIME),
        ToolResultMessage("f", "read", [TextContent("No.")], is_error=True, timestamp=TIME),
    ]

    document = to_markdown(INFO, chain(reply(*calls), *results))

    assert "```python\nx = 1\n```" in document
    assert "```toml\ny = 2\n```" in document
    assert "\n```\nall:\n```" in document
    assert "\n```\nNo.\n```" in document


def test_a_command_of_the_users_says_how_it_ended() -> None:
    document = to_markdown(
        INFO,
        chain(
            BashExecution(command="make", output="x", exit_code=2, truncated=True, timestamp=TIME),
            BashExecution(command="sleep 9", output="", cancelled=True, timestamp=TIME),
        ),
    )

    assert "`make` (exit code 2, output cut)\n" in document
    assert "`sleep 9` (stopped)\n" in document


def test_tools_and_thinking_can_be_left_out() -> None:
    entries = chain(
        reply(ThinkingContent("Hm."), TextContent("Yes."), ToolCall("c", "f", {})),
        ToolResultMessage("c", "f", [TextContent("result")], timestamp=TIME),
        BashExecution(command="ls", output="x", timestamp=TIME),
    )

    document = to_markdown(INFO, entries, tools=False, thinking=False)

    assert "Yes." in document
    for gone in ("Hm.", "result", "Tool call", "ls", "Result"):
        assert gone not in document


@pytest.mark.parametrize(
    ("stop", "error", "words"),
    [
        ("error", "overloaded", "This reply failed: overloaded."),
        ("aborted", None, "This reply was aborted."),
        ("length", None, "This reply was cut by the output limit."),
    ],
)
def test_replies_that_did_not_end_well_are_marked(stop: Any, error: str | None, words: str) -> None:
    document = to_markdown(INFO, chain(reply(stop_reason=stop, error_message=error)))

    assert words in document.replace("\\", "")


def test_summaries_are_marked_and_data_of_programs_is_left_out() -> None:
    entries: list[Entry] = [
        CompactionEntry(id="a", parent_id=None, summary="So far.", first_kept_id="x"),
        BranchSummaryEntry(id="b", parent_id="a", from_id="z", summary="Elsewhere."),
        CustomEntry(id="c", parent_id="b", custom_type="todo", data={"secret": 1}),
    ]

    document = to_markdown(INFO, entries, labels={"a": "a *label*"})

    assert headings(document)[1] == r"Compaction — a \*label\*"
    assert headings(document)[2] == "Summary of a branch"
    assert "> So far." in document
    assert "secret" not in document


def test_calls_that_could_not_be_read_and_failed_results_are_marked() -> None:
    broken = ToolCall("c", "f", {}, raw_arguments='{"a": ', arguments_error="not JSON")
    failed = ToolResultMessage("c", "f", [TextContent("no")], is_error=True, timestamp=TIME)
    empty = ToolResultMessage("d", "g", [], timestamp=TIME)

    document = to_markdown(INFO, chain(reply(broken), failed, empty))

    assert "not JSON" in document
    assert '{"a": \n' in fences(document)
    assert headings(document)[-2:] == ["`f` (failed)", "`g`"]


def test_images_are_a_note_or_data_and_only_if_they_are_images() -> None:
    good = ImageContent(PIXEL, "image/png")
    bad = [
        ImageContent("PHN2Zz4=", "image/svg+xml"),
        ImageContent("%%%", "image/png"),
        ImageContent(PIXEL, "image/png)![x](http://evil"),
    ]

    noted = to_markdown(INFO, chain(UserMessage([good, *bad], timestamp=TIME)))
    shown = to_markdown(INFO, chain(UserMessage([good, *bad], timestamp=TIME)), images=True)

    assert "70 bytes" in noted
    assert PIXEL not in noted
    assert f"![image](data:image/png;base64,{PIXEL})" in shown
    assert noted.count("cannot be shown") == shown.count("cannot be shown") == 3
    sources = [
        child.attrGet("src")
        for token in tokens(shown)
        for child in token.children or ()
        if child.type == "image"
    ]
    assert sources == [f"data:image/png;base64,{PIXEL}"]


def test_messages_of_others_are_shown() -> None:
    document = to_markdown(
        INFO,
        chain(
            BashExecution(command="echo `x`", output="```\nx\n```", exit_code=1, timestamp=TIME),
            ExtensionMessage(custom_type="ci", content="Red.", timestamp=TIME),
            Weather(degrees=3, timestamp=TIME),
        ),
    )

    assert "`` echo `x` `` (exit code 1)" in document
    assert fences(document)[0] == "```\nx\n```\n"
    assert "## ci" in document
    assert '"degrees": 3' in document


HOSTILE = [
    "```\nnever closed",
    "~~~~\nnever closed",
    "````\n```\n````\n```",
    "    ```\n```",
    "> ```\n> open",
    "- item\n\n  ```\n  open",
    "# Own heading",
    "Own heading\n===========",
    "text\n---",
    "<!-- never closed",
    "<script>",
    "<details><summary>x",
    "hello <details> inline",
    "<![CDATA[ x",
    "<?php",
    "[a]: http://evil.example\n\nmore",
    "1. list",
    "- list",
    "a\rb\r# c\r\n# d",
    "\t```\n",
    "text  ",
    "\\",
    "|a|b|\n|-|-|",
    "`",
    "```js\ncode\n```",
    "\u2028# no heading",
    "\x00```",
    "***",
    "*a **b",
    "\t<![CDATA[\n``` ",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_was_said_changes_what_follows(text: str) -> None:
    entries = chain(
        user(text),
        reply(TextContent(text), ThinkingContent(text), ToolCall("c", text, {text: text})),
        ToolResultMessage("c", text, [TextContent(text)], timestamp=TIME),
        user("The end"),
    )
    document = to_markdown(INFO, entries, labels={"e0": text})

    found = headings(document)

    assert len(found) == 5, document
    assert [re.split("[ (]", name)[0] for name in found[1:]] == [
        "User",
        "Assistant",
        re.split("[ (]", found[3])[0],
        "User",
    ]
    assert found[3].startswith("`")
    assert tokens(document)[-1].type == "blockquote_close"
    assert document.endswith("\n\n> The end\n")
    assert not any(token.type == "html_block" for token in tokens(document))
    assert "The end" in document
    assert any(harmless(text).strip("\n") in fence for fence in fences(document))


@given(st.text(alphabet="`~# >-\n<!a1.*[]:\\\t|=", max_size=60))
def test_no_text_changes_what_follows(text: str) -> None:
    entries = chain(user(text), reply(TextContent(text)), user("The end"))
    shown = [name for name, kept in (("User", text), ("Assistant", text.strip())) if kept]
    if not text:
        shown = []

    found = headings(to_markdown(INFO, entries))

    if text.strip():
        assert [name.split(" ")[0] for name in found[1:]] == [*shown, "User"]
    assert found[-1].startswith("User")


@given(st.text(max_size=80))
def test_what_a_tool_printed_stands_in_its_fence_unchanged(text: str) -> None:
    clean = harmless(text)
    result = ToolResultMessage("c", "f", [TextContent(clean)], timestamp=TIME)

    document = to_markdown(INFO, chain(result))

    if clean:
        (fence,) = fences(document)
        assert fence.removesuffix("\n") == clean.removesuffix("\n")


def test_names_from_files_cannot_be_markdown() -> None:
    info = SessionInfo(
        id="`x`", created_at=10**18, cwd="/a`b`\n# c", name="# [x](http://evil)\n\n# y <b>"
    )
    entry = MessageEntry(
        id="e",
        parent_id=None,
        message=AssistantMessage([TextContent("hi")], model="m`\n\n# z", timestamp=-(10**18)),
    )

    document = to_markdown(info, [entry])

    assert len(headings(document)) == 2
    assert not any(
        child.type in ("link_open", "html_inline")
        for token in tokens(document)
        for child in token.children or ()
    )


def test_an_unknown_cost_is_said_to_be_unknown() -> None:
    said = reply(TextContent("a"), usage=Usage(input=1, output=1, total_tokens=2))

    assert "cost unknown" in to_markdown(INFO, chain(said))
    assert "no tokens counted" in to_markdown(INFO, chain(user("a")))


def test_very_long_replies_are_fenced_unseen() -> None:
    document = to_markdown(INFO, chain(reply(TextContent("[" * 200_000))))

    assert fences(document) == ["[" * 200_000 + "\n"]


@pytest.mark.parametrize(
    "text",
    [
        "![](http://host/?q=secret)", "![a](https://host/x.png)", "![a](//host/x.png)", "![a][r]\n\n[r]: http://h/x",
        "[a](javascript:alert)", "[a](file:///etc/passwd)", "[a](vscode://x)", "[a](JaVaScRiPt:alert)",
        "# Title\n\n![](http://host/x)", "- ![](http://host/x)", "> [a](data:text/html,x)", "<javascript:x>",
        "![](data:image/svg+xml,x)", "[![a](http://h/x)](http://h)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [TextContent, ThinkingContent])
def test_case_168_no_picture_is_fetched_and_no_odd_link_is_offered(text: str, place: Any) -> None:
    made = to_markdown(INFO, chain(user("Hi"), reply(place(text))))

    parser = MarkdownIt("commonmark", {"html": True})
    parser.validateLink = lambda url: True
    for token in parser.parse(made):
        for child in token.children or ():
            assert child.type not in ("image", "link_open")
    assert "Shown as text" in made


@pytest.mark.parametrize(
    "text", ["[a](https://x.dev)", "[b](mailto:a@x.dev)", "[c](docs/a.md)", "a: b"]
)
def test_case_168_ordinary_links_stay(text: str) -> None:
    assert text in to_markdown(INFO, chain(user("Hi"), reply(TextContent(text))))
