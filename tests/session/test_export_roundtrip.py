"""Import followed by export: what pi's v4 can hold comes out as it went in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loopwright.session.entries import EntryRow, MessageEntry
from loopwright.session.export.html import to_html
from loopwright.session.export.markdown import to_markdown
from loopwright.session.export.pi_v4 import export_pi_v4
from loopwright.session.formats.detect import detect
from loopwright.session.formats.importing import import_file, read_session
from loopwright.session.sqlite import SqliteStore

ISO = "2025-11-02T09:30:00.000Z"
TIME = 1_762_075_800_000
COST = {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.3}
USAGE = {
    "input": 10,
    "output": 5,
    "cacheRead": 1,
    "cacheWrite": 2,
    "totalTokens": 18,
    "reasoning": 3,
    "cacheWrite1h": 2,
    "cost": COST,
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Plain words \u2028 and \U0001f600", "timestamp": TIME},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Blocks", "textSignature": "s"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ],
        "timestamp": TIME + 1,
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "sig"},
            {"type": "thinking", "thinking": "", "thinkingSignature": "enc", "redacted": True},
            {"type": "text", "text": "I look.", "textSignature": "ts"},
            {
                "type": "toolCall",
                "id": "c1",
                "name": "read",
                "arguments": {"filePath": "a.py", "snake_case": {"aB": [1, None, 2.5]}},
                "thoughtSignature": "th",
                "namespace": "mcp",
            },
        ],
        "api": "google-gemini",
        "provider": "google",
        "model": "gemini-3",
        "usage": USAGE,
        "stopReason": "toolUse",
        "responseId": "r-1",
        "responseModel": "gemini-3-001",
        "rawStopReason": "STOP",
        "diagnostics": [{"type": "note", "timestamp": TIME}],
        "endTurn": False,
        "timestamp": TIME + 2,
    },
    {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "read",
        "content": [{"type": "text", "text": "import os"}],
        "details": {"lines_read": 1, "camelCase": True},
        "isError": False,
        "usage": USAGE,
        "addedToolNames": ["write"],
        "timestamp": TIME + 3,
    },
    {
        "role": "assistant",
        "content": [],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": USAGE,
        "stopReason": "error",
        "errorMessage": "overloaded",
        "timestamp": TIME + 4,
    },
    {
        "role": "assistant",
        "content": [],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": USAGE,
        "stopReason": "deferred",
        "deferred": {"provider": "p", "modelId": "m", "api": "a", "id": "d", "expiresAt": TIME},
        "timestamp": TIME + 5,
    },
]
COMMAND = {
    "role": "bashExecution",
    "command": "make",
    "output": "ok",
    "exitCode": 0,
    "cancelled": False,
    "truncated": False,
    "timestamp": TIME + 6,
}


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def legacy(version: int) -> bytes:
    values: list[dict[str, Any]] = [
        {
            "type": "session",
            "version": version,
            "id": "old",
            "timestamp": ISO,
            "cwd": "/work",
            "parentSession": "/old/parent.jsonl",
        }
    ]
    last: str | None = None
    said: list[dict[str, Any]] = [{"type": "message", "message": m} for m in MESSAGES]
    said += [
        {"type": "message", "message": COMMAND},
        {"type": "custom", "customType": "todo", "data": {"a_b": [1]}},
        {"type": "custom_message", "customType": "ci", "content": "Red.", "display": True},
        {
            "type": "compaction",
            "summary": "Short.",
            "firstKeptEntryId": "00000002",
            "firstKeptEntryIndex": 2,
            "tokensBefore": 9,
            "details": {"x": 1},
            "usage": USAGE,
        },
        {"type": "branch_summary", "fromId": "00000001", "summary": "Left."},
        {"type": "session_info", "name": "Mine"},
        {"type": "label", "targetId": "00000001", "label": "start"},
    ]
    for number, value in enumerate(said, 1):
        name = f"{number:08x}"
        place: dict[str, Any] = {"timestamp": ISO}
        if version > 1:
            place |= {"id": name, "parentId": last}
        elif value["type"] == "label":
            continue
        last = name
        values.append(value | place)
    return lines(*values)


def spec() -> bytes:
    values: list[Any] = [
        {
            "v": 4,
            "kind": "header",
            "id": "old",
            "storageVersion": 1,
            "createdAt": TIME,
            "cwd": "/work",
        }
    ]
    last, seq = None, 0
    for number, message in enumerate(MESSAGES):
        seq += 2
        entry = {
            "kind": "entry",
            "seq": seq,
            "timestamp": TIME + number,
            "id": f"e{number}",
            "parentId": last,
            "type": "message",
            "message": message,
        }
        leaf = {
            "kind": "register",
            "op": "set",
            "seq": seq + 1,
            "namespace": "lane.leaf",
            "key": "main",
            "value": f"e{number}",
        }
        values.append([entry, leaf])
        last = f"e{number}"
    for namespace, key, value in (
        ("fact.name", "", "Mine"),
        ("fact.label", "e0", "start"),
        ("fact.custom", "k", {"v": None}),
        (
            "lane.config",
            "main",
            {
                "model": {"provider": "p", "modelId": "m"},
                "thinkingLevel": "low",
                "activeToolNames": ["read"],
            },
        ),
        ("lane.leaf", "side", "e1"),
    ):
        seq += 2
        values.append(
            {
                "kind": "register",
                "op": "set",
                "seq": seq,
                "namespace": namespace,
                "key": key,
                "value": value,
            }
        )
    values.append(
        {
            "kind": "usage",
            "seq": seq + 5,
            "id": "u",
            "usage": USAGE,
            "entryId": "e2",
            "adjustment": False,
            "details": {"why": 1},
        }
    )
    return lines(*values)


def shipped() -> bytes:
    values: list[Any] = [
        {
            "kind": "header",
            "version": 4,
            "id": "old",
            "createdAt": TIME,
            "cwd": "/work",
            "metadata": {"mine": 1},
        }
    ]
    last, seq = None, 0
    for number, message in enumerate(MESSAGES):
        seq += 1
        values.append(
            {
                "kind": "entry",
                "lane": "main",
                "type": "message",
                "id": f"e{number}",
                "parentId": last,
                "seq": seq,
                "timestamp": TIME,
                "message": message,
            }
        )
        last = f"e{number}"
    values += [
        {
            "kind": "entry",
            "lane": "main",
            "type": "compaction",
            "id": "c",
            "parentId": last,
            "seq": seq + 1,
            "timestamp": TIME,
            "summary": "Short.",
            "retainedTail": MESSAGES[:3],
            "tokensBefore": 5,
            "details": {"d": 1},
            "usage": USAGE,
        },
        {
            "kind": "entry",
            "type": "branch_summary",
            "id": "b",
            "parentId": "e0",
            "seq": seq + 2,
            "timestamp": TIME,
            "fromId": "c",
            "summary": "Left.",
        },
        {
            "kind": "entry",
            "type": "custom",
            "id": "k",
            "parentId": "b",
            "seq": seq + 3,
            "timestamp": TIME,
            "customType": "todo",
            "data": {"a_b": None},
        },
        {"kind": "fact", "seq": seq + 4, "fact": "name", "name": "Mine"},
        {"kind": "fact", "seq": seq + 5, "fact": "label", "targetId": "e0", "label": "start"},
        {"kind": "lane", "seq": seq + 6, "lane": "side", "leafId": "k"},
    ]
    return lines(*values)


def durable() -> bytes:
    writes: list[Any] = [{"type": "conversation", "value": {"id": 1}}]
    writes += [
        {"type": "entry", "value": {"id": n, "conversationId": 1, "kind": "x", "model": [m]}}
        for n, m in enumerate(MESSAGES, 2)
    ]
    return lines({"format": 1, "type": "commit", "seq": 1, "writes": writes})


SOURCES = {
    "legacy 1": legacy(1),
    "legacy 2": legacy(2),
    "legacy 3": legacy(3),
    "v4 spec": spec(),
    "v4 shipped": shipped(),
    "durable": durable(),
}


def write(folder: Path, name: str) -> Path:
    if name == "durable":
        (folder / "store").mkdir()
        (folder / "store" / "main.jsonl").write_bytes(SOURCES[name])
        return folder / "store"
    path = folder / "source.jsonl"
    path.write_bytes(SOURCES[name])
    return path


def payloads(rows: list[EntryRow]) -> list[Any]:
    return [(row.id, row.parent_id, row.type, msgspec.json.decode(row.payload)) for row in rows]


@pytest.mark.parametrize("name", SOURCES)
async def test_a_session_that_goes_through_us_to_pi_and_back_is_the_same(
    tmp_path: Path, name: str
) -> None:
    store = await SqliteStore.open(tmp_path / "sessions.db")
    first = await import_file(store, write(tmp_path, name))

    exported = await export_pi_v4(store, first.id, tmp_path / "out.jsonl")
    assert detect(exported).format == "pi-v4"
    second = await import_file(store, exported, session_id="again")

    before, after = await store.state(first.id), await store.state(second.id)
    assert payloads(await store.entries(second.id)) == payloads(await store.entries(first.id))
    assert [(f.namespace, f.key, f.value) for f in after.facts] == [
        (f.namespace, f.key, f.value) for f in before.facts
    ]
    for ours, theirs in zip(before.lanes, after.lanes, strict=True):
        assert (theirs.name, theirs.leaf_id) == (ours.name, ours.leaf_id)
        assert ours.config is None or theirs.config == ours.config
    rows = [(row.usage, row.details) for row in await store.usage(first.id)]
    assert [(row.usage, row.details) for row in await store.usage(second.id)] == rows
    assert (second.cwd, second.name, second.created_at) == (first.cwd, first.name, first.created_at)
    await store.aclose()


@pytest.mark.parametrize("name", SOURCES)
async def test_the_exported_lines_have_the_messages_as_pi_wrote_them(
    tmp_path: Path, name: str
) -> None:
    store = await SqliteStore.open(tmp_path / "sessions.db")
    info = await import_file(store, write(tmp_path, name))

    exported = await export_pi_v4(store, info.id, tmp_path / "out.jsonl")

    written = [json.loads(line) for line in exported.read_bytes().splitlines()]
    messages = [line["message"] for line in written if line.get("type") == "message"]
    for original, found in zip(MESSAGES, messages, strict=True):
        assert {k: v for k, v in found.items() if k in original} == original
    await store.aclose()


async def test_what_pi_cannot_hold_is_still_there_when_we_read_its_file(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "sessions.db")
    info = await import_file(store, write(tmp_path, "legacy 3"))

    exported = await export_pi_v4(store, info.id, tmp_path / "out.jsonl")

    session = read_session(exported)
    said = [e.message.to_dict(camel=True) for e in session.entries if isinstance(e, MessageEntry)]
    assert COMMAND in said
    metadata = session.info.metadata or {}
    assert metadata["legacyParentSessionPath"] == "/old/parent.jsonl"
    await store.aclose()


@pytest.mark.parametrize("name", SOURCES)
async def test_every_import_can_be_shown_to_people(tmp_path: Path, name: str) -> None:
    session = read_session(write(tmp_path, name))

    page = to_html(session.info, session.entries, leaf_id=session.lanes[0].leaf_id)
    document = to_markdown(session.info, session.entries)

    for shown in (page, document):
        assert "I look." in shown
        assert "import os" in shown
        assert "overloaded" in shown
    assert page.count("<article") == len(session.entries)


@pytest.mark.parametrize("name", ["legacy 3", "v4 spec", "v4 shipped"])
async def test_marks_and_line_ends_of_other_systems_are_no_hindrance(
    tmp_path: Path, name: str
) -> None:
    plain = read_session(write(tmp_path, name))
    path = tmp_path / "other.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + SOURCES[name].replace(b"\n", b"\r\n"))

    session = read_session(path)

    assert session.entries == plain.entries
    assert session.lanes == plain.lanes
