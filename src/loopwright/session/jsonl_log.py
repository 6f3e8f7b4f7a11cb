"""A v4 file replayed: its lines in, the session's rows out; and a commit in, its lines out.

What is in memory comes from lines only, also after a commit of our own, so it is what a later
reader will find. A commit of several lines begins with a state line that says how many follow; if
they are not all there the commit did not happen. Lines that somebody else wrote into the gap are
read for themselves.

pi keeps changes of model and tools in the tree. Here they vanish and their children get the next
parent up that stays; the file keeps them, and what is appended chains to them as pi demands.

Not here: reading and writing the file (jsonl_file), the way of a commit to its lines (jsonl_commit),
or the lines themselves (formats.pi_v4_lines).
"""

from __future__ import annotations

import logging

import msgspec

from ..errors import SessionDamaged
from ..messages import Usage
from . import columns, refusals
from .entries import EntryRow
from .formats.pi_v4_lines import (
    ConfigLine,
    EntryLine,
    FactLine,
    LaneLine,
    Line,
    NotJson,
    RecordLine,
    StateData,
    StateLine,
    UsageLine,
    decode_line,
)
from .jsonl_commit import commit_lines, row_line
from .jsonl_state import fact_columns, put_state
from .kept_rows import Change, Rows
from .rows import SessionInfo
from .store import Commit

__all__ = ["SessionLog", "Torn"]

_log = logging.getLogger("loopwright")


class Torn(msgspec.Struct, frozen=True):
    """What follows the last whole commit: to be cut off before anything is appended."""

    offset: int
    line: int
    reason: str


class _Numbered(msgspec.Struct, frozen=True):
    line: Line
    number: int


class _Open(msgspec.Struct):
    """A commit of several lines whose end has not been seen yet."""

    offset: int
    state: StateLine
    number: int
    lines: list[_Numbered] = []


