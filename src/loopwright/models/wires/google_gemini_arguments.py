"""Gemini, answers: the arguments of a call that come piece by piece, each with its JSON path. (pure)

Vertex streams arguments not as JSON text but as values: `$.recipe.steps[8]` and a piece of a
string. They are written down as JSON text again while they come in the order of such a text,
which they do; should one ever reach back, the text stops growing and the whole is put together
from the values. https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling

Not here: which call the pieces belong to (`google_gemini_decode`).
"""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

from ...errors import WireError
from .google_gemini_chunks import PartialArgument

__all__ = ["ArgumentWriter", "parse_path"]

MAX_DEPTH = 100
"""Deeper nesting is taken for a fault of the vendor's."""

Token = str | int
"""A key of an object or a place in an array."""

_TOKEN = re.compile(
    r"\.(?P<name>[^.\[\]]+)|\[(?P<place>\d{1,9})\]"
    r"|\['(?P<single>(?:[^'\\]|\\.)*)'\]|\[\"(?P<double>(?:[^\"\\]|\\.)*)\"\]"
)


def parse_path(path: str) -> list[Token]:
    """`$.a['b'][0]` as `["a", "b", 0]` (RFC 9535). Raises `WireError` for any other selector."""
    tokens: list[Token] = []
    at = 1
    while at < len(path):
        found = _TOKEN.match(path, at)
        if found is None:
            break
        at = found.end()
        place = found["place"]
        if place is not None:
            tokens.append(int(place))
            continue
        quoted = found["single"] if found["single"] is not None else found["double"]
        tokens.append(found["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
    if path[:1] != "$" or at < len(path) or not tokens or len(tokens) > MAX_DEPTH:
        raise WireError(f"a piece of a tool call came for the path {path[:200]!r}", raw=path[:200])
    return tokens


class _Leaf:
    """One value, which may still grow if it is a string."""

    __slots__ = ("pieces", "tokens", "value")

    def __init__(self, tokens: list[Token], value: Any) -> None:
        self.tokens = tokens
        self.value = value
        self.pieces: list[str] = []


class ArgumentWriter:
    """The arguments of one call. Takes time linear in what comes."""

    __slots__ = ("_counts", "_leaves", "_path", "_string_is_open", "_tokens", "_used", "in_order")

    def __init__(self) -> None:
        self.in_order = True
        """All of it is in the text that `add` and `finish` gave."""
        self._leaves: dict[str, _Leaf] = {}
        self._path = ""  # of the value written last
        self._tokens: list[Token] = []
        self._string_is_open = False
        # For each container that is open, from the outermost: the keys an object has, and how
        # many elements an array.
        self._used: list[set[str]] = []
        self._counts: list[int] = []

    def add(self, piece: PartialArgument) -> str:
        """Take *piece*; gives the JSON text it adds. Raises `WireError` for a path nobody reads."""
        path, value = piece.json_path, piece.value
        leaf = self._leaves.get(path)
        if leaf is not None and isinstance(value, str):
            leaf.pieces.append(value)
            if path != self._path or not self._string_is_open:
                self.in_order = False
                return ""
            self._string_is_open = piece.will_continue
            return _inside(value) + ("" if piece.will_continue else '"')
        if leaf is not None:
            leaf.value = value
            self.in_order = False
            return ""
        leaf = self._leaves[path] = _Leaf(parse_path(path), value)
        if isinstance(value, str):
            leaf.pieces.append(value)
        text = self._lead_to(leaf.tokens) if self.in_order else None
        if text is None:
            self.in_order = False
            return ""
        self._path, self._tokens = path, leaf.tokens
        if not isinstance(value, str):
            return text + msgspec.json.encode(value).decode()
        self._string_is_open = piece.will_continue
        return f'{text}"{_inside(value)}' + ("" if piece.will_continue else '"')

    def finish(self) -> str:
        """The call is complete: the text that closes what is open."""
        if not self._tokens:
            return "{}"
        return self._close_down_to(0) + "}"

    def arguments(self) -> dict[str, Any]:
        """All values, put together anew. Raises `WireError` if they contradict each other."""
        root: dict[str, Any] = {}
        for path, leaf in self._leaves.items():
            value = "".join(leaf.pieces) if leaf.pieces else leaf.value
            if not _place(root, leaf.tokens, value):
                raise WireError(f"the pieces of a tool call contradict each other at {path[:200]}")
        return root

    def _lead_to(self, tokens: list[Token]) -> str | None:
        """The text between the value written last and the one at *tokens*; None if that place has
        gone by, or is none."""
        before = self._tokens
        common = 0
        for old, new in zip(before, tokens, strict=False):
            if old != new:
                break
            common += 1
        if common == len(tokens) or (before and common == len(before)):
            return None
        if not before:
            text = "{"
            if not isinstance(tokens[0], str):
                return None
            self._opened()
        else:
            if not self._is_next(common, tokens[common], before[common]):
                return None
            text = self._close_down_to(common) + ","
        for depth in range(common, len(tokens)):
            token = tokens[depth]
            if isinstance(token, str):
                self._used[depth].add(token)
                text += msgspec.json.encode(token).decode() + ":"
            elif token != self._counts[depth]:
                return None
            self._counts[depth] += 1
            if depth + 1 < len(tokens):
                text += "{" if isinstance(tokens[depth + 1], str) else "["
                self._opened()
        return text

    def _is_next(self, depth: int, token: Token, beside: Token) -> bool:
        """Whether *token* may come next in the open container at *depth*, which has *beside*."""
        if isinstance(token, str):
            return isinstance(beside, str) and token not in self._used[depth]
        return isinstance(beside, int) and token == self._counts[depth]

    def _opened(self) -> None:
        self._used.append(set())
        self._counts.append(0)

    def _close_down_to(self, depth: int) -> str:
        text = '"' if self._string_is_open else ""
        self._string_is_open = False
        for token in reversed(self._tokens[depth + 1 :]):
            text += "}" if isinstance(token, str) else "]"
        del self._used[depth + 1 :], self._counts[depth + 1 :]
        return text


def _inside(text: str) -> str:
    """*text* as it stands between the quotes of JSON."""
    return msgspec.json.encode(text)[1:-1].decode()


def _place(root: dict[str, Any], tokens: list[Token], value: Any) -> bool:
    """Put *value* where *tokens* lead; False if something else is there."""
    inside: Any = root
    for depth, token in enumerate(tokens):
        last = depth + 1 == len(tokens)
        fresh: Any = value if last else ({} if isinstance(tokens[depth + 1], str) else [])
        if isinstance(token, str):
            if not isinstance(inside, dict):
                return False
            members = cast("dict[str, Any]", inside)
            if last and token in members:
                return False
            inside = members.setdefault(token, fresh)
        else:
            if not isinstance(inside, list):
                return False
            items = cast("list[Any]", inside)
            if token > len(items) or (last and token < len(items)):
                return False
            if token == len(items):
                items.append(fresh)
            inside = items[token]
    return True
