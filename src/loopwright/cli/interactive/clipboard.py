"""The clipboard of the terminal, also of one at the other end of ssh.                    (pure)

OSC 52 asks the terminal itself, so no program of this machine is needed. Terminals do not answer.
"""

from __future__ import annotations

import base64
import re

__all__ = ["copy_sequence"]

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Would do something where it is pasted; line ends and tabs may stay."""


def copy_sequence(text: str) -> str:
    """What makes a terminal copy *text*, which may be anybody's: control characters are left
    out."""
    clean = _CONTROLS.sub("", text.replace("\r\n", "\n"))
    encoded = base64.b64encode(clean.encode("utf-8", "replace")).decode("ascii")
    return f"\x1b]52;c;{encoded}\x07"
