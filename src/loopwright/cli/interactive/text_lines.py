"""Some lines of a long text, without taking all of it apart: a result may have millions.   (pure)"""

from __future__ import annotations

__all__ = ["TextLines"]

_MOST_BLANK = 10_000
"""Characters at the end that are looked at for blanks to leave out."""


class TextLines:
    """The lines of *text*, but for empty ones at its beginning and blanks at its end."""

    def __init__(self, text: str) -> None:
        end = text[-_MOST_BLANK:]
        beginning = text[:_MOST_BLANK]
        self._text = text
        self._end = len(text) - (len(end) - len(end.rstrip()))
        self._start = min(len(beginning) - len(beginning.lstrip("\n")), self._end)

    def __len__(self) -> int:
        if self._start == self._end:
            return 0
        return self._text.count("\n", self._start, self._end) + 1

    def first(self, most: int) -> list[str]:
        """The first lines, *most* of them."""
        lines: list[str] = []
        start = self._start
        while len(lines) < most and start < self._end:
            end = self._text.find("\n", start, self._end)
            if end < 0:
                return [*lines, self._text[start : self._end]]
            lines.append(self._text[start:end])
            start = end + 1
        return lines

    def last(self, most: int) -> list[str]:
        """The last lines, *most* of them, in their order."""
        lines: list[str] = []
        end = self._end
        while len(lines) < most and end >= self._start and self._start < self._end:
            start = self._text.rfind("\n", self._start, end)
            if start < 0:
                lines.append(self._text[self._start : end])
                break
            lines.append(self._text[start + 1 : end])
            end = start
        lines.reverse()
        return lines
