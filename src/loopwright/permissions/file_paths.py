"""Which file a call's path leads to, and whether that is one a rule speaks of.

A tool that is given a path tries several spellings of it (an `@` in front, `~`, odd blanks, other
forms of accents), and follows links. All that it may come to counts: an allowance must hold for
each of them, a ban needs only one.

A pattern is relative to the workspace unless it begins with `/` or `~/`. Without any slash it is a
name, in whatever folder. In a ban it also stands for what lies below.

Not here: opening files; the tools have a fence of their own, which does not depend on this look.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from .globs import fits, has_wildcard
from .rules import Rule

__all__ = ["Located", "Places"]

_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_BEFORE_AM_PM = re.compile(r" (?=[AaPp]\.?[Mm]\b)")


@dataclass(frozen=True, slots=True)
class Located:
    """Where a path may lead to."""

    real: tuple[str, ...]
    """Every real path that a tool may come to."""
    spelled: tuple[str, ...]
    """The same before links were followed."""


class Places:
    """A workspace and a home, in which paths and patterns get their meaning."""

    def __init__(self, root: str | os.PathLike[str], home: str | os.PathLike[str]) -> None:
        self.root = os.path.realpath(root)
        self.home = os.path.realpath(home)
        self._given_home = os.fspath(home)

    def locate(self, path: str) -> Located | None:
        """Where *path* may lead to; None if it can be no path."""
        try:
            return self._locate(path)
        except (OSError, ValueError):  # a NUL, a name that no system takes, a loop of links
            return None

    def inside(self, real: str) -> bool:
        """Whether *real* is the workspace or in it."""
        return _within(real, self.root)

    def shown(self, path: str) -> str:
        """*path* for people and in patterns: relative to the workspace if it is inside."""
        return os.path.relpath(path, self.root) if self.inside(path) else path

    def allows(self, rule: Rule, located: Located) -> bool:
        """Whether the pattern of *rule* fits everything that *located* may be."""
        return all(self._fits(rule, real, exactly=True) for real in located.real)

    def catches(self, rule: Rule, located: Located) -> bool:
        """Whether the pattern of *rule* fits anything that *located* may be."""
        return any(self._fits(rule, path, exactly=False) for path in located.real + located.spelled)

    def may_catch_below(self, rule: Rule, located: Located) -> bool:
        """Whether something in a folder that *located* may be could fit the pattern of *rule*."""
        pattern = rule.pattern or ""
        if self._is_name(pattern) or pattern.startswith("**"):
            return True
        return any(
            _within(_folded(folder), _folded(head)) or _within(_folded(head), _folded(folder))
            for folder in located.real + located.spelled
            for head, _ in self._absolute(pattern)
        )

    # -- paths ---------------------------------------------------------------------------------

    def _locate(self, path: str) -> Located:
        plain = _SPACES.sub(" ", path.removeprefix("@"))
        if plain == "~" or plain.startswith(("~/", "~" + os.sep)):
            plain = self._given_home + plain[1:]
        candidates = [os.path.join(self.root, plain or ".")]
        # A new file gets the plain name, unless there is a folder that begins with an `@`.
        first = path.partition("/")[0]
        if path != plain and os.path.lexists(os.path.join(self.root, first)):
            candidates.append(os.path.join(self.root, path))
        for guess in _guesses(path, plain):
            full = os.path.join(self.root, guess)
            if os.path.lexists(full):
                candidates.append(full)
        unique = tuple(dict.fromkeys(candidates))
        return Located(
            real=tuple(dict.fromkeys(os.path.realpath(full) for full in unique)),
            spelled=tuple(dict.fromkeys(os.path.normpath(full) for full in unique)),
        )

    # -- patterns ------------------------------------------------------------------------------

    def _fits(self, rule: Rule, path: str, *, exactly: bool) -> bool:
        pattern = rule.pattern
        if pattern is None:
            return True
        if exactly and not self._is_absolute(pattern) and not self.inside(path):
            return False
        fold = str if exactly else _folded
        names = _names(fold(path))
        if pattern.startswith("**/") or self._is_name(pattern):
            parts = ["**", *_names(fold(pattern))]
            if exactly:  # the folders above the workspace are not meant
                names = _names(fold(os.path.relpath(path, self.root)))
            if fits(parts, names, below=not exactly or pattern.endswith("/")):
                return True
            if exactly:
                return False
        below = not exactly or pattern.endswith("/")
        return any(
            fits([*_names(fold(head)), *map(fold, rest)], names, below=below)
            for head, rest in self._absolute(pattern)
        )

    def _is_absolute(self, pattern: str) -> bool:
        return pattern.startswith(("/", "~")) or os.path.isabs(pattern)

    def _is_name(self, pattern: str) -> bool:
        return "/" not in pattern.rstrip("/") and pattern not in ("~", "..", ".", "**")

    def _absolute(self, pattern: str) -> Iterator[tuple[str, list[str]]]:
        """*pattern* as a folder and the parts below it, as it is spelled and with links followed."""
        if pattern == "~" or pattern.startswith("~/"):
            pattern = self._given_home + pattern[1:]
        parts = pattern.rstrip("/").split("/")
        count = next((i for i, part in enumerate(parts) if has_wildcard(part)), len(parts))
        head = os.path.join(self.root, "/".join(parts[:count]) or ("/" if parts[0] == "" else "."))
        yield os.path.normpath(head), parts[count:]
        yield os.path.realpath(head), parts[count:]


def _guesses(path: str, plain: str) -> Iterator[str]:
    """What else the tools try, for files that must be there already."""
    yield path
    narrow = _BEFORE_AM_PM.sub("\u202f", plain)
    apart = unicodedata.normalize("NFD", plain)
    yield narrow
    yield unicodedata.normalize("NFC", plain)
    yield apart
    yield plain.replace("'", "\u2019")
    yield apart.replace("'", "\u2019")
    yield unicodedata.normalize("NFD", narrow).replace("'", "\u2019")


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _names(path: str) -> list[str]:
    return [name for name in path.replace(os.sep, "/").split("/") if name not in ("", ".")]


def _folded(text: str) -> str:
    """One form for all names that some file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
