"""The format with registers and one line a commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import SessionDamaged
from loopwright.messages import AssistantMessage, UserMessage
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    MessageEntry,
)
from loopwright.session.formats.importing import ImportedSession, import_file
from loopwright.session.formats.pi_v4_spec import NAMESPACES, read_pi_v4_spec
from loopwright.session.memory import MemoryStore

CREATED = 1_800_000_000_000


def header(**more: Any) -> dict[str, Any]:
    said = {"v": 4, "kind": "header", "id": "s-1", "storageVersion": 1, "createdAt": CREATED}
    return said | more


class Writer:
    """Numbers the writes of commits as they come."""

    def __init__(self, **head: Any) -> None:
        self.lines: list[Any] = [header(cwd="/work", **head)]
        self.seq = 0

    def commit(self, *writes: dict[str, Any], step: int = 1) -> None:
        numbered: list[dict[str, Any]] = []
        for write in writes:
            self.seq += step
            numbered.append({**write, "seq": self.seq})
        self.lines.append(numbered[0] if len(numbered) == 1 else numbered)

    def bytes(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def read(self, *, lenient: bool = False) -> ImportedSession:
        return read_pi_v4_spec(self.bytes().splitlines(keepends=True), lenient=lenient)


def entry(id: str, parent: str | None, type: str = "message", **data: Any) -> dict[str, Any]:
    place = {"kind": "entry", "id": id, "parentId": parent, "timestamp": CREATED + 5}
    return place | {"type": type} | data


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": CREATED}


def reply(text: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "openai-chat",
        "provider": "openai",
        "model": "gpt-5",
        "usage": usage(),
        "stopReason": "stop",
        "timestamp": CREATED + 1,
    }


def usage() -> dict[str, Any]:
    return {
        "input": 10,
        "output": 2.0,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 12,
        "cost": {"input": 0.1, "output": 0.1, "cacheRead": 0, "cacheWrite": 0, "total": 0.2},
    }


def put(namespace: str, key: str, value: Any) -> dict[str, Any]:
    return {"kind": "register", "op": "set", "namespace": namespace, "key": key, "value": value}


def drop(namespace: str, key: str) -> dict[str, Any]:
    return {"kind": "register", "op": "delete", "namespace": namespace, "key": key}


def ledger(id: str, **more: Any) -> dict[str, Any]:
    return {"kind": "usage", "id": id, "usage": usage(), "adjustment": False} | more


def test_entries_lanes_facts_and_the_ledger_are_what_the_commits_come_to() -> None:
    file = Writer()
    file.commit(
        entry("e1", None, message=user("Hello")),
        put("lane.leaf", "main", "e1"),
        put("lane.state", "main", {"currentOperationId": None, "pendingNextRun": []}),
        put(
            "lane.config",
            "main",
            {
                "model": {"provider": "openai", "modelId": "gpt-5"},
                "thinkingLevel": "high",
                "activeToolNames": ["read", "bash"],
            },
        ),
    )
    file.commit(
        entry("e2", "e1", message=reply("Hi.")),
        ledger("u1", entryId="e2"),
        put("lane.leaf", "main", "e2"),
        put("lane.leaf", "side", "e1"),
    )
    file.commit(put("fact.name", "", "old"), put("fact.custom", "k", None))
    file.commit(put("fact.name", "", "My session"), put("fact.label", "e1", "start"))
    file.commit(put("fact.custom", "gone", 1))
    file.commit(drop("fact.custom", "gone"))

    session = file.read()

    first, second = session.entries
    assert isinstance(first, MessageEntry)
    assert isinstance(second, MessageEntry)
    assert isinstance(first.message, UserMessage)
    assert isinstance(second.message, AssistantMessage)
    assert (first.message.text, second.message.text) == ("Hello", "Hi.")
    assert (first.id, second.id, second.parent_id) == ("e1", "e2", "e1")
    assert second.timestamp == CREATED + 5
    main, side = session.lanes
    assert (main.name, main.leaf_id, side.name, side.leaf_id) == ("main", "e2", "side", "e1")
    assert main.config is not None
    assert main.config.to_dict() == {
        "provider": "openai",
        "model_id": "gpt-5",
        "thinking_level": "high",
        "active_tools": ["read", "bash"],
    }
    assert side.config is None
    assert [(f.namespace, f.key, f.value) for f in session.facts] == [
        ("name", "", "My session"),
        ("label", "e1", "start"),
        ("custom", "k", None),
    ]
    (row,) = session.usage
    assert (row.id, row.cause, row.entry_id, row.provider) == ("u1", "assistant", "e2", "openai")
    assert (row.usage.output, row.usage.cost.total) == (2, 0.2)
    assert session.info.name == "My session"
    assert (session.info.cwd, session.info.created_at) == ("/work", CREATED)
    assert session.warnings == []


def test_summaries_and_data_are_taken_over_with_all_they_have() -> None:
    file = Writer()
    file.commit(
        entry("e1", None, message=user("Hello")),
        entry(
            "e2",
            "e1",
            "compaction",
            summary="Short.",
            retainedTail=[user("Hello"), reply("Hi.") | {"responseModel": "gpt-5-x"}],
            tokensBefore=99,
            details={"a": 1},
            usage=usage(),
            fromHook=True,
        ),
        entry("e3", "e1", "branch_summary", fromId="e2", summary="Left.", fromHook=False),
        entry("e4", "e3", "custom", customType="note"),
    )

    _, compaction, summary, custom = (session := file.read()).entries

    assert isinstance(compaction, CompactionEntry)
    assert compaction.retained_tail is not None
    assert [getattr(m, "text", "") for m in compaction.retained_tail] == ["Hello", "Hi."]
    assert (compaction.tokens_before, compaction.from_hook) == (99, True)
    assert compaction.usage is not None
    assert session.rest["e2"] == {"retainedTail": {"1": {"responseModel": "gpt-5-x"}}}
    assert isinstance(summary, BranchSummaryEntry)
    assert (summary.from_id, summary.summary) == ("e2", "Left.")
    assert isinstance(custom, CustomEntry)
    assert (custom.custom_type, custom.data) == ("note", None)


def test_gaps_in_the_numbers_are_legal_and_going_back_is_not() -> None:
    file = Writer()
    file.commit(entry("e1", None, message=user("a")), step=100)
    file.commit(entry("e2", "e1", message=user("b")), step=7)
    assert len(file.read().entries) == 2

    file.seq = 3
    file.commit(entry("e3", "e2", message=user("c")))

    with pytest.raises(SessionDamaged, match="line 4: the sequence number 4"):
        file.read()


def test_a_torn_commit_is_left_out_whole() -> None:
    file = Writer()
    file.commit(entry("e1", None, message=user("a")))
    file.commit(entry("e2", "e1", message=user("b")), put("lane.leaf", "main", "e2"))
    data = file.bytes()

    session = read_pi_v4_spec(data[:-30].splitlines(keepends=True))

    assert [e.id for e in session.entries] == ["e1"]
    assert session.lanes[0].leaf_id is None
    assert "torn" in session.warnings[0]


def test_a_commit_that_cannot_be_read_is_refused_and_left_out_whole_when_lenient() -> None:
    file = Writer()
    file.commit(entry("e1", None, message=user("a")), put("lane.leaf", "main", "e1"))
    file.commit(entry("e2", "e1", message=user("b")), put("lane.mood", "main", "good"))
    file.commit(put("fact.name", "", "kept"))

    with pytest.raises(SessionDamaged, match=r"line 3: .*'lane\.mood'"):
        file.read()
    session = file.read(lenient=True)

    assert [e.id for e in session.entries] == ["e1"]
    assert session.info.name == "kept"


@pytest.mark.parametrize(
    ("write", "words"),
    [
        ({"kind": "value"}, "kind 'value'"),
        (entry("e1", None, message=user("again")), "'e1' is taken"),
        (entry("u1", None, message=user("again")), "'u1' is taken"),
        (ledger("e1"), "'e1' is taken"),
        (entry("e9", "nobody", message=user("x")), "'nobody'"),
        (entry("e9", None, "model_change"), "'model_change'"),
        (entry("e9", None, message={"role": "wizard"}), "'wizard'"),
        ({"kind": "usage", "id": "u9"}, "no usage"),
        ({"kind": "register", "namespace": "fact.name", "key": "", "op": "set"}, "set to a value"),
        ({"kind": "register", "namespace": "fact.name", "op": "delete"}, "'key'"),
    ],
)
def test_writes_that_make_no_sense_are_refused_by_line(write: dict[str, Any], words: str) -> None:
    file = Writer()
    file.commit(entry("e1", None, message=user("a")), ledger("u1"))
    file.commit(write)

    with pytest.raises(SessionDamaged, match="line 3") as refused:
        file.read()

    assert words in refused.value.message


def test_every_namespace_is_known() -> None:
    file = Writer()
    for namespace in sorted(NAMESPACES - {"lane.leaf"}):
        file.commit(put(namespace, "k", {}))

    file.read()

    assert len(NAMESPACES) == 12


def test_the_cause_of_a_row_follows_from_its_entry() -> None:
    tool = {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "t",
        "content": [],
        "isError": False,
    }
    file = Writer()
    file.commit(
        entry("e1", None, message=tool),
        entry("e2", "e1", "compaction", summary="s", retainedTail=[], tokensBefore=0),
        entry("e3", "e1", "branch_summary", summary="s", fromId="e2"),
        ledger("u1", entryId="e1"),
        ledger("u2", entryId="e2"),
        ledger("u3", entryId="e3"),
        ledger("u4"),
        ledger("u5", adjustment=True, details="by hand"),
    )

    rows = file.read().usage

    causes = [row.cause for row in rows]
    assert causes == ["tool", "compaction", "branch_summary", "retry", "adjustment"]
    assert rows[-1].details == {"value": "by hand"}


def waiting(**lists: list[str]) -> Writer:
    next_run = lists.pop("pendingNextRun", [])
    file = Writer()
    file.commit(
        entry("e1", None, message=user("a")),
        put("lane.leaf", "main", "e1"),
        put("lane.state", "main", {"currentOperationId": "op1", "pendingNextRun": next_run}),
        put("op.meta", "op1", {"operationId": "op1", "lane": "main"}),
        put("op.state", "op1", {"kind": "run", "inbox": lists}),
    )
    for name in ("p1", "p2", "p3", "p4"):
        file.commit(put("pending.entry", name, {"type": "message", "payload": user(name)}))
    return file


def test_what_waits_becomes_the_inbox() -> None:
    file = waiting(steer=["p1"], followUp=["p2"], writes=["p3"], pendingNextRun=["p4"])

    session = file.read()

    found = [(item.id, item.lane, item.queue, item.status) for item in session.inbox]
    assert found == [
        ("p1", "main", "steer", "pending"),
        ("p2", "main", "followUp", "pending"),
        ("p3", "main", "nextRun", "pending"),
        ("p4", "main", "nextRun", "pending"),
    ]
    assert [getattr(item.message, "text", None) for item in session.inbox] == [
        "p1",
        "p2",
        "p3",
        "p4",
    ]
    assert "op1 was open" in session.warnings[0]


def test_waiting_data_that_no_model_reads_takes_its_place_at_once() -> None:
    file = waiting(writes=["p5"], steer=["p1", "lost"])
    file.commit(
        put("pending.entry", "p5", {"type": "custom", "customType": "todo", "payload": [1]})
    )

    session = file.read()

    placed = session.entries[-1]
    assert isinstance(placed, CustomEntry)
    assert (placed.id, placed.parent_id, placed.custom_type, placed.data) == (
        "p5",
        "e1",
        "todo",
        [1],
    )
    assert session.lanes[0].leaf_id == "p5"
    assert [item.id for item in session.inbox] == ["p1"]
    assert [w for w in session.warnings if "waits nowhere" in w]
    assert [w for w in session.warnings if "'lost'" in w]


def test_headers_without_an_id_or_time_are_refused() -> None:
    for missing in ("id", "createdAt"):
        file = Writer()
        del file.lines[0][missing]
        with pytest.raises(SessionDamaged, match="line 1"):
            file.read()


async def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    file = Writer()
    file.commit({"kind": "nonsense"})
    path = tmp_path / "s.jsonl"
    path.write_bytes(file.bytes())
    store = MemoryStore()

    with pytest.raises(SessionDamaged) as refused:
        await import_file(store, path)

    assert refused.value.where == f"{path}, line 2"
    assert refused.value.message.count("line 2") == 1
    assert await store.list() == []


async def test_what_waits_is_heard_after_the_import(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(waiting(steer=["p1"], pendingNextRun=["p4"]).bytes())
    store = MemoryStore()

    info = await import_file(store, path, session_id="mine")

    assert info.id == "mine"
    assert [item.id for item in await store.inbox("mine")] == ["p1", "p4"]
    state = await store.state("mine")
    assert state.info.locked_by is None
    assert state.operations == []


@given(st.data())
def test_no_cut_ever_leaves_part_of_a_commit(data: st.DataObject) -> None:
    file = Writer()
    for number in range(1, 5):
        parent = f"e{number - 1}" if number > 1 else None
        file.commit(
            entry(f"e{number}", parent, message=user("x")), put("lane.leaf", "main", f"e{number}")
        )
    whole = file.bytes()
    cut = data.draw(st.integers(whole.index(b"\n") + 1, len(whole)))

    session = read_pi_v4_spec(whole[:cut].splitlines(keepends=True))

    last = session.entries[-1].id if session.entries else None
    assert session.lanes[0].leaf_id == last
