"""Which file a call's path leads to, and whether that is one a rule speaks of.

A tool that is given a path tries several spellings of it (an `@` in front, `~`, odd blanks, other
forms of accents), and follows links. All that it may come to counts: an allowance must hold for
each of them, a ban needs only one.

A pattern is relative to the workspace unless it begins with `/` or `~/`. Without any slash it is a
name, in whatever folder. In a ban it also stands for what lies below.

Not here: opening files; the tools have a fence of their own, which does not depend on this look.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .globs import fits, has_wildcard
from .rules import Rule

__all__ = ["Located", "Places", "plain_name"]

_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
# What HFS+ passes over in names, so that `.g\u200cit` is `.git` (CVE-2014-9390).
_PASSED_OVER = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_BEFORE_AM_PM = re.compile(r" (?=[AaPp]\.?[Mm]\b)")

MOST_FITTING = 500
"""So many files, and as many folders on the way, are looked at for one name with wildcards: for
`/*/*/*/*/x*` that would be the whole disk."""


@dataclass(frozen=True, slots=True)
class Located:
    """Where a path may lead to."""

    real: tuple[str, ...]
    """Every real path that a tool may come to."""
    spelled: tuple[str, ...]
    """The same before links were followed."""


class Places:
    """A workspace and a home, in which paths and patterns get their meaning."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        home: str | os.PathLike[str],
        *,
        readable: Iterable[str | os.PathLike[str]] = (),
        writable: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        self.root = os.path.realpath(root)
        self._writable = [os.path.realpath(folder) for folder in writable]
        self._readable = [os.path.realpath(folder) for folder in readable]
        self.home = os.path.realpath(home)
        self._given_home = os.fspath(home)

    def locate(self, path: str) -> Located | None:
        """Where *path* may lead to; None if it can be no path."""
        try:
            return self._locate(path)
        except (OSError, ValueError):  # a NUL, a name that no system takes, a loop of links
            return None

    def named(self, name: str, folder: str | None = None) -> Iterator[str]:
        """The paths that a shell in *folder*, by default the workspace, makes of *name*: itself,
        and with `*`, `?` or `[` the files it fits."""
        if "\0" in name:
            return
        start = folder or self.root
        if name.startswith("~"):
            who, _, below = name.partition("/")
            home = self._home_of(who)
            if home is not None:
                start, name = home, below
        elif name.startswith("/"):
            start, name = os.sep, name.lstrip("/")
        yield os.path.join(start, name)
        if _is_glob(name):
            yield from _fitting(start, name.split("/"))

    def _home_of(self, who: str) -> str | None:
        if who in ("~", f"~{os.path.basename(self._given_home)}"):
            return self._given_home
        home = os.path.expanduser(who)  # asks the system who there is
        return None if home == who else home

    def inside(self, real: str) -> bool:
        """Whether *real* is the workspace or in it."""
        return _within(real, self.root)

    def open_to(self, real: str, *, reading: bool) -> bool:
        """Whether a mode reaches *real*: in the workspace, or in a folder beside it."""
        folders = [self.root, *self._writable, *(self._readable if reading else ())]
        return any(_within(real, folder) for folder in folders)

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
            _within(plain_name(folder), plain_name(head))
            or _within(plain_name(head), plain_name(folder))
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
        fold = str if exactly else plain_name
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


def _fitting(start: str, names: Iterable[str]) -> list[str]:
    """The paths below *start* for *names*, which may have wildcards; the last need not be there."""
    found = [start]
    for name in names:
        if _is_glob(name):
            each = (glob.iglob(os.path.join(glob.escape(folder), name)) for folder in found)
            found = list(itertools.islice(itertools.chain.from_iterable(each), MOST_FITTING))
        else:
            found = [os.path.join(folder, name) for folder in found]
    return found


def _is_glob(name: str) -> bool:
    return has_wildcard(name) or "[" in name


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _names(path: str) -> list[str]:
    return [name for name in path.replace(os.sep, "/").split("/") if name not in ("", ".")]


def plain_name(text: str) -> str:
    """One form for all names that some file system takes for the same."""
    if text.isascii():
        return text.casefold()
    text = _PASSED_OVER.sub("", text)
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
