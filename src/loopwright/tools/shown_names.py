"""Names of files in a list, one a line, whatever is in them.

Not here: names that are no UTF-8, which show U+FFFD in place of what cannot be said.
"""

from __future__ import annotations

from ..records import clean_text

__all__ = ["one_line"]

_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def one_line(name: str) -> str:
    """*name* with its control characters as `\\x0a`: a line feed would look like two names, and an
    escape sequence would move a cursor."""
    return clean_text(name).translate(_VISIBLE)
