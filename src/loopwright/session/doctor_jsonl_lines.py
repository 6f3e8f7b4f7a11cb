"""The lines of a damaged v4 file, made into lines that every reader accepts.

What cannot be read is taken out. What contradicts the lines before it is made to fit: an entry
whose parent is gone follows the leaf of its lane, and where two processes wrote at once, a line
that moves the lane is put between, so that both of what they wrote stays, as two branches.

Not here: the file (doctor_jsonl), or what the rows amount to (doctor_rows).
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from ..errors import SessionDamaged
from ..records import to_jsonable
from .doctor_report import Finding
from .formats.lines import decode_line as decode_json
from .formats.pi_v4_lines import (
    ConfigLine,
    EntryLine,
    FactLine,
    LaneLine,
    Line,
    NotJson,
    StateLine,
    UsageLine,
    decode_line,
    lane_to_line,
)

__all__ = ["MendedLines", "TakenOut", "mend_lines"]

Json = dict[str, Any]


class TakenOut(NamedTuple):
    """A line that is not in the mended file, or not as it was."""

    number: int
    text: bytes
    why: str


class _Item(NamedTuple):
    number: int
    text: bytes
    data: Json
    line: Line


class MendedLines:
    """The outcome of `mend_lines`."""

    def __init__(self) -> None:
        self.lines: list[Json] = []
        """What follows the header."""
        self.numbers: list[int | None] = []
        """For each line the one it comes from, counted from 1; None: it was put in."""
        self.findings: list[Finding] = []
        self.taken_out: list[TakenOut] = []
        self.renumber = False
        """The lines need new sequence numbers."""

    def encoded(self) -> bytes:
        """The lines, each with its end."""
        if self.renumber:
            self._number()
        return b"".join([_encode(line) + b"\n" for line in self.lines])

    def _number(self) -> None:
        new_of: dict[int, int] = {}  # of state lines, whose number those of their commit repeat
        for seq, line in enumerate(self.lines, 1):
            commit = line.get("commit")
            if type(commit) is int:
                line["commit"] = new_of.get(commit, commit)
            data = line.get("data")
            if isinstance(data, dict) and line.get("customType") == "loopwright.state":
                state = cast("Json", data)
                if state.get("seq") == line["seq"]:
                    new_of[line["seq"]] = seq
                    line["data"] = {**state, "seq": seq}
            line["seq"] = seq


def mend_lines(data: bytes, session_id: str) -> MendedLines:
    """Mend *data*, all that follows the header line. Raises `SessionTooNew`."""
    return _Mender(session_id).mend(data)


class _Mender:
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.out = MendedLines()
        self.used: set[str] = set()
        self.leaves: dict[str, str | None] = {"main": None}
        self.stand_in: dict[str, str | None] = {}
        self.last_entry: str | None = None
        self.seq = 0
        self.state: Json | None = None
        """The state line of the commit that is being copied."""

    def mend(self, data: bytes) -> MendedLines:
        items = self._whole_commits(self._readable(data))
        for item in items:
            self._copy(item)
        return self.out

    # -- what can be read -----------------------------------------------------------------------

    def _readable(self, data: bytes) -> list[_Item]:
        items: list[_Item] = []
        texts = data.split(b"\n")
        last = max((n for n, text in enumerate(texts) if text.strip()), default=-1)
        for place, text in enumerate(texts):
            number = place + 2
            if not text.strip():
                continue
            try:
                line = decode_line(text, number)
                items.append(_Item(number, text, cast("Json", decode_json(text)), line))
            except NotJson as error:
                torn = place == last
                self._drop(
                    number,
                    text,
                    "torn_line" if torn else "bad_line",
                    f"{'the last line is torn' if torn else 'it is no JSON'}: {error}",
                )
            except SessionDamaged as error:
                self._remember_parent(text)
                message = error.message.removeprefix(f"{error.where}: ")
                self._drop(number, text, "bad_line", message)
        return items

    def _remember_parent(self, text: bytes) -> None:
        """A line that is JSON and no entry may still say what its children should follow."""
        try:
            data: Any = decode_json(text)
        except ValueError:
            return
        if isinstance(data, dict):
            known = cast("Json", data)
            if isinstance(known.get("id"), str) and known.get("kind") == "entry":
                parent = known.get("parentId")
                self.stand_in[known["id"]] = parent if isinstance(parent, str) else None

    def _drop(self, number: int, text: bytes, kind: str, why: str) -> None:
        self._find(kind, number, why, "it is taken out")
        self.out.taken_out.append(TakenOut(number, text, why))

    def _find(self, kind: str, number: int, message: str, remedy: str) -> None:
        # A torn end is cut off by whoever writes next; all else keeps the file from being opened.
        severity = "warning" if kind in ("torn_line", "torn_commit") else "error"
        self.out.findings.append(
            Finding(
                kind=kind,
                severity=severity,
                session_id=self.session_id,
                where=f"line {number}",
                message=message,
                remedy=remedy,
            )
        )

    # -- commits of several lines ---------------------------------------------------------------

    def _whole_commits(self, items: list[_Item]) -> list[_Item]:
        """*items* without what of a commit is not all there."""
        kept: list[_Item] = []
        place = 0
        while place < len(items):
            item = items[place]
            place += 1
            if not isinstance(item.line, StateLine) or not self._is_ours(item.line):
                kept.append(_alone(item) if item.line.commit is not None else item)
                continue
            members: list[_Item] = []
            wanted = item.line.data.lines
            while (
                place < len(items)
                and len(members) < wanted
                and items[place].line.commit == item.line.seq
            ):
                members.append(items[place])
                place += 1
            if len(members) == wanted:
                kept += [item, *members]
            elif place == len(items):
                what = f"of the {wanted} lines of the last commit {len(members)} are there"
                self._find("torn_commit", item.number, what, "it is taken out, whole")
                self.out.taken_out += [TakenOut(i.number, i.text, what) for i in (item, *members)]
            else:
                what = f"of the {wanted} lines of its commit {len(members)} are there"
                self._find(
                    "torn_commit", item.number, what, "its entries are kept, its state is taken out"
                )
                self.out.taken_out.append(TakenOut(item.number, item.text, what))
                self.stand_in[item.line.id] = None
                kept += [_alone(member) for member in members]
        return kept

    def _is_ours(self, line: StateLine) -> bool:
        return line.data.session == self.session_id and line.data.seq == line.seq

    # -- one after the other ----------------------------------------------------------------------

    def _copy(self, item: _Item) -> None:
        number, data, line = item.number, dict(item.data), item.line
        if line.seq <= self.seq and not self.out.renumber:
            what = f"its number {line.seq} does not come after {self.seq}: two wrote at once"
            self._find("second_writer", number, what, "the lines are numbered anew")
            self.out.renumber = True
        self.seq = max(self.seq, line.seq)
        if line.commit is None:
            self.state = None
        if (its_id := _id_of(line)) is not None:
            if its_id in self.used:
                self._drop(number, item.text, "duplicate_id", f"the id {its_id} is there already")
                self._one_less(data)
                return
            self.used.add(its_id)
        match line:
            case EntryLine() | ConfigLine():
                self._entry(item, data, line.lane)
            case LaneLine(leaf_id=leaf_id, lane=lane):
                if leaf_id is not None and leaf_id not in self.used:
                    data["leafId"] = self._standing(leaf_id, lane)
                    self._changed(item, "missing_leaf", f"there is no entry {leaf_id} before it")
                self.leaves[lane] = data["leafId"]
            case StateLine():
                self.state = data if line.data.lines else None
            case _:
                pass
        self._put(number, data)

    def _entry(self, item: _Item, data: Json, lane: str | None) -> None:
        parent = data.get("parentId")
        if parent is not None and parent not in self.used:
            data["parentId"] = self._standing(parent, lane)
            self._changed(item, "missing_parent", f"there is no entry {parent} before it")
            parent = data["parentId"]
        if lane is not None:
            if lane not in self.leaves:
                what = f"there is no lane {lane!r} before it"
                self._find("missing_lane", item.number, what, "the lane is made there")
                self._insert_move(lane, parent, data)
            elif self.leaves[lane] != parent:
                what = (
                    f"it follows {parent}, while the lane {lane!r} was at {self.leaves[lane]}: "
                    "two wrote at once"
                )
                remedy = "both stay, as two branches; the lane goes on from the later one"
                self._find("second_writer", item.number, what, remedy)
                self._insert_move(lane, parent, data)
            self.leaves[lane] = data["id"]
        self.last_entry = data["id"]

    def _standing(self, entry_id: str, lane: str | None) -> str | None:
        """What stands for an entry that is not there: its parent, else where the lane is."""
        here: str | None = entry_id
        seen: set[str] = set()
        while here is not None and here in self.stand_in and here not in seen:
            seen.add(here)
            here = self.stand_in[here]
        if here in self.used or (here is None and entry_id in self.stand_in):
            return here
        return self.leaves.get(lane or "", self.last_entry)

    def _changed(self, item: _Item, kind: str, why: str) -> None:
        self._find(kind, item.number, why, "it follows what came before it")
        self.out.taken_out.append(TakenOut(item.number, item.text, why))

    def _insert_move(self, lane: str, leaf_id: str | None, before: Json) -> None:
        move = lane_to_line(lane, leaf_id)
        move["seq"] = before["seq"]
        if "commit" in before and self.state is not None:
            move["commit"] = before["commit"]
            self._count(1)
        self.out.renumber = True
        self._put(None, move)

    def _one_less(self, data: Json) -> None:
        if "commit" in data and self.state is not None:
            self._count(-1)

    def _count(self, more: int) -> None:
        assert self.state is not None
        state = cast("Json", self.state["data"])
        self.state["data"] = {**state, "lines": state["lines"] + more}

    def _put(self, number: int | None, data: Json) -> None:
        self.out.lines.append(data)
        self.out.numbers.append(number)


def _alone(item: _Item) -> _Item:
    """*item* as a commit of its own."""
    data = {name: value for name, value in item.data.items() if name != "commit"}
    line = item.line
    if isinstance(line, EntryLine | LaneLine | FactLine | UsageLine):
        line = msgspec.structs.replace(line, commit=None)
    return item._replace(data=data, line=line)


def _id_of(line: Line) -> str | None:
    match line:
        case EntryLine():
            return line.row.id
        case UsageLine():
            return line.usage.id
        case LaneLine() | FactLine():
            return None
        case _:
            return line.id


def _encode(line: Json) -> bytes:
    try:
        return msgspec.json.encode(line)
    except (TypeError, UnicodeEncodeError, msgspec.EncodeError):
        return msgspec.json.encode(to_jsonable(line))  # halves of surrogate pairs
