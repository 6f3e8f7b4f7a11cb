"""What a docstring tells a model: what the function does, and what each argument means.

Google, NumPy, reST and epydoc styles are read by docstring_parser, whichever fits. Types written
in a docstring are ignored, the annotations say them; sections on results and errors stay with the
people who read the code.

Not here: the signature (signature.py), and whether a described name exists (schema.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["Documentation", "read_docstring"]


class Documentation(NamedTuple):
    """The parts of a docstring a model is shown."""

    description: str = ""
    """Summary and long part; empty, never None, where there is no docstring."""
    parameters: Mapping[str, str] = MappingProxyType({})
    """Name (without stars) -> description, in the order of the docstring."""


def read_docstring(text: str | None) -> Documentation:
    """Read *text*, a docstring in any of the known styles. Never raises."""
    if not text or not text.strip():
        return Documentation()
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:  # half a section of some style: then it is just prose
        return Documentation(inspect.cleandoc(text))
    description = "\n\n".join(
        part for part in (parsed.short_description, parsed.long_description) if part
    )
    parameters: dict[str, str] = {}
    for parameter in parsed.params:
        for name in parameter.arg_name.split(","):  # `x, y: both` speaks of two
            parameters[name.strip().lstrip("*")] = _flow(parameter.description or "")
    return Documentation(description, parameters)


_PARAGRAPHS = re.compile(r"\n\s*\n")


def _flow(text: str) -> str:
    """Lines that were only wrapped to fit the source, joined; paragraphs stay apart."""
    return "\n\n".join(" ".join(part.split()) for part in _PARAGRAPHS.split(text.strip()))
