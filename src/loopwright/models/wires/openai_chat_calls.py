"""Chat Completions, answers: which tool call a streamed fragment belongs to.               (pure)

The dialect says that fragments of one call share an index and that the first has the id. Hosts
give two calls the same index, leave the index out, send the id late or never, repeat the name, or
send whole calls one after the other under one id; all of that is sorted out here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .openai_chat_chunks import CallFragment

__all__ = ["OpenCall", "OpenCalls", "is_object"]


class OpenCall:
    """A tool call whose fragments still come in."""

    __slots__ = ("block", "extra", "id", "late_id", "name", "pieces")

    def __init__(self, block: int, id: str, name: str) -> None:
        self.block = block
        self.id = id
        """The vendor's own id, empty while none has come."""
        self.late_id: str | None = None
        """That id, if it came only after the call was opened."""
        self.name = name
        self.pieces: list[str] = []
        """What came of the arguments."""
        self.extra: dict[str, Any] | None = None
        """What must go back with the call: Google's hosts put its thought signature there."""

    @property
    def text(self) -> str:
        """What came of the arguments so far; joined only where two calls may be mixed up."""
        self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0]


class OpenCalls:
    """The calls of one reply, in the order they were opened."""

    __slots__ = ("_at_index", "_by_id", "every")

    def __init__(self) -> None:
        self.every: list[OpenCall] = []
        self._at_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}

    def add(self, call: OpenCall, fragment: CallFragment) -> None:
        """*call* was opened by *fragment*."""
        self.every.append(call)
        if fragment.index is not None:
            self._at_index[fragment.index] = call
        if call.id:
            self._by_id[call.id] = call

    def take_id(self, call: OpenCall, id: str) -> None:
        """The id of *call* came late."""
        call.id = call.late_id = id
        self._by_id[id] = call

    def find(self, fragment: CallFragment, name: str, arguments: str) -> OpenCall | None:
        """The open call that *fragment* goes on with; None if it begins one."""
        index, id = fragment.index, fragment.id
        call: OpenCall | None
        if index is not None:
            call = self._at_index.get(index)
            if call is not None and id and call.id and call.id != id:
                call = self._by_id.get(id)  # two calls share an index
        elif id:
            call = self._by_id.get(id)
        else:
            call = self.every[-1] if self.every else None
            if call is not None and name and call.name and name != call.name:
                return None
        # A call that is complete and begins again is the next one, whatever its id and index.
        if call is not None and name and arguments.lstrip()[:1] == "{":
            said = call.text
            if is_object(said) or (call.name and name != call.name and not said.strip()):
                return None
        return call


def is_object(text: str) -> bool:
    """Whether *text* is a complete JSON object; looked at only where two calls may be mixed up."""
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return False
    try:
        return isinstance(msgspec.json.decode(stripped), dict)
    except (msgspec.MsgspecError, UnicodeError):
        return False
