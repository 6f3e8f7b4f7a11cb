"""pi's session files of the versions 1 to 3, as sessions of ours.

    1  a list of entries; compactions count lines
    2  a tree of entries with ids
    3  as 2; the role `hookMessage` is called `custom`

Entries that only recorded configuration, labels and names leave the tree, and their children go
to the nearest entry above that stays. Labels and the name become facts, the last one wins. Ids
are made anew from the time of their entry and the old id: eight hexadecimal digits of an old id
stand in the new one behind the twelve of the time. The costs become one row of the ledger.

Not here: what the messages mean (pi_messages).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, cast

import msgspec

from ...errors import DecodeError, SessionDamaged
from ...messages import AssistantMessage, ToolResultMessage, Usage
from ..entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    MessageEntry,
    new_id,
)
from ..rows import Fact, Lane, SessionInfo, UsageRow
from .detect import detect_header
from .importing import ImportedSession
from .lines import damaged, json_lines
from .pi_messages import read_message
from .pi_v4_messages import usage_from_pi

__all__ = ["read_legacy"]

_WITHOUT_ENTRY = frozenset(
    {
        "model_change",
        "thinking_level_change",
        "active_tools_change",
        "label",
        "session_info",
    }
)
_OLD_ID = re.compile("[0-9a-f]{8}")
_SESSION_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LAST_MS = (1 << 48) - 1


class _Node(msgspec.Struct):
    """One line of the file, with the places it has in both trees."""

    id: str
    parent: str | None
    data: dict[str, Any]
    line: int
    timestamp: int
    entry_id: str | None = None
    """None if it left the tree."""
    nearest: str | None = None
    """The entry it is, or the nearest one above."""


def read_legacy(lines: Iterable[bytes], *, lenient: bool = False) -> ImportedSession:
    """The session in *lines*. A torn last line is left out with a warning.

    *lenient* leaves out other lines that cannot be read, with warnings, where else `SessionDamaged`
    is raised with their number. Raises `SessionTooNew` for a version after 3.
    """
    warnings: list[str] = []
    numbered = json_lines(lines, warnings, lenient=lenient)
    number, header = next(numbered, (1, None))
    found = detect_header(msgspec.json.encode(header))
    if found.format != "pi-legacy":
        raise damaged(number, "no header with the type 'session'")
    version = found.version
    reading = _Reading(cast("dict[str, Any]", header), version, warnings, lenient)
    for number, value in numbered:
        try:
            reading.add(number, value)
        except SessionDamaged as error:
            if not lenient:
                raise
            warnings.append(f"{error.message}; left out")
    return reading.result()


class _Reading:
    """A file being read, line after line."""

    def __init__(
        self, header: dict[str, Any], version: int, warnings: list[str], lenient: bool
    ) -> None:
        self.version = version
        self.warnings = warnings
        self.lenient = lenient
        self.info = _info(header, version, warnings)
        self.time = self.info.created_at
        """Of the last entry: what an entry without a time of its own gets."""
        self.nodes: dict[str, _Node] = {}
        self.in_file: list[str | None] = [None]
        """Old ids in the order of the file, the header first: what version 1 counts."""
        self.last: _Node | None = None
        self.entries: list[Entry] = []
        self.name: str | None = None
        self.labels: dict[str, str] = {}
        self.rest: dict[str, dict[str, Any]] = {}
        self.usage: Usage = Usage()

    def add(self, line: int, value: Any) -> None:
        """Take over one line. Raises `SessionDamaged`."""
        data = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if not isinstance(data.get("type"), str):
            raise damaged(line, "no entry: an object with a type is wanted")
        if data["type"] == "session":
            self.warnings.append(f"line {line}: a second header was left out")
            self.in_file.append(None)
            return
        node = self._node(line, data)
        above = self.nodes[node.parent] if node.parent is not None else None
        parent = above.nearest if above else None
        try:
            entry = self._entry(node, parent)
        except SessionDamaged as error:
            if not self.lenient:
                raise
            self.warnings.append(f"{error.message}; left out")
            entry = None  # what follows it is not lost with it
        if entry is None:
            node.nearest = parent
        else:
            node.entry_id = node.nearest = entry.id
            self.entries.append(entry)
        self.time = node.timestamp
        self.nodes[node.id] = node
        self.in_file.append(node.id)
        self.last = node

    def result(self) -> ImportedSession:
        leaf = self.last.nearest if self.last else None
        facts = [Fact(namespace="label", key=key, value=text) for key, text in self.labels.items()]
        if self.name:
            facts.insert(0, Fact(namespace="name", value=self.name))
        usage: list[UsageRow] = []
        if not (self.usage.is_empty and self.usage.known):
            usage.append(
                UsageRow(
                    cause="import",
                    usage=self.usage,
                    details={"source": f"pi-legacy-{self.version}"},
                    timestamp=self.time,
                )
            )
        return ImportedSession(
            info=msgspec.structs.replace(
                self.info, name=self.name or None, modified_at=max(self.time, self.info.created_at)
            ),
            entries=self.entries,
            lanes=[Lane(name="main", leaf_id=leaf)],
            facts=facts,
            usage=usage,
            rest=self.rest,
            warnings=self.warnings,
        )

    # -- the tree ----------------------------------------------------------------------------

    def _node(self, line: int, data: dict[str, Any]) -> _Node:
        time = _milliseconds(data.get("timestamp"))
        if time is None:
            self.warnings.append(f"line {line}: no readable time, the one before it was taken")
            time = self.time
        if self.version == 1:
            parent = self.last.id if self.last else None
            return _Node(f"line {line}", parent, data, line, time)
        node_id, parent = data.get("id"), data.get("parentId")
        if not isinstance(node_id, str) or not node_id:
            raise damaged(line, "the entry has no id")
        if node_id in self.nodes:
            raise damaged(
                line, f"the id {node_id!r} is that of line {self.nodes[node_id].line} already"
            )
        if parent is not None and (not isinstance(parent, str) or parent not in self.nodes):
            error = damaged(line, f"no earlier line is the entry's parent {parent!r}")
            if not self.lenient:
                raise error
            parent = self.last.id if self.last else None
            self.warnings.append(f"{error.message}; it was put behind the line before it")
        return _Node(node_id, parent, data, line, time)

    def _entry(self, node: _Node, parent: str | None) -> Entry | None:
        """The entry *node* becomes; None for one that leaves the tree."""
        kind = node.data["type"]
        try:
            match kind:
                case "message":
                    return self._message(node, parent, node.data.get("message"))
                case "custom_message":
                    fields = ("customType", "content", "display", "details")
                    said = {name: node.data[name] for name in fields if name in node.data}
                    return self._message(node, parent, {"role": "custom", **said})
                case "compaction":
                    return self._compaction(node, parent)
                case "branch_summary":
                    return self._branch_summary(node, parent)
                case "custom":
                    return CustomEntry(
                        **_place(node, parent, self._new_id(node)),
                        custom_type=_text(node, "customType"),
                        data=node.data.get("data"),
                    )
                case "label":
                    self._label(node)
                case "session_info":
                    self.name = str(node.data.get("name") or "").strip()
                case _ if kind not in _WITHOUT_ENTRY:
                    self.warnings.append(
                        f"line {node.line}: the type {kind!r} is not known; kept as a custom entry"
                    )
                    return self._kept(node, parent, f"pi.{kind}", node.data)
                case _:
                    pass
        except DecodeError as error:
            raise damaged(node.line, f"the {kind} cannot be read: {error.message}") from error
        return None

    def _new_id(self, node: _Node) -> str:
        """An id that sorts by the entry's time and holds the old one, if it is of pi's own form.

        The same file gives the same ids each time.
        """
        seed = f"{self.info.id}\0{node.id}".encode()
        if _OLD_ID.fullmatch(node.id):
            tail = node.id + blake2b(seed, digest_size=4).hexdigest()
        else:
            tail = blake2b(seed, digest_size=8).hexdigest()
        return f"{min(max(node.timestamp, 0), _LAST_MS):012x}{tail}"

    def _kept(self, node: _Node, parent: str | None, custom_type: str, data: Any) -> CustomEntry:
        place = _place(node, parent, self._new_id(node))
        return CustomEntry(**place, custom_type=custom_type, data=data)

    # -- the kinds ---------------------------------------------------------------------------

    def _message(self, node: _Node, parent: str | None, data: Any) -> Entry:
        entry_id = self._new_id(node)
        try:
            message, rest = read_message(data, timestamp=node.timestamp)
        except DecodeError as error:
            role = cast("dict[str, Any]", data).get("role") if isinstance(data, dict) else None
            if not isinstance(role, str) or role in ("user", "assistant", "toolResult", "custom"):
                raise
            self.warnings.append(
                f"line {node.line}: {error.message}; kept as a custom entry, no model is shown it"
            )
            return self._kept(node, parent, "pi.message", data)
        if rest:
            self.rest[entry_id] = {"message": rest}
        if isinstance(message, AssistantMessage | ToolResultMessage):
            self.usage += message.usage or Usage()
        return MessageEntry(**_place(node, parent, entry_id), message=message)

    def _compaction(self, node: _Node, parent: str | None) -> CompactionEntry:
        first_kept, tail = self._first_kept(node), None
        if first_kept is None and isinstance(node.data.get("retainedTail"), list):
            items = cast("list[Any]", node.data["retainedTail"])
            tail = [read_message(item, timestamp=node.timestamp)[0] for item in items]
        tokens = node.data.get("tokensBefore")
        return CompactionEntry(
            **_place(node, parent, self._new_id(node)),
            summary=_text(node, "summary"),
            first_kept_id=first_kept,
            retained_tail=tail,
            tokens_before=int(tokens) if isinstance(tokens, int | float) else 0,
            details=node.data.get("details"),
            usage=self._usage(node),
            from_hook=node.data.get("fromHook") is True,
        )

    def _first_kept(self, node: _Node) -> str | None:
        """The first entry, from the top, of those on *node*'s branch that the model still sees."""
        if self.version == 1:
            index = node.data.get("firstKeptEntryIndex")
            known = isinstance(index, int) and 0 < index < len(self.in_file)
            wanted = self.in_file[index] if known and isinstance(index, int) else None
        else:
            index = node.data.get("firstKeptEntryId")
            wanted = index if isinstance(index, str) else None
        found: str | None = None
        above = node.parent
        while above is not None and wanted is not None:
            step = self.nodes[above]
            found = step.entry_id or found  # one that left the tree is stood for by the next one
            if above == wanted:
                return found
            above = step.parent
        if index is not None:
            self.warnings.append(
                f"line {node.line}: what the compaction keeps begins nowhere on its branch "
                f"({index!r}); it keeps nothing, as pi reads it"
            )
        return None

    def _branch_summary(self, node: _Node, parent: str | None) -> BranchSummaryEntry:
        left = node.data.get("fromId")
        known = self.nodes.get(left) if isinstance(left, str) else None
        return BranchSummaryEntry(
            **_place(node, parent, self._new_id(node)),
            from_id=(known.nearest if known else None) or str(left or "root"),
            summary=_text(node, "summary"),
            details=node.data.get("details"),
            usage=self._usage(node),
            from_hook=node.data.get("fromHook") is True,
        )

    def _usage(self, node: _Node) -> Usage | None:
        data = node.data.get("usage")
        if not isinstance(data, dict):
            return None
        usage = Usage.from_dict(usage_from_pi(cast("dict[str, Any]", data)))
        self.usage += usage
        return usage

    def _label(self, node: _Node) -> None:
        target = node.data.get("targetId")
        known = self.nodes.get(target) if isinstance(target, str) else None
        entry_id = known.nearest if known else None
        if entry_id is None:
            self.warnings.append(
                f"line {node.line}: the label of {target!r}, no entry, is left out"
            )
            return
        text = node.data.get("label")
        self.labels.pop(entry_id, None)
        if isinstance(text, str) and text:
            self.labels[entry_id] = text


