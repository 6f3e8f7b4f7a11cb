"""Where the old texts of an edit stand in a file, and the file with the new ones in their places.

Everything is bytes, so a file keeps what it is made of: its encoding, its line ends (mixed ones,
too), its byte order mark. Old and new text come with LF; for the search CRLF counts as LF.

An old text is looked for exactly, and must occur exactly once. Only one that occurs nowhere is
looked for again with typographic differences forgiven (NFKC; quotes, dashes and spaces made alike;
blanks at line ends and characters without width ignored), and then only what matched is replaced. Each edit is on its own: one
that is not found exactly changes nothing for the others. All of them match the original.

Not here: files (edit.py) and what people see of a change (edit_diff.py). Pure.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..errors import ToolError
from .edit_misses import why_missed

__all__ = ["MOST_BYTES_FORGIVEN", "Applied", "EditRefused", "Replacement", "Span", "apply_edits"]

MOST_BYTES_FORGIVEN = 8 * 1024 * 1024
"""Larger files are searched exactly only: every line would have to be taken apart."""

LONGEST_LINE_FORGIVEN = 100_000
"""Characters; in a longer line that is not ASCII nothing is forgiven, since each would be weighed."""

LONGEST_CLUSTER = 64
"""Characters that may become one; text with more marks on a letter is not meant to be read."""

SHOWN_PLACES = 5

MOST_CANDIDATES = 1000
"""So many places are looked at for a forgiving match before it is called ambiguous or absent."""


class EditRefused(ToolError):
    """The edits do not fit the file, which is as it was. Its text is for the model."""


class Replacement(NamedTuple):
    """One edit, as the model asked for it."""

    old: str
    new: str


class Span(NamedTuple):
    """Where one edit goes, in bytes of the original file."""

    start: int
    end: int
    new: bytes
    edit: int
    """Its index among the edits."""
    exact: bool


class Applied(NamedTuple):
    """A file after its edits."""

    content: bytes
    spans: list[Span]
    """In the order of the file."""


def apply_edits(content: bytes, edits: Sequence[Replacement]) -> Applied:
    """*content* with all *edits* made. Raises `EditRefused` listing every edit that cannot be."""
    if not edits:
        raise EditRefused("There are no edits.", hint="give at least one {oldText, newText}")
    source = _Source(content)
    faults: list[str] = []
    spans: list[Span] = []
    for index, edit in enumerate(edits):
        try:
            spans.append(source.span(index, edit))
        except _Unfit as fault:
            faults.append(f"edits[{index}]: {fault}")
    spans.sort(key=lambda span: (span.start, span.end))
    for before, after in pairwise(spans):
        if after.start < before.end:
            first, second = sorted((before.edit, after.edit))
            faults.append(f"edits[{first}] and edits[{second}] overlap; merge them into one edit.")
    if faults:
        raise EditRefused("\n".join(["Nothing was changed.", *faults]))
    view = memoryview(content)  # a large file is not copied piece by piece first
    pieces: list[bytes | memoryview] = []
    end = 0
    for span in spans:
        pieces += (view[end : span.start], span.new)
        end = span.end
    pieces.append(view[end:])
    return Applied(b"".join(pieces), spans)


class _Unfit(Exception):
    """Inside this module: one edit cannot be made; why."""


class _Source:
    """A file to search in."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._start = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
        body = content[self._start :] if self._start else content
        self._crlf = b"\r\n" in body
        self._body = body
        self._plain = body.replace(b"\r\n", b"\n") if self._crlf else body
        self._ending = _first_ending(body)
        self._lines: _ForgivingLines | None = None
        self._is_utf8: bool | None = None

    def span(self, index: int, edit: Replacement) -> Span:
        """Where *edit* goes. Raises `_Unfit`."""
        old, new = (self._bytes(text) for text in edit)
        if not old:
            raise _Unfit("oldText is empty; to write a whole file use write.")
        if old == new:
            raise _Unfit("no change: oldText and newText are the same (line ends do not count).")
        if not new.isascii() and not self._valid():
            raise _Unfit(
                "the file is not valid UTF-8, so only ASCII text can be put into it. Use a "
                "command that knows its encoding."
            )
        start = self._plain.find(old)
        exact = start >= 0
        if exact:
            self._refuse_ambiguous(_occurrences(self._plain, old), "oldText")
            end = start + len(old)
        elif self._lacks_only_final_line_feed(old):
            start, end = len(self._plain) - len(old) + 1, len(self._plain)
            new = new.removesuffix(b"\n")
            if self._plain[start:end] == new:
                raise _Unfit("no change: the file has newText there already.")
        else:
            start, end = self._forgiving(old, new)
            if self._plain[start:end] == new:
                raise _Unfit("no change: the file has newText there already.")
        self._refuse_half_character(start)
        first, last = self._offset(start), self._offset(end)
        replaced = self._body[first:last]
        return Span(
            first + self._start,
            last + self._start,
            self._with_endings(new, self._plain[start:end], replaced),
            index,
            exact,
        )

    def _lacks_only_final_line_feed(self, old: bytes) -> bool:
        """A model that copies the last line of a file cannot see that no line feed follows it."""
        return (
            len(old) > 1
            and old.endswith(b"\n")
            and not self._plain.endswith(b"\n")
            and self._plain.endswith(old[:-1])
        )

    def _refuse_half_character(self, start: int) -> None:
        """In GBK, Shift-JIS and their like the second byte of a character may look like a letter."""
        before, at = self._plain[max(start - 1, 0) : start], self._plain[start : start + 1]
        if before > b"\x7f" and b"@" <= at <= b"~" and not self._valid():
            raise _Unfit(
                "oldText begins right behind a byte that is not ASCII, in a file that is not valid "
                "UTF-8; it may be half of a character there. Begin it elsewhere."
            )

    def _bytes(self, text: str) -> bytes:
        if self._start:
            text = text.removeprefix("\ufeff")
        return text.replace("\r\n", "\n").encode("utf-8", "surrogateescape")

    def _valid(self) -> bool:
        if self._is_utf8 is None:
            self._is_utf8 = is_utf8(self._body)
        return self._is_utf8

    # -- exactly -------------------------------------------------------------------------------

    def _refuse_ambiguous(self, found: Iterator[int], what: str) -> None:
        places = [place for place, _ in zip(found, range(SHOWN_PLACES + 1), strict=False)]
        if len(places) < 2:
            return
        lines = ", ".join(
            str(self._plain.count(b"\n", 0, place) + 1) for place in places[:SHOWN_PLACES]
        )
        more = len(places) > SHOWN_PLACES
        times = f"more than {SHOWN_PLACES}" if more else f"{len(places)}"
        raise _Unfit(
            f"{what} occurs {times} times, on lines {lines}{' and further ones' if more else ''}; "
            "it must occur exactly once. Add lines around it."
        )

    # -- line ends -----------------------------------------------------------------------------

    def _offset(self, plain: int) -> int:
        """The place in the body of a place in the text whose CRLFs were made LF."""
        if not self._crlf:
            return plain
        # Each CRLF before the place moves it by one, which may bring further ones before it.
        counted, offset = 0, plain
        pairs = 0
        while counted < offset:
            pairs += self._body.count(b"\r\n", max(counted - 1, 0), offset)
            counted, offset = offset, plain + pairs
        if self._body[max(offset - 1, 0) : offset + 1] == b"\r\n":
            offset += 1
        return offset

    def _with_endings(self, new: bytes, plain: bytes, replaced: bytes) -> bytes:
        """*new* with the line ends of what it replaces, and for further lines the file's first."""
        if not self._crlf or b"\n" not in new:
            return new
        endings = [
            b"\r\n" if line.endswith(b"\r") else b"\n" for line in replaced.split(b"\n")[:-1]
        ]
        lines = new.split(b"\n")
        # Lines that stay, at either side, keep theirs; those in between take what is left.
        old_lines = plain.split(b"\n")
        shorter = min(len(lines), len(old_lines)) - 1
        after = 0
        while after < shorter and lines[-1 - after] == old_lines[-1 - after]:
            after += 1
        breaks = len(lines) - 1
        ends = endings[len(endings) - after :] if after else []
        begins = endings[: max(min(breaks - after, len(endings) - after), 0)]
        filler = [self._ending] * (breaks - len(begins) - len(ends))
        out: list[bytes] = []
        for line, ending in zip(lines, [*begins, *filler, *ends], strict=False):
            out += (line, ending)
        return b"".join([*out, lines[-1]])

    # -- forgivingly ---------------------------------------------------------------------------

    def _forgiving(self, old: bytes, new: bytes) -> tuple[int, int]:
        """Where *old* stands if typographic differences do not count. Raises `_Unfit`."""
        if len(self._plain) > MOST_BYTES_FORGIVEN:
            raise _Unfit("oldText was not found. In a file of this size it must match exactly.")
        if self._lines is None:
            self._lines = _ForgivingLines(self._plain)
        found = self._lines.find(old.decode("utf-8", "surrogateescape"))
        first = next(found, None)
        if first is None:
            raise _Unfit(why_missed(self._plain, old, new, is_utf8=self._valid()))
        second = next(found, None)
        if second is not None:
            self._refuse_ambiguous(
                iter([first[0], second[0], *(place[0] for place in found)]),
                "oldText matches nothing exactly; with quotes, dashes and blanks made alike it",
            )
        return first


