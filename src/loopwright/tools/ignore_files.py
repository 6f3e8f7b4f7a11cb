"""`.gitignore` and its kin: which files a search leaves out. As ripgrep does it.

Each ignore file speaks for its own folder and what is below. Of one kind the deepest file with a
word on a path decides, in it the last line that matches; between the kinds `.rgignore` comes before
`.ignore`, before `.gitignore`, before `.git/info/exclude`. The files of git count up to the root of
the repository, whether or not there is one; the others all the way up. A path is judged by itself:
what lies in an ignored folder is left out because nobody goes in, so a search that starts there
finds it.

Not here: the user's own global ignore file, which is not looked at, so that a search gives the same
on every machine; hidden files (walk.py).

pathspec is not used: it also counts what lies below a match as matched, and its expressions can
take for ever on a pattern made for that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .globs import BadGlob, compile_glob

__all__ = ["IgnoreLevel", "in_repository", "parse_ignore_lines", "root_levels"]

_KINDS = (".rgignore", ".ignore", ".gitignore", os.path.join(".git", "info", "exclude"))
_OF_GIT = 2
"""The kinds from here on are git's."""

MOST_BYTES = 1 << 20


class Rule(NamedTuple):
    """One line."""

    matches: re.Pattern[str]
    only_folders: bool
    ignores: bool
    """False for lines that begin with `!`."""


class IgnoreLevel:
    """The ignore files of one folder, below those of the folders above."""

    def __init__(self, folder: str, above: IgnoreLevel | None, names: Iterable[str]) -> None:
        """*folder* is absolute; *names* are those in it, which saves looking for the files."""
        self._above = above
        self._start = len(folder.rstrip("/")) + 1
        known = set(names)
        self._has_git = ".git" in known
        self._rules = [
            _read(os.path.join(folder, kind)) if kind.split(os.sep)[0] in known else []
            for kind in _KINDS
        ]
        # Most folders have none of it; they are skipped when paths are judged.
        speaks = self._has_git or any(self._rules)
        self._next: IgnoreLevel | None = self if speaks else above and above._next

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Whether *path*, absolute, is left out."""
        verdicts: list[bool | None] = [None] * len(_KINDS)
        level = self._next
        in_repository = True
        while level is not None:
            relative = path[level._start :]
            for kind, rules in enumerate(level._rules):
                if rules and verdicts[kind] is None and (kind < _OF_GIT or in_repository):
                    verdicts[kind] = _judge(rules, relative, is_folder)
            in_repository = in_repository and not level._has_git
            level = level._above and level._above._next
        return next((verdict for verdict in verdicts if verdict is not None), False)


def in_repository(folder: str) -> bool:
    """Whether *folder*, a real path, or one above it is the root of a repository."""
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent
    return True


def root_levels(folder: str) -> IgnoreLevel | None:
    """Of the folders above *folder*, which is a real path."""
    level: IgnoreLevel | None = None
    above: list[str] = []
    while (parent := os.path.dirname(folder)) != folder:
        above.append(parent)
        folder = parent
    wanted = [".git", *_KINDS[:-1]]
    for each in reversed(above):
        names = [name for name in wanted if os.path.exists(os.path.join(each, name))]
        level = IgnoreLevel(each, level, names)
    return level


def _judge(rules: list[Rule], path: str, is_folder: bool) -> bool | None:
    for rule in reversed(rules):
        if (is_folder or not rule.only_folders) and rule.matches.match(path):
            return rule.ignores
    return None


def _read(file: str) -> list[Rule]:
    try:
        if not os.path.isfile(file):
            return []
        with open(file, "rb") as opened:
            data = opened.read(MOST_BYTES)
    except OSError:
        return []
    return list(parse_ignore_lines(os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n")))


def parse_ignore_lines(lines: Iterable[str]) -> Iterator[Rule]:
    """The rules of gitignore(5); lines that make no sense are passed over."""
    for line in lines:
        glob = line.removesuffix("\r")
        if glob.startswith("#"):
            continue
        while glob.endswith((" ", "\t")) and not glob.endswith("\\ "):
            glob = glob[:-1]
        ignores = not glob.startswith("!")
        glob = glob.removeprefix("!")
        only_folders = glob.endswith("/")
        glob = glob.removesuffix("/")
        if not glob.strip("/"):
            continue
        if "/" not in glob:
            glob = "**/" + glob
        if glob.endswith("/**"):
            glob += "/*"
        try:
            yield Rule(compile_glob(glob), only_folders, ignores)
        except (BadGlob, re.error):
            continue
