"""A folder of commits: conversations of numbered entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopwright.errors import SessionDamaged
from loopwright.messages import AssistantMessage, UserMessage
from loopwright.session.entries import CompactionEntry, CustomEntry, MessageEntry
from loopwright.session.formats.importing import ImportedSession, import_file, read_session
from loopwright.session.memory import MemoryStore
from loopwright.session.tree import context_of

TIME = 1_800_000_000_000


def user(text: str, seconds: int = 0) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": TIME + seconds * 1000}


def reply(text: str) -> dict[str, Any]:
    spent = {"input": 4, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 6}
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "provider": "openai",
        "model": "gpt-5",
        "usage": spent | {"cost": {"total": 0.5}},
        "stopReason": "stop",
        "timestamp": TIME,
    }


def conversation(id: int, **more: Any) -> dict[str, Any]:
    return {"type": "conversation", "value": {"id": id} | more}


def entry(id: int, *model: dict[str, Any], into: int = 1, **more: Any) -> dict[str, Any]:
    value: dict[str, Any] = {"id": id, "conversationId": into, "kind": "app.note"}
    return {"type": "entry", "value": value | ({"model": list(model)} if model else {}) | more}


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.seq = 0

    def commit(self, *writes: dict[str, Any], **more: Any) -> None:
        self.seq += 1
        marker = {"format": 1, "type": "commit", "seq": self.seq, "writes": list(writes)} | more
        self.append(json.dumps(marker) + "\n")

    def append(self, text: str) -> None:
        with (self.path / "main.jsonl").open("a") as file:
            file.write(text)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.commit(conversation(1), entry(2, user("Hello", 1)))
    return made


def shown(session: ImportedSession, lane: str = "main") -> list[str]:
    by_id = {e.id: e for e in session.entries}
    here = next(found.leaf_id for found in session.lanes if found.name == lane)
    path = []
    while here is not None:
        path.insert(0, by_id[here])
        here = by_id[here].parent_id
    return [getattr(message, "text", "") for message in context_of(path)]


def test_every_message_of_an_entry_has_its_own_place_in_order(folder: Folder) -> None:
    folder.commit(entry(3, reply("Hi."), user("And?"), data={"some": 1}))

    session = read_session(folder.path)

    assert shown(session) == ["Hello", "Hi.", "And?"]
    kinds = [type(e) for e in session.entries]
    assert kinds == [MessageEntry, CustomEntry, MessageEntry, MessageEntry]
    data = session.entries[1]
    assert isinstance(data, CustomEntry)
    assert (data.custom_type, data.data) == ("app.note", {"some": 1})
    assert session.entries[0].id == f"{TIME + 1000:012x}{2:012x}0000"
    assert session.info.created_at == TIME + 1000
    assert session.usage[0].usage.cost.total == 0.5


def test_what_no_model_reads_becomes_custom_entries(folder: Folder) -> None:
    prompt = {"role": "system", "content": "Be kind.", "timestamp": TIME}
    folder.commit(entry(3, prompt), entry(4), entry(5, {"role": "wizard", "timestamp": TIME}))

    session = read_session(folder.path)

    rest = session.entries[1:]
    assert [e.custom_type for e in rest if isinstance(e, CustomEntry)] == [
        "durable.system",
        "app.note",
        "durable.message",
    ]
    assert shown(session) == ["Hello"]


def test_a_head_is_read_first_and_then_what_it_keeps(folder: Folder) -> None:
    folder.commit(entry(3, reply("Hi.")), entry(4, user("Kept")))
    folder.commit(entry(5, user("In short."), head=4, kind="pi.compaction"))
    folder.commit(entry(6, user("Later")))

    session = read_session(folder.path)

    compaction = session.entries[3]
    assert isinstance(compaction, CompactionEntry)
    assert compaction.summary == "In short."
    assert shown(session)[1:] == ["Kept", "Later"]


def test_a_head_that_keeps_only_itself(folder: Folder) -> None:
    folder.commit(entry(3, user("In short."), head=3), entry(4, user("Later")))

    assert shown(read_session(folder.path))[1:] == ["Later"]


def test_conversations_become_lanes_and_one_of_its_own_right_is_main(tmp_path: Path) -> None:
    made = Folder(tmp_path)
    made.commit(conversation(1, owner={"conversationId": 9, "taskId": 8}), entry(2, user("Task")))
    made.commit(conversation(3), entry(4, user("Root"), into=3), entry(5, user("On"), into=3))
    made.commit(conversation(6, parent={"conversationId": 3, "at": 4}))
    made.commit(entry(7, user("Fork"), into=6))

    session = read_session(tmp_path)

    assert shown(session) == ["Root", "On"]
    assert shown(session, "conversation-6") == ["Root", "Fork"]
    assert shown(session, "conversation-1") == ["Task"]


def test_what_is_not_taken_over_is_said(folder: Folder) -> None:
    waiting = {"id": 9, "conversationId": 1, "type": "input", "status": "queued"}
    folder.commit({"type": "submission", "value": waiting})
    folder.commit({"type": "task.sidecar", "id": 7, "ordinal": 0})
    folder.commit(entry(3, edits=[{"target": 2, "action": "omit"}]))

    warnings = read_session(folder.path).warnings

    assert len(warnings) == 3
    assert any("1 waiting" in warning for warning in warnings)
    assert any("tasks and documents" in warning for warning in warnings)
    assert any("not applied" in warning for warning in warnings)


def test_a_submission_that_was_placed_waits_no_more(folder: Folder) -> None:
    for status in ("queued", "placed"):
        record = {"id": 9, "conversationId": 1, "type": "input", "status": status}
        folder.commit({"type": "submission", "value": record})

    assert read_session(folder.path).warnings == []


def test_a_torn_last_commit_is_left_out_and_a_bad_one_before_is_refused(folder: Folder) -> None:
    folder.append('{"format":1,"type":"com')
    assert "torn" in read_session(folder.path).warnings[0]

    folder.append("\n")
    folder.commit(entry(3, user("Later")))

    with pytest.raises(SessionDamaged, match="line 2"):
        read_session(folder.path)
    assert shown(read_session(folder.path, lenient=True)) == ["Hello", "Later"]


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (entry(2, user("again")), "taken already"),
        (entry(3, user("x"), into=5), "no conversation"),
        (entry(3, {"role": "user"}, {"role": "assistant", "content": [{"type": "x"}]}), "entry 3"),
        (entry(3, user("x"), head=77), "77"),
        (conversation(8, parent={"conversationId": 1, "at": 99}), "99"),
        ({"type": "entry", "value": {"id": "x"}}, "no number"),
        ({"type": "poem"}, "'poem'"),
    ],
)
def test_writes_that_make_no_sense_are_refused_by_line(
    folder: Folder, write: dict[str, Any], words: str
) -> None:
    folder.commit(write)

    with pytest.raises(SessionDamaged, match="line 2") as refused:
        read_session(folder.path)

    assert words in refused.value.message


async def test_a_folder_is_imported_into_a_store_and_not_touched(folder: Folder) -> None:
    folder.commit(entry(3, reply("Hi.")))
    before = (folder.path / "main.jsonl").read_bytes()
    store = MemoryStore()

    info = await import_file(store, folder.path)

    rows = await store.entries(info.id)
    messages = [e.message for row in rows if isinstance(e := row.entry(), MessageEntry)]
    assert [type(m) for m in messages] == [UserMessage, AssistantMessage]
    assert (folder.path / "main.jsonl").read_bytes() == before
    assert info.preview == "Hello"
