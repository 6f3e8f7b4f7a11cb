"""Put text of others between tags of ours, so that it cannot pretend to have ended.

Text is shown to the model as it stands: escaping would spoil code. So where it holds the tag that
is to stand around it, the tag gets a number that it does not hold.

Not here: what is framed (skills, context files).
"""

from __future__ import annotations

import html
import re

from ..records import clean_text

__all__ = ["escape", "framed", "one_line"]

_NOT_IN_XML = str.maketrans("\ufffe\uffff", "\ufffd\ufffd")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """*text* with control characters and line ends written as escapes, as `\\n`, so that a name or
    a path stays in its line."""
    return _CONTROL.sub(lambda found: ascii(found.group())[1:-1], clean_text(text))


def escape(text: str) -> str:
    """*text* as the content of an XML element or attribute, in one line. The two characters below
    U+10000 that XML does not allow (XML 1.0, section 2.2) become U+FFFD."""
    return html.escape(one_line(text)).translate(_NOT_IN_XML)


def framed(tag: str, content: str, **attributes: str) -> str:
    """*content* on lines of its own between `<tag ...>` and `</tag>`.

    If *content* opens or closes a tag of that name somewhere, ours is `tag-2`, or the next number
    it does not use. The same content always gets the same tag.
    """
    content = clean_text(content)
    name = re.escape(tag)
    used = {
        int(found[1] or 1)
        for found in re.finditer(rf"<[\s/]*{name}(?:-([0-9]{{1,9}}))?(?![\w-])", content, re.I)
    }
    number = next(number for number in range(1, len(used) + 2) if number not in used)
    if number > 1:
        tag = f"{tag}-{number}"
    given = "".join([f' {key}="{escape(value)}"' for key, value in attributes.items()])
    return f"<{tag}{given}>\n{content}\n</{tag}>"
