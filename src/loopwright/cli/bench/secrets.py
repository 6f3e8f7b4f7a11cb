"""The keys that this program knows, kept out of what tools say.

A command that prints its environment, or a file that holds a key, would otherwise put it into the
session and send it to the model. Only the values are known here that this program itself could send
to a vendor: no guess is made what else may be a secret.

This is against accidents. They are found as they are, in base64 (`kubectl get secret`, `curl -v`)
and as a URL spells them, also with lines broken within (`base64`, `fold`); whoever turns a value
round, or prints it in parts, gets it past this.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from ...errors import ConfigurationError
from ...events import AgentEvent, ToolExecutionUpdate
from ...loop.hooks import AfterToolCall, AfterToolCallResult
from ...messages import AgentToolResult, TextContent
from ...models import Models
from ...models.credentials import credential_file
from ...tools.bash import is_our_secret

__all__ = ["SecretFilter", "Secrets", "known_secrets"]

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.I)
_PLAIN_IN_URLS = re.compile(r"[A-Za-z0-9_.~-]+")

_BREAK = re.compile(r"[\r\n][ \t\r\n]*")
_BLANKS = b" \t\r\n"

SHORTEST = 12
"""Characters. What is shorter is hidden as a whole only, and not at all if it may be a word."""
SHORTEST_OF_ALL = 6
"""Characters. What is shorter stands by chance in too many texts."""
SHORTEST_BROKEN = 16
"""Characters. What is shorter is not looked for over line breaks: words may stand so."""
TELLING = 4
"""Characters. With fewer before a line break, a line is not held back for them: many end so."""


class _Value(NamedTuple):
    """What is looked for, without line breaks."""

    text: str
    name: str
    """Shown in its place."""
    least: int
    """Of a text that may be cut, so many characters of it are hidden as well."""
    whole: bytes
    first: bytes
    last: bytes
    """Those, as `_squeezed` makes them."""


class _Span(NamedTuple):
    """Where in a text one stands."""

    start: int
    end: int
    name: str


class Secrets:
    """Values to be kept out, each with the name that is shown in its place."""

    def __init__(self, named: Iterable[tuple[str, str]]) -> None:
        names = {
            form: name
            for name, value in named
            if _can_be_hidden(value)
            for form in (_BREAK.sub("", spelling) for spelling in _spellings(value))
            if form == value or len(form) >= min(SHORTEST, len(value))
        }
        self._values = [_value(form, name) for form, name in names.items()]

    def filter(self) -> SecretFilter:
        """What keeps them out of one text that comes piece by piece."""
        return SecretFilter(self._values)

    def hide(self, text: str) -> str:
        """*text* without them. Long output is cut before it comes here, perhaps in the middle of
        one: most of one, from its beginning or to its end, is hidden as well."""
        squeezed = _squeezed(text)
        there = [one for one in self._values if one.first in squeezed or one.last in squeezed]
        return _replaced(text, _found(text, [(one, one.least) for one in there]))

    def after_tool_call(self, call: AfterToolCall) -> AfterToolCallResult | None:
        """The hook: replaces the parts of a result in which one of them stands."""
        clean = self._clean(call.result)
        if clean is None:
            return None
        return AfterToolCallResult(content=clean.content, details=clean.details)

    def heard(self, event: AgentEvent) -> AgentEvent:
        """*event* as listeners may hear it. A tool's progress passes no hook, and neither is it
        kept."""
        if not isinstance(event, ToolExecutionUpdate):
            return event
        clean = self._clean(event.partial_result)
        return event if clean is None else msgspec.structs.replace(event, partial_result=clean)

    def _clean(self, result: AgentToolResult) -> AgentToolResult | None:
        """*result* without them; None if there is none in it."""
        content = [
            TextContent(hidden)
            if isinstance(block, TextContent) and (hidden := self.hide(block.text)) != block.text
            else block
            for block in result.content
        ]
        details, changed = _hidden(result.details, self.hide)
        if not changed and all(a is b for a, b in zip(content, result.content, strict=True)):
            return None
        return msgspec.structs.replace(result, content=content, details=details)


class SecretFilter:
    """Replaces each of some values in a text that comes piece by piece, however they are cut."""

    def __init__(self, values: Sequence[_Value]) -> None:
        self._values = values
        longest = max((len(one.text) for one in values), default=0)
        self._reach = 2 * longest + 256
        """How far back one may begin that is not complete, line breaks and blanks counted."""
        self._held = ""
        """What may be the beginning of one."""
        self._told = 0
        """Of that, the characters that were told all the same."""

    def __call__(self, text: str, *, final: bool = False) -> str:
        """The text that *text* completes; with *final* also what was still held back."""
        text = self._held + text
        squeezed = _squeezed(text)
        there = [(one, len(one.text)) for one in self._values if one.whole in squeezed]
        spans = _found(text, there)
        end = len(text) if final else self._sure(text)
        for span in spans:  # a complete one is not cut for the sake of its last letters
            if span.start < end < span.end:
                end = span.end
        told, self._held = self._told, text[end:]
        self._told = max(0, told - end)
        if _BREAK.search(self._held) and len(_BREAK.sub("", self._held)) < TELLING:
            self._told = len(self._held)
        spans = [span for span in spans if span.end <= end]
        return _replaced(text[: end + self._told], spans, start=told)

    def _sure(self, text: str) -> int:
        """Where in *text* a value may begin that is not complete."""
        before = max(0, len(text) - self._reach)
        joined, places = _joined(text[before:])
        end = len(joined)
        for value in (one.text for one in self._values):
            at = joined.find(value[0], max(0, len(joined) - len(value) + 1), end)
            while at >= 0 and not value.startswith(joined[at:]):
                at = joined.find(value[0], at + 1, end)
            end = end if at < 0 else at
        return len(text) if end == len(joined) else before + places[end]


def _can_be_hidden(value: str) -> bool:
    """Whether no text suffers from it: many put a word such as `ollama` in the place of a key."""
    long = len(value) >= SHORTEST
    return long or (len(value) >= SHORTEST_OF_ALL and any(map(str.isdigit, value)))


def _spellings(value: str) -> Iterator[str]:
    """*value* in the forms in which programs print it. In base64 it depends on what stands before
    it, and its ends on what is beside it: those are left out."""
    yield value
    data = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        form = base64.b64encode(bytes(before) + data).decode("ascii")
        first, last = -(before * 8 // -6), (before + len(data)) * 8 // 6
        yield form[first:last]
    if not _PLAIN_IN_URLS.fullmatch(value):
        from urllib.parse import quote

        yield quote(value, safe="", errors="replace")


def _value(text: str, name: str) -> _Value:
    least = min(len(text), max(SHORTEST, len(text) * 2 // 3))
    parts = (text, text[:least], text[-least:])
    return _Value(text, name, least, *(_squeezed(part) for part in parts))


def _squeezed(text: str) -> bytes:
    """*text* without any blanks: what is not in there, is not in *text* either. It is so much
    faster than `_joined` that long outputs are not slowed."""
    return text.encode("utf-8", "surrogatepass").translate(None, _BLANKS)


def _joined(text: str) -> tuple[str, Sequence[int]]:
    """*text* without line breaks and the blanks after them; and where each character stood."""
    parts: list[str] = []
    places: list[int] = []
    start = 0
    for gap in _BREAK.finditer(text):
        parts.append(text[start : gap.start()])
        places += range(start, gap.start())
        start = gap.end()
    if not parts:
        return text, range(len(text))
    return "".join([*parts, text[start:]]), [*places, *range(start, len(text))]


def _found(text: str, values: Sequence[tuple[_Value, int]]) -> list[_Span]:
    """Where *values* stand in *text*, or at least so much of each, in order; the longest first of
    those that begin together."""
    if not values:
        return []
    joined, places = _joined(text)
    size = len(joined)
    found: set[_Span] = set()
    for value, least in values:
        within = list(_beginnings(joined, value.text, least))
        if least < len(value.text):
            # A text that ends as the value does is, backwards, one that begins so.
            back = _beginnings(joined[::-1], value.text[::-1], least)
            within += [(size - end, size - start) for start, end in back]
        for start, end in within:
            span = _Span(places[start], places[end - 1] + 1, value.name)
            if len(value.text) >= SHORTEST_BROKEN or span.end - span.start == end - start:
                found.add(span)
    return sorted(found, key=lambda span: (span.start, -span.end))


def _beginnings(text: str, value: str, least: int) -> Iterator[tuple[int, int]]:
    """Start and end of each longest beginning of *value* of at least *least* characters."""
    head = value[:least]
    at = text.find(head)
    while at >= 0:
        end = at + least
        while end - at < len(value) and text[end : end + 1] == value[end - at]:
            end += 1
        yield at, end
        at = text.find(head, end)


def _replaced(text: str, spans: Iterable[_Span], *, start: int = 0) -> str:
    """*text* from *start* on, with a name in place of each of *spans*; those that overlap are
    one."""
    parts: list[str] = []
    for span in spans:
        if span.start >= start or not parts:
            parts += [text[start : span.start], f"[{span.name}, not shown]"]
        start = max(start, span.end)
    return "".join([*parts, text[start:]])


def _hidden(value: Any, hide: Callable[[str], str]) -> tuple[Any, bool]:
    """*value*, plain data, with every text hidden; and whether that changed anything."""
    if isinstance(value, str):
        text = hide(value)
        return text, text != value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        done = {key: _hidden(one, hide) for key, one in fields.items()}
        return {key: new for key, (new, _) in done.items()}, any(c for _, c in done.values())
    if isinstance(value, list):
        items = [_hidden(one, hide) for one in cast("list[Any]", value)]
        return [new for new, _ in items], any(changed for _, changed in items)
    return value, False


def known_secrets(every: Iterable[Models]) -> Secrets:
    """The keys of all providers: in the environment, in files, and those that are kept."""
    named: list[tuple[str, str]] = []
    for models in every:
        for provider_id in models.provider_ids():
            provider = models.get_provider(provider_id)
            if provider is None:
                continue
            named += [(variable, os.environ.get(variable, "")) for variable in provider.env]
            if isinstance(provider.api_key, str):
                named.append((f"key of {provider_id}", provider.api_key))
            named += [
                (f"header of {provider_id}", value.removeprefix("Bearer "))
                for header, value in provider.headers.items()
                if _SECRET_HEADER.search(header)
            ]
    named += [item for item in os.environ.items() if is_our_secret(item[0])]
    try:
        kept = credential_file()
        named += [(f"key of {name}", kept.key(name) or "") for name in kept.names()]
    except ConfigurationError:  # told where the key is needed
        pass
    return Secrets(named)
