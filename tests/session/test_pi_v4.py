"""The lines of a v4 file: what goes in comes out, and what is wrong is named."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.errors import SessionDamaged, SessionTooNew
from loopwright.messages import (
    AssistantMessage,
    Cost,
    TextContent,
    ToolCall,
    Usage,
    UserMessage,
)
from loopwright.session.entries import (
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    MessageEntry,
    to_row,
)
from loopwright.session.formats.pi_v4 import read_pi_v4
from loopwright.session.formats.pi_v4_lines import (
    ConfigLine,
    EntryLine,
    FactLine,
    NotJson,
    UsageLine,
    decode_header,
    decode_line,
)
from loopwright.session.formats.pi_v4_messages import (
    message_from_pi,
    message_to_pi,
    usage_from_pi,
    usage_to_pi,
)
from loopwright.session.formats.pi_v4_writing import (
    entry_to_line,
    fact_to_line,
    header_line,
    usage_to_line,
)
from loopwright.session.jsonl_log import SessionLog
from loopwright.session.leases import new_owner
from loopwright.session.memory import MemoryStore
from loopwright.session.rows import Fact, LaneConfig, SessionInfo, UsageRow
from loopwright.session.store import Commit

from .commits import commits, entries, json_values, messages, usages

# -- there and back --------------------------------------------------------------------------


@given(entries())
def test_an_entry_comes_back_from_its_line_byte_for_byte(entry: Entry) -> None:
    row = to_row(entry)

    line = _decoded(entry_to_line(row, parent_id="p", lane="main"))

    assert isinstance(line, EntryLine)
    assert (line.lane, line.row.parent_id) == ("main", "p")
    assert _placed(line.row) == row
    assert line.row.payload == row.payload


@given(messages)
def test_a_message_comes_back_from_pi_as_it_was(message: Any) -> None:
    ours = json.loads(message.to_json())

    theirs = message_to_pi(ours)

    if theirs is not None:
        assert message_from_pi(theirs, 0) == ours


@given(usages)
def test_pi_is_given_a_number_for_every_price_and_we_get_back_what_we_knew(usage: Usage) -> None:
    ours = json.loads(usage.to_json())

    theirs = usage_to_pi(ours)

    for name in ("input", "output", "cacheRead", "cacheWrite", "total"):
        assert isinstance(theirs["cost"][name], int | float)
    assert Usage.from_dict(usage_from_pi(theirs)) == usage


def test_a_price_that_somebody_filled_in_is_known_from_then_on() -> None:
    theirs = usage_to_pi({"input": 1, "cost": {}})

    priced = usage_from_pi({**theirs, "cost": {**theirs["cost"], "total": 0.5}})

    assert priced["cost"] == {"total": 0.5}


_only_pi = st.fixed_dictionaries(
    {},
    optional={
        "cause": st.sampled_from(["hook", "deferred_fetch", "tool", "else"]) | json_values,
        "attempt": json_values,
        "usage": st.dictionaries(st.sampled_from(["cacheWrite1h", "input"]), json_values),
    },
)


@given(
    st.builds(
        UsageRow,
        id=st.just("u"),
        cause=st.sampled_from(
            [
                *("assistant", "retry", "compaction", "branch_summary", "tool"),
                *("import", "lost", "adjustment"),
            ]
        ),
        usage=usages,
        entry_id=st.none() | st.just("e"),
        operation_id=st.none() | st.just("o"),
        provider=st.none() | st.just("p"),
        model=st.none() | st.just("m"),
        details=st.none()
        | st.dictionaries(st.sampled_from(["pi", "a", "cause"]), json_values | _only_pi),
        timestamp=st.integers(0, 2**42),
    )
)
def test_a_row_of_the_ledger_comes_back_from_its_line(row: UsageRow) -> None:
    line = _decoded(usage_to_line(row, "main"))

    assert isinstance(line, UsageLine)
    assert line.usage == row


@given(st.sampled_from(["name", "label"]), st.none() | st.text(), st.booleans())
def test_a_fact_comes_back_from_its_line(namespace: Any, value: str | None, deleted: bool) -> None:
    key = "e" if namespace == "label" else ""
    fact = Fact(namespace=namespace, key=key, value=None if deleted else value, deleted=deleted)

    written = fact_to_line(fact)
    assert written is not None
    line = _decoded(written)

    assert isinstance(line, FactLine)
    assert line.fact == fact


def test_a_header_comes_back() -> None:
    info = SessionInfo(
        id="s", created_at=5, modified_at=5, cwd="/é", parent_id="p", metadata={"a": [None]}
    )

    assert decode_header(header_line(info)) == info
    assert decode_header(header_line(SessionInfo(id="s", cwd=None))).cwd is None


# -- whole sessions --------------------------------------------------------------------------


@given(commits())
@settings(max_examples=60)
def test_a_file_holds_what_memory_holds(made: list[Commit]) -> None:
    async def in_memory() -> list[Any]:
        store = MemoryStore()
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        taken: list[bool] = []
        for commit in made:
            try:
                await store.commit(lease, commit)
                taken.append(True)
            except SessionDamaged:
                taken.append(False)
        state = await store.state("s")
        return [
            taken,
            state.head,
            state.lanes,
            state.facts,
            state.operations,
            state.intents,
            state.inbox,
            (state.info.name, state.info.preview, state.info.usage),
            await store.entries("s"),
            await store.usage("s"),
        ]

    taken, *wanted = asyncio.run(in_memory())
    log, data = _file(made, taken)

    for found in (log, _read(data)):
        state = found.rows.state(found.rows.summary(found.header, 0))
        name, preview, usage = state.info.name, found.rows.preview, state.info.usage
        assert [
            state.head,
            state.lanes,
            state.facts,
            state.operations,
            state.intents,
            state.inbox,
            (name, preview, usage),
            found.rows.entries,
            found.rows.usage_list(),
        ] == wanted


@given(commits(), st.data())
@settings(max_examples=60)
def test_a_file_cut_anywhere_holds_the_commits_before_the_cut(
    made: list[Commit], data: st.DataObject
) -> None:
    _, whole = _file(made)
    ends = [len(_file(made[:count])[1]) for count in range(len(made) + 1)]
    place = data.draw(st.integers(ends[0], len(whole)))

    log = _read(whole[:place])

    # Without its very last newline a commit is whole all the same.
    count = max(n for n, end in enumerate(ends) if end <= place or end == place + 1)
    expected, _ = _file(made[:count])
    assert log.rows.entries == expected.rows.entries
    assert log.rows.head == expected.rows.head
    assert log.rows.lane_list() == expected.rows.lane_list()
    assert log.rows.fact_list() == expected.rows.fact_list()


@given(commits(most=3), st.data())
@settings(max_examples=40)
def test_a_file_read_in_pieces_holds_what_it_holds_as_a_whole(
    made: list[Commit], data: st.DataObject
) -> None:
    wanted, whole = _file(made)
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    header, _, _ = whole.partition(b"\n")
    log = SessionLog(decode_header(header), header_bytes=len(header) + 1)

    for place in [*places, len(whole)]:
        log.feed(whole[log.end : max(place, log.end)])

    assert (log.end, log.torn) == (len(whole), None)
    assert log.lines == whole.count(b"\n")
    assert log.rows.entries == wanted.rows.entries
    assert log.rows.lane_list() == wanted.rows.lane_list()


# -- what is wrong ---------------------------------------------------------------------------

_FIELDS = (
    *("kind", "type", "id", "parentId", "seq", "timestamp", "lane", "leafId", "fact", "name"),
    *("targetId", "label", "message", "role", "content", "customType", "data", "summary"),
    *("retainedTail", "fromId", "usage", "cost", "cause", "details", "commit", "added"),
)
_WORDS = (
    *("entry", "record", "lane", "fact", "message", "compaction", "branch_summary", "custom"),
    *("usage", "user", "assistant", "toolResult", "main", "name", "label", "model_change"),
    *("loopwright.state", "loopwright.entry", "operation_started"),
)
_shapes: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.sampled_from(_WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=8)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(_FIELDS), _shapes, max_size=14), st.booleans())
@settings(max_examples=150)
def test_no_line_is_so_wrong_that_anything_but_a_refusal_comes_of_it(
    line: dict[str, Any], whole: bool
) -> None:
    data = {"seq": 3, "id": "x", "timestamp": 1, "kind": "entry"} | line if whole else line

    try:
        decode_line(json.dumps(data).encode(), 7)
    except (SessionDamaged, NotJson, SessionTooNew) as error:
        where = getattr(error, "where", "line 7")
    else:
        where = "line 7"
    assert where == "line 7"


@given(st.binary(max_size=60))
def test_bytes_that_are_no_line_are_refused(data: bytes) -> None:
    with pytest.raises((SessionDamaged, NotJson)):
        decode_line(data, 1)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b'{"kind":"header"}',
        b'{"kind":"entry","version":4}',
        b'{"kind":"header","version":3,"id":"s","createdAt":1,"cwd":""}',
        b'{"kind":"header","version":4,"id":7,"createdAt":1,"cwd":""}',
        b'{"kind":"header","version":4,"id":"s","createdAt":-1,"cwd":""}',
        b'{"kind":"header","version":4,"id":"s","createdAt":1,"cwd":"","metadata":[]}',
    ],
)
def test_a_header_that_is_wrong_is_refused(header: bytes) -> None:
    with pytest.raises(SessionDamaged) as refusal:
        decode_header(header)

    assert refusal.value.where == "line 1"


def test_a_later_version_is_refused_as_such() -> None:
    with pytest.raises(SessionTooNew, match="version 5"):
        decode_header(b'{"kind":"header","version":5,"id":"s","createdAt":1,"cwd":""}')


# -- what pi writes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("tool_use", "toolUse"),
        ("deferred", "error"),
        ("pending", "error"),
        ("max_tokens", "length"),
    ],
)
def test_a_reason_to_stop_that_we_lack_is_kept_and_goes_back(theirs: str, ours: str) -> None:
    message = {"role": "assistant", "content": [], "stopReason": theirs, "timestamp": 1}

    read = message_from_pi(message, 0)

    assert read["stopReason"] == ours
    assert message_to_pi(read) == message


def test_a_block_that_we_do_not_allow_there_is_kept_and_goes_back() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    message = {"role": "assistant", "content": [image], "stopReason": "stop", "timestamp": 1}

    read = message_from_pi(message, 0)

    row = _message_row(read)
    entry = row.entry()
    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, AssistantMessage)
    assert entry.message.content == [TextContent("[image]")]
    assert message_to_pi(read) == message


def test_a_message_without_a_time_has_that_of_its_entry() -> None:
    line = _entry("m", None, 1, message={"role": "user", "content": "hi"}, timestamp=99)

    read = _decoded(line)

    assert isinstance(read, EntryLine)
    entry = read.row.entry()
    assert isinstance(entry, MessageEntry)
    assert entry.message == UserMessage("hi", 99)


def test_a_message_with_a_role_that_nobody_knows_is_kept_as_it_is() -> None:
    message = {"role": "somebody's own", "anything": [1]}

    line = _decoded(_entry("m", None, 1, message=message))

    assert isinstance(line, EntryLine)
    assert json.loads(line.row.payload) == {"message": message}


def test_arguments_that_are_null_are_none_at_all() -> None:
    call = {"type": "toolCall", "id": "c", "name": "n", "arguments": None}
    message = {"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": 1}

    entry = _message_row(message_from_pi(message, 0)).entry()

    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, AssistantMessage)
    assert entry.message.tool_calls == [ToolCall("c", "n", {})]


def test_what_pi_keeps_in_its_tree_vanishes_and_the_children_move_up() -> None:
    lines = [
        _entry("a", None, 1, lane="main", message=_user("a")),
        _entry("m", "a", 2, "model_change", lane="main", provider="p", modelId="m"),
        _entry("t", "m", 4, "thinking_level_change", lane="main", thinkingLevel="high"),
        _entry("b", "t", 8, lane="main", message=_user("b")),  # gaps are allowed
        _entry("t2", None, 9, "active_tools_change", activeToolNames=["x"]),
        _entry("c", "t2", 10, message=_user("c")),
        {"kind": "lane", "seq": 11, "lane": "side", "leafId": "t2"},
    ]

    log = _log(lines)

    assert [(row.id, row.parent_id) for row in log.rows.entries] == [
        ("a", None),
        ("b", "a"),
        ("c", None),
    ]
    assert log.rows.leaves == {"main": "b", "side": None}
    assert isinstance(_decoded(lines[1]), ConfigLine)


def test_an_import_takes_model_thinking_and_tools_as_the_configuration_of_the_lane() -> None:
    lines = [
        _entry("m", None, 1, "model_change", lane="main", provider="p", modelId="old"),
        _entry("t", "m", 2, "thinking_level_change", lane="main", thinkingLevel="high"),
        _entry("x", "t", 3, "active_tools_change", lane="main", activeToolNames=["read"]),
        _entry("a", "x", 4, lane="main", message=_user("a")),
        _entry("n", "a", 5, "model_change", lane="main", provider="p", modelId="new"),
    ]

    imported = read_pi_v4(BytesIO(_bytes(lines)))

    assert imported.lanes[0].config == LaneConfig(
        provider="p", model_id="new", thinking_level="high", active_tools=["read"]
    )
    assert imported.lanes[0].leaf_id == "a"
    assert imported.warnings == []


def test_an_import_keeps_what_was_said_and_not_heard() -> None:
    def queued(seq: int, entry_id: str, queue: str) -> dict[str, Any]:
        target = {"type": "message", "id": entry_id, "message": _user(entry_id)}
        record = {"kind": "record", "type": "queue_enqueued", "id": f"r{seq}", "lane": "main"}
        return record | {"seq": seq, "timestamp": 5, "queue": queue, "target": target}

    cancelled = {"kind": "record", "type": "queue_cancelled", "id": "r4", "lane": "main"}
    lines = [
        queued(1, "heard", "steer"),
        queued(2, "taken back", "followUp"),
        queued(3, "waits", "nextRun"),
        cancelled | {"seq": 4, "timestamp": 5, "entryId": "taken back"},
        _entry("heard", None, 5, lane="main", message=_user("heard")),
    ]

    imported = read_pi_v4(BytesIO(_bytes(lines)))

    assert [(item.id, item.queue) for item in imported.inbox] == [("waits", "nextRun")]


def test_an_import_warns_of_a_torn_end_and_of_a_role_that_nobody_knows() -> None:
    lines = [_entry("m", None, 1, lane="main", message={"role": "stranger", "x": 1})]

    imported = read_pi_v4(BytesIO(b"\xef\xbb\xbf" + _bytes(lines) + b'{"kind":'))

    (entry,) = imported.entries
    assert isinstance(entry, CustomEntry)
    assert (entry.custom_type, entry.data) == ("pi.message", {"role": "stranger", "x": 1})
    assert len(imported.warnings) == 2
    assert imported.warnings[0].startswith("line 3: the last line is torn")


def test_a_compaction_points_here_and_copies_there() -> None:
    log = SessionLog(SessionInfo(id="s"), header_bytes=0)
    made: list[Entry] = [
        MessageEntry(id="a", parent_id=None, message=UserMessage("a", 1)),
        MessageEntry(id="b", parent_id="a", message=UserMessage("b", 2)),
        CustomEntry(id="x", parent_id="b", custom_type="app"),
        MessageEntry(id="c", parent_id="x", message=AssistantMessage([], timestamp=3)),
        CompactionEntry(id="k", parent_id="c", summary="s", first_kept_id="b"),
    ]

    data = log.lines_of(Commit(entries=[to_row(entry) for entry in made]), 1)
    log.feed(data)

    line = json.loads(data.splitlines()[-1])
    assert [message["role"] for message in line["retainedTail"]] == ["user", "assistant"]
    assert line["retainedTail"][1]["usage"]["cost"]["total"] == 0
    kept = log.rows.entries[-1].entry()
    assert isinstance(kept, CompactionEntry)
    assert (kept.first_kept_id, kept.retained_tail) == ("b", None)


def test_the_unknown_price_of_a_reply_is_unknown_again_after_pi_has_held_it() -> None:
    message = AssistantMessage([], usage=Usage(input=3, cost=Cost(output=0.5)), timestamp=1)
    line = entry_to_line(
        to_row(MessageEntry(id="m", parent_id=None, message=message)), parent_id=None, lane=None
    )

    assert line["message"]["usage"]["cost"]["total"] == 0
    read = _decoded(line)

    assert isinstance(read, EntryLine)
    entry = read.row.entry()
    assert isinstance(entry, MessageEntry)
    assert entry.message == message


# -- what the tests use ----------------------------------------------------------------------


def _decoded(line: dict[str, Any]) -> Any:
    return decode_line(msgspec.json.encode(line | {"seq": line["seq"] or 1}), 1)


def _placed(row: EntryRow) -> EntryRow:
    return msgspec.structs.replace(row, seq=0, parent_id=None)


def _message_row(message: dict[str, Any]) -> EntryRow:
    payload = msgspec.json.encode({"message": message})
    return EntryRow(id="m", parent_id=None, type="message", payload=payload, timestamp=1)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1}


def _entry(
    entry_id: str, parent_id: str | None, seq: int, kind: str = "message", **more: Any
) -> dict[str, Any]:
    line = {"kind": "entry", "type": kind, "id": entry_id, "parentId": parent_id, "seq": seq}
    return {**line, "timestamp": 1, **more}


def _bytes(lines: list[dict[str, Any]]) -> bytes:
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return header_line(SessionInfo(id="s", created_at=1)) + body


def _log(lines: list[dict[str, Any]]) -> SessionLog:
    return _read(_bytes(lines))


def _read(data: bytes) -> SessionLog:
    header, _, rest = data.partition(b"\n")
    log = SessionLog(decode_header(header), header_bytes=len(header) + 1)
    log.feed(rest)
    return log


def _file(made: list[Commit], taken: list[bool] | None = None) -> tuple[SessionLog, bytes]:
    """*made* as a file, and the log that wrote it. A commit that is refused must not be *taken*."""
    info = SessionInfo(id="s", created_at=1)
    data = header_line(info)
    log = SessionLog(info, header_bytes=len(data))
    for number, commit in enumerate(made):
        try:
            lines = log.lines_of(commit, 1)
        except SessionDamaged:
            assert taken is None or not taken[number]
            continue
        assert taken is None or taken[number]
        log.feed(lines)
        data += lines
    return log, data
