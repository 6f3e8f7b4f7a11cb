"""Foreign text as one line among our own.                                           (pure)"""

from __future__ import annotations

from ..streams import visible

__all__ = ["one_line"]


def one_line(text: str, most: int = 400) -> str:
    """*text*, visible, as one line of at most *most* characters, or a few more where control
    characters are written out."""
    short = text if len(text) <= most else text[: most - 1] + "…"
    return visible(" ".join(short.split()))
