"""Which files a word of a command may name: `.env`, `--file=.env`, `HEAD:.env`, `"$PWD"/.env`.  (pure)

A guess, for bans: what a program does with its words is not known. Most words are names of nothing.

Not here: which file a name leads to (file_paths.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["names_in"]

_STANDS_BEFORE = re.compile(r"[=:@]")
_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?=/|\Z)")
_PLAIN = re.compile(r"[\w./@%+*?~-]+")
_BELOW_UNKNOWN = re.compile(r"(?:\$\w+|[)}`])/(?P<name>[\w./@%+*?~-]+)\Z")
"""What stands behind a folder that is only known when it runs; most often it is the workspace."""


def names_in(raw: str, text: str | None) -> Iterator[str]:
    """The names in a word that is spelled *raw* and means *text*, None if that is only known when
    it runs. A name may begin with `~/`, and hold `*` and `?`."""
    if text is not None:
        yield text
        for found in _STANDS_BEFORE.finditer(text):
            yield text[found.end() :]
        return
    plain = raw.replace('"', "")
    name = _HOME.sub("~", plain, count=1)
    if _PLAIN.fullmatch(name):
        yield name
    elif (found := _BELOW_UNKNOWN.search(plain)) is not None:
        yield found["name"]
