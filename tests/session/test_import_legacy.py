"""pi's files of the versions 1 to 3. What is written here is what pi wrote, by hand."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import SessionDamaged, SessionTooNew
from loopwright.harness.session_budget import count_session
from loopwright.loop.budget import Budget, BudgetUsedUp
from loopwright.loop.request_bounds import Bound, Prices
from loopwright.messages import AssistantMessage, UserMessage
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    MessageEntry,
)
from loopwright.session.formats.importing import (
    ImportedSession,
    import_file,
    read_session,
    store_imported,
)
from loopwright.session.formats.legacy import read_legacy
from loopwright.session.formats.pi_messages import (
    BashExecution,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    ExtensionMessage,
    shown_to_model,
)
from loopwright.session.memory import MemoryStore
from loopwright.session.session import Session
from loopwright.session.tree import context_of

SESSION_ID = "3f0c5a52-6a2e-4c84-9d0e-2a2d5f0f8a11"
START = "2025-11-02T09:30:00.000Z"
START_MS = 1762075800000


def at(second: int) -> str:
    return f"2025-11-02T09:{30 + second // 60:02d}:{second % 60:02d}.000Z"


def header(version: int | None = 3, **more: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"type": "session"}
    if version is not None:
        said["version"] = version
    return said | {"id": SESSION_ID, "timestamp": START, "cwd": "/srv/me/work"} | more


class Writer:
    """Builds a file as pi appends to it: each entry follows the one before."""

    def __init__(self, head: dict[str, Any]) -> None:
        self.lines: list[dict[str, Any]] = [head]
        self.leaf: str | None = None
        self.count = 0

    def add(self, type: str, *, parent: str | None = "leaf", **data: Any) -> str:
        self.count += 1
        name = f"{self.count:08x}"
        above = self.leaf if parent == "leaf" else parent
        self.lines.append(
            {"type": type, "id": name, "parentId": above, "timestamp": at(self.count)} | data
        )
        self.leaf = name
        return name

    def say(self, message: dict[str, Any], **options: Any) -> str:
        return self.add("message", message=message, **options)

    def bytes(self) -> bytes:
        return to_bytes(self.lines)


def to_bytes(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def user(text: str, time: int = START_MS) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": time}


def usage(output: int = 5, cost: float = 0.25) -> dict[str, Any]:
    return {
        "input": 10,
        "output": output,
        "cacheRead": 3,
        "cacheWrite": 0,
        "totalTokens": 13 + output,
        "cost": {"input": 0.1, "output": 0.15, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    }


def reply(*content: dict[str, Any], stop: str = "stop", **more: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": list(content),
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": usage(),
        "stopReason": stop,
        "timestamp": START_MS + 1,
    } | more


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def read(data: bytes, *, lenient: bool = False) -> ImportedSession:
    return read_legacy(data.splitlines(keepends=True), lenient=lenient)


def branch(session: ImportedSession) -> list[Entry]:
    by_id = {entry.id: entry for entry in session.entries}
    found: list[Entry] = []
    here = session.lanes[0].leaf_id
    while here is not None:
        found.insert(0, by_id[here])
        here = by_id[here].parent_id
    return found


def said(session: ImportedSession) -> list[str]:
    return [
        entry.message.text
        for entry in branch(session)
        if isinstance(entry, MessageEntry)
        and isinstance(entry.message, UserMessage | AssistantMessage)
    ]


# -- version 3 -------------------------------------------------------------------------------


def test_a_session_of_version_3_keeps_its_messages_folder_times_and_lane() -> None:
    file = Writer(header())
    file.say(user("Hello"))
    file.say(reply(text("Hi.")))

    session = read(file.bytes())

    assert said(session) == ["Hello", "Hi."]
    assert session.info.id == SESSION_ID
    assert session.info.cwd == "/srv/me/work"
    assert session.info.created_at == START_MS
    assert session.info.modified_at == START_MS + 2000
    assert [entry.timestamp for entry in session.entries] == [START_MS + 1000, START_MS + 2000]
    assert [lane.name for lane in session.lanes] == ["main"]
    assert session.lanes[0].leaf_id == session.entries[-1].id
    assert session.lanes[0].config is None
    assert session.warnings == []


def test_ids_are_made_of_the_entrys_own_time_and_hold_the_old_id() -> None:
    file = Writer(header())
    first = file.say(user("Hello"))

    entry = read(file.bytes()).entries[0]

    assert int(entry.id[:12], 16) == entry.timestamp == START_MS + 1000
    assert entry.id[12:20] == first
    assert len(entry.id) == 28
    assert read(file.bytes()).entries[0].id == entry.id


def test_entries_of_configuration_vanish_and_their_children_are_put_to_whom_is_above() -> None:
    file = Writer(header())
    file.add("model_change", provider="anthropic", modelId="claude-sonnet-4-5")
    file.say(user("Hello"))
    file.add("thinking_level_change", thinkingLevel="high")
    file.add("active_tools_change", activeToolNames=["read"])
    file.say(reply(text("Hi.")))

    session = read(file.bytes())

    assert [entry.parent_id for entry in session.entries] == [None, session.entries[0].id]
    assert said(session) == ["Hello", "Hi."]
    assert session.warnings == []


def test_the_leaf_is_the_last_line_or_whoever_stands_above_it() -> None:
    file = Writer(header())
    root = file.say(user("One"))
    file.say(user("Two"))
    file.add("label", parent=root, targetId=root, label="start")

    session = read(file.bytes())

    assert said(session) == ["One"]
    assert len(session.entries) == 2


def test_branches_stay_branches() -> None:
    file = Writer(header())
    root = file.say(user("Root"))
    file.say(user("Left"))
    file.say(user("Right"), parent=root)

    session = read(file.bytes())

    assert [entry.parent_id for entry in session.entries] == [None, *[session.entries[0].id] * 2]
    assert said(session) == ["Root", "Right"]


def test_of_labels_and_names_the_last_one_counts_and_empty_ones_clear() -> None:
    file = Writer(header())
    first = file.say(user("One"))
    second = file.say(user("Two"))
    file.add("label", targetId=first, label="old")
    file.add("label", targetId=second, label="gone")
    file.add("label", targetId=first, label="new")
    file.add("label", targetId=second)
    file.add("session_info", name="First name")
    file.add("session_info", name="  My session ")

    session = read(file.bytes())

    facts = [(fact.namespace, fact.key, fact.value) for fact in session.facts]
    assert facts == [("name", "", "My session"), ("label", session.entries[0].id, "new")]
    assert session.info.name == "My session"


def test_a_label_of_an_entry_that_vanished_goes_to_the_one_above() -> None:
    file = Writer(header())
    file.say(user("One"))
    change = file.add("model_change", provider="a", modelId="b")
    file.add("label", targetId=change, label="here")
    file.add("label", targetId="ffffffff", label="nowhere")

    session = read(file.bytes())

    assert [(fact.key, fact.value) for fact in session.facts] == [(session.entries[0].id, "here")]
    assert len(session.warnings) == 1
    assert "ffffffff" in session.warnings[0]


def compacted(first_kept: str | None, file: Writer) -> ImportedSession:
    file.add(
        "compaction",
        summary="So far: two.",
        firstKeptEntryId=first_kept,
        tokensBefore=900,
        details={"readFiles": ["a.py"]},
    )
    file.say(user("Three"))
    return read(file.bytes())


def shown(session: ImportedSession) -> list[str]:
    return [getattr(message, "text", "") for message in context_of(branch(session))]


def test_a_compaction_keeps_from_the_entry_it_names() -> None:
    file = Writer(header())
    file.say(user("One"))
    kept = file.say(user("Two"))

    session = compacted(kept, file)

    compaction = session.entries[2]
    assert isinstance(compaction, CompactionEntry)
    assert compaction.first_kept_id == session.entries[1].id
    assert (compaction.tokens_before, compaction.details) == (900, {"readFiles": ["a.py"]})
    assert "So far: two." in shown(session)[0]
    assert shown(session)[1:] == ["Two", "Three"]


def test_a_compaction_that_keeps_from_an_entry_that_vanished_keeps_from_the_next() -> None:
    file = Writer(header())
    file.say(user("One"))
    change = file.add("thinking_level_change", thinkingLevel="low")
    file.say(user("Two"))

    session = compacted(change, file)

    assert shown(session)[1:] == ["Two", "Three"]


@pytest.mark.parametrize("wanted", ["ffffffff", "other branch"])
def test_a_compaction_that_keeps_from_no_entry_of_its_branch_keeps_nothing(wanted: str) -> None:
    file = Writer(header())
    root = file.say(user("One"))
    other = file.say(user("Elsewhere"))
    file.say(user("Two"), parent=root)

    session = compacted(other if wanted == "other branch" else wanted, file)

    assert shown(session)[1:] == ["Three"]
    assert "keeps nothing" in session.warnings[0]


def test_summaries_of_branches_name_the_leaf_they_tell_of() -> None:
    file = Writer(header())
    root = file.say(user("One"))
    left = file.say(user("Left"))
    file.add("branch_summary", parent=root, fromId=left, summary="It went left.", fromHook=True)
    file.add("branch_summary", parent=root, fromId="root", summary="From the start.")

    session = read(file.bytes())

    named, unnamed = session.entries[2:]
    assert isinstance(named, BranchSummaryEntry)
    assert isinstance(unnamed, BranchSummaryEntry)
    assert (named.from_id, named.from_hook) == (session.entries[1].id, True)
    assert (unnamed.from_id, unnamed.from_hook) == ("root", False)


def test_data_of_extensions_stays_and_what_they_said_reaches_the_model() -> None:
    file = Writer(header())
    file.add("custom", customType="todo", data={"done": [1]})
    file.add(
        "custom_message",
        customType="ci",
        content="The build is red.",
        display=False,
        details={"url": 1},
    )

    data, message = read(file.bytes()).entries

    assert isinstance(data, CustomEntry)
    assert (data.custom_type, data.data) == ("todo", {"done": [1]})
    assert isinstance(message, MessageEntry)
    extension = message.message
    assert isinstance(extension, ExtensionMessage)
    assert (extension.custom_type, extension.display, extension.details) == (
        "ci",
        False,
        {"url": 1},
    )
    heard = shown_to_model(extension)
    assert isinstance(heard, UserMessage)
    assert heard.text == "The build is red."


def test_commands_of_the_user_reach_the_model_as_text_unless_they_are_excluded() -> None:
    ran = {
        "role": "bashExecution",
        "command": "make",
        "output": "```\nno rule\n```",
        "exitCode": 2,
        "cancelled": False,
        "truncated": True,
        "fullOutputPath": "/tmp/out.log",
        "timestamp": START_MS,
    }
    file = Writer(header())
    file.say(ran)
    file.say(ran | {"excludeFromContext": True})

    session = read(file.bytes())

    open_, hidden = (entry.message for entry in session.entries if isinstance(entry, MessageEntry))
    assert isinstance(open_, BashExecution)
    heard = shown_to_model(open_)
    assert isinstance(heard, UserMessage)
    for part in ("make", "no rule", "exit code 2", "/tmp/out.log"):
        assert part in heard.text
    assert "````\n```\nno rule\n```\n````" in heard.text
    assert shown_to_model(hidden) is None
    assert hidden.to_dict(camel=True) == ran | {"excludeFromContext": True}


def test_summaries_that_stand_as_messages_read_as_text_of_the_user() -> None:
    file = Writer(header())
    file.say({"role": "branchSummary", "summary": "Went left.", "fromId": "x", "timestamp": 1})
    file.say(
        {"role": "compactionSummary", "summary": "Long ago.", "tokensBefore": 7, "timestamp": 1}
    )
    file.say({"role": "branchSummary", "summary": " ", "fromId": "x", "timestamp": 1})

    left, long_ago, empty = (
        entry.message for entry in read(file.bytes()).entries if isinstance(entry, MessageEntry)
    )

    assert isinstance(left, BranchSummaryMessage)
    assert isinstance(long_ago, CompactionSummaryMessage)
    for message, words in ((left, "Went left."), (long_ago, "Long ago.")):
        heard = shown_to_model(message)
        assert isinstance(heard, UserMessage)
        assert words in heard.text
    assert shown_to_model(empty) is None


def test_one_row_of_the_ledger_sums_up_what_the_file_says_was_spent() -> None:
    file = Writer(header())
    file.say(user("One"))
    file.say(reply(text("1")))
    file.say(reply(text("2"), usage=usage(output=7, cost=0.5)))
    file.add("compaction", summary="s", tokensBefore=1, usage=usage(output=1, cost=0.25))

    (row,) = read(file.bytes()).usage

    assert row.cause == "import"
    assert row.details == {"source": "pi-legacy-3"}
    assert (row.usage.input, row.usage.output, row.usage.cost.total) == (30, 13, 1.0)


def test_a_session_without_replies_has_no_row_in_the_ledger() -> None:
    file = Writer(header())
    file.say(user("One"))

    assert read(file.bytes()).usage == []


def test_a_reply_that_was_deferred_counts_as_failed_and_keeps_its_own_word() -> None:
    file = Writer(header())
    handle = {"provider": "anthropic", "modelId": "m", "api": "batch", "id": "b1"}
    file.say(reply(stop="deferred", deferred=handle))

    session = read(file.bytes())

    (entry,) = session.entries
    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, AssistantMessage)
    assert entry.message.stop_reason == "error"
    assert session.rest[entry.id]["message"]["deferred"] == handle


def test_a_role_nobody_knows_is_kept_and_shown_to_no_model() -> None:
    strange = {"role": "contextStatus", "content": "40 %", "timestamp": 1}
    file = Writer(header())
    file.say(strange)
    file.say(user("One"))

    session = read(file.bytes())

    kept = session.entries[0]
    assert isinstance(kept, CustomEntry)
    assert (kept.custom_type, kept.data) == ("pi.message", strange)
    assert session.entries[1].parent_id == kept.id
    assert "contextStatus" in session.warnings[0]


def test_a_type_nobody_knows_is_kept() -> None:
    file = Writer(header())
    file.add("weather", value=3)

    session = read(file.bytes())

    kept = session.entries[0]
    assert isinstance(kept, CustomEntry)
    assert kept.custom_type == "pi.weather"
    assert kept.data["value"] == 3
    assert session.warnings


def test_the_path_of_the_parent_session_is_kept() -> None:
    session = read(Writer(header(parentSession="/old/one.jsonl")).bytes())

    assert session.info.metadata is not None
    assert session.info.metadata["legacyParentSessionPath"] == "/old/one.jsonl"
    assert session.info.parent_id is None


def test_what_our_messages_have_no_field_for_goes_to_the_stored_row() -> None:
    call = {"type": "toolCall", "id": "c", "name": "f", "arguments": {"aB": 1}, "namespace": "mcp"}
    spent = usage() | {"cacheWrite1h": 4}
    file = Writer(header())
    file.say(reply(text("t"), call, responseModel="m-1", diagnostics=[{"a": 1}], usage=spent))

    session = read(file.bytes())

    assert session.rest[session.entries[0].id]["message"] == {
        "content": {"1": {"namespace": "mcp"}},
        "usage": {"cacheWrite1h": 4},
        "responseModel": "m-1",
        "diagnostics": [{"a": 1}],
    }


async def test_a_stored_import_has_every_key_of_the_messages_it_was_made_from() -> None:
    call = {"type": "toolCall", "id": "c", "name": "f", "arguments": {"aB": None}, "namespace": "m"}
    messages = [
        user("One"),
        reply(text("t"), call, stop="toolUse", responseModel="m-1", responseId="r", endTurn=False),
        {
            "role": "toolResult",
            "toolCallId": "c",
            "toolName": "f",
            "content": [text("ok"), {"type": "image", "data": "AAAA", "mimeType": "image/png"}],
            "details": {"some_key": 1},
            "isError": False,
            "addedToolNames": ["g"],
            "timestamp": START_MS,
        },
    ]
    file = Writer(header())
    for message in messages:
        file.say(message)
    store = MemoryStore()

    await store_imported(store, read(file.bytes()))

    rows = await store.entries(SESSION_ID)
    assert [json.loads(row.payload)["message"] for row in rows] == messages
    assert all(isinstance(row.entry(), MessageEntry) for row in rows)


# -- versions 1 and 2 ------------------------------------------------------------------------


def test_version_1_is_a_line_and_its_compactions_count_lines_from_the_header() -> None:
    lines: list[dict[str, Any]] = [
        header(None, provider="anthropic", modelId="m"),
        {"type": "message", "timestamp": at(1), "message": user("One")},
        {"type": "model_change", "timestamp": at(2), "provider": "a", "modelId": "b"},
        {"type": "message", "timestamp": at(3), "message": user("Two")},
        {
            "type": "compaction",
            "timestamp": at(4),
            "summary": "Short.",
            "firstKeptEntryIndex": 3,
            "tokensBefore": 5,
        },
        {"type": "message", "timestamp": at(5), "message": user("Three")},
    ]

    session = read(to_bytes(lines))

    assert shown(session)[1:] == ["Two", "Three"]
    assert [entry.parent_id for entry in session.entries] == [
        None,
        *[entry.id for entry in session.entries[:-1]],
    ]
    assert session.info.metadata is not None
    assert session.info.metadata["importedFrom"] == {"format": "pi-legacy-1"}


def test_a_compaction_of_version_1_that_counts_to_the_header_keeps_nothing() -> None:
    lines: list[dict[str, Any]] = [
        header(1),
        {"type": "message", "timestamp": at(1), "message": user("One")},
        {"type": "compaction", "timestamp": at(2), "summary": "s", "firstKeptEntryIndex": 0},
    ]

    session = read(to_bytes(lines))

    assert len(shown(session)) == 1
    assert session.warnings


def test_in_version_2_extensions_spoke_as_hooks() -> None:
    file = Writer(header(2))
    file.say(
        {
            "role": "hookMessage",
            "customType": "ci",
            "content": "Red.",
            "display": True,
            "timestamp": 1,
        }
    )

    (entry,) = read(file.bytes()).entries

    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, ExtensionMessage)
    assert entry.message.content == "Red."


# -- bad files -------------------------------------------------------------------------------


def three_messages() -> Writer:
    file = Writer(header())
    for word in ("One", "Two", "Three"):
        file.say(user(word))
    return file


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n", b"\r\n"])
def test_case_033_a_torn_last_line_is_left_out_with_a_warning(ending: bytes) -> None:
    data = three_messages().bytes() + b'{"type":"message","id":"00000009","pare' + ending

    session = read(data)

    assert said(session) == ["One", "Two", "Three"]
    assert session.warnings[0].startswith("line 5: the last line is torn")


def test_a_last_line_torn_inside_a_character_is_left_out() -> None:
    data = three_messages().bytes() + '{"type":"message","text":"ö'.encode()[:-1]

    session = read(data)

    assert len(session.entries) == 3
    assert "not UTF-8" in session.warnings[0]


def test_case_033_a_bad_line_in_the_middle_is_refused_by_its_number() -> None:
    lines = three_messages().bytes().splitlines(keepends=True)
    lines[2] = lines[2][:20] + b"\n"

    with pytest.raises(SessionDamaged, match="line 3") as refused:
        read_legacy(lines)

    assert refused.value.where == "line 3"
    assert "lenient" in str(refused.value.hint)


def test_a_lenient_import_goes_on_behind_a_bad_line_and_loses_nothing_else() -> None:
    lines = three_messages().bytes().splitlines(keepends=True)
    lines[2] = lines[2][:20] + b"\n"

    session = read_legacy(lines, lenient=True)

    assert said(session) == ["One", "Three"]
    assert any("line 3" in warning for warning in session.warnings)
    assert any("line 4" in warning for warning in session.warnings)


def test_bytes_that_are_no_utf8_are_refused_by_line() -> None:
    data = three_messages().bytes().replace(b"Two", b"T\xffo")

    with pytest.raises(SessionDamaged, match="line 3: not UTF-8"):
        read(data)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"type": "message", "parentId": None}, "no id"),
        ({"type": "message", "id": "00000001", "parentId": None}, "line 2 already"),
        ({"type": "message", "id": "x", "parentId": "nobody"}, "'nobody'"),
        (
            {"type": "message", "id": "x", "parentId": None, "message": reply({"type": "text"})},
            "'text'",
        ),
        ({"type": "message", "id": "x", "parentId": None, "message": 3}, "an object"),
        ({"type": "compaction", "id": "x", "parentId": None}, "summary"),
        ({"type": "custom", "id": "x", "parentId": None}, "customType"),
        ({"id": "x"}, "type"),
        ([], "type"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_by_number_or_left_out_when_lenient(
    line: Any, words: str
) -> None:
    file = Writer(header())
    file.say(user("One"))
    file.lines.append(line)
    last = file.say(user("Two"))

    with pytest.raises(SessionDamaged, match="line 3") as refused:
        read(file.bytes())
    session = read(file.bytes(), lenient=True)

    assert words in refused.value.message
    assert said(session)[-2:] == ["One", "Two"]
    assert session.entries[-1].id[12:20] == last
    assert any("line 3" in warning for warning in session.warnings)


def test_a_byte_order_mark_and_crlf_are_no_hindrance() -> None:
    data = b"\xef\xbb\xbf" + three_messages().bytes().replace(b"\n", b"\r\n")

    assert said(read(data)) == ["One", "Two", "Three"]


def test_separators_inside_of_text_do_not_end_a_line(tmp_path: Path) -> None:
    file = Writer(header())
    file.say(user("a\u2028b\u0085c"))
    path = tmp_path / "s.jsonl"
    path.write_bytes(file.bytes())
    session = read_session(path)

    assert said(session) == ["a\u2028b\u0085c"]


def test_half_a_surrogate_pair_becomes_a_question_mark_in_a_box() -> None:
    data = three_messages().bytes().replace(b'"Two"', b'"T\\ud83d"')

    session = read(data)

    entry = session.entries[1]
    assert isinstance(entry, MessageEntry)
    assert entry.to_json().decode().count("\ufffd") == 1


def test_an_entry_without_a_readable_time_gets_that_of_the_one_before() -> None:
    file = three_messages()
    file.lines[2]["timestamp"] = "yesterday"
    del file.lines[3]["timestamp"]

    session = read(file.bytes())

    assert [entry.timestamp for entry in session.entries] == [START_MS + 1000] * 3
    assert len(session.warnings) == 2


def test_a_newer_version_is_refused_as_such() -> None:
    with pytest.raises(SessionTooNew, match="session 5"):
        read(to_bytes([header(5)]))


async def test_reading_never_changes_the_file(tmp_path: Path) -> None:
    data = three_messages().bytes() + b'{"torn'
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    path.chmod(0o444)

    await import_file(MemoryStore(), path)

    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


@given(st.data())
def test_whatever_is_cut_off_at_the_end_leaves_the_lines_before(data: st.DataObject) -> None:
    whole = three_messages().bytes()
    first = whole.index(b"\n") + 1
    cut = data.draw(st.integers(first, len(whole)))

    session = read(whole[:cut])

    complete = whole[:cut].count(b"\n") - 1
    assert complete <= len(session.entries) <= complete + 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["message", "model_change", "label", "custom", "session_info"]),
            st.integers(0, 8),
        ),
        max_size=25,
    )
)
def test_any_tree_keeps_its_order_and_loses_no_message(shape: list[tuple[str, int]]) -> None:
    file = Writer(header())
    names: list[str | None] = [None]
    wanted: list[str] = []
    for number, (kind, back) in enumerate(shape):
        parent = names[-1 - back % len(names)]
        if kind == "message":
            names.append(file.say(user(str(number)), parent=parent))
            wanted.append(str(number))
        else:
            about = {"targetId": names[-1], "label": "x", "customType": "t", "name": "n"}
            names.append(file.add(kind, parent=parent, **about))

    session = read(file.bytes())

    known: set[str | None] = {None}
    for entry in session.entries:
        assert entry.parent_id in known
        known.add(entry.id)
    found = [
        e.message.text
        for e in session.entries
        if isinstance(e, MessageEntry) and isinstance(e.message, UserMessage)
    ]
    assert found == wanted
    assert session.lanes[0].leaf_id in known


@pytest.mark.parametrize(
    ("told", "tokens", "total"),
    [
        ({"input": -5, "output": -5, "totalTokens": -10, "cost": {"total": -10}}, 0, None),
        ({"input": 10**18, "output": 5, "cost": {"total": 1e308}}, 10**15, 1e9),
        ({"input": 1e300, "output": 5.0, "cost": {"total": 0.5}}, 10**15, 0.5),
        ({"input": 10**40, "output": 5, "cost": {"total": 0.5}}, 10**15, 0.5),
    ],
)
async def test_numbers_that_nobody_counted_are_in_bounds_and_a_budget_goes_by_them(
    told: dict[str, Any], tokens: int, total: float | None
) -> None:
    file = Writer(header())
    file.say(user("hello"))
    file.say(reply({"type": "text", "text": "hi"}) | {"usage": told})
    store = MemoryStore()

    await store_imported(store, read(file.bytes()), session_id="s")

    spent = (await store.info("s")).usage
    assert (spent.input, spent.cost.total) == (tokens, total)
    session = await Session.open(store, "s")
    for budget in (Budget(max_cost_usd=0.1), Budget(max_tokens=100), Budget(max_turns=5)):
        await count_session(budget, session)
        capped = budget.max_turns is None and (tokens or budget.max_cost_usd is not None)
        if capped:
            with pytest.raises(BudgetUsedUp):
                await budget.reserve(Bound(10, 50, Prices(Fraction(1), Fraction(1))))
        else:
            await budget.reserve(Bound(10, 50, None))
    await session.aclose()
