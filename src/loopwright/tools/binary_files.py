"""Telling from its beginning that a file is no text, and saying what to do with it instead.

`read` and `edit` ask the same, so that they agree about which files they take. A NUL is the usual
sign. Some files have none for long: PDF, and what is packed or encrypted. They are told by how many
control characters are among their bytes, of which text in any old encoding has next to none; half a
window full of U+FFFD would tell a model nothing.

Not here: images (image_headers.py). Pure.
"""

from __future__ import annotations

import codecs
import re
import shlex

from ..errors import ToolError
from .text_limits import first_bytes

__all__ = ["LOOKED_AT_BYTES", "refuse_binary"]

LOOKED_AT_BYTES = 8192

_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""Without tab, line and form feeds, and ESC, which ISO 2022 and colours begin with."""

_MOST_CONTROLS = 0.02


def refuse_binary(beginning: bytes, name: str) -> None:
    """Raise `ToolError` if a file that starts with *beginning* is no text."""
    beginning = beginning[:LOOKED_AT_BYTES]
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        wide = beginning.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
        encoding = "UTF-32" if wide else "UTF-16"
        raise ToolError(
            f"{name!r} is {encoding}, which is not read here.",
            hint=f"convert it: iconv -f {encoding} -t UTF-8 {_argument(name)}",
        )
    if b"\0" not in beginning and _is_utf8(beginning):
        return
    if beginning.startswith(b"%PDF-"):
        raise ToolError(
            f"{name!r} is a PDF, not text.",
            hint=f"extract its text: pdftotext -layout {_argument(name)} -",
        )
    if b"\0" in beginning or _is_packed(beginning):
        raise ToolError(
            f"{name!r} is a binary file, neither text nor an image.",
            hint="look at it with a command such as file, strings or xxd",
        )


def _is_utf8(beginning: bytes) -> bool:
    try:
        # The last character may be cut.
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return True


def _is_packed(beginning: bytes) -> bool:
    return len(_CONTROLS.findall(beginning)) > max(2, len(beginning) * _MOST_CONTROLS)


def _argument(name: str) -> str:
    """*name* for a command line that may be copied as it is: a stranger chose it."""
    return shlex.quote(first_bytes(f"./{name}" if name.startswith("-") else name, 500))
