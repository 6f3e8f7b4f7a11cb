"""Whether a path fits a pattern such as `src/**` or `*.md`.                                 (pure)

`*` and `?` stand for characters within one name, `**` for any number of folders, none included.
Everything else is itself, brackets too: folders are called `[id]`. Matching takes at most the
product of both lengths, so no pattern can make it hang.

Not here: what a path leads to (file_paths.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["bad_glob", "fits", "has_wildcard"]

T = TypeVar("T")


def has_wildcard(part: str) -> bool:
    """Whether *part* of a pattern may stand for several names."""
    return "*" in part or "?" in part


def fits(pattern: Sequence[str], path: Sequence[str], *, below: bool = False) -> bool:
    """Whether the names of *path* fit those of *pattern*; with *below*, or those of a folder above."""
    whole = [*pattern, "**"] if below else pattern
    return _fits(whole, path, lambda part: part == "**", _name_fits)


def bad_glob(pattern: str) -> tuple[str, str] | None:
    """What is wrong with *pattern*, and what to do about it."""
    if "\0" in pattern:
        return "holds a NUL character, which no path has", "leave it out"
    if pattern != pattern.strip():
        return "begins or ends with a blank", "leave the blank out"
    if pattern.startswith("!"):
        return "begins with !, which turns nothing round here", "use a deny or ask rule"
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        return "names somebody else's home", 'only "~/" is known; write the path out'
    for part in pattern.split("/"):
        if "**" in part and part != "**":
            return (
                f"has ** within a name ({part!r})",
                'put it between slashes, as in "src/**/*.py"',
            )
    return None


def _name_fits(pattern: str, name: str) -> bool:
    if not has_wildcard(pattern):
        return pattern == name
    return _fits(pattern, name, lambda c: c == "*", lambda c, d: c in ("?", d))


def _fits(
    pattern: Sequence[T],
    items: Sequence[T],
    is_star: Callable[[T], bool],
    same: Callable[[T, T], bool],
) -> bool:
    """Match with wildcards that stand for any run of items: only the last one seen can give way."""
    p = i = 0
    star, tried = -1, 0
    while i < len(items):
        if p < len(pattern) and is_star(pattern[p]):
            star, tried = p, i
            p += 1
        elif p < len(pattern) and same(pattern[p], items[i]):
            p += 1
            i += 1
        elif star >= 0:
            tried += 1
            p, i = star + 1, tried
        else:
            return False
    return all(is_star(part) for part in pattern[p:])
