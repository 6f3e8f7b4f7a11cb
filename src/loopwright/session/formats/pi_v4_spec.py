"""The other format called 4: registers, and one line a commit (header key `v`).

A line is one write, or a list of writes that happened together. Entries and rows of the ledger
add up; a register holds what was last set, or nothing once deleted. Sequence numbers only grow;
gaps are legal.

What was said and is not heard yet becomes our inbox. Of an operation that was open nothing else is
taken over: the transcript tells what it still owes.

Not here: what the messages mean (pi_messages).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, get_args

import msgspec

from ...errors import DecodeError, SessionDamaged
from ...messages import AgentMessage, AssistantMessage, ToolResultMessage, Usage
from ...models.model import ThinkingLevel
from ..entries import BranchSummaryEntry, CompactionEntry, CustomEntry, Entry, MessageEntry
from ..rows import (
    Fact,
    InboxItem,
    InboxQueue,
    Lane,
    LaneConfig,
    SessionInfo,
    UsageCause,
    UsageRow,
)
from .detect import detect_header
from .importing import ImportedSession
from .lines import damaged, json_lines
from .pi_messages import read_message
from .pi_v4_messages import usage_from_pi

__all__ = ["NAMESPACES", "read_pi_v4_spec"]

NAMESPACES = frozenset(
    {
        "lane.leaf",
        "lane.config",
        "lane.state",
        "lane.lastResult",
        "op.meta",
        "op.state",
        "op.tool_args",
        "op.preparation",
        "pending.entry",
        "fact.name",
        "fact.label",
        "fact.custom",
    }
)
"""Every kind of register there is."""

_THINKING: tuple[str, ...] = get_args(ThinkingLevel)


def read_pi_v4_spec(lines: Iterable[bytes], *, lenient: bool = False) -> ImportedSession:
    """The session in *lines*. A commit whose line is torn is left out whole, with a warning.

    *lenient* leaves out other commits that cannot be read, whole and with warnings, where else
    `SessionDamaged` is raised with the number of the line.
    """
    warnings: list[str] = []
    numbered = json_lines(lines, warnings, lenient=lenient)
    number, header = next(numbered, (1, None))
    if detect_header(msgspec.json.encode(header)).format != "pi-v4-spec":
        raise damaged(number, "no header with v=4")
    reading = _Reading(cast("dict[str, Any]", header), warnings)
    for number, value in numbered:
        try:
            reading.add(number, value)
        except SessionDamaged as error:
            if not lenient:
                raise
            warnings.append(f"{error.message}; the commit was left out")
    return reading.result()


class _Commit(msgspec.Struct):
    """The writes of one line, read and not yet taken over."""

    line: int
    seq: int
    time: int
    entries: dict[str, Entry] = {}
    usage: dict[str, UsageRow] = {}
    registers: list[tuple[str, str, Any]] = []
    rest: dict[str, dict[str, Any]] = {}


_DELETED = object()


class _Reading:
    """A file being replayed, commit after commit."""

    def __init__(self, header: dict[str, Any], warnings: list[str]) -> None:
        self.header = header
        self.warnings = warnings
        self.info = _info(header)
        self.seq = 0
        self.entries: dict[str, Entry] = {}
        self.usage: dict[str, UsageRow] = {}
        self.registers: dict[tuple[str, str], Any] = {}
        self.rest: dict[str, dict[str, Any]] = {}
        self.time = self.info.created_at

    def add(self, line: int, value: Any) -> None:
        """Take over one commit, whole. Raises `SessionDamaged`, and nothing was taken over then."""
        writes = cast("list[Any]", value) if isinstance(value, list) else [value]
        commit = _Commit(line, self.seq, self.time)
        for write in writes:
            self._read(commit, write)
        self.seq, self.time = commit.seq, commit.time
        self.entries |= commit.entries
        self.usage |= commit.usage
        self.rest |= commit.rest
        for namespace, key, set_to in commit.registers:
            if set_to is _DELETED:
                self.registers.pop((namespace, key), None)
            else:
                self.registers[namespace, key] = set_to

    def _read(self, commit: _Commit, value: Any) -> None:
        if not isinstance(value, dict):
            raise damaged(commit.line, "no write: an object is wanted")
        write = cast("dict[str, Any]", value)
        kind, seq = write.get("kind"), write.get("seq")
        if type(seq) is not int or seq <= commit.seq:
            raise damaged(
                commit.line, f"the sequence number {seq!r} does not come after {commit.seq}"
            )
        commit.seq = seq
        try:
            if kind == "entry":
                self._entry(commit, write)
            elif kind == "usage":
                self._usage(commit, write)
            elif kind == "register":
                self._register(commit, write)
            else:
                raise damaged(commit.line, f"no write is of the kind {kind!r}")
        except DecodeError as error:
            raise damaged(commit.line, f"the {kind} cannot be read: {error.message}") from error

    def _new_id(self, commit: _Commit, write: dict[str, Any]) -> str:
        found = write.get("id")
        if not isinstance(found, str) or not found:
            raise damaged(commit.line, "the write has no id")
        if any(found in ids for ids in (self.entries, self.usage, commit.entries, commit.usage)):
            raise damaged(commit.line, f"the id {found!r} is taken already")
        return found

    def _entry(self, commit: _Commit, write: dict[str, Any]) -> None:
        entry_id, parent = self._new_id(commit, write), write.get("parentId")
        if parent is not None and parent not in self.entries and parent not in commit.entries:
            raise damaged(commit.line, f"no earlier entry is the parent {parent!r}")
        time = write.get("timestamp")
        commit.time = time if type(time) is int else commit.time
        place: dict[str, Any] = {"id": entry_id, "parent_id": parent, "timestamp": commit.time}
        match write.get("type"):
            case "message":
                message, rest = read_message(write.get("message"), timestamp=commit.time)
                if rest:
                    commit.rest[entry_id] = {"message": rest}
                entry = MessageEntry(
                    **place, message=message, terminate=write.get("terminate") is True
                )
            case "compaction":
                tail, rest = _tail(write, commit.time)
                if rest:
                    commit.rest[entry_id] = {"retainedTail": rest}
                entry = CompactionEntry(**place, **_compaction(write), retained_tail=tail)
            case "branch_summary":
                entry = BranchSummaryEntry(
                    **place,
                    from_id=_string(write, "fromId"),
                    summary=_string(write, "summary"),
                    details=write.get("details"),
                    usage=_usage(write),
                    from_hook=write.get("fromHook") is True,
                )
            case "custom":
                entry = CustomEntry(
                    **place, custom_type=_string(write, "customType"), data=write.get("data")
                )
            case other:
                raise damaged(commit.line, f"no entry is of the type {other!r}")
        commit.entries[entry_id] = entry

    def _usage(self, commit: _Commit, write: dict[str, Any]) -> None:
        row_id, usage = self._new_id(commit, write), _usage(write)
        if usage is None:
            raise damaged(commit.line, "the row of the ledger has no usage")
        about = write.get("entryId")
        entry = None
        if isinstance(about, str):
            entry = commit.entries.get(about) or self.entries.get(about)
        message = entry.message if isinstance(entry, MessageEntry) else None
        reply = message if isinstance(message, AssistantMessage) else None
        details = write.get("details")
        commit.usage[row_id] = UsageRow(
            id=row_id,
            cause=_cause(write, entry),
            usage=usage,
            entry_id=about if isinstance(about, str) else None,
            provider=(reply.provider or None) if reply else None,
            model=(reply.model or None) if reply else None,
            details=_object(details) or (None if details is None else {"value": details}),
            timestamp=commit.time,
        )

    def _register(self, commit: _Commit, write: dict[str, Any]) -> None:
        namespace, key, op = _string(write, "namespace"), _string(write, "key"), write.get("op")
        if namespace not in NAMESPACES:
            raise damaged(commit.line, f"no register has the namespace {namespace!r}")
        if op not in ("set", "delete") or (op == "set" and "value" not in write):
            raise damaged(commit.line, "a register is set to a value, or deleted")
        set_to = write["value"] if op == "set" else _DELETED
        commit.registers.append((namespace, key, set_to))

    # -- what it comes to --------------------------------------------------------------------

    def result(self) -> ImportedSession:
        inbox = self._inbox()  # first: waiting custom entries take their place in the tree
        lanes = self._lanes()
        return ImportedSession(
            info=msgspec.structs.replace(
                self.info, name=self._name(), modified_at=max(self.time, self.info.created_at)
            ),
            entries=list(self.entries.values()),
            lanes=lanes,
            facts=self._facts(),
            usage=list(self.usage.values()),
            inbox=inbox,
            rest=self.rest,
            warnings=self.warnings,
        )

    def _of(self, namespace: str) -> dict[str, Any]:
        """The registers of one namespace by key."""
        return {key: value for (space, key), value in self.registers.items() if space == namespace}

    def _name(self) -> str | None:
        name = self.registers.get(("fact.name", ""))
        return name if isinstance(name, str) and name else None

    def _lanes(self) -> list[Lane]:
        configs = self._of("lane.config")
        lanes = {"main": None} | self._of("lane.leaf")
        made: list[Lane] = []
        for name, leaf in lanes.items():
            if leaf is not None and leaf not in self.entries:
                raise SessionDamaged(f"its leaf {leaf!r} is no entry", where=f"lane {name!r}")
            config = self._config(name, configs[name]) if name in configs else None
            made.append(Lane(name=name, leaf_id=leaf, config=config))
        return made

    def _config(self, lane: str, value: Any) -> LaneConfig | None:
        config = _object(value) or {}
        model = _object(config.get("model")) or config
        provider, model_id = model.get("provider"), model.get("modelId")
        if not isinstance(provider, str) or not isinstance(model_id, str):
            self.warnings.append(f"lane {lane!r}: its configuration names no model; left out")
            return None
        thinking = config.get("thinkingLevel")
        if thinking is not None and thinking not in _THINKING:
            self.warnings.append(f"lane {lane!r}: thinking level {thinking!r} is taken as 'off'")
            thinking = "off"
        return LaneConfig(
            provider=provider,
            model_id=model_id,
            thinking_level=cast("ThinkingLevel | None", thinking),
            active_tools=_strings(config.get("activeToolNames")),
        )

    def _facts(self) -> list[Fact]:
        facts: list[Fact] = []
        if name := self._name():
            facts.append(Fact(namespace="name", value=name))
        for entry_id, label in self._of("fact.label").items():
            if entry_id in self.entries and isinstance(label, str):
                facts.append(Fact(namespace="label", key=entry_id, value=label))
            else:
                self.warnings.append(f"the label of {entry_id!r}, no entry, is left out")
        for key, value in self._of("fact.custom").items():
            facts.append(Fact(namespace="custom", key=key, value=value))
        return facts

    # -- what waits --------------------------------------------------------------------------

    def _inbox(self) -> list[InboxItem]:
        pending = self._of("pending.entry")
        items: list[InboxItem] = []
        for lane, value in self._of("lane.state").items():
            state = _object(value) or {}
            operation = state.get("currentOperationId")
            if isinstance(operation, str):
                running = _object(self.registers.get(("op.state", operation))) or {}
                waiting = _object(running.get("inbox")) or {}
                self.warnings.append(
                    f"lane {lane!r}: the operation {operation} was open; what it still owes is "
                    "told by the transcript"
                )
                queues: tuple[tuple[str, InboxQueue], ...] = (
                    *(("steer", "steer"), ("followUp", "followUp"), ("writes", "nextRun")),
                )
                for name, queue in queues:
                    for entry_id in _strings(waiting.get(name)):
                        items += self._waiting(lane, queue, entry_id, pending)
            for entry_id in _strings(state.get("pendingNextRun")):
                items += self._waiting(lane, "nextRun", entry_id, pending)
        self.warnings += [f"the pending entry {key} waits nowhere; left out" for key in pending]
        return items

    def _waiting(
        self, lane: str, queue: InboxQueue, entry_id: str, pending: dict[str, Any]
    ) -> list[InboxItem]:
        """The item for one pending entry; a custom one is placed at once, as no model reads it."""
        value = _object(pending.pop(entry_id, None))
        if value is None or entry_id in self.entries:
            self.warnings.append(f"lane {lane!r}: nothing waits under the id {entry_id!r}")
            return []
        if value.get("type") == "custom":
            leaf = self.registers.get(("lane.leaf", lane))
            self.entries[entry_id] = CustomEntry(
                id=entry_id,
                parent_id=leaf,
                custom_type=str(value.get("customType") or "pi.custom"),
                data=value.get("payload"),
                timestamp=self.time,
            )
            self.registers["lane.leaf", lane] = entry_id
            return []
        try:
            message, _ = read_message(value.get("payload"), timestamp=self.time)
        except DecodeError as error:
            self.warnings.append(f"the pending entry {entry_id} is left out: {error.message}")
            return []
        return [
            InboxItem(id=entry_id, lane=lane, queue=queue, message=message, created_at=self.time)
        ]


def _info(header: dict[str, Any]) -> SessionInfo:
    session_id, created, cwd = header.get("id"), header.get("createdAt"), header.get("cwd")
    if not isinstance(session_id, str) or not session_id:
        raise damaged(1, "the header has no id")
    if type(created) is not int:
        raise damaged(1, "the header has no createdAt in milliseconds")
    metadata: dict[str, Any] = dict(_object(header.get("metadata")) or {})
    metadata["importedFrom"] = {"format": "pi-v4-spec"}
    if isinstance(header.get("legacyParentSessionPath"), str):
        metadata["legacyParentSessionPath"] = header["legacyParentSessionPath"]
    parent = header.get("parentSessionId")
    return SessionInfo(
        id=session_id,
        created_at=created,
        modified_at=created,
        cwd=cwd if isinstance(cwd, str) else None,
        parent_id=parent if isinstance(parent, str) else None,
        metadata=metadata,
    )


def _tail(write: dict[str, Any], time: int) -> tuple[list[AgentMessage], dict[str, Any]]:
    """What a compaction kept, and what of it our messages have no field for, by index."""
    tail = write.get("retainedTail", [])
    if not isinstance(tail, list):
        raise DecodeError("'retainedTail' is no list")
    both = [read_message(item, timestamp=time) for item in cast("list[Any]", tail)]
    return [said for said, _ in both], {str(i): rest for i, (_, rest) in enumerate(both) if rest}


def _compaction(write: dict[str, Any]) -> dict[str, Any]:
    tokens = write.get("tokensBefore")
    return {
        "summary": _string(write, "summary"),
        "tokens_before": int(tokens) if isinstance(tokens, int | float) else 0,
        "details": write.get("details"),
        "usage": _usage(write),
        "from_hook": write.get("fromHook") is True,
    }


def _usage(write: dict[str, Any]) -> Usage | None:
    found = _object(write.get("usage"))
    return None if found is None else Usage.from_dict(usage_from_pi(found))


def _cause(write: dict[str, Any], entry: Entry | None) -> UsageCause:
    """The format says only whether a row is an adjustment; the rest follows from its entry."""
    if write.get("adjustment") is True:
        return "adjustment"
    match entry:
        case CompactionEntry():
            return "compaction"
        case BranchSummaryEntry():
            return "branch_summary"
        case MessageEntry() if isinstance(entry.message, ToolResultMessage):
            return "tool"
        case None:
            return "retry"
        case _:
            return "assistant"


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _string(write: dict[str, Any], name: str) -> str:
    value = write.get(name)
    if not isinstance(value, str):
        raise DecodeError(f"{name!r} is missing")
    return value


def _strings(value: Any) -> list[str]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
