"""The worker that searches where there is no ripgrep, in a process of its own.

It prints what `rg --json` prints, as far as grep.py reads it, or like `rg --files -0` the files. It
is killed when its time is over, however deep in a regular expression it is; should the program that
started it be gone by then, the limit on its processor time ends it.

Expressions are those of Python, with the classes of POSIX ([[:alpha:]]) put in words it knows; so
what only one of the two engines understands is an error in the other.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO, Any

import msgspec

from .globs import compile_glob, composed
from .search_process import SEARCH_SECONDS, SearchRequest
from .walk import walk

__all__ = ["BadPattern", "compile_pattern", "main"]

_encode = msgspec.json.Encoder().encode

_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
    "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_POSIX_CLASS = re.compile(r"\[:([a-z]+):\]")


class BadPattern(ValueError):
    """The regular expression is none; the text says why."""


def compile_pattern(pattern: str, *, literal: bool, ignore_case: bool) -> re.Pattern[str]:
    """Raises `BadPattern`."""
    expression = re.escape(pattern) if literal else _POSIX_CLASS.sub(_posix_class, pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what future Pythons may understand
            return re.compile(expression, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(str(error) or type(error).__name__) from error


def _posix_class(found: re.Match[str]) -> str:
    return _POSIX_CLASSES.get(found[1], found[0])


def main() -> None:
    """Read the request from the command line, answer on stdout."""
    _limit_processor_time()
    request = msgspec.json.decode(sys.argv[1], type=SearchRequest)
    unreadable: list[str] = []
    out = sys.stdout.buffer
    try:
        if request.pattern is None:
            for path in _files(request, unreadable):
                out.write(os.fsencode(path) + b"\0")
        else:
            search = _Search(request, request.pattern, out)
            for path in _files(request, unreadable):
                try:
                    search.search(path)
                except OSError:
                    unreadable.append(path)
        out.flush()
    except BrokenPipeError:
        os._exit(0)  # nobody wants more
    for path in unreadable:
        sys.stderr.write(f"rg: {path}: could not be read\n")
    sys.stderr.flush()
    os._exit(2 if unreadable else 0)


def _limit_processor_time() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    seconds = int(SEARCH_SECONDS) + 10
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _files(request: SearchRequest, unreadable: list[str]) -> Iterator[str]:
    if request.file is not None:
        yield request.file
        return
    wanted = None if request.glob is None else compile_glob(composed(request.glob))
    for path in walk(
        request.folder, hidden=request.hidden, unreadable=unreadable, others=request.others
    ):
        if wanted is None or wanted.match(composed(path)):
            yield path


class _Search:
    def __init__(self, request: SearchRequest, pattern: str, out: IO[bytes]) -> None:
        self._request = request
        self._find = compile_pattern(
            pattern, literal=request.literal, ignore_case=request.ignore_case
        ).search
        self._out = out

    def search(self, path: str) -> None:
        full = os.path.join(self._request.folder, path)
        with open(full, "rb") as file:
            bom = file.read(3)
            if bom[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                text = (bom + file.read()).decode("utf-16", "replace")
                self._lines(path, io.StringIO(text, newline="\n"))
                return
            start = 3 if bom == codecs.BOM_UTF8 else 0
            file.seek(start)
            while piece := file.read(1 << 20):
                if b"\0" in piece:
                    if self._request.file is not None:
                        self._say("begin", path)
                        self._say("end", path, binary_offset=0)
                    return
            file.seek(start)
            self._lines(path, (line.decode("utf-8", "replace") for line in file))

    def _lines(self, path: str, lines: Iterable[str]) -> None:
        context = self._request.context
        before: deque[tuple[int, str]] = deque(maxlen=context)
        after = 0
        seen = False
        for number, line in enumerate(lines, start=1):
            bare = line.removesuffix("\n").removesuffix("\r")
            found = self._find(bare)
            if found is not None:
                if not seen:
                    seen = True
                    self._say("begin", path)
                for early, text in before:
                    self._line("context", path, early, text)
                before.clear()
                start = len(bare[: found.start()].encode("utf-8", "replace"))
                self._line("match", path, number, bare, [{"start": start}])
                after = context
            elif after:
                self._line("context", path, number, bare)
                after -= 1
            elif context:
                before.append((number, bare))
        if seen:
            self._say("end", path, binary_offset=None)

    def _line(
        self, kind: str, path: str, number: int, text: str, submatches: list[Any] | None = None
    ) -> None:
        lines = {"text": text}
        self._say(kind, path, lines=lines, line_number=number, submatches=submatches or [])

    def _say(self, kind: str, path: str, **data: Any) -> None:
        name = {"text": os.fsencode(path).decode("utf-8", "replace")}
        self._out.write(_encode({"type": kind, "data": {"path": name, **data}}) + b"\n")
