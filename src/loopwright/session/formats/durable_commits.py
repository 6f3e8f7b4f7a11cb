"""A folder of commits, as durable sessions are kept elsewhere: `main.jsonl` and files beside it.

Taken over is what was said: the entries of all conversations. Each conversation becomes a lane, the
first one of its own right is `main`. An entry there may carry several messages, or none; here each
message has an entry of its own, and what no model reads becomes custom entries. Ids are made of
the time and the old number. Tasks, documents and waiting submissions, whose contents stand in the
files beside `main.jsonl`, are left out with a warning.

Not here: what the messages mean (pi_messages).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from ...errors import DecodeError, SessionDamaged
from ...messages import AssistantMessage, Usage
from ..entries import CompactionEntry, CustomEntry, Entry, MessageEntry, new_id
from ..rows import Lane, SessionInfo, UsageRow
from .importing import ImportedSession
from .lines import damaged, json_lines
from .pi_messages import read_message

__all__ = ["read_durable"]

_LAST_MS = (1 << 48) - 1
_LAST_ID = (1 << 48) - 1


class _Conversation(msgspec.Struct):
    """A line of entries, which may begin in the middle of another."""

    id: int
    owned: bool
    start: str | None
    """The entry of ours that its first one follows."""
    leaf: str | None = None


class _Place(msgspec.Struct):
    """Where an entry of theirs stands in our tree."""

    conversation: int
    first: str
    last: str


def read_durable(folder: Path, *, lenient: bool = False) -> ImportedSession:
    """The session in *folder*. A torn last line is left out with a warning.

    *lenient* leaves out other writes that cannot be read, with warnings, where else
    `SessionDamaged` is raised with the number of their line.
    """
    warnings: list[str] = []
    reading = _Reading(warnings)
    seq = 0
    with (folder / "main.jsonl").open("rb") as lines:
        for number, value in json_lines(lines, warnings, lenient=lenient):
            commit = _object(value)
            if commit is None or commit.get("format") != 1 or commit.get("type") != "commit":
                error = damaged(number, "no commit of the format 1")
                if not lenient:
                    raise error
                warnings.append(f"{error.message}; left out")
                continue
            found = commit.get("seq")
            if type(found) is not int or found <= seq:
                raise damaged(number, f"the commit {found!r} does not come after {seq}")
            seq = found
            for write in _list(commit.get("writes")):
                try:
                    reading.add(number, write)
                except SessionDamaged as error:
                    if not lenient:
                        raise
                    warnings.append(f"{error.message}; left out")
    return reading.result(folder)


class _Reading:
    """A folder being read, write after write."""

    def __init__(self, warnings: list[str]) -> None:
        self.warnings = warnings
        self.conversations: dict[int, _Conversation] = {}
        self.places: dict[int, _Place] = {}
        self.entries: list[Entry] = []
        self.rest: dict[str, dict[str, Any]] = {}
        self.usage = Usage()
        self.waiting: dict[int, bool] = {}
        self.others = 0
        self.created: int | None = None
        self.time = 0

    def add(self, line: int, value: Any) -> None:
        """Take over one write. Raises `SessionDamaged`."""
        write = _object(value) or {}
        kind, record = write.get("type"), _object(write.get("value")) or {}
        if kind in ("conversation", "entry", "submission") and type(record.get("id")) is not int:
            raise damaged(line, f"the {kind} has no number")
        if kind == "conversation":
            self._conversation(line, record)
        elif kind == "entry":
            try:
                self._entry(line, record)
            except DecodeError as error:
                raise damaged(
                    line, f"the entry {record['id']} cannot be read: {error.message}"
                ) from error
        elif kind == "submission":
            self.waiting[record["id"]] = record.get("status") == "queued"
        elif isinstance(kind, str) and kind.startswith(("task", "document")):
            self.others += 1
        else:
            raise damaged(line, f"no write is of the type {kind!r}")

    def _conversation(self, line: int, record: dict[str, Any]) -> None:
        known = self.conversations.get(record["id"])
        owned = _object(record.get("owner")) is not None
        if known is not None:  # written again: only who owns it may have changed
            known.owned = owned
            return
        start: str | None = None
        parent = _object(record.get("parent"))
        if parent is not None:
            at = self.places.get(parent.get("at", -1))
            if at is None:
                raise damaged(
                    line,
                    f"the conversation {record['id']} begins at the entry {parent.get('at')!r}, "
                    "which is not there",
                )
            start = at.last
        self.conversations[record["id"]] = _Conversation(record["id"], owned, start, start)

    def _entry(self, line: int, record: dict[str, Any]) -> None:
        conversation = self.conversations.get(record.get("conversationId", -1))
        if conversation is None:
            raise damaged(line, f"the entry {record['id']} is in no conversation that is there")
        if record["id"] in self.places or not 0 <= record["id"] <= _LAST_ID:
            raise damaged(line, f"the number {record['id']} of an entry is taken already")
        messages = _list(record.get("model"))
        time = next((m["timestamp"] for m in messages if _has_time(m)), self.time)
        self.time = min(max(int(time), 0), _LAST_MS)
        if self.created is None:
            self.created = self.time
        kind = str(record.get("kind") or "durable.entry")
        made: list[Entry] = []

        def place() -> dict[str, Any]:
            name = f"{self.time:012x}{record['id']:012x}{len(made):04x}"
            above = made[-1].id if made else conversation.leaf
            return {"id": name, "parent_id": above, "timestamp": self.time}

        if record.get("edits"):
            self.warnings.append(
                f"line {line}: the entry {record['id']} changes what the model sees of earlier "
                "ones; that is kept as a custom entry and not applied"
            )
            made.append(CustomEntry(**place(), custom_type="durable.edits", data=record["edits"]))
        if "data" in record or not messages:
            made.append(CustomEntry(**place(), custom_type=kind, data=record.get("data")))
        if record.get("head") is not None:
            made.append(self._compaction(line, record, messages, place()))
        else:
            for message in messages:  # one after the other: each stands behind the one before
                made.append(self._message(line, message, place()))  # noqa: PERF401
        self.entries += made
        conversation.leaf = made[-1].id
        self.places[record["id"]] = _Place(conversation.id, made[0].id, made[-1].id)

    def _compaction(
        self, line: int, record: dict[str, Any], messages: list[Any], place: dict[str, Any]
    ) -> CompactionEntry:
        """A head marker: it is read first, then what follows the entry it names."""
        head = record["head"]
        kept = self.places.get(head) if type(head) is int else None
        if kept is None and head != record["id"] and head != "self":
            raise damaged(line, f"the entry {record['id']} keeps from {head!r}, which is not there")
        said = [read_message(message, timestamp=self.time)[0] for message in messages]
        texts = [str(getattr(message, "text", "")) for message in said]
        return CompactionEntry(
            **place,
            summary="\n\n".join(text for text in texts if text),
            first_kept_id=kept.first if kept else None,
            details=None if "data" in record else {"kind": record.get("kind")},
        )

    def _message(self, line: int, data: Any, place: dict[str, Any]) -> Entry:
        role = (_object(data) or {}).get("role")
        if role == "system":
            return CustomEntry(**place, custom_type="durable.system", data=data)
        try:
            message, rest = read_message(data, timestamp=self.time)
        except DecodeError as error:
            if not isinstance(role, str) or role in ("user", "assistant", "toolResult"):
                raise
            self.warnings.append(f"line {line}: {error.message}; kept, and no model is shown it")
            return CustomEntry(**place, custom_type="durable.message", data=data)
        if rest:
            self.rest[place["id"]] = {"message": rest}
        if isinstance(message, AssistantMessage):
            self.usage += message.usage
        return MessageEntry(**place, message=message)

    def result(self, folder: Path) -> ImportedSession:
        waiting = sum(self.waiting.values())
        if waiting:
            self.warnings.append(f"{waiting} waiting submissions are left out")
        if self.others:
            self.warnings.append(f"{self.others} writes to tasks and documents are left out")
        usage: list[UsageRow] = []
        if not (self.usage.is_empty and self.usage.known):
            source = {"source": "durable"}
            usage.append(
                UsageRow(cause="import", usage=self.usage, details=source, timestamp=self.time)
            )
        return ImportedSession(
            info=SessionInfo(
                id=new_id(),
                created_at=self.created or 0,
                modified_at=self.time,
                metadata={"importedFrom": {"format": "durable", "folder": folder.name}},
            ),
            entries=self.entries,
            lanes=self._lanes(),
            usage=usage,
            rest=self.rest,
            warnings=self.warnings,
        )

    def _lanes(self) -> list[Lane]:
        every = list(self.conversations.values())
        first = next((c for c in every if not c.owned), every[0] if every else None)
        lanes = [Lane(name="main", leaf_id=first.leaf if first else None)]
        lanes += [
            Lane(name=f"conversation-{c.id}", leaf_id=c.leaf) for c in every if c is not first
        ]
        return lanes


def _has_time(message: Any) -> bool:
    found = (_object(message) or {}).get("timestamp")
    return isinstance(found, int | float) and not isinstance(found, bool)


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
