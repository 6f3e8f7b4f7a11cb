"""The header of a Markdown file: a YAML mapping between two lines of three dashes.

What is read is plain data: a mapping of text keys to text, numbers, true, false, null, lists and
mappings. Numbers and truth values are those of JSON, as in YAML 1.2; `no`, `on` and dates stay the
text they are. Anchors, aliases and tags mean nothing in such a header and are refused, so a small
file can neither grow nor build objects. The cost is bounded: 64 KiB of header, 32 levels.

Not here: reading files, or what the keys mean (skills, templates).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigurationError
from ..records import clean_text

__all__ = ["Document", "FrontmatterInvalid", "parse_frontmatter"]

FENCE = "---"
MOST_CHARACTERS = 64 * 1024
MOST_LEVELS = 32

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,2})?")
_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


class FrontmatterInvalid(ConfigurationError):
    """The header of a file is not what it must be; the message says why, and in which line."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file taken apart."""

    fields: dict[str, Any] | None
    """What the header says; None if the file has none, {} if it is empty."""
    body: str
    """Everything behind the header, or the whole file. Line ends are `\\n`."""


def parse_frontmatter(text: str, *, verbatim: Collection[str] = ()) -> Document:
    """Take *text* apart.

    A header starts in the first line, behind a byte order mark if there is one. Both its fences are
    lines of three dashes; blanks behind them do not count. CRLF and CR count as line ends. The values of the top-level keys in
    *verbatim* are taken as they are written if they fill one line, for keys that people fill with
    things like `[file] [focus]`, which is no YAML.

    Raises `FrontmatterInvalid` if the header is not closed, too large, no YAML or no mapping, or
    has a key twice.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip() == FENCE]
    if fences[:1] != [0]:
        return Document(None, "\n".join(lines))
    if len(fences) == 1:
        raise FrontmatterInvalid(
            "the header that line 1 opens is not closed",
            hint=f"put a line {FENCE} behind it; if no header is meant, start with another line",
        )
    end = fences[1]
    if sum(map(len, lines[1:end])) > MOST_CHARACTERS:
        raise FrontmatterInvalid(f"the header is longer than {MOST_CHARACTERS:,} characters")
    header = [_quoted(line, verbatim) for line in lines[1:end]]
    return Document(
        _mapping("".join([f"{line}\n" for line in header])), "\n".join(lines[end + 1 :])
    )


def _quoted(line: str, verbatim: Collection[str]) -> str:
    key, colon, value = line.partition(":")
    value = value.strip()
    if not colon or key not in verbatim or not value or value[0] in "\"'|>":
        return line
    # A JSON string is a YAML string, but for the surrogate pairs that ASCII would need.
    return f"{key}: {json.dumps(value, ensure_ascii=False)}"


def _mapping(header: str) -> dict[str, Any]:
    value = _load(clean_text(header))
    if value is None:
        return {}
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        raise FrontmatterInvalid(
            f"the header is {kind}, not a mapping", hint="write lines like `description: ...`"
        )
    return value  # pyright: ignore[reportUnknownVariableType]


def _load(header: str) -> Any:
    """The one value that *header* is. The events are walked here rather than composed by the
    library: no recursion, and an alias is refused before anything follows it."""
    import yaml

    library: Any = yaml  # its stubs leave the type of the events open
    # The parser in C is twenty times as fast, but not built everywhere.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    reader = _Reader()
    try:
        event: Any
        for event in library.parse(header, Loader=loader):
            match event:
                case yaml.DocumentStartEvent():
                    reader.start_document(event.start_mark.line)
                case yaml.AliasEvent():
                    raise _wrong(event.start_mark.line, "aliases (`*name`) are not read here")
                case yaml.ScalarEvent():
                    reader.scalar(event)
                case yaml.MappingStartEvent():
                    reader.open({}, event)
                case yaml.SequenceStartEvent():
                    reader.open([], event)
                case yaml.CollectionEndEvent():
                    reader.close()
                case _:
                    pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _wrong(mark.line if mark else 0, f"no YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise FrontmatterInvalid(f"no YAML: {error}") from error
    return reader.result


class _Reader:
    """Puts the value together from events. Keys wait beside the mapping they belong to."""

    def __init__(self) -> None:
        self.result: Any = None
        self._open: list[tuple[Any, list[str]]] = []
        self._documents = 0

    def start_document(self, line: int) -> None:
        self._documents += 1
        if self._documents > 1:
            raise _wrong(line, "a second YAML document starts")

    def scalar(self, event: Any) -> None:
        text: str = event.value
        # `implicit[0]`: it stands there without quotes and without a tag.
        value = _plain(text) if event.implicit[0] else text
        if self._wants_key():
            # A key is text whatever it looks like: `1:` is the key "1".
            value = text if text or not event.implicit[0] else None
        self._add(value, event)

    def open(self, container: Any, event: Any) -> None:
        if len(self._open) >= MOST_LEVELS:
            raise _wrong(event.start_mark.line, f"more than {MOST_LEVELS} levels")
        self._add(container, event)
        self._open.append((container, []))

    def close(self) -> None:
        self._open.pop()

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1][0], dict) and not self._open[-1][1]

    def _add(self, value: Any, event: Any) -> None:
        line: int = event.start_mark.line
        if event.tag is not None:
            raise _wrong(line, f"tags ({event.tag}) are not read here")
        if not self._open:
            self.result = value
            return
        container, key = self._open[-1]
        if isinstance(container, list):
            container.append(value)  # pyright: ignore[reportUnknownMemberType]
        elif key:
            container[key.pop()] = value
        elif not isinstance(value, str):
            raise _wrong(line, "a key is no text")
        elif value in container:
            raise _wrong(line, f"the key {value!r} stands there twice")
        else:
            key.append(value)


def _plain(text: str) -> Any:
    """What an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    return float(text) if number[1] or number[2] else int(text)


def _wrong(line: int, message: str) -> FrontmatterInvalid:
    hint = None
    if "mapping values are not allowed" in message:
        hint = "put a value that holds a colon and a blank in quotes"
    elif "aliases" in message or "alphabetic" in message:
        hint = "put a value that starts with a star in quotes"
    # The parser counts from 0 behind the fence, which is line 1.
    return FrontmatterInvalid(f"line {line + 2}: {message}", hint=hint)