class SessionLog:
    """The session in one file, as far as it has been read."""

    def __init__(self, header: SessionInfo, *, header_bytes: int, name: str = "") -> None:
        """*name* of the file is for messages."""
        self.header = header
        self.name = name
        self.rows = Rows(header.id)
        self.end = header_bytes
        """Bytes read and understood; what comes next is read next time."""
        self.lines = 1
        self.torn: Torn | None = None
        self.unterminated = False
        """The last line is whole but has no newline yet."""
        self.records: list[RecordLine] = []
        """Steps of pi's operations; nothing of ours."""
        self.configs: dict[str, ConfigLine] = {}
        """What pi keeps in its tree and we do not, by id."""
        self._seq = 0
        self._used: set[str] = set()
        """Ids of entries, records and state lines: one namespace for pi."""
        self._leaves: dict[str, str | None] = {"main": None}
        """Where pi sees the lanes."""
        self._gone: dict[str, str | None] = {}
        """Nodes of pi's tree that are none of ours, and the entry that stands for each."""
        self._pi_parents: dict[str, str | None] = {}
        """Of entries whose parent pi sees elsewhere: there."""

    # -- lines in -----------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Read on with *data*, the bytes from `end` to the end of the file.

        Raises `SessionDamaged` naming the line, and `SessionTooNew`; the log is of no use then.
        """
        self.torn = None
        if not data:
            return
        if self.unterminated and data.startswith(b"\n"):
            self.end, data = self.end + 1, data[1:]
        self.unterminated = False
        base, position, number = self.end, 0, self.lines
        begun: _Open | None = None
        while position < len(data):
            start, newline = position, data.find(b"\n", position)
            stop = len(data) if newline < 0 else newline
            position = len(data) if newline < 0 else newline + 1
            number += 1
            text = data[start:stop]
            if not text.strip():
                continue
            try:
                line = decode_line(text, number)
            except NotJson as error:
                if data[position:].strip():
                    raise self._damaged(number, str(error)) from error
                self._tear(begun, base + start, number, f"the last line is torn: {error}")
                return
            except SessionDamaged as error:
                raise self._named(error) from error
            if begun is not None and line.commit != begun.state.seq:
                self._interrupted(begun)
                begun = None
            if begun is not None:
                begun.lines.append(_Numbered(line, number))
            elif isinstance(line, StateLine) and self._is_ours(line.data, line.seq):
                begun = _Open(base + start, line, number, [])
            else:
                self._apply([_Numbered(line, number)], None)
            if begun is not None and len(begun.lines) == begun.state.data.lines:
                self._apply([_Numbered(begun.state, begun.number), *begun.lines], begun.state.data)
                begun = None
            if begun is None:
                self.end, self.lines = base + position, number
                self.unterminated = newline < 0
        if begun is not None:
            has, wants = len(begun.lines), begun.state.data.lines
            self._tear(begun, 0, 0, f"of the {wants} lines of the last commit {has} are there")
        elif self.end < base + len(data):
            self.torn = Torn(self.end, number, "blank lines")

    def _is_ours(self, data: StateData, seq: int) -> bool:
        return data.session == self.header.id and data.seq == seq

    def _tear(self, begun: _Open | None, offset: int, number: int, reason: str) -> None:
        if begun is not None:
            offset, number = begun.offset, begun.number
        self.torn = Torn(offset, number, reason)

    def _interrupted(self, begun: _Open) -> None:
        _log.warning(
            "%s, line %d: a commit was cut off and somebody wrote on behind it; its entries were "
            "taken, its state was not",
            *(self.name or "the session file", begun.number),
        )
        self._apply([_Numbered(begun.state, begun.number), *begun.lines], None)

    def _damaged(self, number: int, message: str) -> SessionDamaged:
        where = f"{self.name}, line {number}" if self.name else f"line {number}"
        return SessionDamaged(
            message,
            where=where,
            hint="the file was left as it is; `loopwright sessions doctor` says what can be saved",
        )

    def _named(self, error: SessionDamaged) -> SessionDamaged:
        if not self.name:
            return error
        message = error.message.removeprefix(f"{error.where}: ")
        return SessionDamaged(message, where=f"{self.name}, {error.where}", hint=error.hint)

    # -- what the lines say ---------------------------------------------------------------------

    def _apply(self, lines: list[_Numbered], state: StateData | None) -> None:
        change = Change(leaves={}, entries=[], facts=[], usage=[])
        entries: dict[str, EntryRow] = {}  # of this commit
        facts: list[tuple[str, str, str | None]] = []
        usage: list[tuple[str, str]] = []
        foreign = Usage()
        for item in lines:
            line, number = item.line, item.number
            if line.seq <= self._seq:
                raise self._damaged(number, f"seq {line.seq} does not come after {self._seq}")
            self._seq = line.seq
            match line:
                case EntryLine():
                    row = self._entry(line, number)
                    entries[row.id] = row
                    change.entries.append(row)
                    if line.lane is not None:
                        self._move(line.lane, line.row.parent_id, row.id, number)
                        change.leaves[line.lane] = row.id
                case ConfigLine():
                    self._use(line.id, number)
                    self._demand(line.parent_id, number)
                    self._gone[line.id] = self._standing(line.parent_id)
                    self.configs[line.id] = line
                    if line.lane is not None:
                        self._move(line.lane, line.parent_id, line.id, number)
                case LaneLine():
                    self._demand(line.leaf_id, number)
                    self._leaves[line.lane] = line.leaf_id
                    change.leaves[line.lane] = self._standing(line.leaf_id)
                case FactLine():
                    facts.append(fact_columns(line.fact))
                case UsageLine():
                    self._use(line.usage.id, number)
                    usage.append((line.usage.id, columns.encode(line.usage)))
                    foreign += line.usage.usage
                case RecordLine():
                    self._use(line.id, number)
                    self.records.append(line)
                case StateLine():
                    self._use(line.id, number)
                    self._gone[line.id] = None
        change.facts, change.usage = facts, usage
        if state is not None:
            try:
                put_state(change, state)
            except (msgspec.MsgspecError, StopIteration) as error:
                message = f"the state of the session cannot be read: {error}"
                raise self._damaged(lines[0].number, message) from error
        elif usage:
            total = msgspec.json.decode(self.rows.usage_total, type=Usage) + foreign
            change.usage_total = columns.encode(total)
        self.rows.apply(change)

    def _entry(self, line: EntryLine, number: int) -> EntryRow:
        self._use(line.row.id, number)
        parent_id = line.row.parent_id
        self._demand(parent_id, number)
        standing = self._standing(parent_id)
        if standing == parent_id:
            return line.row
        self._pi_parents[line.row.id] = parent_id
        return msgspec.structs.replace(line.row, parent_id=standing)

    def _use(self, entry_id: str, number: int) -> None:
        if entry_id in self._used:
            raise self._damaged(number, f"the id {entry_id} is there already")
        self._used.add(entry_id)

    def _demand(self, entry_id: str | None, number: int) -> None:
        if entry_id is not None and entry_id not in self._used:
            raise self._damaged(number, f"there is no entry {entry_id} before it")

    def _standing(self, entry_id: str | None) -> str | None:
        """The entry of ours that stands for a node of pi's tree."""
        return entry_id if entry_id is None else self._gone.get(entry_id, entry_id)

    def _move(self, lane: str, parent_id: str | None, entry_id: str, number: int) -> None:
        if lane not in self._leaves:
            raise self._damaged(number, f"there is no lane {lane!r} before it")
        if self._leaves[lane] != parent_id:
            raise self._damaged(
                number,
                f"it follows {parent_id}, but the leaf of lane {lane!r} is {self._leaves[lane]}",
            )
        self._leaves[lane] = entry_id

    # -- commits out ----------------------------------------------------------------------------

    def lines_of(self, commit: Commit, timestamp: int, *, atomic: bool = True) -> bytes:
        """The lines of *commit*, each with its end; empty for a commit that says nothing.

        Not *atomic* is for a file that is given its name when it is complete: entries need no
        word on how many of them there must be.

        Raises what every store raises for a commit it must refuse. Nothing is changed here: that
        comes of feeding the lines back once they are written.
        """
        writes = columns.writes(commit)
        self.rows.check(writes)
        for row in commit.entries:
            if row.id in self._used and row.id not in self.rows.entry_of:
                raise refusals.duplicate_id(f"id {row.id}", self.header.id)
        return commit_lines(self, commit, writes, self._seq + 1, timestamp, atomic)

    def item_lines(self, body: str, timestamp: int) -> bytes:
        """The line that puts an inbox item, for those who have no lease."""
        return row_line(self, self._seq + 1, timestamp, inbox=body)

    def approval_lines(self, body: str, timestamp: int) -> bytes:
        """The line that puts an approval, for those who have no lease."""
        return row_line(self, self._seq + 1, timestamp, approvals=body)

    # -- as pi sees it --------------------------------------------------------------------------

    def pi_leaf(self, lane: str) -> str | None:
        """Where pi sees *lane*."""
        return self._leaves.get(lane)

    def pi_parent(self, row: EntryRow) -> str | None:
        """The node of pi's tree that *row* follows."""
        return self._pi_parents.get(row.id, row.parent_id)

    def pi_knows_lane(self, lane: str) -> bool:
        """A line has made *lane*, or it is `main`."""
        return lane in self._leaves

    def pi_knows_id(self, some_id: str) -> bool:
        """The id is taken."""
        return some_id in self._used
