"""A reply while it is being written: one append-only log, and any earlier state of it.

The log holds text pieces, which grow the block that is open, and small markers that open, close
or switch blocks or change the head (usage, response id). An event keeps only its position in the
log; the message as it stood at that position is the replay of a prefix, exact however late it is
asked for. A cursor makes asking in order cheap; nothing is copied for the many events whose
partial nobody reads.

Not here: events, and how the pieces arrive.
"""

from __future__ import annotations

import copy

import msgspec

from ..messages import AssistantMessage, TextContent, ThinkingContent, ToolCall

__all__ = ["Block", "Draft"]

Block = TextContent | ThinkingContent | ToolCall


class _Open(msgspec.Struct, gc=False):
    index: int
    block: Block


class _Close(msgspec.Struct, gc=False):
    index: int
    block: Block


class _Switch(msgspec.Struct, gc=False):
    index: int


_Entry = str | _Open | _Close | _Switch | AssistantMessage


class Draft:
    """The growing reply. Blocks are known by their content index and may grow in turns.

    It must never refer to an event: events hold it, and are invisible to the garbage collector.
    """

    __slots__ = ("_cursor", "_first_head", "_open", "current", "head", "log")

    def __init__(self, head: AssistantMessage) -> None:
        self.head = head
        """The message without content: who speaks, usage so far, the response id."""
        self._first_head = head
        self.log: list[_Entry] = []
        """Append only; to be appended to from outside by `Follower` alone."""
        self._open: dict[int, _Growing] = {}
        self.current = -1
        """The index of the block that the next text grows; -1 if none does."""
        self._cursor: _Cursor | None = None

    @property
    def position(self) -> int:
        """How far the log has grown."""
        return len(self.log)

    def is_open(self, index: int) -> bool:
        """Whether the block at *index* was opened and not yet closed."""
        return index in self._open

    @property
    def open_blocks(self) -> list[int]:
        """The indexes of the blocks that are not closed, in the order they were opened."""
        return list(self._open)

    def open(self, index: int, block: Block) -> int:
        """Begin *block*, whose text is still empty, at *index*. Returns the new position."""
        if self.current >= 0:
            self._leave()
        log = self.log
        log.append(_Open(index, block))
        position = len(log)
        self._open[index] = _Growing(block, position)
        self.current = index
        return position

    def append(self, index: int, text: str) -> int:
        """Grow the open block at *index* by *text*. Returns the new position."""
        if index != self.current:
            self._switch(index)
        self.log.append(text)
        return len(self.log)

    def append_all(self, index: int, pieces: list[str]) -> int:
        """Grow the open block at *index* by every one of *pieces*. Returns the position *before*
        the first of them."""
        if index != self.current:
            self._switch(index)
        before = len(self.log)
        self.log += pieces
        return before

    def text(self, index: int) -> str:
        """All text that the open block at *index* has received, joined."""
        block = self._open[index]
        pieces: list[str] = []
        for start, end in block.spans or ():
            pieces += [entry for entry in self.log[start:end] if type(entry) is str]
        if index == self.current:
            pieces += [entry for entry in self.log[block.start :] if type(entry) is str]
        return "".join(pieces)

    def opened_as(self, index: int) -> Block:
        """The block at *index* as it was opened, without its text."""
        return self._open[index].block

    def close(self, index: int, block: Block) -> int:
        """End the block at *index*, which is now *block*. Returns the new position."""
        self._open.pop(index, None)
        if index == self.current:
            self.current = -1
        else:
            self._leave()
        self.log.append(_Close(index, block))
        return len(self.log)

    def set_head(self, head: AssistantMessage) -> int:
        """Change who speaks, the usage or the response id. Returns the new position."""
        self.head = head
        self.log.append(head)
        return len(self.log)

    def at(self, position: int) -> AssistantMessage:
        """The message as it stood at *position*; the reader owns it.

        Cheap when positions are asked for in order; going back replays from the start.
        """
        cursor = self._cursor
        if cursor is None or cursor.position > position:
            cursor = self._cursor = _Cursor(self._first_head)
        cursor.advance(self.log, position)
        return cursor.message()

    def _switch(self, index: int) -> None:
        self._leave()
        self.log.append(_Switch(index))
        self._open[index].start = len(self.log)
        self.current = index

    def _leave(self) -> None:
        if self.current >= 0:
            block = self._open[self.current]
            if block.spans is None:
                block.spans = []
            block.spans.append((block.start, len(self.log)))
            self.current = -1


class _Growing:
    """An open block, and where in the log its text lies."""

    __slots__ = ("block", "spans", "start")

    def __init__(self, block: Block, start: int) -> None:
        self.block = block
        self.start = start
        self.spans: list[tuple[int, int]] | None = None
        """Where its text lies, but for what came since `start`; most grow without a break."""


class _Cursor:
    """A reader's place in the log, with every block as it stands there."""

    __slots__ = ("blocks", "current", "head", "highest", "ordered", "position")

    def __init__(self, head: AssistantMessage) -> None:
        self.position = 0
        self.head = head
        self.blocks: dict[int, _Shown] = {}
        self.current: _Shown | None = None
        self.highest = -1
        self.ordered = True

    def advance(self, log: list[_Entry], position: int) -> None:
        pieces: list[str] = []
        for entry in log[self.position : position]:
            if type(entry) is str:
                pieces.append(entry)
                continue
            self._grow(pieces)
            if type(entry) is _Open:
                self.ordered = self.ordered and entry.index >= self.highest
                self.highest = entry.index
                self.current = self.blocks[entry.index] = _Shown(entry.block)
            elif type(entry) is _Switch:
                self.current = self.blocks[entry.index]
            elif type(entry) is _Close:
                self.blocks[entry.index].close(entry.block)
                self.current = None
            elif type(entry) is AssistantMessage:
                self.head = entry
        self._grow(pieces)
        self.position = max(position, self.position)

    def _grow(self, pieces: list[str]) -> None:
        if pieces and self.current is not None:
            self.current.grow("".join(pieces))
        pieces.clear()

    def message(self) -> AssistantMessage:
        indexes = self.blocks if self.ordered else sorted(self.blocks)
        content = [self.blocks[index].snapshot() for index in indexes]
        return msgspec.structs.replace(self.head, content=content)


class _Shown:
    """One block at the cursor's place."""

    __slots__ = ("_block", "_closed", "_stale", "_text")

    def __init__(self, block: Block) -> None:
        self._block = block
        self._text = ""
        self._stale = False
        self._closed = False

    def grow(self, text: str) -> None:
        self._text += text
        self._stale = True

    def close(self, block: Block) -> None:
        self._block = block
        self._stale = False
        self._closed = True

    def snapshot(self) -> Block:
        """The block for a reader to keep; text blocks are immutable and shared, calls copied."""
        block = self._block
        if type(block) is ToolCall:
            return _copy_call(block) if self._closed else _unfinished_call(block, self._text)
        if self._stale:
            if type(block) is TextContent:
                block = msgspec.structs.replace(block, text=self._text)
            elif type(block) is ThinkingContent:
                block = msgspec.structs.replace(block, thinking=self._text)
            self._block = block
            self._stale = False
        return block


def _copy_call(call: ToolCall) -> ToolCall:
    return msgspec.structs.replace(call, arguments=copy.deepcopy(call.arguments))


def _unfinished_call(call: ToolCall, text: str) -> ToolCall:
    from .tool_arguments import parse_partial_arguments

    return msgspec.structs.replace(call, arguments=parse_partial_arguments(text))
