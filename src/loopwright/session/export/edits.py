"""What an edit changed, as the lines of a diff.                                           (pure)

The tool that made the edit knows it best, so its own diff comes first; then the patch it made;
then the arguments, which have no line numbers and are all there is of an edit that failed.

Not here: what else a call shows (calls.py), or how it looks (html.py, markdown.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

__all__ = ["Replacement", "diff_of_texts", "made_diff", "made_patch", "replacements"]

MOST_COMPARISONS = 2_500
"""Lines before times lines after. Above it all lines from the first to the last change are shown as
replaced: comparing takes up to the third power of their number."""


class Replacement(NamedTuple):
    """Text that stood somewhere, and what was to take its place."""

    old: str
    new: str


def made_diff(details: object) -> str | None:
    """The diff, or else the patch, in the *details* of a result; None without one."""
    return _detail(details, "diff") or made_patch(details)


def made_patch(details: object) -> str | None:
    """The patch in the *details* of a result, as `patch` and `git apply` take it; None without."""
    return _detail(details, "patch")


def _detail(details: object, key: str) -> str | None:
    if not isinstance(details, Mapping):
        return None
    found = cast("Mapping[str, Any]", details).get(key)
    return found.rstrip("\n") if isinstance(found, str) and found.strip() else None


def replacements(arguments: Mapping[str, Any]) -> list[Replacement] | None:
    """Those that the *arguments* of an edit ask for; None if they are of another shape."""
    edits: Any = arguments.get("edits", [])
    if isinstance(edits, Mapping):
        edits = [edits]
    if not isinstance(edits, list):
        return None
    asked: list[Any] = [*cast("list[Any]", edits)]
    if "oldText" in arguments or "newText" in arguments:
        asked.append(arguments)
    found: list[Replacement] = []
    for each in asked:
        if not isinstance(each, Mapping):
            return None
        old = cast("Mapping[str, Any]", each).get("oldText")
        new = cast("Mapping[str, Any]", each).get("newText")
        if not (isinstance(old, str) and isinstance(new, str)):
            return None
        found.append(Replacement(old, new))
    return found or None


def diff_of_texts(edits: Sequence[Replacement]) -> str:
    """*edits* as lines that begin with `-`, `+` or a blank; `...` between two edits."""
    return "\n ...\n".join("\n".join(_lines(old, new)) for old, new in edits)


def _lines(old: str, new: str) -> list[str]:
    before, after = _split(old), _split(new)
    most = min(len(before), len(after))
    same = 0
    while same < most and before[same] == after[same]:
        same += 1
    alike = 0
    while alike < most - same and before[-1 - alike] == after[-1 - alike]:
        alike += 1
    rest = len(before) - alike
    return [
        *_signed(" ", before[:same]),
        *_changed(before[same:rest], after[same : len(after) - alike]),
        *_signed(" ", before[rest:]),
    ]


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _changed(before: list[str], after: list[str]) -> list[str]:
    if len(before) * len(after) > MOST_COMPARISONS:
        return [*_signed("-", before), *_signed("+", after)]
    from difflib import SequenceMatcher  # not small, and most documents have diffs that were made

    lines: list[str] = []
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += _signed(" ", before[a:b])
        else:
            lines += [*_signed("-", before[a:b]), *_signed("+", after[c:d])]
    return lines


def _signed(sign: str, lines: list[str]) -> list[str]:
    return [sign + line for line in lines]
