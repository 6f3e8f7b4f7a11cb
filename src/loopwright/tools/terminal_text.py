"""What a program printed, as plain text: decoded, without what is meant for a terminal.

Escape sequences go whole, so that no `[31m` is left of a colour; then every other control character
but tab and line feed, carriage returns among them. What is left cannot move a cursor, set a title
or hide text on the terminal it is shown on.

Not here: how much of it is kept (process_output.py).
"""

from __future__ import annotations

import codecs
import re

__all__ = ["TerminalText", "plain_text"]

_HELD_CHARACTERS = 4096
"""An escape sequence that is not finished after so much is none."""

# ECMA-48 5.4 and 5.6. Strings (titles, links) end at a BEL, as in xterm, or at ESC \; they never
# take a line feed with them, so that a forgotten end hides no lines.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
_UNFINISHED = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*\x1b?"
    r"|\x1b[ -/]*)\Z"
)
_BEGINS_ESCAPE = re.compile(r"[\x1b\x90\x98\x9b\x9d\x9e\x9f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain_text(text: str) -> str:
    """*text* without escape sequences and control characters other than tab and line feed."""
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub("", _ESCAPE.sub("", text))


class TerminalText:
    """Turns bytes that come in any pieces into plain text; what is not UTF-8 becomes U+FFFD.

    Neither a character nor an escape sequence is torn where two pieces meet.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text that *data* completes; with *final* also what was still held back."""
        text = self._held + self._decode(data, final)
        self._held = ""
        end = max(0, len(text) - _HELD_CHARACTERS)
        if not final and _BEGINS_ESCAPE.search(text, end):
            unfinished = _UNFINISHED.search(text, end)
            if unfinished is not None:
                self._held = text[unfinished.start() :]
                text = text[: unfinished.start()]
        return plain_text(text)
