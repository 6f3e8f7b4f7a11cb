"""Which tool call a streamed piece belongs to, and what the pieces of a call say.          (pure)

The dialect says that pieces of one call share an index and that the first has the id. Hosts give
two calls one index, leave the index out, send the id late, never, or another with each piece, and
send arguments twice. So nothing is thrown away while pieces come in, and `settle` decides at the
end. The rules:

- An id alone begins no call at an index that is known. Another name with another id does, and so
  does a name with another id once the arguments before it are a whole object.
- One name repeated under another id continues a call whose arguments are not whole yet. Two such
  openings without arguments are two calls.
- Without another id, a name continues the name of a call that is not whole, unless it is equal;
  where no ids come at all, another name together with the begin of arguments begins a call.
- The same index, id and name again are the same call: its arguments are never run twice.
- A nameless piece at an unknown index continues the one call that is not whole yet.
- A named call without arguments in front of a nameless one is torn, and is not run.

Every question takes time in proportion to what came since the last one.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, Protocol, cast

from ...stream.tool_arguments import ParsedArguments, parse_arguments

__all__ = ["OpenCall", "OpenCalls", "Piece", "settle"]


class Piece(Protocol):
    """What a piece says about the call it belongs to."""

    index: int | None
    id: str | None


class OpenCall:
    """A tool call whose pieces still come in."""

    __slots__ = (
        "_depth", "_in_string", "_read", "_said", "_skip", "block", "extra", "id", "index", "late_id",
        "name", "pieces",
    )  # fmt: skip

    def __init__(self, block: int, id: str, name: str, index: int | None = None) -> None:
        self.block = block
        self.id = id
        """The vendor's own id, empty while none has come."""
        self.late_id: str | None = None
        """That id, if it came only after the call was opened."""
        self.name = name
        self.index = index
        self.pieces: list[str] = []
        """What came of the arguments; blank pieces are left out while nothing else has come."""
        self.extra: dict[str, Any] | None = None
        """What must go back with the call: Google's hosts put its thought signature there."""
        self._read = self._depth = 0
        self._in_string = self._skip = False
        self._said: str | None = None

    def add(self, arguments: str) -> None:
        """Another piece of the arguments came."""
        if self.pieces or arguments.strip():
            self.pieces.append(arguments)

    def is_whole(self) -> bool:
        """Whether as many brackets were closed as opened. Reads only what it has not read yet."""
        text = "".join(self.pieces[self._read :])
        self._read = len(self.pieces)
        if self._skip and text:
            text, self._skip = text[1:], False
        for mark in _MARKS.findall(text):
            if mark[0] == "\\":
                self._skip = len(mark) == 1
            elif mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if mark in "{[" else -1
        return bool(self.pieces) and self._depth <= 0 and not self._in_string

    def repeats(self, arguments: str) -> bool:
        """Whether *arguments* say nothing, or what this call, which is whole, says already."""
        if not arguments.strip():
            return True
        said = parse_arguments(arguments)
        if said.arguments_error is not None:
            return False
        if self._said is None:  # once: what repeats it does not change it
            self._said = _canonical(settle(self.pieces).arguments)
        return _canonical(said.arguments) == self._said


