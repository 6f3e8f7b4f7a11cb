"""Whether the text of an error says that a request is larger than the model's context window.

Each server words this in its own way, so the rule is about what a sentence speaks of: the prompt, the
input, the context or the tokens; that it is too much; and a limit. Limits for each minute, limits on
the output alone, and faults of one field are something else.

Not here: what else an error may mean (failures.py).
"""

from __future__ import annotations

import re

__all__ = ["says_overflow"]

_QUOTED = re.compile(r"`[^`]{0,200}`|\"[^\"]{0,200}\"|'[\w.\[\]-]{1,200}'")
_PATH = re.compile(r"\b\w+(?:\.\d+|\[\d+\])[\w.\[\]]*:?")
"""`messages.3.content` names a field."""

_SENTENCE = re.compile(r"[.!?](?=\s|$)|[;\n]")

_SUBJECT = re.compile(
    r"\b(?:prompts?|inputs?|context|tokens?|conversation|messages|history)\b", re.I
)
_TOO_MUCH = re.compile(
    r"\bexceed\w*|\btoo (?:long|large|big|many)\b|\b(?:longer|larger|greater|bigger|more) than\b"
    r"|\bover(?:flow\w*|runs?)?\b|\bsurpass\w*|\b(?:not|n't|cannot) fit\b|\bbeyond\b"
    r"|\bout of (?:context|range)\b|\bran out\b",
    re.I,
)
_LIMIT = re.compile(
    r"\b(?:limit\w*|window|max(?:imum)?|size|length|capacity|context|allowed|supported|n_ctx|model)\b"
    r"|\d{4,}",
    re.I,
)

_OVER_TIME = re.compile(
    r"\bper[ -](?:second|minute|hour|day|week|month)|\b[rt]p[smhd]\b|rate[ _-]?limit|throttl"
    r"|too many requests|\bquota\b",
    re.I,
)
_OUTPUT = re.compile(
    r"\b(?:output|completion|generat\w+|max_(?:\w+_)?tokens|maxOutputTokens)\b", re.I
)
_MORE_THAN_OUTPUT = re.compile(
    r"\b(?:inputs?|prompts?|messages|history|total|conversation)\b", re.I
)
_ONE_FIELD = re.compile(
    r"\b(?:array|string|images?|pixels?|[km]b|megabytes?|schema|property|properties|enum|url|name)\b",
    re.I,
)
_WHOLE = re.compile(r"\b(?:tokens?|context|prompts?)\b", re.I)


def says_overflow(text: str) -> bool:
    """Whether a sentence of *text* says that the input does not fit into the window."""
    if _OVER_TIME.search(text):
        return False
    return any(map(_is_about_the_window, _SENTENCE.split(text)))


def _is_about_the_window(sentence: str) -> bool:
    if _OUTPUT.search(sentence) and not _MORE_THAN_OUTPUT.search(sentence):
        return False
    plain = _PATH.sub(" ", _QUOTED.sub(" ", sentence))
    if _ONE_FIELD.search(plain) and not _WHOLE.search(plain):
        return False
    return all(part.search(plain) for part in (_SUBJECT, _TOO_MUCH, _LIMIT))
