"""The keys that this program knows, kept out of what tools say.

A command that prints its environment, or a file that holds a key, would otherwise put it into the
session and send it to the model. Only the values are known here that this program itself could send
to a vendor: no guess is made what else may be a secret.

This is against accidents. They are found as they are, in base64 (`kubectl get secret`, `curl -v`)
and as a URL spells them; whoever turns a value round, or prints it in parts, gets it past this.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from ...errors import ConfigurationError
from ...events import AgentEvent, ToolExecutionUpdate
from ...loop.hooks import AfterToolCall, AfterToolCallResult
from ...messages import AgentToolResult, TextContent
from ...models import Models
from ...models.credentials import credential_file

__all__ = ["SecretFilter", "Secrets", "known_secrets"]

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.I)
_PLAIN_IN_URLS = re.compile(r"[A-Za-z0-9_.~-]+")

SHORTEST = 12
"""Characters. What is shorter may be a word like any other."""


class Secrets:
    """Values to be kept out, each with the name that is shown in its place."""

    def __init__(self, named: Iterable[tuple[str, str]]) -> None:
        values = {
            form: name
            for name, value in named
            if len(value) >= SHORTEST
            for form in _spellings(value)
            if len(form) >= SHORTEST
        }
        # The longest first: one may be the beginning of another.
        self._values = sorted(values.items(), key=lambda item: -len(item[0]))

    def filter(self) -> SecretFilter:
        """What keeps them out of one text that comes piece by piece."""
        return SecretFilter(self._values)

    def hide(self, text: str) -> str:
        """*text* without them. Long output is cut before it comes here, perhaps in the middle of
        one: most of one, from its beginning or to its end, is hidden as well."""
        for value, name in self._values:
            most = max(SHORTEST, len(value) * 2 // 3)
            if value[:most] not in text and value[-most:] not in text:
                continue
            shown = f"[{name}, not shown]"
            text = text.replace(value, shown)
            text = _without_beginnings(text, value, most, shown)
            # A text that ends as the value does is, backwards, one that begins so.
            back = _without_beginnings(text[::-1], value[::-1], most, shown[::-1])
            text = back[::-1]
        return text

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

    def __init__(self, values: Sequence[tuple[str, str]]) -> None:
        """*values* with the name of each, the longest first."""
        self._values = values
        self._held = ""
        """What may be the beginning of one."""

    def __call__(self, text: str, *, final: bool = False) -> str:
        """The text that *text* completes; with *final* also what was still held back."""
        text = self._held + text
        end = len(text) if final else self._sure(text)
        self._held = text[end:]
        text = text[:end]
        for value, name in self._values:
            if value in text:
                text = text.replace(value, f"[{name}, not shown]")
        return text

    def _sure(self, text: str) -> int:
        """Where in *text* a value may begin that is not complete."""
        end = len(text)
        for value, _ in self._values:
            at = text.find(value[0], max(0, len(text) - len(value) + 1), end)
            while at >= 0 and not value.startswith(text[at:]):
                at = text.find(value[0], at + 1, end)
            end = end if at < 0 else at
        for value, _ in self._values:  # a complete one is not cut for the sake of its last letters
            at = text.find(value, max(0, end - len(value) + 1))
            if 0 <= at < end < at + len(value):
                end = at + len(value)
        return end


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


def _without_beginnings(text: str, value: str, least: int, shown: str) -> str:
    """*text* with *shown* in place of each longest beginning of *value* of at least *least*
    characters."""
    head = value[:least]
    at = text.find(head)
    if at < 0:
        return text
    parts: list[str] = []
    start = 0
    while at >= 0:
        end = at + least
        while end - at < len(value) and text[end : end + 1] == value[end - at]:
            end += 1
        parts += [text[start:at], shown]
        start = end
        at = text.find(head, start)
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
    try:
        kept = credential_file()
        named += [(f"key of {name}", kept.key(name) or "") for name in kept.names()]
    except ConfigurationError:  # told where the key is needed
        pass
    return Secrets(named)