class OpenCalls:
    """The calls of one reply, in the order they were opened."""

    __slots__ = ("_at_index", "_by_id", "_unfinished", "every")

    def __init__(self) -> None:
        self.every: list[OpenCall] = []
        self._at_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}
        self._unfinished: list[OpenCall] = []

    def open(self, call: OpenCall) -> None:
        """*call* begins."""
        self.every.append(call)
        self._unfinished.append(call)
        self._note(call, call.index, call.id)

    def take(self, call: OpenCall, piece: Piece, name: str, arguments: str) -> None:
        """*piece* was found to continue *call*, or is its first."""
        if piece.id and not call.id:
            call.id = call.late_id = piece.id
        self._note(call, piece.index, piece.id)
        if name and name != call.name and not (call.name and call.is_whole()):
            call.name += name
        call.add(arguments)

    def _note(self, call: OpenCall, index: int | None, id: str | None) -> None:
        if index is not None:
            self._at_index[index] = call
        if id:
            self._by_id[id] = call

    def find(self, piece: Piece, name: str, arguments: str) -> OpenCall | None:
        """The call that *piece* continues; None if it begins one."""
        if piece.index is None:
            return self._without_index(piece, name, arguments)
        call = self._at_index.get(piece.index)
        if call is None:
            return self._at_new_index(piece, name, arguments)
        known = self._by_id.get(piece.id) if piece.id else None
        if known is not None and known.index == piece.index:
            call = known  # two calls share an index
        if not name or not call.name:
            return call
        if piece.id and call.id not in ("", piece.id) and known is not call:  # another id
            if name != call.name or call.is_whole():
                return None
            return call if call.pieces or arguments.strip() else None
        if not call.is_whole():
            begins = not call.id and not call.pieces and arguments.lstrip()[:1] == "{"
            return None if begins and name != call.name else call
        if name == call.name and (call.id or call.repeats(arguments)):
            return call
        return None

    def _at_new_index(self, piece: Piece, name: str, arguments: str) -> OpenCall | None:
        known = self._by_id.get(piece.id) if piece.id else None
        call = known or self._only_unfinished()
        if call is None or not arguments.strip():
            return None
        begins = arguments.lstrip()[:1] == "{" or not call.pieces
        if name and (known is None or name != call.name):
            return None
        if name or (piece.id and known is None):  # it must look like the rest of that call
            return None if begins or call.is_whole() else call
        return call

    def _without_index(self, piece: Piece, name: str, arguments: str) -> OpenCall | None:
        if piece.id:
            call = self._by_id.get(piece.id)
            if call is None:
                return None if name else self._at_new_index(piece, name, arguments)
        else:
            call = self.every[-1] if self.every else None
            if call is None or (name and call.name and name != call.name):
                return None
            if not name:
                return self._only_unfinished() or call
        if name and arguments.lstrip()[:1] == "{":
            if call.is_whole():  # complete, and begins again: the next one, whatever its id
                return call if call.repeats(arguments) else None
            if call.name and name != call.name and not call.pieces:
                return None
        return call

    def _only_unfinished(self) -> OpenCall | None:
        """The call that is not whole yet, if there is one and only one."""
        calls = self._unfinished
        while calls and calls[-1].is_whole():
            calls.pop()
        while len(calls) > 1 and calls[-2].is_whole():
            del calls[-2]
        return calls[0] if len(calls) == 1 else None

    def settle(self) -> list[tuple[OpenCall, ParsedArguments]]:
        """Every call with what its pieces say, at the end of the reply."""
        settled: list[tuple[OpenCall, ParsedArguments]] = []
        last_at: dict[int | None, OpenCall] = {}
        nameless = False
        for call in reversed(self.every):
            after = last_at.get(call.index) if call.index is not None else None
            again = after is not None and after.name == call.name and bool(after.pieces)
            torn = bool(call.name) and not call.pieces and (nameless or again)
            settled.append((call, _TORN if torn else settle(call.pieces)))
            nameless = nameless or not call.name
            last_at[call.index] = call
        return settled[::-1]


_MARKS = re.compile(r'\\.|\\|["{}\[\]]', re.DOTALL)

_TORN = ParsedArguments(
    {},
    "",
    "The call came torn: its arguments came under another id, without a name. It was not run. "
    "Make the call again, with all arguments.",
)


def settle(pieces: list[str]) -> ParsedArguments:
    """What *pieces* of one call's arguments say. The plain join is tried first; then whole objects
    one after the other, of which `{}` and equal ones are dropped; then pieces of which each
    begins with all that came before it.

    >>> settle(['{"n":', "1}", '{"n": 1}']).arguments
    {'n': 1}
    """
    text = "".join(pieces)
    joined = parse_arguments(text)
    if joined.arguments_error is None or len(text) < 4:
        return joined
    objects = _objects(text)
    if objects is not None:
        distinct = {_canonical(said.arguments): said for said in objects if said.arguments}
        if len(distinct) < 2:
            return next(iter(distinct.values()), objects[0])
    grown = [piece for piece in pieces if piece.strip() not in ("", "{}")]
    if len(grown) > 1 and all(later.startswith(former) for former, later in pairwise(grown)):
        last = parse_arguments(grown[-1])
        if last.arguments_error is None:
            return last
    if objects is not None:
        said = "The arguments were sent twice and differ, so the call was not run. Make it again."
        return ParsedArguments({}, text, f"{said} {joined.arguments_error}")
    return joined


_reader = json.JSONDecoder(strict=False)
_BLANKS = re.compile(r"[ \t\r\n]*")


def _objects(text: str) -> list[ParsedArguments] | None:
    """The whole objects that *text* is a sequence of; None if it is anything else."""
    objects: list[ParsedArguments] = []
    at = cast("re.Match[str]", _BLANKS.match(text)).end()
    while at < len(text):
        try:
            _, end = _reader.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        said = parse_arguments(text[at:end])
        if text[at] != "{" or said.arguments_error is not None:
            return None
        objects.append(said)
        at = cast("re.Match[str]", _BLANKS.match(text, end)).end()
    return objects


def _canonical(arguments: dict[str, Any]) -> str:
    """Text that is equal for equal JSON only: to Python, 1 and true are equal too."""
    return json.dumps(arguments, sort_keys=True)