def _place(node: _Node, parent: str | None, entry_id: str) -> dict[str, Any]:
    return {"id": entry_id, "parent_id": parent, "timestamp": node.timestamp}


def _text(node: _Node, name: str) -> str:
    value = node.data.get(name)
    if not isinstance(value, str):
        raise damaged(node.line, f"the {node.data['type']} has no {name!r}")
    return value


def _info(header: dict[str, Any], version: int, warnings: list[str]) -> SessionInfo:
    created = _milliseconds(header.get("timestamp"))
    if created is None:
        warnings.append("line 1: the header has no readable time; the session is dated 1970")
        created = 0
    session_id = header.get("id")
    source: dict[str, Any] = {"format": f"pi-legacy-{version}"}
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        if session_id is not None:
            source["id"] = session_id
        session_id = new_id()
        warnings.append(f"line 1: the header has no usable id; the session is called {session_id}")
    metadata: dict[str, Any] = {"importedFrom": source}
    parent = header.get("parentSession", header.get("branchedFrom"))
    if isinstance(parent, str):
        metadata["legacyParentSessionPath"] = parent
    cwd = header.get("cwd")
    return SessionInfo(
        id=session_id,
        created_at=created,
        modified_at=created,
        cwd=cwd if isinstance(cwd, str) else None,
        metadata=metadata,
    )


def _milliseconds(value: Any) -> int | None:
    """An ISO time, or a number of milliseconds, as milliseconds since 1970."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value) if abs(value) <= _LAST_MS else None
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return round(when.timestamp() * 1000)
