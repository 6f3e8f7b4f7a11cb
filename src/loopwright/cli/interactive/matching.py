"""How well what somebody typed fits a name: for lists that are filtered while one types.

Not here: what is filtered (picker.py, completion.py).
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["fits_words", "matcher"]

_FAR = 1 << 20


def matcher(query: str) -> Callable[[str], int | None]:
    """A function that gives a rank for a text, the lower the better; None if it does not fit.

    Letter case does not count. Best is a name (what stands behind the last slash) that begins with
    *query*, then one that holds it, then a text that holds it, then one that has its characters in
    that order.
    """
    wanted = query.casefold()
    if not wanted:
        return lambda text: 0

    def rank(text: str) -> int | None:
        folded = text.casefold()
        place = folded.find(wanted)
        if place >= 0:
            start = folded.rstrip("/").rfind("/") + 1
            in_name = folded.find(wanted, start)
            if in_name == start:
                return 0
            return 1 if in_name >= 0 else 2
        first = end = folded.find(wanted[0])
        for character in wanted:
            end = folded.find(character, end) + 1
            if not end:
                return None
        return min(3 + end - first, _FAR)

    return rank


def fits_words(query: str) -> Callable[[str], int | None]:
    """Like `matcher`, for words parted by blanks: each must be there; the worst of them counts."""
    words = [matcher(word) for word in query.split()]

    def rank(text: str) -> int | None:
        worst = 0
        for word in words:
            found = word(text)
            if found is None:
                return None
            worst = max(worst, found)
        return worst

    return rank
