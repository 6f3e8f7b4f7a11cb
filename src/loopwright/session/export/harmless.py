"""Foreign text that nobody obeys: what moves a cursor or reorders a line is seen instead.   (pure)

Documents are read in browsers, in editors and with `cat`; escaping for one of them is not enough.

Not here: what is markup there (html_text, markdown).
"""

from __future__ import annotations

import re

from ...records import clean_text

__all__ = ["harmless"]

_LINE_END = re.compile(r"\r\n?")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What reorders the text around it, so that a command can look like another one (CVE-2021-42574),
# what only some programs hold for the end of a line, and tags, which nobody can see. The marks
# U+200E, U+200F and U+061C stay: they move nothing else, and right-to-left texts use them.
_HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\u2028\u2029\U000e0000-\U000e007f]")


def harmless(text: str) -> str:
    """*text* as valid Unicode in which every line ends with a line feed, and control characters and
    those that hide or reorder the rest are seen instead of obeyed."""
    text = _CONTROL.sub(_picture, _LINE_END.sub("\n", clean_text(text)))
    return text if text.isascii() else _HIDDEN.sub(_escape, text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's pictures of the control characters
    return "\u2421" if code == 0x7F else f"\\x{code:02x}"


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