def is_utf8(data: bytes) -> bool:
    """Whether *data* is valid UTF-8. Needs no memory to speak of."""
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    try:
        for start in range(0, len(data), 1 << 20):
            decoder.decode(view[start : start + (1 << 20)])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _first_ending(body: bytes) -> bytes:
    place = body.find(b"\n")
    return b"\r\n" if place > 0 and body[place - 1 : place] == b"\r" else b"\n"


def _occurrences(text: bytes, part: bytes) -> Iterator[int]:
    """Every place of *part*, overlapping ones too: either of them may be meant."""
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)


# -- what counts as alike ----------------------------------------------------------------------

_ALIKE = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"),
        **dict.fromkeys("\u00a0\u1680\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        # Seen by nobody: soft hyphen, zero-width space, word joiner, byte order mark inside a text,
        # and what tells an emoji from a sign.
        **dict.fromkeys("\u00ad\u200b\u2060\ufeff\ufe0e\ufe0f", ""),
    }
)
_BLANKS = " \t\r\f\v"


def _alike(text: str) -> str:
    """*text* without typographic differences. Marks that NFKC would take apart are made alike
    before, or a quote would become a blank with an accent."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text.translate(_ALIKE)).translate(_ALIKE)


class _ForgivingLines:
    """A text as lines without typographic differences, and the way back to its bytes."""

    def __init__(self, plain: bytes) -> None:
        self._lines = plain.decode("utf-8", "surrogateescape").split("\n")
        self._alike = "\n".join(_alike(line).rstrip(_BLANKS) for line in self._lines)

    def find(self, old: str) -> Iterator[tuple[int, int]]:
        """Every place of *old*, as bytes of the text; overlapping ones too."""
        old_lines = old.split("\n")
        wanted = "\n".join(_alike(line).rstrip(_BLANKS) for line in old_lines)
        if not wanted.strip():
            return
        # Blanks that were taken off its last line say that the line ends there.
        to_end = _alike(old_lines[-1]) != _alike(old_lines[-1]).rstrip(_BLANKS)
        after_blanks = wanted.startswith("\n")  # those of a line the match does not include
        place = self._alike.find(wanted)
        for _ in range(MOST_CANDIDATES):
            if place < 0:
                return
            end = place + len(wanted)
            if not to_end or self._alike[end : end + 1] in ("", "\n"):
                first = self._back(place, at_end=False, whole=after_blanks)
                last = self._back(end, at_end=True, whole=to_end)
                if first is not None and last is not None and first < last:
                    yield self._bytes_before(first), self._bytes_before(last)
            place = self._alike.find(wanted, place + 1)

    def _back(self, place: int, *, at_end: bool, whole: bool = False) -> tuple[int, int] | None:
        """Line and column of a place in the text made alike; None in the middle of a ligature."""
        number = self._alike.count("\n", 0, place)
        column = place - (self._alike.rfind("\n", 0, place) + 1)
        line = self._lines[number]
        if whole:
            return number, len(line)
        back = _column(line, column, at_end=at_end)
        return None if back is None else (number, back)

    def _bytes_before(self, place: tuple[int, int]) -> int:
        number, column = place
        before = "\n".join([*self._lines[:number], self._lines[number][:column]])
        return len(before.encode("utf-8", "surrogateescape"))


def _column(line: str, wanted: int, *, at_end: bool) -> int | None:
    """The column of *line* at which *wanted* characters of it made alike are behind it.

    Characters are taken with the marks that combine with them. At the end of a match the first
    such column is meant, at its beginning the last: what became nothing is left out of the match.
    """
    if line.isascii():
        return wanted
    if len(line) > LONGEST_LINE_FORGIVEN:
        return None
    behind = 0
    column = 0
    found: int | None = None
    while True:
        if behind == wanted:
            found = column
            if at_end:
                break
        if behind > wanted or column == len(line):
            break
        after = column + 1
        limit = min(len(line), column + LONGEST_CLUSTER)
        while after < limit and _joins(line[column:after], line[after]):
            after += 1
        behind += len(_alike(line[column:after]))
        column = after
    if found is None:
        return None
    before = _alike(line[:found])
    return (
        found if len(before) == wanted and before + _alike(line[found:]) == _alike(line) else None
    )


def _joins(character: str, following: str) -> bool:
    """Whether *following* becomes one with *character*: a mark, or a syllable's next letter."""
    if following.isascii():
        return False
    return unicodedata.combining(following) > 0 or (
        _alike(character + following) != _alike(character) + _alike(following)
    )
