"""Foreign text that nobody obeys: what moves a cursor or hides the rest is seen.          (pure)

Not here: which lines are broken where, or what is markup (whoever shows the text).
"""

from __future__ import annotations

import re

__all__ = ["visible"]

# All of C0 but tab and newline, DEL, and C1, whose U+009B starts a sequence just as ESC [ does.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# What reorders a line, so that a command can look like another one (CVE-2021-42574), what only some
# programs hold for the end of a line, what cannot be encoded, and what nobody can see: blanks
# without width, fillers, tags, the selectors that carry text behind an emoji. Marks that people
# write with stay: U+200E, U+200F and U+061C put no text anywhere else, U+200C and U+200D join
# letters and emoji, U+FE00 to U+FE0F choose how one looks.
_HIDDEN = re.compile(
    "[\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff"
    "\u00ad\u115f\u1160\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """*text* with every control character shown as a symbol, so that no terminal obeys it, and
    with nothing in it that hides or reorders the rest.

    A model or a file can otherwise move the cursor, rename the window, write to the clipboard or
    make the terminal answer as if the user had typed.
    """
    text = _CONTROL.sub(_picture, text.replace("\r\n", "\n"))
    return text if text.isascii() else _HIDDEN.sub(_escape, text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's pictures of the control characters
    return "\u2421" if code == 0x7F else f"\\x{code:02x}"


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
