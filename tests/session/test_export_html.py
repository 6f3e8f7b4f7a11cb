"""A session as one HTML page: it holds all it needs, and nothing on it can act."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import SessionDamaged
from loopwright.messages import (
    AssistantMessage,
    Cost,
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
from loopwright.session.export.html import to_html
from loopwright.session.formats.pi_messages import BashExecution, ExtensionMessage
from loopwright.session.rows import SessionInfo

TIME = 1_762_075_800_000
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
INFO = SessionInfo(id="s-1", created_at=TIME, cwd="/srv/me/work", name="Mend the tests")

VOID = {"meta", "img", "br", "hr"}


class Page(HTMLParser):
    """What a browser would see: elements, attributes, and whether all that opens also closes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data

    def named(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(entries: list[Entry], info: SessionInfo = INFO, **options: Any) -> Page:
    page = Page(to_html(info, entries, **options))
    assert page.open == []
    return page


def message(id: str, parent: str | None, said: Any) -> MessageEntry:
    return MessageEntry(id=id, parent_id=parent, message=said, timestamp=TIME)


def chain(*messages: Any) -> list[Entry]:
    return [message(f"e{n}", f"e{n - 1}" if n else None, m) for n, m in enumerate(messages)]


def reply(*content: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(list(content), provider="p", model="m", timestamp=TIME, **more)


def user(text: str) -> UserMessage:
    return UserMessage(text, timestamp=TIME)


def harmless(page: Page) -> None:
    """No script, no handler, no style of its own, and no address but data and links."""
    tags = {tag for tag, _ in page.elements}
    assert tags.isdisjoint(
        {"script", "iframe", "object", "embed", "form", "link", "base", "svg", "video", "audio"}
    )
    assert len(page.named("style")) == 1
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") or name == "srcset" for name in attributes)
        assert set(attributes) <= {
            "lang",
            "charset",
            "http-equiv",
            "content",
            "name",
            "class",
            "id",
            "href",
            "rel",
            "src",
            "alt",
            "start",
            "style",
            "title",
        }
        if "style" in attributes:
            assert re.fullmatch(r"text-align:(left|right|center)", attributes["style"])
        if "src" in attributes:
            assert tag == "img"
            assert re.fullmatch(
                r"data:image/(png|jpeg|gif|webp|bmp);base64,[A-Za-z0-9+/=]*", attributes["src"]
            )
        if "href" in attributes:
            assert tag == "a"
            assert re.match(r"(#[eb]\d+$|https?://|mailto:)", attributes["href"], re.I)


def test_a_page_reads_from_the_title_to_what_was_spent() -> None:
    spent = Usage(input=1200, output=34, total_tokens=1234, cost=Cost(total=0.5))
    entries = chain(
        user("Why?"),
        reply(
            ThinkingContent("Look first."),
            TextContent("I will **look** at [it](https://example.org/a?b=1&c=2)."),
            ToolCall("c", "read_file", {"path": "a.py"}),
            usage=spent,
        ),
        ToolResultMessage("c", "read_file", [TextContent("import os")], timestamp=TIME),
    )

    page = page_of(entries)

    for words in (
        "Mend the tests",
        "2025-11-02 09:30:00 UTC",
        "/srv/me/work",
        "p/m",
        "Why?",
        "Look first.",
        "I will look at it.",
        "read_file",
        '"path": "a.py"',
        "import os",
        "1,200 in, 34 out",
        "$0.5000",
    ):
        assert words in page.text
    assert len(page.named("details")) == 3
    assert len(page.named("article")) == 3, "a call stands where its result does"
    (link,) = page.named("a")
    assert link["href"] == "https://example.org/a?b=1&c=2"
    assert "noopener" in link["rel"]
    harmless(page)


def test_the_page_asks_nobody_for_anything_and_suits_phone_dark_and_print() -> None:
    text = to_html(INFO, chain(user("Hello")))

    (policy,) = [
        meta["content"]
        for meta in Page(text).named("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "width=device-width" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "@import" not in text
    assert "url(" not in text
    assert "http" not in text.replace("http-equiv", "")


HOSTILE = [
    "</script><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</pre></details></article></body></html><h1>x",
    "<img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '" onmouseover="alert(1)',
    "<!--",
    "<![CDATA[",
    "&lt;script&gt;",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "[x](file:///etc/passwd)",
    "[x](//evil.example/a)",
    "[x](relative.html)",
    '[x](https://a.example/"onmouseover=alert(1))',
    "[x](https://a.example 'a\" onmouseover=\"alert(1)')",
    "<javascript:alert(1)>",
    "<https://ok.example>",
    "![x](https://evil.example/pixel.png)",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "![x][r]\n\n[r]: https://evil.example/p.png",
    "[x][r]\n\n[r]: javascript:alert(1)",
    '```"><script>alert(1)</script>\ncode\n```',
    "```html\n<script>\n```",
    "`<script>`",
    "| a | b |\n|:-:|--|\n| <script> | [x](javascript:1) |",
    "<svg onload=alert(1)>",
    "# <b onclick=x>heading</b>",
    "\x00\x08\x1b[31m\x9b2J\x7f",
    "\ud83d",
    "rm -rf / \u202e# sselmrah \u2066\u2069\u202c",
    "a\u2028b\u2029c\U000e0041",
    "<ins><del></pre>",
    "\n<script>\r<svg>\r\n",
]
HIDDEN = [*map(chr, [*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F)])]
HIDDEN += ["\u2028", "\u2029", "\u2066", "\u2069", "\U000e0041"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_wherever_it_stands(text: str) -> None:
    edit = {"path": text, "oldText": text, "newText": f"{text}\n{text}"}
    details = {"diff": f"-{text}\n+{text}", "exitCode": text, "seconds": text, "subagent": text}
    calls = {
        "edit": edit,
        "write": {"path": text, "content": text},
        "bash": {"command": text},
        "read": {"path": text, "offset": text},
        "grep": {"pattern": text, "path": text},
        "task": {"agent": text, "description": text, "prompt": text},
    }
    entries: list[Entry] = [
        message(text, None, user(text)),
        message(
            "a",
            text,
            reply(
                TextContent(text),
                TextContent("*m* " + text),
                ThinkingContent(text),
                ToolCall("c", text, {text: text}),
                ToolCall("d", text, {}, raw_arguments=text, arguments_error=text),
                *[ToolCall(name, name, arguments) for name, arguments in calls.items()],
                stop_reason="error",
                error_message=text,
            ),
        ),
        message(
            "b",
            "a",
            ToolResultMessage(
                "c", text, [TextContent(text), ImageContent(text, text)], timestamp=TIME
            ),
        ),
        *[
            message(
                f"r-{name}",
                "b",
                ToolResultMessage(
                    name,
                    name,
                    [TextContent(text)],
                    details,
                    is_error=name == "bash",
                    timestamp=TIME,
                ),
            )
            for name in calls
        ],
        message("c", "b", ExtensionMessage(custom_type=text, content=text, timestamp=TIME)),
        message("d", "c", BashExecution(command=text, output=text, timestamp=TIME)),
        CompactionEntry(id="e", parent_id="d", summary=text),
        BranchSummaryEntry(id="f", parent_id="e", from_id=text, summary=text),
        CustomEntry(id="g", parent_id=text, custom_type=text, data={text: [text]}),
        message("h", "f", user("The end")),
    ]
    info = SessionInfo(id=text, created_at=TIME, cwd=text, name=text)

    page = page_of(entries, info, labels={text: text})

    harmless(page)
    assert not any(hidden in page.text for hidden in HIDDEN)
    assert "The end" in page.text


@given(st.text(alphabet="<>&\"'[]()!`*_#|\\\n :/.-abjsx", max_size=80))
def test_no_text_gets_out_of_its_place(text: str) -> None:
    harmless(page_of(chain(user(text), reply(TextContent(text)), user("The end"))))


def test_only_pictures_are_shown_and_only_as_data() -> None:
    images = [
        ImageContent(PIXEL, "image/png"),
        ImageContent("PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+", "image/svg+xml"),
        ImageContent("PGI+", "text/html"),
        ImageContent("not base64!", "image/png"),
        ImageContent(PIXEL + '" onerror="alert(1)', "image/png"),
        ImageContent(PIXEL, 'image/png" onerror="alert(1)'),
    ]

    page = page_of(chain(UserMessage(list(images), timestamp=TIME)))

    assert [image["src"] for image in page.named("img")] == [f"data:image/png;base64,{PIXEL}"]
    assert page.text.count("cannot be shown") == 5
    harmless(page)


def tree() -> list[Entry]:
    return [
        message("r", None, user("root")),
        message("a", "r", user("left")),
        message("b", "r", user("right")),
        message("a2", "a", user("left two")),
        message("a3", "a", user("left three")),
        message("b2", "b", user("right two")),
    ]


def test_the_whole_tree_shows_the_branch_of_the_leaf_first_and_links_to_the_others() -> None:
    page = page_of(tree(), leaf_id="b2")

    order = ["root", "right", "right two", "left", "left three", "left two"]
    places = [page.text.index(f" UTC{words}") for words in order]
    assert places == sorted(places)
    targets = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    links = [link["href"] for link in page.named("a")]
    assert len(links) == 4
    assert {link[1:] for link in links} <= targets
    assert len(page.named("article")) == 6
    harmless(page)


def test_one_branch_alone_can_be_shown() -> None:
    page = page_of(tree(), leaf_id="a2", whole_tree=False)

    assert len(page.named("article")) == 3
    assert "left two" in page.text
    assert "right" not in page.text
    assert page.named("a") == []


def test_without_a_leaf_the_last_entry_is_taken() -> None:
    assert "right two" in page_of(tree(), whole_tree=False).text


def test_a_command_of_the_users_says_how_it_ended() -> None:
    page = page_of(
        chain(
            BashExecution(command="make", output="x", exit_code=2, truncated=True, timestamp=TIME),
            BashExecution(command="sleep 9", output="", cancelled=True, timestamp=TIME),
        )
    )

    assert "Command of the user exit code 2 output cut" in page.text
    assert "Command of the user stopped" in page.text


def test_tools_and_thinking_can_be_left_out() -> None:
    entries = chain(
        reply(ThinkingContent("Hm."), TextContent("Yes."), ToolCall("c", "f", {})),
        ToolResultMessage("c", "f", [TextContent("result")], timestamp=TIME),
        BashExecution(command="ls", output="x", timestamp=TIME),
        reply(ToolCall("c", "f", {})),
    )
    entries.append(CustomEntry(id="z", parent_id="e0", custom_type="todo", data=1))

    page = page_of(entries, tools=False, thinking=False)

    assert len(page.named("article")) == 1
    assert "Yes." in page.text


def test_replies_that_did_not_end_well_are_marked() -> None:
    page = page_of(
        chain(reply(stop_reason="error", error_message="overloaded"), reply(stop_reason="aborted"))
    )

    assert "This reply: failed: overloaded" in page.text
    assert "This reply: aborted" in page.text
    assert [a["class"] for a in page.named("article")] == ["assistant bad"] * 2


def test_a_missing_parent_is_damage_that_is_named() -> None:
    with pytest.raises(SessionDamaged, match="gone"):
        to_html(INFO, [message("a", "gone", user("x"))])


def test_an_empty_session_is_a_page() -> None:
    assert "no tokens counted" in page_of([]).text


def test_ten_thousand_entries_take_seconds() -> None:
    entries = chain(
        *[
            user(f"Question {n}?")
            if n % 2 == 0
            else reply(TextContent(f"**Answer** `{n}`\n\n- a\n- b"))
            for n in range(10_000)
        ]
    )
    start = time.perf_counter()

    text = to_html(INFO, entries)

    assert text.count("<article") == 10_000
    assert time.perf_counter() - start < 30


@pytest.mark.parametrize(
    "piece", ["[", "![](", "*a **b ", "<", "`a``", "> ", "a|", "- ", "&#", "\\"]
)
def test_markdown_made_to_be_slow_is_not_rendered_for_ever(piece: str) -> None:
    start = time.perf_counter()

    for length in (50_000, 1_000_000):
        assert "<article" in to_html(INFO, chain(reply(TextContent((piece * length)[:length]))))

    assert time.perf_counter() - start < 20
