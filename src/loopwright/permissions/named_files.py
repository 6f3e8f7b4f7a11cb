"""Which files a command may name: `.env`, `--file=.env`, `HEAD:.env`, `"$PWD"/.e{n,}v`.     (pure)

A guess, for bans: what a program does with its words is not known. Most words are names of nothing.

Not here: which file a name leads to (file_paths.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .command_line import Command
from .launchers import program

__all__ = ["changes_nothing", "names_in", "put_into"]

MOST_NAMES = 200
"""So many names are made of the braces of one word."""

_STANDS_BEFORE = re.compile(r"[=:@]")
_ATTACHED = re.compile(r"-[A-Za-z](?P<name>.+)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HOME = re.compile(r"\$HOME(?=/|\Z)")
_BELOW_UNKNOWN = re.compile(r"(?:~[+-]|\$\w+|[)`])/(?P<name>[^$`()]+)\Z")
"""What stands behind a folder that is only known when it runs; most often it is the workspace."""
_UNKNOWN = re.compile(r"[$`()]|~[+-](?=/|\Z)")

_BRACES = re.compile(
    r"(?<!\$)\{(?P<one>[^{},]*(?:,[^{},]*)+)\}|(?<!\$)\{[\w-]+(?:\.\.[\w-]+){1,2}\}"
)
_POSIX_SET = re.compile(r"\[[!^]?\]?(?:[^\[\]]*\[:\w+:\])+[^\[\]]*\]")


def names_in(raw: str, text: str | None) -> Iterator[str]:
    """The names in a word that is spelled *raw* and means *text*, None if that is only known when
    it runs. A name may begin with `~`, and hold `*`, `?` and sets such as `[a-z]`."""
    if text is not None:
        yield from _parts(text)
        return
    # Quoted or not, a wildcard is taken for one.
    plain = _VARIABLE.sub(r"$\1", re.sub(r"""["'\\]""", "", raw))
    for word in _without_braces(_HOME.sub("~", plain)):
        word = _POSIX_SET.sub("?", word).replace("[^", "[!")
        for part in _parts(word):
            below = _BELOW_UNKNOWN.search(part)
            if below is not None:
                yield below["name"]
            elif _UNKNOWN.search(part) is None:
                yield part


def _parts(word: str) -> Iterator[str]:
    yield word
    for found in _STANDS_BEFORE.finditer(word):
        yield word[found.end() :]
    attached = _ATTACHED.fullmatch(word)
    if attached is not None:
        yield attached["name"]


def _without_braces(word: str) -> Iterator[str]:
    """What bash makes of *word* with `{a,b}` in it; of `{1..9}` any name."""
    words = [word]
    for at, word in enumerate(words):  # which grows
        found = _BRACES.search(word)
        while found is not None and found["one"] is None:
            word = words[at] = word[: found.start()] + "*" + word[found.end() :]
            found = _BRACES.search(word)
        if found is None:
            yield word
            continue
        before, behind = word[: found.start()], word[found.end() :]
        ways = found["one"].split(",")[: max(MOST_NAMES - len(words), 0)]
        words += [before + way + behind for way in ways]


# -- what a command does with them ---------------------------------------------------------------

_COPIES = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})
_READS = re.compile(
    r"cd|ls|cat|tac|head|tail|nl|wc|stat|file|du|tree|pwd|test|\[|echo|printf|[ef]?grep|rg|cut|cmp"
    r"|diff|od|xxd|hexdump|strings|base64|cksum|md5sum|sha(1|256|512)sum|jq|column|realpath"
    r"|readlink|basename|dirname|which"
)
_GIT_READS = re.compile(
    r"add|annotate|blame|cat-file|commit|diff|grep|log|ls-files|rev-parse|show|status"
)


def changes_nothing(command: Command) -> bool:
    """Whether *command* is known to leave alone whatever it is given the name of."""
    if command.unclear or not command.words or command.words[0] is None:
        return False
    name = program(command.words[0])
    if name == "git":
        action = command.words[1] if len(command.words) > 1 else ""
        return action is not None and _GIT_READS.fullmatch(action) is not None
    return _READS.fullmatch(name) is not None


def put_into(command: Command) -> Iterator[str]:
    """What *command* may make in a folder that it names last: `cp a/x b` makes `b/x`."""
    if command.words and program(command.words[0] or "") in _COPIES:
        for name in command.names[:-1]:
            base = name.rstrip("/").rpartition("/")[2]
            yield f"{command.names[-1].rstrip('/')}/{base}"
